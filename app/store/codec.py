"""Token ids and traces as compressed bytes.

Knows no tables. Invariant: unpacking gives back what was packed, or raises `ValueError`; columns of a trace
that a later version adds are ignored.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import get_args

from engine.events import Origin, Part, Token

_ORIGINS = {name[0]: name for name in get_args(Origin)}  # their first letters differ
_LETTERS: dict[Part, str] = {"reply": "r", "reasoning": "t"}
_PARTS = {letter: part for part, letter in _LETTERS.items()}


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return token ids (0 to 2^32 - 1) as zlib of little-endian 32-bit numbers."""
    return zlib.compress(struct.pack(f"<{len(ids)}I", *ids))


def unpack_ids(blob: bytes) -> tuple[int, ...]:
    """Return the ids of `pack_ids`."""
    data = _inflate(blob)
    if len(data) % 4:
        raise ValueError("the token ids are cut short")
    return struct.unpack(f"<{len(data) // 4}I", data)


def pack_trace(tokens: Iterable[Token]) -> bytes:
    """Return a trace as zlib of a JSON object of columns, which compress better than rows."""
    tokens = list(tokens)
    columns = {
        "id": [token.id for token in tokens],
        "text": [token.text for token in tokens],
        "origin": "".join(token.origin[0] for token in tokens),
        "allowed": [token.allowed for token in tokens],
        "part": "".join(_LETTERS[token.part] for token in tokens),
    }
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode())


def unpack_trace(blob: bytes) -> tuple[Token, ...]:
    """Return the tokens of `pack_trace`."""
    try:
        columns = json.loads(_inflate(blob))
        ids = columns["id"]
        parts = columns.get("part", "r" * len(ids))  # traces of the first version have no reasoning
        rows = zip(ids, columns["text"], columns["origin"], columns["allowed"], parts, strict=True)
        return tuple(
            Token(id=i, text=text, origin=_ORIGINS[o], allowed=allowed, part=_PARTS[p])
            for i, text, o, allowed, p in rows
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the trace lacks a column, an origin or a part") from error


def _inflate(blob: bytes) -> bytes:
    try:
        return zlib.decompress(blob)
    except zlib.error as error:
        raise ValueError(f"the bytes are damaged ({error})") from error
