"""The contract of draft sources: things that guess how the reply goes on.

A source knows token ids only. Guesses never decide what is committed, only how many rows one forward carries.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from engine.decoding.processor import Bits


class Walk(Protocol):
    """One walk of a source into a possible future; pure, its source stays where it is."""

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        """Return the likeliest next token among the legal ones and its probability, or None to stop here."""
        ...

    def advance(self, token: int) -> None:
        """Step over a token, guessed or certain."""
        ...


class DraftSource(Protocol):
    """Something that proposes tokens; it lives across turns."""

    @property
    def name(self) -> str:
        """What it is called in statistics."""
        ...

    @property
    def wants_topk(self) -> bool:
        """True if it wants `observe_topk`."""
        ...

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a turn with this prompt; what is committed after it comes through `observe`."""
        ...

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Learn from committed tokens, in order; `certain` ones were forced, so nobody chose them."""
        ...

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Learn the likeliest successors of a token from a row that was read anyway; only if `wants_topk`."""
        ...

    def walk(self) -> Walk:
        """Open a walk at the end of what was observed."""
        ...

    def feedback(self, submitted: int, accepted: int) -> None:
        """Hear how many of the last walk's guesses were verified and how many of those were right."""
        ...


@runtime_checkable
class Spender(Protocol):
    """A source whose guesses take forwards of its own."""

    @property
    def seconds(self) -> float:
        """Seconds of these forwards so far, without those that read a prompt."""
        ...


class _NoWalk:
    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        return None

    def advance(self, token: int) -> None:
        pass


class NoDrafts:
    """The empty source: the decoder then commits forced spans and free choices only."""

    name = "none"
    wants_topk = False

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        pass

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        pass

    def walk(self) -> Walk:
        return _NoWalk()

    def feedback(self, submitted: int, accepted: int) -> None:
        pass
