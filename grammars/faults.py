"""Find what makes a JSON Schema unusable and can be told from the schema alone, every fault by its path.

Knows llguidance only by its limits: what it says itself is told by `grammars.compile`.
"""

import difflib
from collections.abc import Iterator
from typing import Any

from grammars.findings import Finding
from grammars.keywords import TYPES, in_draft, malformed
from grammars.literals import is_number
from grammars.patterns import broken
from grammars.schema import Document, step

# llguidance follows references by recursion, and its overflow of the stack ends the process: on a main thread
# with 8 MB between 2,000 and 3,000 parts.
MAX_REACH = 500  # parts of a schema, one inside or behind the other
MAX_PROPERTIES = 2_000  # of one object: llguidance takes quadratic time
MAX_SEARCHED = 1_000  # different patterns of a schema
MAX_PARTS = 12_000  # of a schema; the largest that compile in a second have 8,000

_BOUNDS = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
BUNDLE = "copy that schema into `$defs` of this one and refer to it as `#/$defs/NAME`"


def faults(document: Document) -> Iterator[Finding]:
    """Yield an error for each fault, outer parts first."""
    if document.root is False:
        yield _error("$", "false", "the schema false allows nothing")
    found = document.parts()
    if (deep := max(depth for _, _, depth in found)) > MAX_REACH:
        yield _error("$", "$ref", f"references lead {deep:,} parts deep; {MAX_REACH} at most can be followed")
        return
    if len(found) > MAX_PARTS:
        yield _error("$", "$", f"the schema has {len(found):,} parts; {MAX_PARTS:,} at most can be followed")
        return
    patterns = {each for _, node, _ in found if isinstance(node, dict) for each in _searched(node)}
    if len(patterns) > MAX_SEARCHED:
        yield _error(
            "$", "pattern", f"has {len(patterns):,} patterns; {MAX_SEARCHED:,} at most can be followed"
        )
        return
    for path, node, _ in found:
        if isinstance(node, bool):
            continue
        keys = ["$ref"] if document.draft <= 7 and "$ref" in node else list(node)
        wrong = [key for key in keys if in_draft(key, document.draft) and malformed(key, node[key])]
        for key in wrong:
            near = (
                difflib.get_close_matches(str(node[key])[:64].lower(), TYPES, n=1) if key == "type" else None
            )
            why = f"{key} is {malformed(key, node[key])}, not {_shown(node[key])}"
            yield _error(path, key, why, f"did you mean {near[0]}?" if near else None)
        if "items" in keys and isinstance(node["items"], list) and document.draft >= 2020 and not wrong:
            yield _error(
                path,
                "items",
                "a list of `items` means nothing in draft 2020-12: it is called `prefixItems` there",
                "call it `prefixItems`, and `additionalItems` `items`; or name draft 7 in `$schema`",
            )
        if "$ref" in keys and "$ref" not in wrong:
            yield from _reference(path, node, document)
        if not wrong:
            if (count := len(node.get("properties", ()))) > MAX_PROPERTIES:
                why = f"an object has {count:,} properties, more than {MAX_PROPERTIES:,}"
                yield _error(step(path, "properties"), "properties", why)
            yield from _bounds(path, node)
            yield from _literals(path, node)
            yield from _patterns(path, node)
            yield from _impossible(path, node)


def _error(where: str, code: str, why: str, suggestion: str | None = None) -> Finding:
    return Finding(level="error", where=where, code=code, why=why, suggestion=suggestion)


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= 60 else text[:59] + "…"


def _reference(path: str, node: dict[str, Any], document: Document) -> Iterator[Finding]:
    reference = node["$ref"]
    target = document.target(node, reference)
    if target is not None:
        if not isinstance(target[1], dict | bool):
            yield _error(path, "$ref", f"the $ref {reference} leads to something that is no schema")
    elif reference.startswith("#"):
        yield _error(path, "$ref", f"the $ref {reference} leads nowhere")
    else:
        yield _error(
            path, "$ref", f"the $ref {reference} is remote and never fetched: copy it into $defs", BUNDLE
        )


def _bounds(path: str, node: dict[str, Any]) -> Iterator[Finding]:
    for lower, upper in _BOUNDS:
        low, high = node.get(lower), node.get(upper)
        if (
            low is None or high is None or isinstance(low, bool) or isinstance(high, bool)
        ):  # draft 4 has booleans
            continue
        if low > high or (low == high and "exclusive" in lower + upper):
            relation = "is above" if low > high else "leaves nothing below"
            yield _error(path, lower, f"nothing fits: {lower} ({low}) {relation} {upper} ({high})")


def _literals(path: str, node: dict[str, Any]) -> Iterator[Finding]:
    """Find integers that llguidance would write as the nearest double."""
    for key in ("const", "enum"):
        waiting = [node[key]] if key in node else []
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict | list):
                waiting.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, int) and is_number(value) and abs(value) > 2**53:
                yield _error(step(path, key), key, f"{value} is too large to be written exactly")
                break


def _patterns(path: str, node: dict[str, Any]) -> Iterator[Finding]:
    """Find patterns that nobody can search for."""
    for pattern in _searched(node):
        if why := broken(pattern):
            yield _error(path, "pattern", why)


def _searched(node: dict[str, Any]) -> list[str]:
    """Return the patterns of a part, those of keys included."""
    own, keys = node.get("pattern"), node.get("patternProperties")
    return [*([own] if isinstance(own, str) else []), *(keys if isinstance(keys, dict) else ())]


def _impossible(path: str, node: dict[str, Any]) -> Iterator[Finding]:
    """Find a count of elements that cannot be."""
    least, most = node.get("minContains"), node.get("maxContains")
    if "contains" in node and least is not None and most is not None and least > most:
        yield _error(
            path, "minContains", f"nothing fits: minContains ({least}) is above maxContains ({most})"
        )
