"""Write conditions: alternatives that exclude each other, what must not hold, and what follows from what.

Each becomes an `anyOf` of what is left, where complements are exact; otherwise something wider.
"""

import itertools
import math
from typing import Any

from grammars.complement import all_of, any_of
from grammars.overlap import disjoint
from grammars.rewrite.writer import MOST_ALTERNATIVES, Rewriter, alternatives
from grammars.schema import Schema, step

_MOST_PAIRS = 2_000  # of oneOf branches that are compared
_MOST_EXCLUSIVE = 5  # oneOf branches that are told apart by what the others exclude


def one_of(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    given, here = node[key], step(path, key)
    branches = [writer.over(step(here, at), part) for at, part in enumerate(given)]
    few = len(given) * (len(given) - 1) // 2 <= _MOST_PAIRS
    if few and all(disjoint(*pair, writer.document) for pair in itertools.combinations(given, 2)):
        after: Schema = {"anyOf": branches}
        if len(given) > 1:
            writer.rewrote(path, {key: given}, after, "no document fits two of the branches")
        return after
    if len(given) <= _MOST_EXCLUSIVE:
        outside = [writer.outside(step(here, at), part, node) for at, part in enumerate(given)]
        inside = [writer.quietly(step(here, at), part)[1] for at, part in enumerate(given)]
        alone = [
            all_of([branch, *(rest[0] for other, rest in enumerate(outside) if other != at)])
            for at, branch in enumerate(branches)
        ]
        exact = all(found for _, found in outside) and all(inside)
        if exact and math.prod(alternatives(option) for option in alone) <= MOST_ALTERNATIVES**2:
            after = any_of(alone)
            writer.rewrote(path, {key: given}, after, "each branch is written without what the others allow")
            return after
    return writer.later(
        path, key, "a document may fit two of the branches, which is not noticed while writing",
        {"anyOf": branches},
    )  # fmt: skip


def negation(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    outside, exact = writer.outside(step(path, key), node[key], node)
    if alternatives(outside) > MOST_ALTERNATIVES:
        outside, exact = True, False
    if not exact:
        return writer.later(path, key, "what it excludes cannot be left out while writing", outside)
    writer.rewrote(path, {key: node[key]}, outside, "what is left can be said without `not`")
    return outside


def condition(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    if "then" not in node and "else" not in node:
        return True
    before = {key: node[key] for key in ("if", "then", "else") if key in node}
    then = writer.over(step(path, "then"), node.get("then", True))
    otherwise = writer.over(step(path, "else"), node.get("else", True))
    inside, exact_inside = writer.quietly(step(path, "if"), node["if"])
    outside, exact_outside = writer.outside(step(path, "if"), node["if"], node)
    after = any_of([all_of([inside, then]), all_of([outside, otherwise])])
    if alternatives(after) > MOST_ALTERNATIVES:
        return writer.later(path, key, "has more alternatives than are followed while writing")
    if exact_inside and exact_outside:
        writer.rewrote(
            path, before, after, "either the condition holds with `then`, or it does not with `else`"
        )
        return after
    return writer.later(path, key, "the condition cannot be told apart while writing", after)


def dependent(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    """Write what one member asks of the others: it is absent, or that holds."""
    parts: list[Schema] = []
    for name, need in node[key].items():
        if need in ([], True, {}):
            continue
        if isinstance(need, list):
            there: Schema = {"required": [name, *need]}
        else:
            there = all_of([{"required": [name]}, writer.over(step(step(path, key), name), need)])
        parts.append(any_of([{"properties": {name: False}}, there]))
    if 2 ** len(parts) > MOST_ALTERNATIVES:
        return writer.later(path, key, "has more alternatives than are followed while writing")
    after = all_of(parts)
    if parts:
        writer.rewrote(path, {key: node[key]}, after, "a member is absent, or what it asks for holds")
    return after
