"""Read a JSON Schema and walk the parts of it that can matter.

Knows nothing about llguidance. Parts are found from the root through the keywords that hold schemas and
through local `$ref`. What nothing refers to (an unused `$defs` entry) and what only looks like a schema
(inside `const`, `enum`, `default`, `examples`) is left alone. A path such as `$.properties.age` names
each part.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import unquote, urljoin

from grammars.spec import ShapeError

Schema = dict[str, Any] | bool

_EFFORT = 40_000  # steps of proofs; about half a second
# serde_json, llguidance's reader, stops at 128; the wrapping takes a few levels.
MAX_DEPTH = 120

_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_MAP = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
_NAMED = _MAP | {"$defs", "definitions"}
_DATA = frozenset({"const", "default", "enum", "examples"})


def step(path: str, key: str | int) -> str:
    """Return the path of a member (`$.a`, `$["a b"]`) or an element (`$[3]`)."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return (
        f"{path}.{key}" if re.fullmatch(r"[$\w-]+", key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    )


def read_json(text: str, deepest: int | None = MAX_DEPTH, *, repeats: bool = False) -> Any:
    """Parse strict JSON: no NaN, no key twice, no number that overflows, no lone surrogate, bounded depth.

    With `repeats` the last of several members with one key counts, as for every common reader. Raises ShapeError with
    `line:column` where the parser tells it.
    """

    def no_constant(name: str) -> NoReturn:
        raise ShapeError(f"{name} is no JSON value")

    def finite(literal: str) -> float:
        number = float(literal)
        if math.isinf(number):
            raise ShapeError(f"the number {literal[:40]} is too large")
        return number

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for index, key in enumerate(keys) if key in keys[:index])
            raise ShapeError(f"the key {json.dumps(twice, ensure_ascii=False)} stands twice in one object")
        return members

    try:
        value = json.loads(
            text,
            parse_constant=no_constant,
            parse_float=finite,
            object_pairs_hook=dict if repeats else unique,
        )
    except json.JSONDecodeError as error:
        raise ShapeError(f"invalid JSON: {error.msg}", f"{error.lineno}:{error.colno}") from None
    except RecursionError:
        raise ShapeError("nested too deeply to be read") from None
    except ShapeError:
        raise
    except ValueError:  # int() refuses more than 4,300 digits
        raise ShapeError("a number has too many digits") from None
    if deepest is not None and _depth(value) > deepest:
        raise ShapeError(f"nested more than {deepest} levels deep")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ShapeError("contains half of a surrogate pair, which is no character") from None
    return value


def _depth(value: Any) -> int:
    depth, layer = 0, [value]
    while layer:
        depth += 1
        layer = [
            child
            for node in layer
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return depth


def resolve(root: Schema, reference: str) -> tuple[str, Any] | None:
    """Return path and value that a local JSON pointer (`#/$defs/a`) leads to, or None if it leads nowhere."""
    return _follow("$", root, reference[1:]) if reference.startswith("#/") or reference == "#" else None


class Document:
    """A schema with the places in it that references can lead to.

    `draft` is the one that `$schema` names (4, 6, 7, 2019 or 2020); without a name it is told from keywords that
    only older drafts have, and otherwise 2020. Nothing outside the document is ever looked at. Proofs about its parts
    share one `effort`, so that none of them takes long whatever the schema.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._effort = _EFFORT
        self._parts: list[tuple[str, Schema, int]] | None = None
        self._bases: dict[int, str] = {}
        self._resources: dict[str, tuple[str, Any]] = {"": ("$", root)}
        self._anchors: dict[str, tuple[str, Any]] = {}
        self._dynamic: dict[str, list[tuple[str, Any]]] = {}
        named = root.get("$schema") if isinstance(root, dict) else None
        named = named if isinstance(named, str) else ""
        self._old = _draft(named, set()) <= 7
        keywords: set[str] = set()
        waiting: list[tuple[str, Any, str, bool]] = [("$", root, "", True)]
        while waiting:
            path, node, base, is_schema = waiting.pop()
            if isinstance(node, list):
                waiting += [(step(path, at), item, base, is_schema) for at, item in enumerate(node)]
            if not isinstance(node, dict):
                continue
            if is_schema:
                keywords |= _telling(node)
                base = self._enter(path, node, base)
            self._bases[id(node)] = base
            for key, value in node.items():
                if not is_schema or key not in _DATA:
                    here = step(path, key)
                    if is_schema and key in _NAMED and isinstance(value, dict):
                        self._bases[id(value)] = base
                        waiting += [(step(here, name), part, base, True) for name, part in value.items()]
                    else:  # what stands under a word that is no keyword has no name of its own
                        waiting.append((here, value, base, is_schema and key in _ONE | _LIST))
        self.draft = _draft(named, keywords)

    def _enter(self, path: str, node: dict[str, Any], base: str) -> str:
        """Note what a schema is called; return the base of its references."""
        if self._old and "$ref" in node:
            return base  # beside a reference nothing counts
        name = node.get("$id", node.get("id"))
        if isinstance(name, str) and name:
            if name.startswith("#"):
                self._anchors.setdefault(base + name, (path, node))
            else:
                base = urljoin(base, name).removesuffix("#")
                self._resources.setdefault(base, (path, node))
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := node.get(keyword), str):
                self._anchors.setdefault(f"{base}#{anchor}", (path, node))
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(anchor, []).append((path, node))
        return base

    def spend(self, steps: int = 1) -> bool:
        """Take steps of a proof; False if there are none left, and the answer has to be that it is not known."""
        self._effort -= steps
        return self._effort >= 0

    def parts(self) -> list[tuple[str, Schema, int]]:
        """Return path, schema and depth of every part that the root can reach, the root first, each path once.

        The depth is how many parts a reader that follows every reference once has entered.
        """
        if self._parts is None:
            self._parts = list(_visit(self))
        return self._parts

    def target(self, node: dict[str, Any], reference: str) -> tuple[str, Any] | None:
        """Return path and value that a reference in a schema leads to, or None if that is not in the document."""
        base = self._bases.get(id(node), "")
        uri = base + reference if reference.startswith("#") else urljoin(base, reference)
        resource, _, fragment = uri.partition("#")
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(uri)
        found = self._resources.get(resource)
        return found and _follow(*found, fragment)

    def dynamic_target(self, node: dict[str, Any]) -> tuple[str, Any] | None:
        """Return what `$dynamicRef` or `$recursiveRef` leads to where no other part of the document competes."""
        if node.get("$recursiveRef") == "#" and len(self._resources) <= 2:
            return self.target(node, "#")
        reference = node.get("$dynamicRef")
        if not isinstance(reference, str):
            return None
        if len(self._dynamic.get(reference.rpartition("#")[2], ())) > 1:
            return None
        return self.target(node, reference)


def _telling(node: dict[str, Any]) -> set[str]:
    """Return the keywords of a schema whose form tells a draft."""
    found = node.keys() & {"additionalItems", "dependencies", "$defs", "dependentRequired", "$anchor"}
    found |= node.keys() & {"dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minContains"}
    found |= {"prefixItems"} & node.keys()
    if isinstance(node.get("items"), list):
        found.add("additionalItems")
    if any(isinstance(node.get(key), bool) for key in ("exclusiveMinimum", "exclusiveMaximum")):
        found.add("exclusiveMinimum")
    return found


def _draft(name: str, telling: set[str]) -> int:
    if match := re.search(r"/draft-0?(4|6|7)/|/draft/(2019|2020)-\d\d/", name):
        return int(match[1] or match[2])
    if "exclusiveMinimum" in telling:
        return 4
    if telling.isdisjoint({"additionalItems", "dependencies"}) or "prefixItems" in telling:
        return 2020
    return 2019 if telling - {"additionalItems", "dependencies"} else 7


def _follow(path: str, node: Any, pointer: str) -> tuple[str, Any] | None:
    if not pointer:
        return path, node
    for raw in unquote(pointer[1:]).split("/"):
        key = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node, path = node[key], step(path, key)
        elif isinstance(node, list) and key.isdecimal() and key.isascii() and int(key) < len(node):
            node, path = node[int(key)], step(path, int(key))
        else:
            return None
    return path, node


def parts(root: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield path and schema of every part that the root can reach, the root first, each path once."""
    return ((path, node) for path, node, _ in _visit(Document(root)))


def below(node: Any) -> Iterator[Schema]:
    """Yield a part and the parts inside it, following no reference."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | bool):
            yield part
        if isinstance(part, dict):
            waiting += [child for _, child in _children("", part)]


def reach(root: Schema) -> int:
    """Return how many parts deep a reader that follows every reference once gets."""
    return max(depth for _, _, depth in Document(root).parts())


def _visit(document: Document) -> Iterator[tuple[str, Schema, int]]:
    seen: set[str] = set()
    waiting: list[tuple[str, Any, int]] = [("$", document.root, 1)]
    while waiting:
        path, node, depth = waiting.pop()
        if path in seen or not isinstance(node, dict | bool):
            continue
        seen.add(path)
        yield path, node, depth
        if isinstance(node, bool):
            continue
        found = list(_children(path, node))
        reference = node.get("$ref")
        if isinstance(reference, str) and (target := document.target(node, reference)):
            found.append(target)
        if target := document.dynamic_target(node):
            found.append(target)
        waiting += [(*child, depth + 1) for child in reversed(found)]


def _children(path: str, node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        here = step(path, key)
        if key in _MAP and isinstance(value, dict):
            yield from ((step(here, name), child) for name, child in value.items())
        elif key in _LIST and isinstance(value, list):
            yield from ((step(here, index), child) for index, child in enumerate(value))
        elif key in _ONE:
            yield here, value
