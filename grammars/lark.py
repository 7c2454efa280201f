"""Find inside a Lark grammar what llguidance's errors do not tell enough about.

Knows the lexical level of llguidance's Lark dialect only (its `parser/src/lark/lexer.rs`): strings,
regular expressions, comments and inline JSON are told apart; the rules are llguidance's business.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grammars.schema import read_json
from grammars.spec import ShapeError

_LEXEME = re.compile(
    r"""(?P<comment>(?:\#|//)[^\n]*)
    |(?P<string>"(?:\\.|[^"\\\n])*")
    |(?P<regex>/(?:\\.|[^/\\])+/)
    |(?P<inline>%(?:json|regex|llguidance)\b)
    |(?P<special><[^<>\s]+>)
    |(?P<tokens>\bmax_tokens\s*=)
    |(?P<other>[^\W\d][\w-]*|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """The JSON value after a `%json`, at `start:end` of the grammar's text."""

    value: Any
    start: int
    end: int


def position(text: str, offset: int) -> str:
    """Return an offset as `line:column`, both from 1, in characters."""
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"


def _lexemes(text: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield kind, start, end and text; the JSON after `%json` and the like is one lexeme of that kind."""
    offset = 0
    while match := _LEXEME.match(text, offset):
        offset = match.end()
        yield match.lastgroup or "other", match.start(), offset, match[0]
        if match.lastgroup == "inline":
            start = offset + len(text[offset:]) - len(text[offset:].lstrip())
            try:
                _, offset = json.JSONDecoder().raw_decode(text, start)
            except json.JSONDecodeError as error:
                where = f"{error.lineno}:{error.colno}"
                raise ShapeError(f"invalid JSON after {match[0]}: {error.msg}", where) from None
            except RecursionError:
                raise ShapeError(
                    f"the JSON after {match[0]} is nested too deeply", position(text, start)
                ) from None
            except ValueError:  # int() refuses more than 4,300 digits
                raise ShapeError(
                    f"invalid number in the JSON after {match[0]}", position(text, start)
                ) from None
            yield match[0], start, offset, text[start:offset]


def refuse_vocabulary(text: str) -> None:
    """Raise ShapeError for what only a model's vocabulary can decide: special tokens and token counts."""
    for kind, start, _, lexeme in _lexemes(text):
        if kind == "special":
            raise ShapeError(
                f"{lexeme} names a token of one vocabulary; a shape describes text: quote it to mean that",
                position(text, start),
            )
        if kind == "tokens":
            raise ShapeError(
                "max_tokens counts the tokens of one vocabulary; bound the text instead, as in /.{0,80}/",
                position(text, start),
            )


def inline_schemas(text: str) -> list[tuple[Inline, str]]:
    """Return every `%json` value with its position, strictly read."""
    found = []
    for kind, start, end, lexeme in _lexemes(text):
        if kind == "%json":
            where = position(text, start)
            try:
                value = read_json(lexeme)
            except ShapeError as error:
                raise ShapeError(f"in %json: {error.why}", where) from None
            if not isinstance(value, dict | bool):
                raise ShapeError("a JSON Schema is an object, true or false", where)
            found.append((Inline(value=value, start=start, end=end), where))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule or terminal of a grammar: the position of its name, and the names it uses."""

    where: str
    uses: list[str]


def definitions(text: str) -> dict[str, Rule]:
    """Return every rule and terminal by name; what a directive such as `%ignore` names counts for `start`."""
    found: dict[str, Rule] = {}
    current: list[str] = []
    directed: list[str] = []
    for kind, start, end, lexeme in _lexemes(text):
        head = text[text.rfind("\n", 0, start) + 1 : start]
        if kind != "other":
            continue
        if lexeme == "%" and not head.strip():
            current = directed
        elif re.fullmatch(r"[^\W\d][\w-]*", lexeme):
            if re.fullmatch(r"[ \t]*[?!]?", head) and re.match(
                r"\s*(\.-?\d+)?\s*(\[[^\]]*\])?\s*:", text[end:]
            ):
                current = []
                found.setdefault(lexeme, Rule(where=position(text, start), uses=current))
            else:
                current.append(lexeme)
    if "start" in found:
        found["start"].uses.extend(directed)
    return found
