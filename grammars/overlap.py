"""Tell what a part of a schema narrows to: its types, its finite values, and whether two parts share any.

Everything here errs to the safe side: types may be too many, values are None where they are not all known, and
two parts are called disjoint only where that is proved. Knows nothing of llguidance.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from grammars.keywords import TYPES
from grammars.literals import fits, is_number, same
from grammars.schema import Document

_FEW = 200  # values of an integer range that are worth naming one by one
_MANY = 500  # values that are compared with each other
_DEEPEST = 8


def conjuncts(node: Any, document: Document) -> list[dict[str, Any]]:
    """Return the schemas that all hold where a schema holds: itself, its `allOf` and what its `$ref` leads to."""
    found: list[dict[str, Any]] = []
    waiting = [node]
    while waiting and len(found) < 50:
        part = waiting.pop(0)
        if not isinstance(part, dict) or any(part is other for other in found):
            continue
        found.append(part)
        if isinstance(reference := part.get("$ref"), str) and (target := document.target(part, reference)):
            waiting.append(target[1])
            if document.draft <= 7:
                found.pop()
                continue
        if isinstance(part.get("allOf"), list):
            waiting += part["allOf"]
    return found


def types_of(node: Any, document: Document) -> frozenset[str]:
    """Return the types that a value of the schema can have; an integer is also a number."""
    if node is False:
        return frozenset()
    found = frozenset(TYPES)
    for part in conjuncts(node, document):
        given = part.get("type")
        if isinstance(given, str | list):
            named = {given} if isinstance(given, str) else {name for name in given if isinstance(name, str)}
            found &= named | {"integer"} if "number" in named else named
        literals = part.get("enum", [part["const"]] if "const" in part else None)
        if isinstance(literals, list):
            found &= {kind for value in literals for kind in _kinds(value)}
    return found


def _kinds(value: Any) -> tuple[str, ...]:
    if is_number(value):
        return ("integer", "number") if value == int(value) else ("number",)
    kinds = {type(None): "null", bool: "boolean", str: "string", list: "array", dict: "object"}
    return (kinds[type(value)],)


def values(node: Any, document: Document) -> list[Any] | None:
    """Return all values of a schema, distinct and in the order in which it names them; None if not all are known."""
    found = _candidates(node, document, 0)
    if found is None or len(found) > _MANY:
        return None
    distinct: list[Any] = []
    for value in found:
        verdict = fits(value, node, document)
        if verdict is None:
            return None
        if verdict and not any(same(value, other) for other in distinct):
            distinct.append(value)
    return distinct


def _candidates(node: Any, document: Document, deep: int) -> list[Any] | None:
    if node is False:
        return []
    if not isinstance(node, dict) or deep > _DEEPEST or not document.spend():
        return None
    parts = conjuncts(node, document)
    for part in parts:
        if "const" in part:
            return [part["const"]]
        if isinstance(part.get("enum"), list):
            return part["enum"]
    kinds = types_of(node, document)
    if kinds <= {"boolean", "null"}:
        return [*([False, True] if "boolean" in kinds else []), *([None] if "null" in kinds else [])]
    if kinds == {"integer"}:
        low, _, high, _ = _interval(parts)
        if low is not None and high is not None and 0 <= high - low <= _FEW:
            return list(range(int(low), int(high) + 1))
    for part in parts:
        options = part.get("anyOf", part.get("oneOf"))
        if isinstance(options, list):
            found: list[Any] = []
            for option in options:
                some = _candidates(option, document, deep + 1)
                if some is None or len(found) > _MANY:
                    break
                found += some
            else:
                return found
    return None


def _interval(parts: Sequence[dict[str, Any]]) -> tuple[Any, bool, Any, bool]:
    """Return lower and upper bound of numbers, None where there is none, each with whether it is left out."""
    low = high = None
    low_out = high_out = False
    for part in parts:
        for key in ("minimum", "exclusiveMinimum"):
            if is_number(part.get(key)) and (low is None or part[key] >= low):
                low, low_out = part[key], key != "minimum" or part.get("exclusiveMinimum") is True
        for key in ("maximum", "exclusiveMaximum"):
            if is_number(part.get(key)) and (high is None or part[key] <= high):
                high, high_out = part[key], key != "maximum" or part.get("exclusiveMaximum") is True
    return low, low_out, high, high_out


def disjoint(left: Any, right: Any, document: Document, deep: int = 0) -> bool:
    """Tell whether it is proved that no document fits both schemas."""
    if left is False or right is False:
        return True
    if not isinstance(left, dict) or not isinstance(right, dict) or deep > _DEEPEST or not document.spend():
        return False
    for one, other in ((left, right), (right, left)):
        found = values(one, document)
        if found is not None and all(fits(value, other, document) is False for value in found):
            return True
    ours, theirs = conjuncts(left, document), conjuncts(right, document)
    shared = types_of(left, document) & types_of(right, document)
    if "number" in shared:
        shared -= {"integer"}
    if all(_disjoint_as(kind, ours, theirs, document, deep) for kind in shared):
        return True
    for parts, other in ((ours, right), (theirs, left)):
        for part in parts:
            for key in ("anyOf", "oneOf"):
                options = part.get(key)
                if isinstance(options, list) and all(
                    disjoint(option, other, document, deep + 1) for option in options
                ):
                    return True
    return False


def _disjoint_as(
    kind: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]], document: Document, deep: int
) -> bool:
    """Tell whether no value of one type fits all parts of both sides."""
    if kind in ("integer", "number"):
        low, low_out, high, high_out = _interval(ours)
        other_low, other_low_out, other_high, other_high_out = _interval(theirs)
        return any(
            top is not None and bottom is not None and (top < bottom or (top == bottom and out))
            for top, bottom, out in (
                (high, other_low, high_out or other_low_out),
                (other_high, low, other_high_out or low_out),
            )
        )
    for least, most in {"string": [("minLength", "maxLength")], "array": [("minItems", "maxItems")]}.get(
        kind, ()
    ):
        for one, other in ((ours, theirs), (theirs, ours)):
            if _largest(one, least) > min(
                (part[most] for part in other if is_number(part.get(most))), default=1e99
            ):
                return True
    if kind == "array":
        sure = max(_largest(ours, "minItems"), _largest(theirs, "minItems"))
        return any(
            disjoint(one, other, document, deep + 1)
            for at in range(int(min(sure, 4)))
            for one, other in itertools.product(_elements(ours, at), _elements(theirs, at))
        )
    if kind == "object":
        names = {name for part in [*ours, *theirs] for name in _required(part)}
        return any(
            disjoint(one, other, document, deep + 1)
            for name in sorted(names)
            for one, other in itertools.product(_members(ours, name), _members(theirs, name))
        )
    return False


def _largest(parts: list[dict[str, Any]], key: str) -> Any:
    return max((part[key] for part in parts if is_number(part.get(key))), default=0)


def _required(part: dict[str, Any]) -> list[str]:
    given = part.get("required")
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def _elements(parts: list[dict[str, Any]], at: int) -> list[Any]:
    found = [part["prefixItems"][at] for part in parts if len(part.get("prefixItems", ())) > at]
    return found or [True]


def _members(parts: list[dict[str, Any]], name: str) -> list[Any]:
    """Return what the parts say of a member; True where they say nothing."""
    found = []
    for part in parts:
        properties = part.get("properties")
        if isinstance(properties, dict) and name in properties:
            found.append(properties[name])
        elif part.get("additionalProperties") is False and not part.get("patternProperties"):
            found.append(False)
    return found or [True]
