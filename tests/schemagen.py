"""Random JSON Schemas with their replies, told beside the schema and not from it.

Finite ones come with all their documents; regular ones with the regular expression of what they write. Where the
language of a reply is narrower than JSON the expressions say how: strings spell a character as it is, control
characters by their short escape or `\\u00..`, keys come in the schema's order, and gaps are those of the whitespace.
"""

import itertools
import json
import math
import re
from dataclasses import dataclass
from random import Random
from typing import Any

from grammars.spec import Whitespace

WORDS = (
    "a", "ab", "abc", "b", "on", "null", "true", "12", "1e5", "é", "日本", "😀",
    "a b", '"', "\\", "a/b", "\n", ",", "{", "}:",
)  # fmt: skip
_KEYS = ("a", "b", "ab", "id", "name", "é", "a b", 'q"', "x/y", "日", "-", "n\n")
_MOST = 300  # documents of a finite schema
_MINUS_ZERO = "\x7f-0"  # in a document, stands for the spelling `-0`, which Python's reader does not keep
_PLAIN = [word for word in WORDS if word != "\n"]  # words with one spelling in JSON


def written(document: Any, whitespace: Whitespace) -> str:
    separators = (",", ":") if whitespace == "compact" else (", ", ": ")
    text = json.dumps(document, ensure_ascii=False, separators=separators)
    return text.replace(json.dumps(_MINUS_ZERO, ensure_ascii=False), "-0")


def finite_schema(dice: Random, depth: int) -> tuple[dict[str, Any], list[Any]]:
    """Return a schema and all its documents, none twice."""
    makers = (
        [_finite_scalar]
        if depth == 0
        else [_finite_object, _finite_object, _finite_array, _finite_union, _finite_scalar]
    )
    try:
        schema, documents = dice.choice(makers)(dice, depth)
    except _TooMany:
        return finite_schema(dice, depth)
    if depth == 3 and dice.random() < 0.3:
        return {"$ref": "#/$defs/x%20y", "$defs": {"x y": schema}}, documents
    return schema, documents


def _distinct(documents: list[Any]) -> list[Any]:
    return list({written(document, "compact"): document for document in documents}.values())


def _finite_scalar(dice: Random, _: int) -> tuple[dict[str, Any], list[Any]]:
    low = dice.randint(-12, 8)
    high = low + dice.randint(0, 110)
    step = dice.choice((2, 3, 5))
    size = dice.randint(0, 2)
    words = [
        "".join(letters) for size in range(size, size + 2) for letters in itertools.product("aé", repeat=size)
    ]
    values = dice.sample(
        [None, True, False, 0, -1, 12, "x", *_PLAIN, [], [1, "a"], {}, {"k": [None]}], dice.randint(1, 5)
    )
    both = dice.sample(_PLAIN, 8)
    return dice.choice(
        [
            ({"enum": values}, values),
            ({"const": values[0]}, values[:1]),
            ({"type": "boolean"}, [True, False]),
            ({"type": ["null", "boolean"]}, [None, True, False]),
            (
                {"type": "integer", "minimum": low, "maximum": high},
                [*range(low, high + 1), *[_MINUS_ZERO] * (low < 0 <= high)],
            ),
            (
                {
                    "type": "integer",
                    "exclusiveMinimum": low,
                    "exclusiveMaximum": high + 2,
                    "multipleOf": step,
                },
                [number for number in range(low + 1, high + 2) if number % step == 0]
                + [_MINUS_ZERO] * (low < -1 <= high),
            ),
            ({"type": "string", "pattern": f"^[aé]{{{size},{size + 1}}}$"}, words),
            ({"type": "string", "pattern": "^[aé]*$", "minLength": size, "maxLength": size + 1}, words),
            ({"allOf": [{"enum": both[:5]}, {"enum": both[3:]}]}, both[3:5]),
        ]
    )


def _finite_array(dice: Random, depth: int) -> tuple[dict[str, Any], list[Any]]:
    if dice.random() < 0.4:
        items = [finite_schema(dice, depth - 1) for _ in range(dice.randint(0, 3))]
        least = dice.randint(0, len(items))
        documents = [
            list(chosen)
            for size in range(least, len(items) + 1)
            for chosen in _products([documents for _, documents in items[:size]])
        ]
        schema = {
            "type": "array",
            "prefixItems": [schema for schema, _ in items],
            "items": False,
            "minItems": least,
        }
        return schema if items else {"type": "array", "items": False}, documents
    schema, documents = finite_schema(dice, depth - 1)
    low = dice.randint(0, 2)
    high = low + dice.randint(0, 2)
    found = [list(chosen) for size in range(low, high + 1) for chosen in _products([documents] * size)]
    return {"type": "array", "items": schema, "minItems": low, "maxItems": high}, found


def _finite_object(dice: Random, depth: int) -> tuple[dict[str, Any], list[Any]]:
    keys = dice.sample(_KEYS, dice.randint(0, 4))
    members = {key: finite_schema(dice, depth - 1) for key in keys}
    required = [key for key in keys if dice.random() < 0.5]
    choices = [
        [None, *documents] if key not in required else documents
        for key, documents in ((key, [(document,) for document in members[key][1]]) for key in keys)
    ]
    documents = [
        {key: value[0] for key, value in zip(keys, chosen, strict=True) if value is not None}
        for chosen in _products(choices)
    ]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: members[key][0] for key in keys},
        "required": dice.sample(required, len(required)),
        "additionalProperties": False,
    }
    return schema, documents


def _finite_union(dice: Random, depth: int) -> tuple[dict[str, Any], list[Any]]:
    branches = [finite_schema(dice, depth - 1) for _ in range(2)]
    documents = _distinct([document for _, found in branches for document in found])
    return {"anyOf": [schema for schema, _ in branches]}, documents


def _products(choices: list[list[Any]]) -> list[tuple[Any, ...]]:
    if math.prod(map(len, choices)) > _MOST:
        raise _TooMany
    return list(itertools.product(*choices))


class _TooMany(Exception):
    """A schema has more documents than are worth listing."""


_GAPS = {"compact": ("", ",", ":"), "spaced": ("", ", ", ": ")}
_GAP = r"(?: |\n {0,8})?"
_CHARACTER = r'(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt]|\\u00(?:[01][0-9a-fA-F]|7[fF]))'


def regular_schema(dice: Random, depth: int, whitespace: Whitespace) -> tuple[dict[str, Any], str]:
    """Return a schema without recursion and the regular expression of its replies."""
    gap, comma, colon = _GAPS.get(whitespace, (_GAP, f"{_GAP},{_GAP}", f"{_GAP}:{_GAP}"))
    return _Regular(dice, gap, comma, colon).value(depth)


@dataclass(frozen=True, slots=True)
class _Regular:
    """Makes a schema and the expression of what it writes."""

    dice: Random
    gap: str
    comma: str
    colon: str

    def value(self, depth: int) -> tuple[dict[str, Any], str]:
        makers = (
            [self._scalar]
            if depth == 0
            else [self._object, self._object, self._array, self._union, self._scalar]
        )
        return self.dice.choice(makers)(depth)

    def _scalar(self, _: int) -> tuple[dict[str, Any], str]:
        low = self.dice.randint(0, 3)
        high = low + self.dice.randint(0, 4)
        return self.dice.choice(
            [
                ({"type": "string", "minLength": low, "maxLength": high}, f'"{_CHARACTER}{{{low},{high}}}"'),
                ({"type": "string", "pattern": "^[0-9]{2}-[a-c]*$"}, '"[0-9]{2}-[a-c]*"'),
                ({"type": "string", "pattern": "b[0-9]", "maxLength": 4}, _containing("b[0-9]", 2, 4)),
                ({"type": "string", "format": "ipv4"}, _IPV4),
                ({"type": "string"}, f'"{_CHARACTER}*"'),
                ({"type": "integer"}, "-?(?:0|[1-9][0-9]{0,14})"),  # guarded to what a double holds exactly
                ({"type": "number"}, r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"),
                ({"type": "integer", "minimum": 0, "maximum": 255}, f"(?:{_OCTET})"),
                ({"type": "integer", "minimum": -20, "maximum": 7}, "(?:-(?:20|1[0-9]|[1-9])|-0|[0-7])"),
                ({"type": "number", "minimum": 0, "maximum": 10}, r"(?:10(?:\.0+)?|[0-9](?:\.[0-9]+)?)"),
                ({"type": ["boolean", "null"]}, "(?:true|false|null)"),
                ({"enum": ["é", 1, None, "\n"]}, r'(?:"é"|1|null|"(?:\\n|\\u000[aA])")'),
            ]
        )

    def _array(self, depth: int) -> tuple[dict[str, Any], str]:
        schema, pattern = self.value(depth - 1)
        low = self.dice.randint(0, 2)
        high = None if self.dice.random() < 0.4 else low + self.dice.randint(0, 3)
        bounds = {"minItems": low} | ({} if high is None else {"maxItems": high})
        gap, comma = self.gap, self.comma
        if high == 0:
            inside = ""
        else:
            more = f"{{{max(0, low - 1)},{'' if high is None else high - 1}}}"
            inside = f"{pattern}(?:{comma}{pattern}){more}{gap}"
            inside = inside if low else f"(?:{inside})?"
        return {"type": "array", "items": schema, **bounds}, rf"\[{gap}{inside}\]"

    def _object(self, depth: int) -> tuple[dict[str, Any], str]:
        keys = self.dice.sample(_KEYS, self.dice.randint(0, 4))
        members = {key: self.value(depth - 1) for key in keys}
        required = {key for key in keys if self.dice.random() < 0.5}
        first: list[str] = []  # what the first member written may begin
        after = ""  # what may follow a member
        for key in reversed(keys):
            member = f"{re.escape(written(key, 'compact'))}{self.colon}{members[key][1]}"
            first = [f"{member}{after}", *(() if key in required else first)]
            after = f"(?:{self.comma}{member}){'' if key in required else '?'}{after}"
        inside = f"(?:{'|'.join(first)}){self.gap}" if first else ""
        inside = inside if required else f"(?:{inside})?"
        schema = {
            "type": "object",
            "properties": {key: schema for key, (schema, _) in members.items()},
            "required": sorted(required),
            "additionalProperties": False,
        }
        return schema, rf"\{{{self.gap}{inside}\}}"

    def _union(self, depth: int) -> tuple[dict[str, Any], str]:
        branches = [self.value(depth - 1) for _ in range(2)]
        return {"anyOf": [schema for schema, _ in branches]}, f"(?:{'|'.join(text for _, text in branches)})"


_OCTET = "25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9]"
_IPV4 = rf'"(?:{_OCTET})(?:\.(?:{_OCTET})){{3}}"'


def _containing(pattern: str, size: int, longest: int) -> str:
    """Return the expression of a short string with something in it."""
    places = [
        f"{_CHARACTER}{{{before}}}{pattern}{_CHARACTER}{{0,{longest - size - before}}}"
        for before in range(longest - size + 1)
    ]
    return f'"(?:{"|".join(places)})"'
