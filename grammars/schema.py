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
from urllib.parse import unquote

from grammars.spec import ShapeError

Schema = dict[str, Any] | bool

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
_MAP = frozenset({"dependentSchemas", "patternProperties", "properties"})


def step(path: str, key: str | int) -> str:
    """Return the path of a member (`$.a`, `$["a b"]`) or an element (`$[3]`)."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return (
        f"{path}.{key}" if re.fullmatch(r"[$\w-]+", key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    )


def read_json(text: str, deepest: int | None = MAX_DEPTH) -> Any:
    """Parse strict JSON: no NaN, no key twice, no number that overflows, no lone surrogate, bounded depth.

    Raises ShapeError with `line:column` where the parser tells it.
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
        value = json.loads(text, parse_constant=no_constant, parse_float=finite, object_pairs_hook=unique)
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
    node, path = root, "$"
    if reference not in ("#", "#/"):
        if not reference.startswith("#/"):
            return None
        for raw in unquote(reference[2:]).split("/"):
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
    return ((path, node) for path, node, _ in _visit(root))


def reach(root: Schema) -> int:
    """Return how many parts deep a reader that follows every reference once gets."""
    return max(depth for _, _, depth in _visit(root))


def _visit(root: Schema) -> Iterator[tuple[str, Schema, int]]:
    seen: set[str] = set()
    waiting: list[tuple[str, Any, int]] = [("$", root, 1)]
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
        target = resolve(root, reference) if isinstance(reference, str) else None
        waiting += [(*child, depth + 1) for child in reversed([*found, target] if target else found)]


def _children(path: str, node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        here = step(path, key)
        if key in _MAP and isinstance(value, dict):
            yield from ((step(here, name), child) for name, child in value.items())
        elif key in _LIST and isinstance(value, list):
            yield from ((step(here, index), child) for index, child in enumerate(value))
        elif key in _ONE:
            yield here, value
