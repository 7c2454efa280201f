"""Where the parts of a JSON text stand: from a path such as `$.properties.age` to a place in the text.

Knows nothing of schemas. Reads the text as far as it is JSON; what cannot be told has no place.
"""

import json
import re
from dataclasses import dataclass

from grammars.schema import step

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class _Open:
    """A list or object that is being read."""

    path: str
    is_list: bool
    index: int = 0
    key: str | None = None


def places(text: str) -> dict[str, int]:
    """Map the path of every member (to its key) and element of a JSON text to its offset."""
    found = {"$": len(text) - len(text.lstrip())}
    opened: list[_Open] = []
    for match in _TOKEN.finditer(text):
        token, inner = match[0], opened[-1] if opened else None
        if token in ("}", "]"):
            if opened:
                opened.pop()
        elif token == ",":
            if inner is not None:
                inner.index, inner.key = inner.index + 1, None
        elif token == ":":
            pass
        elif inner is not None and not inner.is_list and inner.key is None:
            inner.key = _key(token)
            found.setdefault(step(inner.path, inner.key), match.start())
        else:
            path = (
                "$" if inner is None else step(inner.path, inner.index if inner.is_list else inner.key or "")
            )
            if inner is not None and inner.is_list:
                found.setdefault(path, match.start())
            if token in ("{", "["):
                opened.append(_Open(path, token == "["))
    return found


def _key(token: str) -> str:
    try:
        value = json.loads(token)
    except ValueError:  # no JSON text, while it is being typed
        return token
    return value if isinstance(value, str) else token


def offset(text: str, where: str, keyword: str = "") -> int | None:
    """Return the offset of a finding's place, a path or `line:column`; of its keyword there, if it stands there."""
    if position := re.fullmatch(r"(\d+):(\d+)", where):
        lines = text.split("\n")
        row = min(int(position[1]), len(lines)) - 1
        return sum(len(line) + 1 for line in lines[:row]) + min(int(position[2]) - 1, len(lines[row]))
    known = places(text)
    return known.get(step(where, keyword) if keyword else where, known.get(where)) if where else None
