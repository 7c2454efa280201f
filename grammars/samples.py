"""Short texts that match the patterns of a shape, as hints for ending a reply that a pattern governs.

Knows no model. A hint may be wrong (Python and Rust read some patterns differently): whoever uses one checks it.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from grammars.schema import parts, read_json
from grammars.spec import GrammarSpec

# Python's own parser of patterns has no public name; it is far smaller than another one of our own would be.
_parse = re._parser.parse  # type: ignore[attr-defined]
_MOST = 64
_LONGEST = 2_000  # characters
_CATEGORIES = {
    "CATEGORY_DIGIT": "0",
    "CATEGORY_WORD": "a",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_NOT_WORD": "-",
    "CATEGORY_NOT_SPACE": "a",
}
_FORMATS = {
    "date": "1970-01-01",
    "date-time": "1970-01-01T00:00:00Z",
    "duration": "P0D",
    "email": "a@a.a",
    "hostname": "a",
    "ipv4": "0.0.0.0",
    "ipv6": "::",
    "time": "00:00:00Z",
    "uri": "a:",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_ANYTHING = "a0-_ .:/@"


def samples(spec: GrammarSpec) -> tuple[str, ...]:
    """Return a short match of every pattern (that Python can read) and format of a shape, the shortest first."""
    found = {text for pattern in _patterns(spec) if (text := _sample(pattern))}
    if spec.kind == "json_schema":
        formats = (part.get("format") for _, part in parts(read_json(spec.text)) if isinstance(part, dict))
        found |= {_FORMATS[name] for name in formats if isinstance(name, str) and name in _FORMATS}
    return tuple(sorted(found, key=lambda text: (len(text), text))[:_MOST])


def _patterns(spec: GrammarSpec) -> Iterator[str]:
    if spec.kind == "regex":
        yield spec.text
    elif spec.kind == "lark":
        yield from re.findall(r"/((?:[^/\\\n]|\\.)+)/", spec.text)
    elif spec.kind == "json_schema":
        for _, part in parts(read_json(spec.text)):
            if isinstance(part, dict):
                yield from (pattern for pattern in [part.get("pattern")] if isinstance(pattern, str))
                members = part.get("patternProperties")
                yield from members if isinstance(members, dict) else ()


def _sample(pattern: str) -> str:
    """Return a short text that matches, or nothing where Python cannot read the pattern or the text is long."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's readings that may change: Rust has its own
            text = _text(_parse(pattern))
    except (re.error, RecursionError, OverflowError, ValueError):
        return ""  # a hint less
    return text if len(text) <= _LONGEST else ""


def _text(items: Any) -> str:
    text = ""
    for name, value in items:
        text += _piece(str(name), value)
        if len(text) > _LONGEST:
            raise ValueError("too long for a hint")
    return text


def _piece(name: str, value: Any) -> str:
    if name == "LITERAL":
        return chr(value)
    if name == "NOT_LITERAL":
        return next(character for character in _ANYTHING if ord(character) != value)
    if name == "ANY":
        return "a"
    if name == "IN":
        return _member(value)
    if name == "BRANCH":
        return min((_text(branch) for branch in value[1]), key=len)
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _text(value[-1] if name == "SUBPATTERN" else value)
    if name.endswith("REPEAT"):
        least, _, inner = value
        if least > _LONGEST:
            raise ValueError("too long for a hint")
        return _text(inner) * least
    return ""  # anchors match nothing; what is left is refused by the grammar library


def _member(items: Sequence[Any]) -> str:
    """Return a character of a class."""
    names = [(str(name), value) for name, value in items]
    if names and names[0][0] == "NEGATE":
        return next((text for text in _ANYTHING if not any(_holds(*each, text) for each in names[1:])), "")
    name, value = names[0]
    if name == "RANGE":
        return chr(value[0])
    return _CATEGORIES.get(str(value), "a") if name == "CATEGORY" else chr(value)


def _holds(name: str, value: Any, text: str) -> bool:
    if name == "LITERAL":
        return ord(text) == value
    if name == "RANGE":
        return value[0] <= ord(text) <= value[1]
    kinds = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": lambda each: each.isalnum() or each == "_"}
    kind = str(value).removeprefix("CATEGORY_")
    test = kinds.get(kind.removeprefix("NOT_"))
    return test is not None and test(text) != kind.startswith("NOT_")
