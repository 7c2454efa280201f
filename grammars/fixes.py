"""Apply the fixes that the lint offers: words that are no JSON Schema become what they are meant to be.

Only fixes with one meaning: a misspelt keyword takes its real name unless that is there already, and OpenAPI's
`nullable` becomes an alternative of null. Nothing else changes; the order of keys, which is the order of the reply,
least of all.
"""

import json
from dataclasses import replace
from typing import Any

from grammars.keywords import FOREIGN, KEYWORDS, TYPES, malformed, nearest
from grammars.schema import parts, read_json
from grammars.spec import GrammarSpec

TYPE_ALIASES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
    "none": "null",
}


def fixed(spec: GrammarSpec) -> GrammarSpec:
    """Return the shape with every offered fix applied; itself where there is nothing to fix.

    Raises ShapeError for a schema that is no JSON.
    """
    if spec.kind != "json_schema":
        return spec
    schema = read_json(spec.text)
    if not isinstance(schema, dict):
        return spec
    before = json.dumps(schema)
    for _, part in reversed(list(parts(schema))):
        if isinstance(part, dict):
            _fix(part)
    if json.dumps(schema) == before:
        return spec
    return replace(spec, text=json.dumps(schema, ensure_ascii=False, indent=2))


def renamed(part: dict[str, Any], key: str) -> str | None:
    """Return the keyword that a key of a schema can safely be renamed to."""
    if key in KEYWORDS or key in FOREIGN or key.startswith("x-"):
        return None
    meant = nearest(key)
    return meant if meant and meant not in part and malformed(meant, part[key]) is None else None


def _fix(part: dict[str, Any]) -> None:
    members = list(part.items())
    part.clear()
    for key, value in members:
        meant = renamed(dict(members), key)
        if meant is not None:
            part[meant] = value
        elif key == "example" and "examples" not in dict(members):
            part["examples"] = [value]
        elif key == "type":
            part[key] = _types(value)
        elif key != "nullable" or not isinstance(value, bool):
            part[key] = value
    if dict(members).get("nullable") is True:
        _allow_null(part)


def _types(value: Any) -> Any:
    if isinstance(value, list):
        return [_types(name) for name in value]
    if isinstance(value, str) and value not in TYPES:
        lowered = value.lower()
        return lowered if lowered in TYPES else TYPE_ALIASES.get(lowered, value)
    return value


def _allow_null(part: dict[str, Any]) -> None:
    """Let a schema also take null."""
    kinds = part.get("type")
    if kinds is not None and not {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "const"} & part.keys():
        named = [kinds] if isinstance(kinds, str) else kinds
        part["type"] = [*named, *([] if "null" in named else ["null"])]
        if isinstance(part.get("enum"), list) and None not in part["enum"]:
            part["enum"] = [*part["enum"], None]
        return
    kept = {
        key: part.pop(key)
        for key in ("$schema", "$id", "$defs", "definitions", "title", "description")
        if key in part
    }
    inner = dict(part)
    part.clear()
    part.update(kept)
    if inner:
        part["anyOf"] = [inner, {"type": "null"}]
