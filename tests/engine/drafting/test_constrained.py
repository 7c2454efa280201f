"""A draft crosses forced spans and guesses, and looks no further than a draft can pay."""

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
    assert len(cross(Endless(0.6), None, 16, least=0.5)) == 16
