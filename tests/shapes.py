"""Shapes that are hard to end: what people complain of, patterns, formats, recursion, and grammars that are no JSON."""

import json
from typing import Any

from grammars.spec import GrammarSpec


def schema(value: Any, **options: Any) -> GrammarSpec:
    return GrammarSpec(kind="json_schema", text=json.dumps(value), **options)


def record(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of a closed object that requires everything."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


TEXT = {"type": "string"}
NODE = record({"tag": TEXT, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}})
LINK = record({"value": {"type": "number"}, "next": {"anyOf": [{"$ref": "#/$defs/link"}, {"type": "null"}]}})

HARD: dict[str, GrammarSpec] = {
    "endless digits": schema(record({"altitude_m": {"type": "integer"}})),
    "endless white space": schema(
        record({"title": TEXT, "steps": {"type": "array", "items": TEXT}}), whitespace="flexible"
    ),
    "cut": schema(record({"notes": TEXT, "ok": {"type": "boolean"}})),
    "large bound": schema(record({"memo": {"type": "string", "maxLength": 2000}})),
    "recursion": schema({"$ref": "#/$defs/node", "$defs": {"node": NODE}}),
    "linked list": schema({"$ref": "#/$defs/link", "$defs": {"link": LINK}}),
    "pattern": schema(
        record(
            {
                "code": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}(-[a-f]{8})?$"},
                "found anywhere": {"type": "string", "pattern": "\\d{2}-\\d{2}"},
            }
        )
    ),
    "long text": schema(record({"essay": {"type": "string", "minLength": 60}})),
    "formats": schema(
        {
            "type": "array",
            "prefixItems": [{"format": "date", "type": "string"}, {"format": "email", "type": "string"}],
            "minItems": 2,
            "items": False,
        }
    ),
    "many": schema({"type": "array", "items": record({"x": {"type": "number"}}), "minItems": 3}),
    "regex": GrammarSpec(kind="regex", text=r"[a-z]+(;[0-9]{3})+\."),
    "word at the end": GrammarSpec(kind="regex", text=r"(?s:.*)END"),
    "lark": GrammarSpec(
        kind="lark", text='start: sum\nsum: term ("+" term)*\nterm: NUM | "f[" sum "]"\nNUM: /[0-9]+/'
    ),
    "dead end": GrammarSpec(
        kind="lark",
        text='start: "x" tail NEVER | /[a-w]+/ "."\ntail: "y" | "z"\nNEVER: /[a-z]{2}/ & /[a-z]{3}/',
    ),
    "lark with json": GrammarSpec(
        kind="lark",
        text='start: "<r>" body "</r>"\nbody: %json {"type":"object","properties":{"a":{"type":"string"}},'
        '"required":["a"],"additionalProperties":false}',
    ),
    "choice": GrammarSpec(kind="choice", text='["car", "cart", "carton", "the city \U0001f600"]'),
}
