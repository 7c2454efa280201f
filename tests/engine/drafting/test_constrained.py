"""A draft crosses forced spans and guesses, and looks no further than a draft can pay."""

from collections.abc import Sequence

import numpy as np

from engine.decoding.processor import Bits
from engine.drafting.constrained import cross


class Endless:
    """Guesses the same token for ever, and counts its steps."""

    def __init__(self, p: float) -> None:
        self.steps = 0
        self._p = p

    def guess(self, mask: object) -> tuple[int, float]:
        return 7, self._p

    def advance(self, token: int) -> None:
        self.steps += 1


def test_nothing_is_looked_for_behind_a_first_guess_that_cannot_pay() -> None:
    walk = Endless(0.4)
    (only,) = cross(walk, None, 16, least=0.5)
    assert (only.token, only.p, only.certain) == (7, 0.4, False)
    assert walk.steps == 1  # the source hears later whether it was right


def test_a_first_guess_that_may_pay_is_followed() -> None:
    assert len(cross(Endless(0.99), None, 16, least=0.5)) == 16


def test_a_draft_ends_behind_the_first_guess_that_is_reached_too_seldom() -> None:
    assert len(cross(Endless(0.8), None, 16, least=0.5)) == 4  # 0.8 to the fourth is below a half


class Lines:
    """A look-ahead over a fixed reply: its odd tokens are forced, and the reply ends with it."""

    def __init__(self, reply: Sequence[int]) -> None:
        self._rest = list(reply)

    @property
    def ended(self) -> bool:
        return not self._rest

    def forced(self) -> Sequence[int]:
        return self._rest[:1] if self._rest and self._rest[0] % 2 else ()

    def mask(self) -> Bits:
        return np.full(1, 0xFFFFFFFF, dtype=np.uint32)

    def advance(self, token: int) -> None:
        assert self._rest.pop(0) == token


class Knowing:
    """Guesses a fixed reply."""

    def __init__(self, reply: Sequence[int]) -> None:
        self._rest = list(reply)

    def guess(self, mask: object) -> tuple[int, float]:
        return self._rest[0], 0.99

    def advance(self, token: int) -> None:
        self._rest.pop(0)


def test_nothing_is_read_behind_the_last_choice_of_a_reply() -> None:
    def drafted(reply: Sequence[int], longest: int = 16) -> list[int]:
        return [one.token for one in cross(Knowing(reply), Lines(reply), longest)]

    assert drafted([2, 3, 4, 5, 7]) == [2, 3]  # the row behind 3 chooses the 4, and what follows is forced
    assert drafted([2, 3, 4]) == [2, 3]
    assert drafted([2, 3, 5]) == []
    assert drafted([2, 3, 4, 5, 7], longest=4) == [2, 3, 4, 5]  # the end is out of sight
