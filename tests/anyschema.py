"""Random JSON Schemas over the whole subset that is enforced while a reply is written.

Seeded. What comes out is meant to be satisfiable and mostly is; a schema that the compiler refuses is the caller's to
count. Every keyword of the subset turns up, in the company that real schemas give it: optional members, unions told
apart by a constant, joined branches, references and recursion, older drafts' tuples, names that need escaping.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from grammars.spec import GrammarSpec, Whitespace

FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
_KEYS = (
    "id", "name", "size", "on", "a b", 'q"', "é", "日本", "x/y", "n\nl", "back\\", "😀", "$ref", "type", "0", "-",
)  # fmt: skip
_TEXTS = (
    "calm", "tense", "", "é", "日本", "😀", 'say "x"', "a\\b", "two\nlines", "\x1f", "null", "1", "</s>", "a [/x] b",
)  # fmt: skip
_PATTERNS = (
    "^[a-f]+$", "^[A-Z]{2}-[0-9]{3}$", r"\d{2}-\d{2}", "^(red|green|blue)$", r"^\S+$", "é", "^[^<>]*$", r"^a.c$",
    r"^\+?[0-9 ]{3,12}$", "^x", "z$", r"[.]js$|[.]py$", r"^(?:[a-z]+\.)*[a-z]+$", "^日?本*$", r"^\w{1,4}$",
    "(a|b)(c|d)",
)  # fmt: skip
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def any_spec(number: int) -> GrammarSpec:
    """Return a schema as a shape; whitespace varies with it."""
    dice = Random(f"any schema {number}")
    whitespace: Whitespace = dice.choice(("compact", "compact", "spaced", "flexible"))
    schema = any_schema(dice)
    return GrammarSpec(kind="json_schema", text=json.dumps(schema, ensure_ascii=False), whitespace=whitespace)


def any_schema(dice: Random) -> dict[str, Any]:
    """Return a schema; its root is an object most of the time."""
    maker = _Maker(dice)
    schema = maker.object(3) if dice.random() < 0.8 else maker.value(3)
    if dice.random() < 0.1:
        schema["$schema"] = _DRAFT_7 if maker.old else "https://json-schema.org/draft/2020-12/schema"
    if maker.old:
        schema["$schema"] = _DRAFT_7
    if maker.defs:
        schema["definitions" if maker.old else "$defs"] = maker.defs
    if dice.random() < 0.3:
        schema |= {"title": "Some [/x] title", "description": "With a description.", "examples": [1]}
    return schema


class _Maker:
    """Makes the parts of one schema; `defs` are what its references lead to."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.old = dice.random() < 0.15
        self.defs: dict[str, Any] = {}

    def value(self, depth: int) -> dict[str, Any]:
        makers: list[Callable[[int], dict[str, Any]]] = [self.text, self.number, self.literal, self.simple]
        if depth > 0:
            makers += [
                self.object,
                self.object,
                self.array,
                self.array,
                self.union,
                self.joined,
                self.tagged,
                self.reference,
            ]
        return self.dice.choice(makers)(depth - 1)

    def text(self, _: int) -> dict[str, Any]:
        low = self.dice.randint(0, 4)
        high = low + self.dice.randint(0, 12)
        return {"type": "string"} | self.dice.choice(
            [
                {},
                {"maxLength": high},
                {"minLength": low, "maxLength": high},
                {"minLength": low},
                {"pattern": self.dice.choice(_PATTERNS)},
                {"pattern": self.dice.choice(_PATTERNS), "maxLength": 12},
                {"format": self.dice.choice(FORMATS)},
                {"format": self.dice.choice(FORMATS)},
            ]
        )

    def number(self, _: int) -> dict[str, Any]:
        low = self.dice.choice((-1_000_000, -50, -1, 0, 1, 7, 1_000))
        high = low + self.dice.choice((0, 1, 9, 100, 12_345))
        return self.dice.choice(
            [
                {"type": "integer"},
                {"type": "number"},
                {"type": "integer", "minimum": low, "maximum": high},
                {"type": "integer", "exclusiveMinimum": low},
                {"type": "integer", "maximum": high},
                {"type": "integer", "multipleOf": self.dice.choice((2, 5, 7, 100))},
                {"type": "integer", "minimum": 0, "maximum": 60, "multipleOf": 15},
                {"type": "number", "minimum": low, "maximum": high},
                {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high + 1},
                {"type": "number", "minimum": -0.5, "maximum": 0.25},
                {"type": "number", "minimum": 0.1},
                {"type": "number", "multipleOf": self.dice.choice((0.5, 0.01, 2, 0.25))},
            ]
        )

    def literal(self, _: int) -> dict[str, Any]:
        values = [*_TEXTS, None, True, False, 0, -7, 1.5, 1e-3, [], [1, "a"], {}, {"k": [None, "é"]}]
        if self.dice.random() < 0.3:
            return {"const": self.dice.choice(values)}
        return {"enum": self.dice.sample(values, self.dice.randint(1, 6))}

    def simple(self, _: int) -> dict[str, Any]:
        return self.dice.choice(
            [
                {"type": "boolean"},
                {"type": "null"},
                {"type": ["string", "null"], "maxLength": 8},
                {"type": ["integer", "boolean"]},
                {"type": ["number", "null"], "minimum": 0},
                {},
            ]
        )

    def array(self, depth: int) -> dict[str, Any]:
        low = self.dice.randint(0, 2)
        bounds = self.dice.choice(
            [
                {},
                {"maxItems": low + 2},
                {"minItems": low, "maxItems": low + self.dice.randint(0, 3)},
                {"minItems": low},
            ]
        )
        roll = self.dice.random()
        if roll < 0.65:
            return {"type": "array", "items": self.value(depth), **bounds}
        first = [self.value(depth) for _ in range(self.dice.randint(1, 3))]
        rest: Any = self.dice.choice((False, True, {"type": "boolean"}))
        bounds = {"minItems": self.dice.randint(0, len(first)), "maxItems": len(first) + (2 if rest else 0)}
        if self.old:
            return {"type": "array", "items": first, "additionalItems": rest, **bounds}
        return {"type": "array", "prefixItems": first, "items": rest, **bounds}

    def object(self, depth: int) -> dict[str, Any]:
        keys = self.dice.sample(_KEYS, self.dice.randint(0, 5))
        required = [key for key in keys if self.dice.random() < 0.6]
        schema: dict[str, Any] = {"type": "object", "properties": {key: self.value(depth) for key in keys}}
        if required or self.dice.random() < 0.3:
            schema["required"] = self.dice.sample(required, len(required))
        roll = self.dice.random()
        if roll < 0.6:
            schema["additionalProperties"] = False
        elif roll < 0.75:
            schema["additionalProperties"] = self.value(0)
            if len(required) == len(keys):
                schema["maxProperties"] = len(keys) + 2
        elif roll < 0.85:
            schema["patternProperties"] = {"^x-[a-c]{1,3}$": self.value(0), "^n[0-9]$": {"type": "integer"}}
            schema["additionalProperties"] = False
        return schema

    def union(self, depth: int) -> dict[str, Any]:
        branches = [self.value(depth) for _ in range(self.dice.randint(2, 3))]
        return {"anyOf": branches}

    def tagged(self, depth: int) -> dict[str, Any]:
        """Return branches of `oneOf` that a constant tells apart."""
        branches = []
        for kind in self.dice.sample(("circle", "square", "é"), 2):
            branch = self.object(depth)
            branch["properties"] = {"kind": {"const": kind}, **branch["properties"]}
            branch["required"] = ["kind", *branch.get("required", ())]
            branch["additionalProperties"] = False
            for key in ("patternProperties", "maxProperties"):
                branch.pop(key, None)
            branches.append(branch)
        if self.dice.random() < 0.3:
            return {"oneOf": [{"type": "null"}, {"type": "string", "maxLength": 5}, branches[0]]}
        return {"oneOf": branches}

    def joined(self, depth: int) -> dict[str, Any]:
        """Return branches of `allOf` that leave something."""
        left, right = self.value(depth), self.value(depth)
        return self.dice.choice(
            [
                {"allOf": [{"type": "string", "pattern": "^[a-f]+$"}, {"minLength": 2}, {"maxLength": 5}]},
                {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 40, "multipleOf": 4}]},
                {"allOf": [{"enum": [1, 2, "x", None]}, {"enum": ["x", 2, True]}]},
                {"allOf": [left]},
                {
                    "allOf": [
                        {"type": "object", "properties": {"id": left}, "required": ["id"]},
                        {"type": "object", "properties": {"name": right}, "required": ["name"]},
                    ]
                },
                {"type": "array", "minItems": 1, "allOf": [{"items": left}, {"maxItems": 3}]},
            ]
        )

    def reference(self, depth: int) -> dict[str, Any]:
        """Return a reference, sometimes to a definition that contains itself."""
        root = "definitions" if self.old else "$defs"
        if not self.defs or (len(self.defs) < 3 and self.dice.random() < 0.5):
            name = f"part {len(self.defs)}" if self.dice.random() < 0.2 else f"part{len(self.defs)}"
            if self.dice.random() < 0.4:
                self.defs[name] = {
                    "type": "object",
                    "properties": {
                        "tag": self.text(0),
                        "kids": {"type": "array", "items": {"$ref": _pointer(root, name)}, "maxItems": 3},
                    },
                    "required": ["tag", "kids"],
                    "additionalProperties": False,
                }
            else:
                self.defs[name] = {
                    "type": "null"
                }  # so that what is made inside cannot lead here without an end
                self.defs[name] = self.value(min(depth, 1))
        return {"$ref": _pointer(root, self.dice.choice(list(self.defs)))}


def _pointer(root: str, name: str) -> str:
    return f"#/{root}/{name.replace(' ', '%20')}"
