"""A cascade asks its best source first, keeps accounts by source, and survives what its sources do."""

import logging
from collections.abc import Callable, Sequence

import pytest

from engine.decoding.decoder import LONGEST_DRAFT
from engine.decoding.processor import Bits
from engine.drafting.cascade import Cascade, _CascadeWalk
from engine.drafting.cost import CostModel
from engine.drafting.drafts import Drafts
from engine.drafting.source import Walk
from engine.errors import Aborted


class Scripted:
    """Guesses by a function of how far the walk has come; remembers everything it was told."""

    def __init__(
        self, name: str, says: Callable[[int], tuple[int, float] | None], *, wants_topk: bool = False
    ) -> None:
        self.name = name
        self.wants_topk = wants_topk
        self.heard: list[tuple[int, int]] = []
        self.seen: list[int] = []
        self.topk: list[int] = []
        self.begun: list[int] = []
        self.paths: list[list[int]] = []
        self._says = says

    def begin(self, prompt: Sequence[int]) -> None:
        self.begun = list(prompt)

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        self.seen.extend(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        self.topk.append(token)

    def walk(self) -> Walk:
        self.paths.append([])
        return ScriptedWalk(self._says, self.paths[-1])

    def feedback(self, submitted: int, accepted: int) -> None:
        self.heard.append((submitted, accepted))


class ScriptedWalk:
    def __init__(self, says: Callable[[int], tuple[int, float] | None], path: list[int]) -> None:
        self._says = says
        self._path = path

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        return self._says(len(self._path))

    def advance(self, token: int) -> None:
        self._path.append(token)


def always(token: int, p: float) -> Callable[[int], tuple[int, float] | None]:
    return lambda _at: (token, p)


def silent(_at: int) -> None:
    return None


def draft(cascade: Cascade, size: int) -> list[int]:
    walk = cascade.walk()
    tokens: list[int] = []
    while len(tokens) < size and (guess := walk.guess(None)) is not None:
        tokens.append(guess[0])
        walk.advance(guess[0])
    return tokens


def test_the_first_source_that_is_sure_is_taken_and_the_others_are_not_asked() -> None:
    first, second, third = (
        Scripted("a", silent),
        Scripted("b", always(2, 0.9)),
        Scripted("c", always(3, 0.99)),
    )
    assert draft(Cascade([first, second, third]), 3) == [2, 2, 2]
    assert third.paths == []


def test_if_none_is_sure_the_likeliest_guess_is_taken() -> None:
    assert draft(Cascade([Scripted("a", always(1, 0.1)), Scripted("b", always(2, 0.3))]), 1) == [2]


def test_when_a_source_runs_dry_the_next_one_takes_over_where_the_walk_stands() -> None:
    short = Scripted("a", lambda at: (1, 0.9) if at < 2 else None)
    long = Scripted("b", always(2, 0.9))
    cascade = Cascade([short, long])
    assert draft(cascade, 4) == [1, 1, 2, 2]
    assert long.paths == [[1, 1, 2, 2]]
    cascade.feedback(4, 3)
    assert (short.heard, long.heard) == ([(2, 2)], [(2, 1)])


def test_a_walk_ends_when_it_has_become_too_unlikely() -> None:
    assert len(draft(Cascade([Scripted("a", always(1, 0.3))]), 16)) == 3
    assert len(draft(Cascade([Scripted("a", always(1, 0.97))]), 16)) == 16


def test_certain_tokens_are_walked_over_and_are_nobodys_guess() -> None:
    source = Scripted("a", always(1, 0.9))
    cascade = Cascade([source])
    walk = cascade.walk()
    walk.guess(None)
    for token in (1, 50, 51):
        walk.advance(token)
    walk.guess(None)
    walk.advance(1)
    assert source.paths == [[1, 50, 51, 1]]
    cascade.feedback(2, 1)
    assert source.heard == [(2, 1)]


def test_a_walk_that_was_cut_is_accounted_for_what_was_submitted() -> None:
    short, long = Scripted("a", lambda at: (1, 0.9) if at < 2 else None), Scripted("b", always(2, 0.9))
    cascade = Cascade([short, long])
    draft(cascade, 4)
    cascade.feedback(1, 0)
    assert (short.heard, long.heard) == ([(1, 0)], [])
    assert cascade.statistics()["a"] == {
        "walks": 1, "submitted": 1, "accepted": 0, "acceptance": 0.0, "mutes": 0,
    }  # fmt: skip
    assert cascade.statistics()["b"]["submitted"] == 0


def test_a_source_hears_of_guesses_that_were_declined_from_the_stream() -> None:
    source = Scripted("a", lambda at: (10 + at, 0.5))
    cascade = Cascade([source])
    for stream, verified in (
        ([10], (1, 1)),
        ([99], (1, 0)),
        ([10, 11, 99, 98], (3, 2)),
        ([10, 11, 12, 13, 14], (4, 4)),
        ([], (0, 0)),
    ):
        source.heard.clear()
        draft(cascade, 4)
        cascade.observe(stream)
        cascade.walk()
        assert source.heard == ([verified] if verified[0] else [])
    assert cascade.statistics()["a"]["submitted"] == 0


def test_the_bonus_token_verifies_a_guess_that_was_cut() -> None:
    source = Scripted("a", always(1, 0.9))
    cascade = Cascade([source])
    draft(cascade, 4)
    cascade.observe([1, 1, 2])  # two were submitted, both were right, and a bonus token was chosen
    cascade.feedback(2, 2)
    assert source.heard == [(3, 2)]
    assert cascade.statistics()["a"]["submitted"] == 2
    cascade.begin([1])
    assert source.heard == [(3, 2)]


def test_a_wrong_guess_that_ended_the_reply_is_heard_of_without_the_stream() -> None:
    source = Scripted("a", always(1, 0.9))
    cascade = Cascade([source])
    draft(cascade, 3)
    cascade.observe([1])
    cascade.feedback(2, 1)
    assert source.heard == [(2, 1)]


def test_forced_tokens_in_the_stream_are_not_taken_for_guesses() -> None:
    source = Scripted("a", always(1, 0.2))
    cascade = Cascade([source])
    walk = cascade.walk()
    for token in (1, 50, 1):
        if token == 1:
            walk.guess(None)
        walk.advance(token)
    cascade.observe([1])
    cascade.observe([50])
    cascade.begin([])
    assert source.heard == [(1, 1)]


def test_sources_that_agree_learn_together_and_the_guess_is_accounted_once() -> None:
    unsure, sure = Scripted("a", always(1, 0.1)), Scripted("b", always(1, 0.9))
    cascade = Cascade([unsure, sure])
    draft(cascade, 1)
    cascade.observe([1])
    cascade.feedback(1, 1)
    assert unsure.heard == sure.heard == [(1, 1)]
    assert [one["submitted"] for one in cascade.statistics().values()] == [0, 1]


def test_the_source_that_gains_more_is_asked_first() -> None:
    poor, rich = Scripted("poor", lambda at: (1, 0.9) if at == 0 else None), Scripted("rich", always(2, 0.9))
    cascade = Cascade([poor, rich])
    draft(cascade, 1)
    cascade.feedback(1, 0)
    assert draft(cascade, 1) == [2]
    for accepted in (4, 0, 0, 0, 0, 0):
        draft(cascade, 4)
        cascade.feedback(4, accepted)
    assert draft(cascade, 1) == [1], "a source that began to lose stands behind one that lost less"


def test_a_losing_source_is_muted_and_what_its_probes_cost_is_bounded() -> None:
    loser = Scripted("loser", always(1, 0.9))
    cascade = Cascade([loser])
    rounds, submitted = 10_000, 0
    guessed: list[int] = []
    for now in range(rounds):
        tokens = draft(cascade, 4)
        if tokens:
            submitted += 1
            guessed.append(now)
            cascade.feedback(1, 0)
        else:
            assert cascade.muted
    statistics = cascade.statistics()["loser"]
    assert statistics["submitted"] == submitted < 0.05 * rounds
    assert statistics["mutes"] > 3
    assert guessed[-1] > rounds - 1100, "a muted source is asked again in the end"


@pytest.mark.parametrize(("pays", "muted"), [(0.4, False), (0.6, True)])
def test_the_price_of_a_guess_decides_which_source_loses_and_which_is_sure(pays: float, muted: bool) -> None:
    half, other = Scripted("half", always(1, 0.5)), Scripted("other", always(2, 0.4))
    price = 0.5
    cascade = Cascade([half, other], pays=lambda: price)
    price = pays  # asked anew for every walk: the costs of forwards are learned
    for _ in range(8):
        draft(cascade, 2)
        cascade.feedback(2, 1)
    assert (cascade.statistics()["half"]["mutes"] > 0) == muted
    assert bool(other.paths) == muted  # above its price the first one is asked alone


def test_the_price_of_a_guess_is_what_the_gate_goes_by() -> None:
    for cost in (CostModel(fixed=0.0, learning=False), CostModel(fixed=0.02, learning=False)):
        drafts = Drafts(64, cost=cost)
        walk = drafts.sources.walk()
        assert isinstance(walk, _CascadeWalk)
        assert walk.pays == drafts.gate.least(1, LONGEST_DRAFT)


def test_a_muted_source_learns_on_and_comes_back_when_it_is_right_again() -> None:
    source = Scripted("a", always(1, 0.9))
    cascade = Cascade([source])
    while draft(cascade, 1):
        cascade.feedback(1, 0)
    cascade.observe([5])
    assert source.seen == [5]
    guessed = 0
    for _ in range(300):
        if draft(cascade, 1):
            guessed += 1
            cascade.feedback(1, 1)
    assert guessed > 250


def test_a_source_that_wins_is_not_muted() -> None:
    cascade = Cascade([Scripted("a", always(1, 0.9))])
    for now in range(500):
        assert draft(cascade, 2) == [1, 1]
        cascade.feedback(2, 1 + now % 2)
    assert cascade.statistics()["a"]["mutes"] == 0
    assert cascade.statistics()["a"]["acceptance"] == 0.75


def test_everything_is_told_to_everybody_and_wishes_are_mirrored() -> None:
    plain, wishing = Scripted("a", silent), Scripted("b", silent, wants_topk=True)
    cascade = Cascade([plain, wishing])
    cascade.begin([1, 2])
    cascade.observe([3])
    cascade.observe_topk(3, [4])
    assert plain.begun == wishing.begun == [1, 2]
    assert plain.seen == wishing.seen == [3]
    assert (plain.topk, wishing.topk) == ([], [3])
    assert cascade.wants_topk
    assert not Cascade([plain]).wants_topk


class Failing(Scripted):
    """Raises in one method or in its walk."""

    def __init__(self, where: str) -> None:
        super().__init__("failing", self._guess, wants_topk=True)
        self.where = where
        self.calls = 0

    def _guess(self, _at: int) -> tuple[int, float]:
        self._fail("guess")
        return 9, 0.99

    def _fail(self, where: str) -> None:
        if where == self.where:
            self.calls += 1
            raise RuntimeError("out of order")

    def begin(self, prompt: Sequence[int]) -> None:
        self._fail("begin")

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        self._fail("observe")

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        self._fail("observe_topk")

    def walk(self) -> Walk:
        self._fail("walk")
        return super().walk()

    def feedback(self, submitted: int, accepted: int) -> None:
        self._fail("feedback")


@pytest.mark.parametrize("where", ["begin", "observe", "observe_topk", "walk", "guess", "feedback"])
def test_a_source_that_raises_is_logged_and_silenced_for_good(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing, other = Failing(where), Scripted("other", always(2, 0.9))
    cascade = Cascade([failing, other])
    with caplog.at_level(logging.ERROR):
        for _ in range(1200):
            cascade.begin([1])
            cascade.observe([2])
            cascade.observe_topk(2, [3])
            tokens = draft(cascade, 2)
            cascade.feedback(len(tokens), len(tokens))
    assert tokens == [2, 2]
    assert failing.calls == 1
    assert [record.name for record in caplog.records] == ["engine.drafting.cascade"]
    assert "'failing'" in caplog.text
    assert "out of order" in caplog.text
    assert not cascade.wants_topk


def test_a_source_that_fails_in_the_middle_of_a_walk_is_followed_by_the_next() -> None:
    def breaks(at: int) -> tuple[int, float]:
        return [(1, 0.9), (1, 0.9)][at]

    other = Scripted("other", always(2, 0.9))
    cascade = Cascade([Scripted("a", breaks), other])
    assert draft(cascade, 4) == [1, 1, 2, 2]
    assert other.paths == [[1, 1, 2, 2]]


def test_a_guess_that_is_none_is_a_failure_like_others() -> None:
    cascade = Cascade([Scripted("a", lambda _at: ("x", 0.9)), Scripted("b", always(2, 0.9))])  # type: ignore[arg-type, return-value]
    assert draft(cascade, 1) == [2]


def test_an_abort_is_no_failure_and_passes() -> None:
    def aborted(_at: int) -> None:
        raise Aborted

    cascade = Cascade([Scripted("a", aborted)])
    for _ in range(2):
        with pytest.raises(Aborted):
            draft(cascade, 1)


def test_an_empty_cascade_says_nothing() -> None:
    cascade = Cascade([])
    assert draft(cascade, 3) == []
    assert not cascade.muted
    assert cascade.statistics() == {}


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="differ"):
        Cascade([Scripted("a", silent), Scripted("a", silent)])


def rounds(cascade: Cascade, count: int, *, submitted: int, accepted: int) -> None:
    """Walk over one guess and have it verified, or not submitted at all, again and again."""
    for _ in range(count):
        draft(cascade, 1)
        if submitted:
            cascade.feedback(submitted, accepted)


def test_no_rows_are_read_for_a_source_whose_guesses_nobody_takes_and_it_is_probed_again() -> None:
    source = Scripted("a", always(1, 0.4), wants_topk=True)
    cascade = Cascade([source])
    rounds(cascade, 9, submitted=0, accepted=0)
    assert not cascade.wants_topk
    assert cascade.statistics()["a"]["mutes"] == 1
    asked = len(source.paths)
    rounds(cascade, 7, submitted=0, accepted=0)
    assert cascade.wants_topk and len(source.paths) == asked + 1


def test_a_source_whose_guesses_are_taken_keeps_its_rows() -> None:
    cascade = Cascade([Scripted("a", always(1, 0.9), wants_topk=True)])
    rounds(cascade, 40, submitted=1, accepted=1)
    assert cascade.wants_topk


def test_a_source_that_needs_no_rows_is_asked_however_long_nothing_of_it_was_taken() -> None:
    source = Scripted("a", always(1, 0.4))
    rounds(Cascade([source]), 40, submitted=0, accepted=0)
    assert len(source.paths) == 40


class Spending(Scripted):
    """A source with forwards of its own, `price` seconds a guess."""

    def __init__(self, name: str, says: Callable[[int], tuple[int, float] | None], price: float) -> None:
        super().__init__(name, lambda at: self._spend(says(at)))
        self.seconds = 100.0
        self._price = price

    def _spend(self, guess: tuple[int, float] | None) -> tuple[int, float] | None:
        self.seconds += self._price
        return guess


def test_a_source_must_save_what_its_own_forwards_take() -> None:
    cheap, dear = (
        Cascade([Spending("a", always(1, 0.9), price)], plain_s=lambda: 1.0) for price in (0.1, 0.8)
    )
    for cascade in (cheap, dear):
        rounds(cascade, 30, submitted=1, accepted=1)
    assert cheap.statistics()["a"]["mutes"] == 0
    assert dear.statistics()["a"]["mutes"] > 0


def test_forwards_for_guesses_that_nobody_takes_are_charged_too() -> None:
    cascade = Cascade([Spending("a", always(1, 0.9), 0.5)], plain_s=lambda: 1.0)
    rounds(cascade, 40, submitted=0, accepted=0)
    assert cascade.statistics()["a"]["mutes"] > 0


def test_a_dear_source_is_not_asked_where_even_a_sure_guess_would_not_save_its_price() -> None:
    source = Spending("a", always(1, 0.7), 0.3)
    assert len(draft(Cascade([source], plain_s=lambda: 1.0), 16)) == 1
    free = Scripted("b", always(1, 0.7))
    assert len(draft(Cascade([free], plain_s=lambda: 1.0), 16)) > 4
