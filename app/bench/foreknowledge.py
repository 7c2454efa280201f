"""The draft source that knows the reply: the bound of what any source could bring. Guesses are sure and right."""

from collections.abc import Sequence

from engine.decoding.processor import Bits


class Foreknowledge:
    """Guesses the reply it was given."""

    name = "foreknowledge"
    wants_topk = False

    def __init__(self, reply: Sequence[int]) -> None:
        self._reply = reply
        self._at = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Stand before the reply, whatever the prompt."""
        self._at = 0

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Step over committed tokens, which are the reply's."""
        self._at += len(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Learn nothing."""

    def walk(self) -> "ForeknowingWalk":
        """Open a walk at the end of what was observed."""
        return ForeknowingWalk(self._reply[self._at :])

    def feedback(self, submitted: int, accepted: int) -> None:
        """Learn nothing."""


class ForeknowingWalk:
    """Guesses the rest of the reply."""

    def __init__(self, rest: Sequence[int]) -> None:
        self._rest = iter(rest)
        self._next = next(self._rest, None)

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        """Return the reply's next token, or None behind its end."""
        return None if self._next is None else (self._next, 1.0)

    def advance(self, token: int) -> None:
        """Step over a token, which is the reply's."""
        self._next = next(self._rest, None)
