"""DRY, "don't repeat yourself": the longer a repetition has become, the less likely the token that would go on with it.

Knows ids and what text they stand for; no grammar. A function of the committed tokens alone, so that it says the same
with and without drafts. What a shape forces is committed all the same: there is nothing else to choose. Source:
p-e-w, "DRY: A modern repetition penalty", text-generation-webui pull request 5677, 2024; the details, such as that a
token which breaks a sequence is never made less likely, are those of llama.cpp's sampler of this name.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from engine.decoding.processor import Row

_LARGEST_LOG = 88.7228391
"""The logarithm of the largest float32."""
_MOST = 1e30
"""What is subtracted at most: less likely is not illegal, whatever the other penalties do with it."""


class Dry:
    """Subtracts `multiplier * base ** (length - allowed)` where a repetition of `length` tokens would go on.

    Repetitions shorter than `allowed` cost nothing, and none reaches over a token whose text holds a line break or one
    of the characters `breakers`. `last_n` is how many tokens back are looked at. `piece` returns the bytes of a token.
    """

    def __init__(
        self,
        *,
        multiplier: float,
        base: float,
        allowed: int,
        last_n: int,
        breakers: str,
        piece: Callable[[int], bytes],
    ) -> None:
        self._multiplier = multiplier
        self._base = base
        self._allowed = allowed
        self._last_n = last_n
        self._longest = allowed + int(_LARGEST_LOG / math.log(base)) if base > 1.000001 else last_n
        marks = [character.encode() for character in {"\n", *breakers}]
        self._breaks = cache(lambda token: any(mark in piece(token) for mark in marks))

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Make what goes on with a repetition less likely, in place."""
        back = np.array(history[-self._last_n :][::-1], dtype=np.intp)
        limit = self._limit(back.tolist())
        if back.size <= self._allowed or limit < self._allowed:
            return
        # lengths[k]: how far the end of the history repeats what ended k tokens before it.
        lengths = np.zeros(back.size, dtype=np.intp)
        places = np.flatnonzero(back[1:] == back[0]) + 1
        length = 0
        while places.size and length < limit:
            length += 1
            lengths[places] = length
            places = places[places + length < back.size]
            places = places[back[places + length] == back[length]]
        longest = np.zeros(row.size, dtype=np.intp)
        long = np.flatnonzero(lengths >= self._allowed)
        np.maximum.at(longest, back[long - 1], lengths[long])
        ids = [token for token in np.flatnonzero(longest).tolist() if not self._breaks(token)]
        exponents = (longest[ids] - self._allowed).astype(np.float64)
        row[ids] -= np.minimum(self._multiplier * self._base**exponents, _MOST).astype(np.float32)

    def _limit(self, back: Sequence[int]) -> int:
        """Return how long a repetition may count: to the last token that breaks sequences."""
        most = min(len(back), self._longest)
        return next((place for place in range(most) if self._breaks(back[place])), most)

    def admit(self, token: int) -> int:
        """Return the token."""
        return token

    def commit(self, token: int) -> None:
        """Remember nothing: the history is given."""

    def reset(self) -> None:
        """Keep everything: there is no state."""
