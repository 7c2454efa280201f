"""Infer a JSON Schema from example documents.

Knows no model. Examples are one JSON document or several as JSON Lines; a document that is a list is one
document, whose schema is a list's. What every example of a place has in common is kept: types, the order and
presence of members, and formats that cannot be mistaken. Nothing else is guessed: no choices, lengths or ranges.

Invariant: every example fits the schema and, with its members in the schema's order, is a reply that the
shape takes unless a guard is narrower.
"""

import calendar
import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Any

from grammars.schema import read_json, step
from grammars.spec import ShapeError

_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_WORD = r"[A-Za-z0-9_]+"
_LABEL = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_PATH = r"(?:[\w.~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"
# Narrower than the formats themselves: what could be something else stays a plain text.
_FORMATS = {
    "date": _DATE,
    "date-time": f"{_DATE}T{_TIME}",
    "time": _TIME,
    "uuid": r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "ipv4": r"\d{1,3}(?:\.\d{1,3}){3}",
    "email": rf"{_WORD}(?:[.+-]{_WORD})*@{_LABEL}(?:\.{_LABEL})+",
    "uri": rf"(?:https?|ftp)://{_HOST}(?::\d{{1,5}})?(?:/{_PATH}*)?(?:\?{_PATH}*)?(?:\#{_PATH}*)?",
}
_PATTERNS = {name: re.compile(pattern, re.ASCII) for name, pattern in _FORMATS.items()}


def from_example(text: str) -> str:
    """Return the JSON Schema (indented) of one JSON document, or of several as JSON Lines.

    Raises ShapeError with `line:column` for what is no JSON.
    """
    return json.dumps(_infer(_documents(text)), ensure_ascii=False, indent=2)


def empty_places(text: str) -> list[str]:
    """Return the paths where the examples hold nothing but empty lists or empty objects.

    The schema allows anything there, because no example says more. Raises ShapeError as `from_example`.
    """
    return list(_empty(_infer(_documents(text)), "$"))


def _documents(text: str) -> list[Any]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ShapeError("there is no example: give a JSON document")
    if len(lines) == 1 or not _is_json(lines[0][1]):
        return [read_json(text)]
    return [_line(line, number) for number, line in lines]


def _is_json(line: str) -> bool:
    """Tell whether a first line is a document by itself, which makes the text JSON Lines."""
    try:
        read_json(line)
    except ShapeError:
        return False
    return True


def _line(line: str, number: int) -> Any:
    try:
        return read_json(line)
    except ShapeError as error:
        column = error.where.rpartition(":")[2] or "1"
        raise ShapeError(error.why, f"{number}:{column}") from None


def _infer(values: list[Any]) -> dict[str, Any]:
    """Return the schema of one place from the values, at least one, that stand there."""
    names = list(dict.fromkeys(map(_type, values)))
    if "number" in names and "integer" in names:  # every integer is a number
        names.remove("integer")
    names.sort(key="null".__eq__)  # null last, the others as they came
    schema: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    texts = [value for value in values if isinstance(value, str)]
    if texts and (form := _format(texts)):
        schema["format"] = form
    objects = [value for value in values if isinstance(value, dict)]
    if members := _members(objects):
        schema["properties"] = {key: _infer(found) for key, found in members.items()}
        schema["required"] = [key for key, found in members.items() if len(found) == len(objects)]
        schema["additionalProperties"] = False
    if elements := [element for value in values if isinstance(value, list) for element in value]:
        schema["items"] = _infer(elements)
    return schema


def _type(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _members(objects: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of every key; a key that a later example adds follows its neighbour there."""
    found: dict[str, list[Any]] = {}
    # The order as a chain from None to None, so that a key is put into its middle at no cost.
    after: dict[str | None, str | None] = {None: None}
    for value in objects:
        previous = None
        for key, child in value.items():
            if key not in found:
                found[key] = []
                after[previous], after[key] = key, after[previous]
            found[key].append(child)
            previous = key
    ordered, key = {}, after[None]
    while key is not None:
        ordered[key], key = found[key], after[key]
    return ordered


def _format(texts: list[str]) -> str | None:
    for name, pattern in _PATTERNS.items():
        if all(len(text) <= 2_000 and pattern.fullmatch(text) and _exists(name, text) for text in texts):
            return name
    return None


def _exists(form: str, text: str) -> bool:
    """Tell whether a text that looks like its format also means something: no 31 June, no host 999."""
    if form in ("date", "date-time"):
        year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
        return year > 0 and day <= calendar.monthrange(year, month)[1]
    if form == "ipv4":
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            return False
    return True


def _empty(schema: dict[str, Any], path: str) -> Iterator[str]:
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if ("array" in names and "items" not in schema) or ("object" in names and "properties" not in schema):
        yield path
    for key, child in schema.get("properties", {}).items():
        yield from _empty(child, step(path, key))
    if "items" in schema:
        yield from _empty(schema["items"], f"{path}[]")
