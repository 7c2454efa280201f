"""The tables of a region of reasoning: how tokens are spelled in it, which are blank, and which may not stand where.

Knows a vocabulary and a pair of markers; holds no state of a reply.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.decoding.processor import Bits
from engine.markers import Markers


class RegionVocabulary(Protocol):
    """What the tables of a region need of a vocabulary."""

    @property
    def size(self) -> int: ...
    @property
    def end_ids(self) -> frozenset[int]: ...
    def piece(self, token: int) -> bytes: ...


class Region:
    """The markers of one model and the tables of its vocabulary; built once, 0.1 s for 150,000 tokens."""

    def __init__(self, markers: Markers, vocabulary: RegionVocabulary) -> None:
        self.markers = markers
        self._vocabulary = vocabulary
        self._size = vocabulary.size
        closer = markers.closer.pattern
        pieces = {token: piece for token in range(self._size) if (piece := vocabulary.piece(token))}
        self.blanks = frozenset(token for token, piece in pieces.items() if not piece.strip())
        self.blank_ids = np.array(sorted(self.blanks), dtype=np.intp)
        self.blank_bits = self.bits(self.blank_ids)
        self.all_bits = self.bits(np.arange(self._size))
        self._ends = np.array(sorted(vocabulary.end_ids), dtype=np.intp)
        self._over: dict[int, list[int]] = {}
        """Tokens that run over the end marker if so many of its bytes stand before them; 0: wherever they stand."""
        for token, piece in pieces.items():
            if token not in markers.marked and closer[-1] in piece:
                for matched in _runs_over(closer, piece):
                    self._over.setdefault(matched, []).append(token)
        self._forbidden: dict[tuple[int, ...], tuple[NDArray[np.intp], Bits]] = {}

    def spell(self, token: int) -> bytes:
        """Return a token's bytes, special ones told from text."""
        return self.markers.spell(token, self._vocabulary.piece(token))

    def forbidden(self, tail: bytes) -> tuple[NDArray[np.intp], Bits]:
        """Return the ids that may not follow these bytes inside the region, and the mask of all others."""
        closer = self.markers.closer.pattern
        matched = tuple(n for n in self._over if n == 0 or (n <= len(tail) and tail.endswith(closer[:n])))
        if matched not in self._forbidden:
            over = [token for n in matched for token in self._over[n]]
            ids = np.union1d(self._ends, np.array(over, dtype=np.intp))
            self._forbidden[matched] = ids, self.all_bits & ~self.bits(ids)
        return self._forbidden[matched]

    def bits(self, ids: NDArray[np.intp]) -> Bits:
        """Return the mask in which just these ids are legal."""
        legal = np.zeros((self._size + 31) // 32 * 32, dtype=np.bool_)
        legal[ids] = True
        return np.packbits(legal, bitorder="little").view(np.uint32)


def _runs_over(closer: bytes, piece: bytes) -> list[int]:
    """Return behind how many bytes of the end marker a token would complete it and go on with something not blank."""
    found: list[int] = []
    whole = piece.find(closer)
    if whole >= 0 and piece[whole + len(closer) :].strip():
        found.append(0)
    for matched in range(1, len(closer)):
        rest = len(closer) - matched
        if piece.startswith(closer[matched:]) and piece[rest:].strip():
            found.append(matched)
    return found
