"""Bounds for what a JSON Schema leaves open, so that a model cannot write digits, elements or brackets for ever.

Knows schemas, not tokens. Two halves: `guarded` narrows the schema where llguidance bounds for free (integers, lists,
members of open objects); `soft_guards` says what a guard beside the mask has to watch (digits, blanks, texts, depth),
because a `maxLength` on every text costs more than the mask itself. Invariants: a guarded schema allows a part of
what the schema allows, and never nothing; `const` and `enum` stay as they are; a bound of the schema's own wins.
White space between tokens is bounded where the grammar is compiled.
"""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from grammars.schema import Schema, parts, reach, read_json, resolve
from grammars.spec import GrammarSpec, Guards

# Integers of so many digits are exact as doubles, and llguidance compiles them; its limits are those of 64 bits.
_MOST_DIGITS = 15

_BRANCHES = ("allOf", "anyOf", "oneOf")
# Keywords beside `$ref` or a list of branches that cannot contradict a bound.
_HARMLESS = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples"}
    | {"format", "readOnly", "title", "type", "writeOnly", "x-guidance"}
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def guarded(schema: Schema, guards: Guards) -> Schema:
    """Return the schema with bounds where it has none; a part that others may narrow too is left alone."""
    if isinstance(schema, bool):
        return schema
    root = copy.deepcopy(schema)
    for node in list(_lone(root)):
        kinds = node.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        if "integer" in kinds and "number" not in kinds and guards.digits is not None:
            _bound_integer(node, 10 ** min(guards.digits, _MOST_DIGITS) - 1)
        if "array" in kinds and guards.items is not None:
            _bound_list(node, guards.items)
        if "object" in kinds and guards.items is not None:
            _bound_members(node, guards.items)
    return root


def soft_guards(spec: GrammarSpec) -> Guards | None:
    """Return what to watch while a reply is written; None where there is nothing to watch.

    Limits are raised to what the schema itself writes, bounds or, followed once, nests. Only for JSON Schemas: in
    another grammar a quote need not open a text. Raises ShapeError for a text that is no JSON.
    """
    if spec.kind != "json_schema" or spec.guards == Guards.off():
        return None
    guards, schema = spec.guards, read_json(spec.text)
    found = [part for _, part in parts(schema) if isinstance(part, dict)]
    blanks = max((len(run) for text in _texts(schema) for run in re.findall(r"\s+", text)), default=0)
    return replace(
        guards,
        digits=_raised(guards.digits, *map(_most_digits, found)),
        blanks=_raised(guards.blanks, blanks),
        string=_raised(guards.string, *map(_longest_text, found)),
        depth=_raised(guards.depth, reach(schema) + max(map(_deepest_literal, found), default=0)),
    )


def _raised(limit: int | None, *least: int) -> int | None:
    return None if limit is None else max((limit, *least))


def describe_guards(guards: Guards) -> str:
    """Return one line that tells a person what is guarded."""
    told = [
        f"{limit:,} {what}"
        for limit, what in (
            (guards.digits, "digits in a row"),
            (guards.blanks, "blanks in a row"),
            (guards.string, "characters in a text"),
            (guards.items, "elements in a list"),
            (guards.depth, "levels of nesting"),
        )
        if limit is not None
    ]
    return f"Where the schema sets no bound: at most {', '.join(told)}." if told else "No guards."


def _lone(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts that no other part narrows at the same place of a reply.

    A part that is joined with another (by `allOf`, beside branches or `$ref`, under a pattern of keys) is not lone, nor
    is anything inside it: a bound there could contradict the other's.
    """
    joined: dict[int, bool] = {}
    nodes: dict[int, dict[str, Any]] = {}
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, narrowed = waiting.pop()
        if not isinstance(node, dict) or joined.get(id(node)) in (True, narrowed):
            continue
        nodes[id(node)] = node
        joined[id(node)] = narrowed
        waiting += _inside(root, node, narrowed)
    for key, node in nodes.items():
        if not joined[key] and not {"const", "enum", "$ref", *_BRANCHES} & node.keys():
            yield node


def _inside(root: dict[str, Any], node: dict[str, Any], narrowed: bool) -> Iterator[tuple[Any, bool]]:
    several = len([key for key in ("$ref", *_BRANCHES) if key in node]) > 1
    beside = narrowed or several or bool(node.keys() - _HARMLESS - {"$ref", *_BRANCHES})
    if isinstance(reference := node.get("$ref"), str) and (target := resolve(root, reference)):
        yield target[1], beside
    for key in _BRANCHES:
        if isinstance(branches := node.get(key), list):
            yield from ((branch, beside or (key == "allOf" and len(branches) > 1)) for branch in branches)
    # The members of a part beside branches are joined with those of the branches.
    members = narrowed or bool({"$ref", *_BRANCHES} & node.keys())
    patterns = node.get("patternProperties")
    for key in ("properties", "patternProperties"):
        if isinstance(schemas := node.get(key), dict):
            yield from ((schema, members or isinstance(patterns, dict)) for schema in schemas.values())
    for key in ("prefixItems", "items", "additionalItems", "additionalProperties"):
        found = node.get(key)
        yield from ((schema, members) for schema in (found if isinstance(found, list) else [found]))


def _bound_integer(node: dict[str, Any], largest: int) -> None:
    if "multipleOf" in node or any(isinstance(node.get(key), bool) for key in _BOUNDS):
        return  # the bound might leave no multiple; draft 4 writes exclusive bounds as booleans
    lows = [node[key] for key in ("minimum", "exclusiveMinimum") if key in node]
    highs = [node[key] for key in ("maximum", "exclusiveMaximum") if key in node]
    if not all(isinstance(bound, int | float) for bound in lows + highs):
        return
    if not highs and all(low < largest for low in lows):
        node["maximum"] = largest
    if not lows and all(high > -largest for high in highs):
        node["minimum"] = -largest


def _bound_list(node: dict[str, Any], most: int) -> None:
    items = node.get("items", True)
    if "maxItems" in node or items is False or "contains" in node:
        return
    first = items if isinstance(items, list) else node.get("prefixItems")
    least = [len(first)] if isinstance(first, list) else []
    if isinstance(minimum := node.get("minItems"), int | float):
        least.append(int(minimum))
    node["maxItems"] = max([most, *least])


def _bound_members(node: dict[str, Any], most: int) -> None:
    """Bound the members of an open object; llguidance counts them only where every named one is required."""
    properties, required = node.get("properties", {}), node.get("required", [])
    if "maxProperties" in node or "patternProperties" in node or node.get("additionalProperties") is False:
        return
    if (
        not isinstance(properties, dict)
        or not isinstance(required, list)
        or properties.keys() - set(required)
    ):
        return
    least = node.get("minProperties", 0)
    if isinstance(least, int | float):
        node["maxProperties"] = max(most, len(required), int(least))


def _literals(part: dict[str, Any]) -> list[Any]:
    """Return the values that a part writes as they are."""
    return [part.get("const"), *(part["enum"] if isinstance(part.get("enum"), list) else ())]


def _most_digits(part: dict[str, Any]) -> int:
    """Return how many digits in a row the part's literals and bounds have."""
    numbers = json.dumps([_literals(part), [part.get(key) for key in _BOUNDS]])
    return max(map(len, re.findall(r"\d+", numbers)), default=0)


def _longest_text(part: dict[str, Any]) -> int:
    """Return how long a text may get by the part's own words: its bounds, its literals, the names of its members."""
    bounds = [part[key] for key in ("minLength", "maxLength") if isinstance(part.get(key), int | float)]
    texts = _texts([_literals(part), list(part.get("properties") or ())])
    # A character may be written as six, and as twelve above U+FFFF.
    return max([int(bound) * 12 for bound in bounds] + [len(text) * 12 for text in texts], default=0)


def _deepest_literal(part: dict[str, Any]) -> int:
    depth, layer = 0, _literals(part)
    while layer := [node for node in layer if isinstance(node, dict | list)]:
        depth += 1
        layer = [child for node in layer for child in (node.values() if isinstance(node, dict) else node)]
    return depth


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value, keys included."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            yield from node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
