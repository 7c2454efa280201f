"""Patterns of JSON Schema: searched for, and judged by whether llguidance can write them.

A pattern is meant as ECMA-262 with the flag `u` means it, and may match anywhere in a text. llguidance takes all of it
but look-around, back-references, word boundaries and anchors in the middle, for which only a search with Python's
`re` is left; the search itself stands in `check`, because it may not end.
"""

import json
import re
import warnings
from functools import lru_cache

from llguidance import LLMatcher

from grammars.matcher import limits, pristine, walk
from grammars.refusal import explain
from grammars.spec import ShapeError

_LONGEST = 10_000  # characters of a pattern that `re` is asked about
_CONSTRUCTS = (
    (r"error: look-around", "look-around"),
    (r"error: backreferences", "a back-reference"),
    (r"\\k<\w+>[\s\S]*error: unrecognized escape", "a back-reference"),
    (r"lookarounds not .*; Word", "a word boundary"),
    (r"lookarounds not", "an anchor inside it"),
)


def written(pattern: str) -> str:
    """Return the pattern with its surrogate pairs (`\\ud83d\\ude00`) as the characters that they stand for."""
    return re.sub(
        r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})",
        lambda pair: rf"\x{{{0x10000 + (int(pair[1], 16) - 0xD800) * 0x400 + int(pair[2], 16) - 0xDC00:x}}}",
        pattern,
    )


def unwritten(pattern: str) -> str | None:
    """Return what the pattern uses that can only be checked afterwards."""
    return _judged(pattern)[0]


def broken(pattern: str) -> str | None:
    """Return why nobody can use the pattern."""
    return _judged(pattern)[1]


@lru_cache(maxsize=4_096)
def _judged(pattern: str) -> tuple[str | None, str | None]:
    message = LLMatcher.validate_grammar(_grammar(pattern), limits=limits())
    if not re.search(r"regex parse error|lookarounds not", message):
        return None, None  # what else it says depends on the schema around
    for sign, construct in _CONSTRUCTS:
        if re.search(sign, message) and pythons(pattern) is not None:
            return construct, None
    return None, explain(message, "")[0]


def pythons(pattern: str) -> str | None:
    """Return the pattern as `re.search` with `re.ASCII` has to be given it; None where `re` has no such pattern."""
    if len(pattern) > _LONGEST:
        return None
    ours = {"$": r"\Z", "(?<": "(?P<"}
    text = re.sub(
        r"\\k<(\w+)>|\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]|\(\?<(?![=!])|\$",
        lambda hit: f"(?P={hit[1]})" if hit[1] else ours.get(hit[0], hit[0]),
        pattern,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes that may mean something else one day
            re.compile(text, re.ASCII)
    except (re.error, RecursionError, OverflowError, ValueError):
        return None
    return text


def found_in(pattern: str, text: str) -> bool | None:
    """Tell whether a pattern matches anywhere in a text; None if llguidance refuses it.

    Raises ShapeError where a limit of llguidance stops the search.
    """
    grammar = _grammar(pattern)
    try:
        pristine(grammar)
    except ShapeError:
        return None
    # llguidance takes DEL in a string as an escape only.
    return walk(grammar, json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f"))[1]


@lru_cache(maxsize=256)
def overlap(patterns: tuple[str, ...]) -> bool:
    """Tell whether llguidance cannot tell apart the keys that `patternProperties` matches."""
    schema = {"type": "object", "patternProperties": dict.fromkeys(map(written, patterns), True)}
    message = LLMatcher.validate_grammar(json.dumps({"grammars": [{"json_schema": schema}]}), limits=limits())
    return "disjoint" in message


def _grammar(pattern: str) -> str:
    return json.dumps({"grammars": [{"json_schema": {"type": "string", "pattern": written(pattern)}}]})
