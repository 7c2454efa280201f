"""Write what is said of the members of an object: their names, their number, and what holds for which.

llguidance counts members only where every named one is required, and tells the keys of patterns apart only where no
key can match two.
"""

import itertools
import math
from typing import Any

from grammars.complement import all_of, any_of
from grammars.keywords import ASSERTIONS, words
from grammars.literals import fits
from grammars.overlap import values
from grammars.patterns import overlap, unwritten, written
from grammars.rewrite.writer import MOST_ALTERNATIVES, Own, Rewriter
from grammars.schema import Schema, step

_MOST_PATTERNS = 50  # of keys of one object: llguidance compares each with each
_NOT_COUNTED = "members that may be left out or repeated are not counted while writing"
# Keywords whose parts look at members, too.
_LOOKING = words("allOf anyOf oneOf not if $ref $dynamicRef $recursiveRef dependentSchemas")


def members(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Own:
    """Write the named members, in their order."""
    here = step(path, key)
    return Own({key: {name: writer.over(step(here, name), part) for name, part in node[key].items()}})


def patterns(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write the members whose keys match patterns, as far as llguidance can tell them."""
    kept = _kept(node)
    here = step(path, key)
    for name in node[key]:
        if name not in kept:
            construct = unwritten(name)
            why = f"{construct} in a key" if construct else "its patterns share keys, which"
            writer.later(path, key, f"{why} cannot be told apart while writing")
    return Own({key: {written(name): writer.over(step(here, name), node[key][name]) for name in kept}})


def others(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write what holds for all other members; keys of a pattern that is not written must not fall under it."""
    if len(_kept(node)) < len(node.get("patternProperties", ())) and node[key] not in (True, {}):
        return writer.later(path, key, "depends on `patternProperties`, which is checked afterwards")
    return Own({key: writer.over(step(path, key), node[key])})


def _kept(node: dict[str, Any]) -> list[str]:
    """Return the patterns of keys that are enforced while writing."""
    kept = [name for name in node.get("patternProperties", ()) if not unwritten(name)]
    return [] if len(kept) > _MOST_PATTERNS or overlap(tuple(kept)) else kept


def names(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    """Write what is said of the names themselves, where it is a list or a pattern, or all names are known."""
    given = node[key]
    if given is True or given == {}:
        return True
    verdicts = {name: fits(name, given, writer.document) for name in node.get("properties", {})}
    closing = _closing(writer, node, given)
    if closing is None or None in verdicts.values():
        return writer.later(path, key, "names of its own are not judged while writing")
    forbidden: Schema = {"properties": {name: False for name, fit in verdicts.items() if not fit}}
    after = all_of([forbidden if forbidden["properties"] else True, closing])
    writer.rewrote(path, {key: given}, after, "which names are allowed is known")
    return after


def _closing(writer: Rewriter, node: dict[str, Any], given: Any) -> Schema | None:
    """Return what shuts out the names that are not under `properties` and must not be; None if it is not known."""
    known = values(given, writer.document)
    if known is not None:
        texts = [name for name in known if isinstance(name, str)]
        return {"properties": dict.fromkeys(texts, True), "additionalProperties": False}
    if isinstance(given, dict) and "pattern" in given and not unwritten(given["pattern"]):
        alone = {key for key in given if key in ASSERTIONS} <= {"pattern", "type"}
        if alone and given.get("type", "string") == "string":
            return {"patternProperties": {written(given["pattern"]): True}, "additionalProperties": False}
    closed = node.get("additionalProperties") is False and not node.get("patternProperties")
    return True if closed else None


def least(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write how many members there are at least."""
    given = int(node[key])
    needed, optional = _needed(node)
    missing = given - len(needed)
    if missing <= 0:
        return True
    if not optional:
        return Own({key: given})
    closed = node.get("additionalProperties") is False and not node.get("patternProperties")
    if closed and math.comb(len(optional), missing) <= MOST_ALTERNATIVES:
        after = any_of([{"required": list(some)} for some in itertools.combinations(optional, missing)])
        writer.rewrote(path, {key: node[key]}, after, f"{missing} of the optional members must be there")
        return after
    return writer.later(path, key, _NOT_COUNTED)


def most(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write how many members there are at most."""
    _, optional = _needed(node)
    return writer.later(path, key, _NOT_COUNTED) if optional else Own({key: int(node[key])})


def _needed(node: dict[str, Any]) -> tuple[set[str], list[str]]:
    """Return the names that are required, and those that are described but not required."""
    given = node.get("required")
    needed = set(given) if isinstance(given, list) else set()
    return needed, [name for name in node.get("properties", {}) if name not in needed]


def unevaluated(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write what holds for members that nothing else looks at, where only this schema can."""
    if node[key] is True:
        return True
    if not _LOOKING.isdisjoint(node):
        return writer.later(path, key, "what other parts look at is not known while writing")
    if "additionalProperties" in node:
        return True
    after = others(writer, path, key, node)
    if isinstance(after, Own):
        after = Own({"additionalProperties": after[key]})
        writer.rewrote(path, {key: node[key]}, dict(after), "nothing else looks at the members")
    return after
