"""Which member of a JSON text is being written, while the text grows.

Knows JSON's brackets, strings and commas, nothing of schemas. Invariants: appending costs time in proportion to what is
appended, however it is cut; no text is refused, since this describes what is there and judges nothing.
"""

import json
import re
from dataclasses import dataclass

from grammars.schema import step

_MARK = re.compile(r'[{}\[\],:"]')
_STRING_MARK = re.compile(r'["\\]')


@dataclass(slots=True)
class _Level:
    """An open object or array. `at` is the key or index in it that is being written; None before a key is whole."""

    is_object: bool
    at: str | int | None


class Progress:
    """Follows a text; `field` is where it stands."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        self._in_string = False
        self._escaped = False
        self._key: list[str] | None = None
        """Pieces of the key whose string is open; None in values."""

    @property
    def field(self) -> str:
        """The path of what is being written, such as `$.tags[2]`; while a key is written that of its object.

        It costs time in proportion to the depth.
        """
        return "$" + "".join(step("", level.at) for level in self._levels if level.at is not None)

    def append(self, text: str) -> None:
        """Take what was added at the end."""
        at = 0
        while at < len(text):
            at = self._inside(text, at) if self._in_string else self._outside(text, at)

    def _inside(self, text: str, at: int) -> int:
        """Go on in a string, up to its end or an escape; return where."""
        if self._escaped:
            self._escaped = False
            self._keep(text[at])
            return at + 1
        found = _STRING_MARK.search(text, at)
        end = len(text) if found is None else found.start()
        self._keep(text[at:end])
        if found is None:
            return end
        if found[0] == "\\":
            self._escaped = True
            self._keep("\\")
        else:
            self._in_string = False
            if self._key is not None:
                self._levels[-1].at = _decoded("".join(self._key))
                self._key = None
        return end + 1

    def _outside(self, text: str, at: int) -> int:
        """Go on between strings, up to the next mark; return where."""
        found = _MARK.search(text, at)
        if found is None:
            return len(text)
        mark, levels = found[0], self._levels
        if mark == '"':
            self._in_string = True
            if levels and levels[-1].is_object and levels[-1].at is None:
                self._key = []
        elif mark in "{[":
            levels.append(_Level(mark == "{", None if mark == "{" else 0))
        elif mark in "}]" and levels:
            levels.pop()
        elif mark == "," and levels:
            level = levels[-1]
            level.at = level.at + 1 if isinstance(level.at, int) else None
        return found.end()

    def _keep(self, text: str) -> None:
        if self._key is not None:
            self._key.append(text)


def field(text: str) -> str:
    """Return the path of what a growing JSON text is in."""
    progress = Progress()
    progress.append(text)
    return progress.field


def _decoded(raw: str) -> str:
    """Return a key as it is meant; one that is no JSON string as it stands."""
    try:
        return json.loads(f'"{raw}"', strict=False)
    except ValueError:
        return raw
