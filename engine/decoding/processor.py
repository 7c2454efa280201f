"""The contracts between the decoder and everything that bends or restricts what it chooses.

Knows only token ids and rows of logits. Invariants: every committed token reaches `commit` of every processor
exactly once, through `Sampler.next` or `Sampler.take` and nothing else; a look-ahead never touches its owner.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
"""Logits of one position, shape [vocabulary size]."""

Bits = NDArray[np.uint32]
"""One bit a token, little-endian, shape [ceil(vocabulary size / 32)]; a set bit means legal."""


class LogitProcessor(Protocol):
    """Something that changes logits before the choice: a bias, a ban, a constraint, thinking, landing."""

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Change one row in place; forbidden tokens become -inf. `history` is every committed token so far."""
        ...

    def admit(self, token: int) -> int:
        """Return the token to commit in place of the chosen one; normally the same."""
        ...

    def commit(self, token: int) -> None:
        """Take note of a committed token; called exactly once for each."""
        ...

    def reset(self) -> None:
        """Start again from a fresh copy of the pristine state."""
        ...


class Lookahead(Protocol):
    """A walk into a possible future of a `Structured` processor. Moves forward only; its owner stays where it is."""

    @property
    def ended(self) -> bool:
        """True when nothing may follow."""
        ...

    def forced(self) -> Sequence[int]:
        """Return a span with exactly one legal token at each place; empty at a free choice. Does not advance."""
        ...

    def mask(self) -> Bits:
        """Return the legal next tokens; not to be changed."""
        ...

    def advance(self, token: int) -> None:
        """Step over a legal token."""
        ...

    def copy(self) -> "Lookahead":
        """Return an independent walk at the same place."""
        ...


@runtime_checkable
class Structured(LogitProcessor, Protocol):
    """A processor that knows which tokens may follow and which must."""

    def ahead(self) -> Lookahead:
        """Open a look-ahead at the current state."""
        ...

    def clone(self) -> "Structured":
        """Return an independent processor in the same state, for another stream."""
        ...


class ShapedLookahead(Lookahead, Protocol):
    """A look-ahead that answers for whole spans, which is far cheaper than walking them."""

    def follow(self, tokens: Sequence[int]) -> int:
        """Return how many of the tokens may follow one another; one more than all if the reply may end behind them.

        Spellings that the mask forbids count as well. Does not advance.
        """
        ...

    def copy(self) -> "ShapedLookahead":
        """Return an independent walk at the same place."""
        ...


class Shaped(Structured, Protocol):
    """A structured processor that holds a reply to a shape."""

    def ahead(self) -> ShapedLookahead:
        """Open a look-ahead at the current state."""
        ...

    def clone(self) -> "Shaped":
        """Return an independent processor in the same state, for another stream."""
        ...
