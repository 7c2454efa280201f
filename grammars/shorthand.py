"""Write a JSON Schema in one breath: `name, age int: in years, tags [str]`, and read one back.

Knows no model and no files. The members of an object stand one after the other, apart by commas or new
lines; every one is required unless a `?` follows its key, replies keep their order, and no other member is
allowed. What the `llm` tool calls its schema syntax reads the same here.

    shorthand   = members | list | object
    members     = member { ("," | new line) member }
    member      = key [ "?" ] [ type ] [ ":" description ]
    type        = ( word [ range ] | list [ range ] | object | choices ) [ "|" "null" ]
    list        = "[" type "]"
    object      = "{" members "}"
    choices     = value "|" value { "|" value } | "(" value { "|" value } ")"
    range       = low ".." high, where one of them may be missing
    word        = str int float num bool date time datetime email url uuid null
    key, value  = text without blanks and ,:?|()[]{}" or a JSON string

A member without a type is a text. A range bounds the value of a number, the length of a text and the count of
a list. A choice that is written as a JSON number, `true`, `false` or `null` is that value; quotes make it a
text. A description ends at the comma or at the end of its line; where members stand one a line (the text has
several lines, or its object begins with a new line) commas belong to the description. Inside an object it
ends at `}` too. The names that JSON Schema has for the types (string, number, uri) are read as well.

Invariant: what `to_shorthand` returns, `from_shorthand` turns into a schema that says the same.
"""

import difflib
import json
import re
from typing import Any, NoReturn

from grammars.lark import position
from grammars.schema import read_json
from grammars.spec import ShapeError

_TYPES: dict[str, dict[str, str]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "num": {"type": "number"},
    "bool": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "datetime": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "url": {"type": "string", "format": "uri"},
    "uuid": {"type": "string", "format": "uuid"},
    "null": {"type": "null"},
}
# What people who know JSON Schema or another language write instead; read, never written.
_ALIASES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "uri": "url",
    "date-time": "datetime",
}
_BOUNDS = {
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}
_DEEPEST = 40  # lists and objects inside one another
_ONE_LINE = 72  # characters; a longer group is written one member a line

_BARE = re.compile(r'[^\s,:?|()\[\]{}"]+')
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_NUMBER = r"-?\d{1,15}(?:\.\d{1,15})?"
_RANGE = re.compile(rf'({_NUMBER})?\.\.({_NUMBER})?(?![^\s,:|\]\[{{}}"])', re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LITERAL = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?|true|false|null", re.ASCII)


def from_shorthand(text: str) -> str:
    """Return the JSON Schema (indented, members in their order) that a shorthand stands for.

    Raises ShapeError with `line:column` and, for an unknown type, the nearest one.
    """
    return json.dumps(_Reader(text).read(), ensure_ascii=False, indent=2)


def to_shorthand(schema_text: str) -> str | None:
    """Return the shorthand of a JSON Schema, or None where the schema says more than a shorthand can.

    Raises ShapeError for what is no JSON.
    """
    schema = read_json(schema_text)
    try:
        text = _write_root(schema)
        same = _canonical(json.loads(from_shorthand(text))) == _canonical(schema)
    except (_Beyond, ShapeError):
        return None
    return text if same else None


class _Reader:
    """Read one shorthand by recursive descent; `_at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def read(self) -> dict[str, Any]:
        if half := _SURROGATE.search(self._text):
            self._refuse("half of a surrogate pair is no character", half.start())
        self._skip(lines=True)
        if self._next() in ("[", "{"):
            schema = self._type()
            self._skip(lines=True)
        else:
            schema = self._members(end="", one_a_line="\n" in self._text.strip())
            if not schema["properties"]:
                self._refuse("nothing is described; begin with a key, as in: name, age int")
        if self._at < len(self._text):
            self._refuse(f"nothing is expected after the end, but {self._excerpt()} stands here")
        return schema

    def _members(self, *, end: str, one_a_line: bool) -> dict[str, Any]:
        """Read up to the closing brace or, where `end` is empty, to the end of the text."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        while True:
            while self._skip(lines=True) or self._take(","):
                pass
            if self._next() == end:
                break
            start = self._at
            key = self._key(end)
            if key in properties:
                self._refuse(f"the key {json.dumps(key, ensure_ascii=False)} stands twice", start)
            if not self._take("?"):
                required.append(key)
            self._skip()
            schema = dict(_TYPES["str"]) if self._next() in ("", ",", ":", "\n", end) else self._type()
            self._skip()
            if self._take(":"):
                description = self._description(end, one_a_line)
                schema |= {"description": description} if description else {}
            properties[key] = schema
            if self._next() not in ("", ",", "\n", end):
                self._refuse(f"a comma or a new line is expected before {self._excerpt()}")
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def _key(self, end: str) -> str:
        if self._next() == '"':
            return self._quoted()
        match = _BARE.match(self._text, self._at)
        if match is None:
            self._refuse(f"{f'a key or {end}' if end else 'a key'} is expected, not {self._excerpt()}")
        self._at = match.end()
        return match[0]

    def _type(self) -> dict[str, Any]:
        start = self._at
        if self._next() in ("[", "{"):
            self._depth += 1
            if self._depth > _DEEPEST:
                self._refuse(f"nested more than {_DEEPEST} levels deep")
            schema = self._list() if self._take("[") else self._object()
            self._depth -= 1
        elif self._take("("):
            schema = {"enum": self._choices(inside=True)}
        else:
            schema = self._word_or_choices()
        self._range(schema)
        self._skip()
        if self._take("|"):
            self._null(schema, start)
        return schema

    def _list(self) -> dict[str, Any]:
        self._skip(lines=True)
        if self._next() == "]":
            self._refuse("a list names the type of its elements, as in: [str]")
        items = self._type()
        self._skip(lines=True)
        if not self._take("]"):
            self._refuse(f"] is expected, not {self._excerpt()}")
        return {"type": "array", "items": items}

    def _object(self) -> dict[str, Any]:
        self._take("{")
        self._skip()
        schema = self._members(end="}", one_a_line=self._next() == "\n")
        self._take("}")
        return schema

    def _word_or_choices(self) -> dict[str, Any]:
        start = self._at
        bare = _BARE.match(self._text, start)
        if bare is None and self._next() != '"':
            self._refuse(f"a type is expected, not {self._excerpt()}")
        word = bare[0] if bare else ""
        if (name := _ALIASES.get(word, word)) in _TYPES:
            self._at = start + len(word)
            return dict(_TYPES[name])
        values = self._choices(inside=False)
        if len(values) == 1:
            self._at = start
            self._no_type(word)
        return {"enum": values}

    def _no_type(self, word: str) -> NoReturn:
        if not word:
            self._refuse("a single choice stands in parentheses, as in: (calm)")
        if ".." in word:
            self._refuse(f"a range follows its type, as in: int {word}")
        near = difflib.get_close_matches(word[:64].lower(), [*_TYPES, *_ALIASES], n=1)
        hint = f"did you mean {_ALIASES.get(near[0], near[0])}?" if near else f"there are {', '.join(_TYPES)}"
        self._refuse(f"there is no type {self._excerpt()}; {hint}")

    def _choices(self, *, inside: bool) -> list[Any]:
        values: list[Any] = []
        seen: set[tuple[type, Any]] = set()  # 1, 1.0 and true are equal but not the same choice
        while True:
            self._skip(lines=inside)
            start = self._at
            value = self._choice(inside)
            if (type(value), value) in seen:
                self._refuse(f"the choice {json.dumps(value, ensure_ascii=False)} stands twice", start)
            seen.add((type(value), value))
            values.append(value)
            self._skip(lines=inside)
            if not self._take("|"):
                break
        if inside and not self._take(")"):
            self._refuse(f"| or ) is expected, not {self._excerpt()}")
        return values

    def _choice(self, inside: bool) -> Any:
        if self._next() == '"':
            return self._quoted()
        match = _BARE.match(self._text, self._at)
        if match is None:
            self._refuse(f"a choice is expected, not {self._excerpt()}")
        if not inside and match[0] != "null" and (match[0] in _TYPES or match[0] in _ALIASES):
            self._refuse(f'{match[0]} is a type; quote it where the text is meant: "{match[0]}"')
        self._at = match.end()
        return json.loads(match[0]) if _LITERAL.fullmatch(match[0]) else match[0]

    def _null(self, schema: dict[str, Any], start: int) -> None:
        """Let a type be null as well, after the `|` was read."""
        self._skip()
        match = _BARE.match(self._text, self._at)
        if match is None or match[0] != "null":
            self._refuse("after a type only null may follow; quote choices that are named like types")
        self._at = match.end()
        if None in schema.get("enum", ()) or schema.get("type") == "null":
            self._refuse("null stands twice", start)
        if "enum" in schema:
            schema["enum"].append(None)
        else:
            schema["type"] = [schema["type"], "null"]

    def _range(self, schema: dict[str, Any]) -> None:
        self._skip()
        start = self._at
        match = _RANGE.match(self._text, start)
        if match is None:
            return
        self._at = match.end()
        kind = schema.get("type")
        if "format" in schema or kind not in _BOUNDS:
            self._refuse("a range bounds int, float, str and lists only", start)
        if not (match[1] or match[2]):
            self._refuse("a range needs a bound, as in: 1..5", start)
        if kind != "number" and "." in (match[1] or "") + (match[2] or ""):
            self._refuse("the bounds are whole numbers here", start)
        bounds = [float(text) if "." in text else int(text) for text in match.groups(default="0")]
        if kind in ("string", "array") and min(bounds) < 0:
            self._refuse("a length or count is not below zero", start)
        if match[1] and match[2] and bounds[0] > bounds[1]:
            self._refuse(f"the range is empty: {match[1]} is above {match[2]}", start)
        named = zip(_BOUNDS[kind], bounds, match.groups(), strict=True)
        schema |= {key: bound for key, bound, given in named if given}

    def _description(self, end: str, one_a_line: bool) -> str:
        stops = "\n" + ("" if one_a_line else ",") + end
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in stops:
            self._at += 1
        return self._text[start : self._at].strip().removesuffix(",").strip()

    def _quoted(self) -> str:
        match = _QUOTED.match(self._text, self._at)
        if match is None:
            self._refuse("the quotes are never closed on this line")
        try:
            value = json.loads(match[0])
        except json.JSONDecodeError:
            self._refuse("what stands in quotes is no JSON string")
        if _SURROGATE.search(value):
            self._refuse("half of a surrogate pair is no character")
        self._at = match.end()
        return value

    def _skip(self, *, lines: bool = False) -> bool:
        """Skip blanks, and new lines too if told; tell whether there were any."""
        start = self._at
        while (here := self._next()) and here.isspace() and (lines or here != "\n"):
            self._at += 1
        return self._at > start

    def _next(self) -> str:
        """Return the next character, or nothing at the end."""
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        if self._next() != character:
            return False
        self._at += 1
        return True

    def _excerpt(self) -> str:
        match = _BARE.match(self._text, self._at)
        word = match[0] if match else self._next()
        if word in ("", "\n"):
            return "the end of the line" if word else "the end"
        return repr(word if len(word) <= 40 else word[:39] + "…")

    def _refuse(self, why: str, at: int | None = None) -> NoReturn:
        raise ShapeError(why, position(self._text, self._at if at is None else at))


class _Beyond(Exception):
    """The schema says what a shorthand cannot."""


# The writers put down what they know and pass over the rest: `to_shorthand` compares what comes back.


def _write_root(schema: Any) -> str:
    if isinstance(schema, dict) and schema.get("type") == "object" and schema.get("properties"):
        members = _members(schema)
        if not _tall(members) or (len(members) == 1 and "," not in members[0]):
            return ", ".join(members)
        if "\n" in (text := "\n".join(members)):
            return text
    text = _write(schema)
    return text if text.startswith(("[", "{")) else _beyond()


def _members(schema: dict[str, Any]) -> list[str]:
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise _Beyond
    names = {name for name in required if isinstance(name, str)}
    members = []
    for key, child in properties.items():
        if not isinstance(child, dict):
            raise _Beyond
        kind = _write(child)
        text = _word(key) + ("" if key in names else "?") + ("" if kind == "str" else f" {kind}")
        description = child.get("description")
        members.append(f"{text}: {description}" if isinstance(description, str) else text)
    return members


def _write(schema: Any) -> str:
    """Return a type, its description left out."""
    if not isinstance(schema, dict):
        raise _Beyond
    if isinstance(values := schema.get("enum"), list):
        return "(" + "|".join(_value(value) for value in values) + ")"
    kind = schema.get("type")
    if isinstance(kind, list):
        if len(kind) != 2 or "null" not in kind:
            raise _Beyond
        return _write({**schema, "type": next((name for name in kind if name != "null"), None)}) + "|null"
    if kind == "object":
        members = _members(schema)
        if not _tall(members):
            return "{" + ", ".join(members) + "}"
        return "{\n" + "\n".join("  " + line for text in members for line in text.split("\n")) + "\n}"
    if kind == "array":
        return f"[{_write(schema.get('items'))}]" + _write_range(schema, "array")
    bare = {key: schema[key] for key in ("type", "format") if key in schema}
    word = next((word for word, meaning in _TYPES.items() if meaning == bare), None) or _beyond()
    return word + (_write_range(schema, kind) if kind in _BOUNDS and "format" not in schema else "")


def _write_range(schema: dict[str, Any], kind: str) -> str:
    low, high = (json.dumps(schema[key]) if key in schema else "" for key in _BOUNDS[kind])
    return f" {low}..{high}" if low or high else ""


def _tall(members: list[str]) -> bool:
    """Tell whether members stand one a line: described ones, or too many for one."""
    return any(": " in text or "\n" in text for text in members) or sum(map(len, members)) > _ONE_LINE


def _word(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if _LITERAL.fullmatch(value) else _word(value)
    return json.dumps(value) if value is None or isinstance(value, bool | int | float) else _beyond()


def _beyond() -> NoReturn:
    raise _Beyond


def _canonical(schema: Any) -> str:
    """Return a text that is equal for schemas which say the same in the same order of members."""

    def plain(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        found = dict(node)
        if isinstance(properties := node.get("properties"), dict):
            found["properties"] = [[key, plain(child)] for key, child in properties.items()]
        if "items" in node:
            found["items"] = plain(node["items"])
        for key in ("required", "type"):  # sets, whose order says nothing
            if isinstance(names := node.get(key), list):
                found[key] = sorted(names, key=json.dumps)
        if not found.get("required", True):
            del found["required"]
        return found

    return json.dumps(plain(schema), sort_keys=True)
