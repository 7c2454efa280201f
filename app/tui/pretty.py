"""JSON set out for the eye: layout changes, the text of every value and the order of keys do not.

Knows nothing of widgets. Works on the written text, never on parsed values, so `1.10`, `1e400` and repeated
keys are shown as they are.
"""

import re
from collections.abc import Iterator
from typing import Literal

Part = Literal["key", "text", "value", "mark"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_INDENT = "  "


def pretty_json(text: str, width: int = 60, deepest: int | None = None) -> Iterator[tuple[Part, str]]:
    """Yield the parts of a valid JSON text, indented; what fits into `width` characters stays on one line.

    Longer containers more than `deepest` levels down are folded into `{…}` and `[…]`.
    """
    tokens = _TOKEN.findall(text)
    inline = _inline(tokens, width)
    depth = 0
    flat_until = hidden_until = -1
    for place, token in enumerate(tokens):
        if place <= hidden_until:
            continue
        flat = place <= flat_until
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in ("{", "[") and not flat and place not in inline and depth == deepest:
            hidden_until = _closing(tokens, place)
            yield "mark", f"{token}…{tokens[hidden_until]}"
        elif token in ("{", "["):
            yield "mark", token
            if not flat and place in inline:
                flat_until = inline[place]
            elif not flat and following not in ("}", "]"):
                depth += 1
                yield "mark", "\n" + _INDENT * depth
        elif token in ("}", "]"):
            if not flat and tokens[place - 1] not in ("{", "["):
                depth -= 1
                yield "mark", "\n" + _INDENT * depth
            yield "mark", token
        elif token == ",":
            yield "mark", ", " if flat else ",\n" + _INDENT * depth
        elif token == ":":
            yield "mark", ": "
        elif token.startswith('"'):
            yield ("key" if following == ":" else "text"), token
        else:
            yield "value", token


def _closing(tokens: list[str], place: int) -> int:
    """Return the place of the bracket that closes the one at `place`."""
    depth = 0
    for end in range(place, len(tokens)):
        depth += (tokens[end] in ("{", "[")) - (tokens[end] in ("}", "]"))
        if depth == 0:
            return end
    return len(tokens) - 1


def _inline(tokens: list[str], width: int) -> dict[int, int]:
    """Map the place of each short container's opening bracket to that of its closing one."""
    places: dict[int, int] = {}
    opened: list[tuple[int, int]] = []
    length = 0
    for place, token in enumerate(tokens):
        if token in ("{", "["):
            opened.append((place, length))
        length += len(token) + (token in (",", ":"))
        if token in ("}", "]") and opened:
            start, before = opened.pop()
            if length - before <= width:
                places[start] = place
    return places
