"""A bench counts what was really decoded, keeps modes comparable, and can be interrupted between runs."""

from dataclasses import replace

import pytest

from app.bench.clock import Clock, Timed
from app.bench.curve import recorded_curve
from app.bench.report import figures
from app.bench.runs import COLD, Bench, Tally, steps, write
from app.bench.tasks import BenchTurn, Task
from engine.drafting.cost import CostModel, Gate
from engine.drafting.drafts import Drafts
from engine.drafting.source import NoDrafts
from engine.errors import Aborted
from engine.fake import FakeContext, FakeVocabulary, fake_engine
from engine.turn import Engine
from grammars.spec import GrammarSpec

NUMBERS = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"name":{"enum":["the city","car"]},"on":{"type":"boolean"}},'
    '"required":["name","on"],"additionalProperties":false}',
)
OTHER = GrammarSpec(kind="regex", text="(yes|no) in the (city|car)")
TASK = Task(
    name="small",
    title="Small replies",
    max_tokens=40,
    turns=(
        BenchTurn(prompt="One?", shape=NUMBERS),
        BenchTurn(prompt="Two?", shape=NUMBERS),
        BenchTurn(prompt="Three?", shape=OTHER),
        BenchTurn(prompt="Four?", shape=OTHER, transcript="yes in the car"),
        BenchTurn(prompt="Five?"),
    ),
)


def drafting_engine() -> Engine:
    engine = fake_engine()
    engine.drafts = Drafts(engine.vocabulary.size)
    return engine


@pytest.fixture
def engine() -> Engine:
    return drafting_engine()


def test_every_mode_writes_the_naive_reply_and_counts_it(engine: Engine) -> None:
    result = Bench(engine, recorded_curve().cost()).run(TASK, 2)
    assert result.differing == 0
    for mode in COLD:
        assert [result.counted[mode][turn].tokens for turn in range(5)] == list(map(len, result.replies))
    assert engine.vocabulary.text(result.replies[3]) == "yes in the car"
    naive, forced, full, limit = (result.total(mode) for mode in COLD)
    assert naive.forwards > forced.forwards >= full.forwards >= limit.forwards
    assert forced.forced > 0
    assert result.parts.seconds["forward"] > 0 and result.parts.seconds["mask"] > 0


def test_warm_counts_only_turns_that_another_of_the_same_shape_came_before(engine: Engine) -> None:
    result = Bench(engine, recorded_curve().cost()).run(TASK, 1)
    assert list(result.counted["warm"]) == [1, 3]
    assert set(result.walls["warm"]) == {1, 3}
    assert len(result.rounds("full", range(5))) == 1


def test_the_counted_pass_is_the_same_on_every_machine(engine: Engine) -> None:
    curve = recorded_curve().cost()
    first, second = (Bench(drafting_engine(), curve).run(TASK, 0) for _ in range(2))
    for mode in COLD:
        assert first.total(mode).kinds == second.total(mode).kinds
        assert first.total(mode).forward_s(curve) == second.total(mode).forward_s(curve)


def test_forwards_are_priced_without_the_prompt(engine: Engine) -> None:
    tally = Tally()
    task = replace(TASK, turns=(BenchTurn(prompt="Say it. " * 30),), max_tokens=3)
    tokens = write(engine, task.request(task.turns[0]), tally, NoDrafts(), Gate(CostModel()))
    assert sum(rows * count for (rows, _), count in tally.kinds.items()) == len(tokens) - 1
    assert tally.forwards == len(tokens) - 1


def test_as_many_steps_are_announced_as_are_made(engine: Engine) -> None:
    made = 0

    def stepped() -> None:
        nonlocal made
        made += 1

    Bench(engine, recorded_curve().cost(), stepped).run(TASK, 2)
    assert made == steps([TASK], 2)


def test_an_abort_ends_the_bench(engine: Engine) -> None:
    bench = Bench(engine, recorded_curve().cost(), engine.abort)
    with pytest.raises(Aborted):
        bench.run(TASK, 1)


def test_a_reply_that_is_not_the_naive_one_is_counted() -> None:
    class Moody(FakeContext):
        """Its rows change from forward to forward, as they do on numerics that are not exact."""

        def decode(self, tokens, wanted):  # type: ignore[no-untyped-def]
            rows = super().decode(tokens, wanted)
            for row in rows:
                row += self.decoded * 7.0 * (row > row.mean())
                row[self.decoded % row.size] += 500
            return rows

    engine = replace(drafting_engine(), context=Moody(FakeVocabulary().size))
    result = Bench(engine, recorded_curve().cost()).run(replace(TASK, turns=TASK.turns[4:]), 0)
    assert result.differing > 0
    found = figures(result, recorded_curve().cost(), CostModel())
    assert found["differing_runs"] == result.differing


def test_seconds_are_accounted_to_the_innermost_part() -> None:
    class Lower:
        def work(self) -> int:
            return sum(range(20_000))

    class Upper:
        def __init__(self, lower: Lower) -> None:
            self._lower = lower

        def open(self) -> Lower:
            return Lower()

        def work(self) -> int:
            return self._lower.work()

    clock = Clock()
    upper = Timed(Upper(Timed(Lower(), clock, "lower")), clock, "upper", opens=("open",))  # type: ignore[arg-type]
    assert upper.work() == sum(range(20_000))
    assert clock.seconds["lower"] > clock.seconds["upper"] > 0
    before = clock.seconds["upper"]
    upper.open().work()
    assert clock.seconds["upper"] > before
