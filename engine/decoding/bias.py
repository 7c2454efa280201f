"""Two processors that are no grammars: a bias on logits and banned ids. Both are without state."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.decoding.processor import Row


class _Stateless:
    def admit(self, token: int) -> int:
        """Return the token."""
        return token

    def commit(self, token: int) -> None:
        """Remember nothing."""

    def reset(self) -> None:
        """Keep everything: there is no state."""


class LogitBias(_Stateless):
    """Adds a number to the logits of chosen ids. It never makes an illegal token legal."""

    def __init__(self, biases: Mapping[int, float]) -> None:
        self._ids = np.fromiter(biases.keys(), dtype=np.intp, count=len(biases))
        self._biases = np.fromiter(biases.values(), dtype=np.float32, count=len(biases))

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Add the biases in place."""
        row[self._ids] += self._biases


class BannedTokens(_Stateless):
    """Forbids ids at free choices. A forced token is committed all the same: nothing else would be legal."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = np.array(sorted(set(ids)), dtype=np.intp)

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Set the banned logits to -inf in place."""
        row[self._ids] = -np.inf
