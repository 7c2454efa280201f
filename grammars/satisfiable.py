"""Find parts of a rewritten schema that no finite document fits, and leave them out.

llguidance notices what is empty by itself, but not a part that needs itself without an end: it writes on until
the budget is spent. The parts that have an instance are the least fixed point over the definitions
(the classical test for productive symbols of a grammar).
"""

import math
from typing import Any

from grammars.keywords import TYPES
from grammars.schema import Schema

_EFFORT = 50_000  # parts looked at; about half a second
_MULTIPLE = 10_000  # that factors at one place multiply to
_NESTED = frozenset({"array", "object"})


def without_endless(root: dict[str, Any]) -> tuple[Schema, list[int]]:
    """Return the schema with false for every part that has no finite instance, and the ids of those parts.

    The root itself is False if it has none. Expects what `grammars.rewrite` returns: references lead to `#` or to
    `#/$defs/NAME`.
    """
    if "$defs" not in root and not _mentions_root(root):
        return root, []
    definitions = {"#": root} | {f"#/$defs/{name}": part for name, part in root.get("$defs", {}).items()}
    search = _Search(definitions)
    ending = search.ending
    grown = True
    while grown:
        grown = False
        for ref in reversed(definitions):
            if ref not in ending and search.ends(definitions[ref]):
                ending.add(ref)
                grown = True
    removed: list[int] = []
    if len(ending) == len(definitions):
        return root, []
    if "#" not in ending:
        return False, [id(root)]
    return _pruned(root, search, removed), removed


def _mentions_root(node: Any) -> bool:
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("$ref") == "#":
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


class _Search:
    """What is known of the definitions while the fixed point grows."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self.ending: set[str] = set()
        self._left = _EFFORT

    def ends(self, node: Any, way: frozenset[int] = frozenset()) -> bool:
        """Tell whether a part has a finite instance, given the definitions that are known to have one.

        `way` holds the parts being looked at: one comes again only behind a definition that has an instance. Where
        the effort is spent, a part is taken to have one.
        """
        if isinstance(node, dict) and node.keys() == {"$ref"}:
            return node["$ref"] in self.ending
        self._left -= 1
        if id(node) in way or self._left < 0:
            return True
        way |= {id(node)}
        parts, groups = _flattened(node, self.definitions)
        if parts is None or not self._known(parts):
            return False
        return self._together(parts, way) and all(
            any(self._option(option, parts, way) for option in group) for group in groups
        )

    def _option(self, option: Any, parts: list[dict[str, Any]], way: frozenset[int]) -> bool:
        own, groups = _flattened(option, self.definitions)
        if own is None or not self._known(own):
            return False
        return self._together([*parts, *own], way) and all(
            any(self.ends(inner, way) for inner in group) for group in groups
        )

    def _known(self, parts: list[dict[str, Any]]) -> bool:
        return all(part["$ref"] in self.ending for part in parts if "$ref" in part)

    def _together(self, parts: list[dict[str, Any]], way: frozenset[int]) -> bool:
        """Tell whether all parts together have an instance, their alternatives left aside."""
        kinds = set(TYPES)
        for part in parts:
            if "enum" in part or "const" in part:
                return part.get("enum", True) != []
            if "type" in part:
                kinds &= set([part["type"]] if isinstance(part["type"], str) else part["type"])
        if kinds - _NESTED:
            return True

        def every(found: list[Any]) -> bool:
            return all(self.ends(part, way) for part in found)

        if "object" in kinds:
            needed = {name for part in parts for name in part.get("required", ())}
            if all(every(_member(parts, name)) for name in needed):
                return True
        if "array" in kinds:
            least = max((part["minItems"] for part in parts if "minItems" in part), default=0)
            length = max((len(part.get("prefixItems", ())) for part in parts), default=0)
            return all(every(_element(parts, at)) for at in range(min(least, length + 1)))
        return False


def _flattened(node: Any, definitions: dict[str, Any]) -> tuple[list[dict[str, Any]] | None, list[list[Any]]]:
    """Return the conjuncts of a part without their alternatives, and the alternatives; None if one is false."""
    parts: list[dict[str, Any]] = []
    groups: list[list[Any]] = []
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part is False:
            return None, []
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        parts.append(part)
        waiting += part.get("allOf", [])
        if part.get("$ref") in definitions:
            waiting.append(definitions[part["$ref"]])
        if "anyOf" in part:
            groups.append(part["anyOf"])
    return parts, groups


def _member(parts: list[dict[str, Any]], name: str) -> list[Any]:
    found = []
    for part in parts:
        if name in part.get("properties", {}):
            found.append(part["properties"][name])
        elif not part.get("patternProperties"):
            found.append(part.get("additionalProperties", True))
    return found


def _element(parts: list[dict[str, Any]], at: int) -> list[Any]:
    return [
        part["prefixItems"][at] if at < len(part.get("prefixItems", ())) else part.get("items", True)
        for part in parts
    ]


def _pruned(node: Any, search: _Search, removed: list[int]) -> Any:
    """Return a part whose members, elements and alternatives without an instance are false."""
    if not isinstance(node, dict):
        return node

    def kept(part: Any) -> Any:
        if part is not False and not search.ends(part):
            removed.append(id(part))
            return False
        return _pruned(part, search, removed)

    written = dict(node)
    for key in ("properties", "patternProperties", "$defs"):
        if key in node:
            written[key] = {name: kept(part) for name, part in node[key].items()}
    for key in ("allOf", "anyOf", "prefixItems"):
        if key in node:
            written[key] = [kept(part) for part in node[key]]
    for key in ("items", "additionalProperties"):
        if key in node:
            written[key] = kept(node[key])
    return written


def joined_patterns(root: Schema) -> int | None:
    """Return how many patterns the schema joins at most at one place: in `allOf`, and through `$ref` and `anyOf`.

    llguidance intersects them in exponential time, which its limits do not stop. Nor do they stop it where parts are
    joined: it writes such a place anew wherever it is needed, and only a lone reference once. None if there are more
    such places than can be followed.
    """
    if not isinstance(root, dict):
        return 0
    definitions = {"#": root} | {f"#/$defs/{name}": part for name, part in root.get("$defs", {}).items()}
    most = looked = 0
    waiting: list[list[Any]] = [[part] for part in definitions.values()]
    while waiting:
        here = [node for node in waiting.pop() if isinstance(node, dict) and node]
        if not here or (len(here) == 1 and here[0].keys() == {"$ref"}):
            continue
        if len(here) == 1 and here[0].keys() - {"$defs"} == {"anyOf"}:  # each alternative stands alone
            waiting += [[option] for option in here[0]["anyOf"]]
            continue
        distinct: dict[int, dict[str, Any]] = {}
        branches: list[list[Any]] = []
        for node in here:
            found, groups = _flattened(node, definitions)
            looked += 1 + sum(map(len, groups))
            distinct |= {id(part): part for part in found or ()}
            for group in groups:
                heaviest = max(group, key=lambda option: _weight(option, definitions), default=True)
                distinct |= {id(part): part for part in _flattened(heaviest, definitions)[0] or ()}
                branches += [[option] for option in group]
        if looked > _EFFORT:
            return None
        parts = list(distinct.values())
        waiting += branches
        if math.prod({int(part["multipleOf"]) or 1 for part in parts if "multipleOf" in part}) > _MULTIPLE:
            return None
        most = max(most, sum(("pattern" in part) + ("format" in part) for part in parts))
        names = {name for part in parts for name in part.get("properties", {})}
        waiting += [_member(parts, name) for name in names]
        waiting.append([part["items"] for part in parts if "items" in part])
        waiting.append([part["additionalProperties"] for part in parts if "additionalProperties" in part])
        longest = max((len(part.get("prefixItems", ())) for part in parts), default=0)
        waiting += [_element(parts, at) for at in range(longest)]
        for part in parts:
            waiting += [[pattern] for pattern in part.get("patternProperties", {}).values()]
    return most


def _weight(option: Any, definitions: dict[str, Any]) -> int:
    parts, _ = _flattened(option, definitions)
    return sum(("pattern" in part) + ("format" in part) for part in parts or ())
