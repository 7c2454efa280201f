"""Each stream of a batch is the turn that it would be alone, token for token."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from data import vocabulary
from tiny import write_tiny_model, write_tiny_recurrent_model

from engine import lockstep
from engine.decoding.constraint import Constraint
from engine.events import Event, Failed, Finished, Started, Tokens
from engine.fake import FakeContext, FakeStreams, fake_engine
from engine.llama.context import LlamaContext
from engine.llama.weights import Weights
from engine.loading import load_engine
from engine.numerics import NumericsPlan
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.spec import GrammarSpec

SHAPES: dict[str, GrammarSpec | None] = {
    "free": None,
    "schema": GrammarSpec(
        kind="json_schema",
        text="""{"type": "object", "additionalProperties": false, "required": ["name", "tags"], "properties": {
            "name": {"type": "string", "maxLength": 12},
            "mood": {"enum": ["calm", "tense", "calmer"]},
            "tags": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2000}, "maxItems": 4}}}""",
    ),
    "regex": GrammarSpec(kind="regex", text=r"(yes|no): [a-z]{2,9}( the city)?, 20[0-9]{2}"),
    "choice": GrammarSpec(kind="choice", text='["car", "cart", "carton", "the city 😀"]'),
}
LONG = "The river stood at three feet and the market was closed, so nobody counted the carts. " * 9


def request(text: str, shape: GrammarSpec | None = None, *, seed: int = 0, **options: Any) -> Generate:
    temperature = options.pop("temperature", 0.8)
    return Generate(
        turn=1,
        messages=(Message(role="user", content=text),),
        shape=shape,
        sampling=Sampling(temperature=temperature, seed=seed),
        max_tokens=options.pop("max_tokens", 40),
        speculate=False,
        **options,
    )


def reply(events: Sequence[Event]) -> tuple[Any, ...]:
    """What must not depend on the neighbours: every token with its origin, the text, the end and the seed."""
    tokens = [token for event in events if isinstance(event, Tokens) for token in event.tokens]
    end = events[-1]
    assert isinstance(end, Finished)
    streamed = "".join(event.text for event in events if isinstance(event, Tokens))
    assert streamed == end.text
    return tokens, end.text, end.finish, end.seed, end.tokens, end.stats.forced_tokens


def alone(engine: Engine, turn: Generate, *, cold: bool = True) -> tuple[Any, ...]:
    if cold:
        engine.context.keep(0)
    return reply(list(engine.generate(turn)))


def together(engine: Engine, turns: Sequence[Generate]) -> list[tuple[Any, ...]]:
    context: Any = engine.context
    heard: list[list[Event]] = [[] for _ in turns]
    for stream, event in lockstep.lockstep(engine, turns, context.streams(len(turns), context.length)):
        heard[stream].append(event)
    return [reply(events) for events in heard]


def mixed(count: int) -> list[Generate]:
    """Turns with prompts of different lengths, all shapes, and lengths that make them end at different times."""
    shapes = list(SHAPES.values())
    return [
        request(
            LONG[: 60 + 97 * number],
            shapes[number % len(shapes)],
            seed=number,
            temperature=(0.8, 0.0, 1.5)[number % 3],
            max_tokens=20 + 5 * number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_different_turns_are_what_they_are_alone(count: int) -> None:
    engine = fake_engine(spread=3)
    turns = mixed(count)
    assert together(engine, turns) == [alone(fake_engine(spread=3), turn) for turn in turns]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("count", [2, 4, 8])
def test_replies_to_one_prompt_take_one_seed_after_the_other(shape: GrammarSpec | None, count: int) -> None:
    engine = fake_engine(spread=2)
    turn = request("Describe the city.", shape, seed=2**63 - 2)
    events = list(lockstep.generate(engine, replace(turn, streams=count)))
    for stream in range(count):
        mine = [event for event in events if getattr(event, "stream", None) == stream]
        seed = (2**63 - 2 + stream) % 2**63
        expected = alone(fake_engine(spread=2), replace(turn, sampling=Sampling(temperature=0.8, seed=seed)))
        assert reply(mine) == expected


def test_an_engine_that_is_asked_for_several_replies_writes_them_all() -> None:
    ends = [end for end in fake_engine().generate(request("Go.", streams=3)) if isinstance(end, Finished)]
    assert sorted(end.stream for end in ends) == [0, 1, 2]


def test_what_prompts_have_in_common_is_read_once() -> None:
    engine = fake_engine()
    context = engine.context
    assert isinstance(context, FakeContext)
    streams = context.streams(4, context.length)
    turn = request(LONG, SHAPES["choice"])
    prompt = len(engine.prompt(turn.messages).ids)
    turns = [replace(turn, sampling=Sampling(seed=seed)) for seed in range(4)]
    events = [event for _, event in lockstep.lockstep(engine, turns, streams)]
    assert [event.reused_tokens for event in events if isinstance(event, Started)] == [prompt - 1] * 4
    longest = max(event.stats.forwards for event in events if isinstance(event, Finished))
    assert streams.decoded <= -(-prompt // context.batch) + 1 + longest
    assert streams.closed


def test_a_memory_that_cannot_take_tokens_back_gives_the_same_streams() -> None:
    engine = fake_engine(spread=3)
    engine.context = FakeContext(engine.vocabulary.size, spread=3, can_drop=False)
    turns = mixed(4)
    assert together(engine, turns) == [alone(fake_engine(spread=3), turn) for turn in turns]


def test_streams_that_ended_have_left_the_batch() -> None:
    engine = fake_engine(spread=3)
    context = engine.context
    assert isinstance(context, FakeContext)
    streams = context.streams(3, context.length)
    left: list[int] = []
    turns = [request("Go.", seed=seed, max_tokens=budget) for seed, budget in ((1, 3), (2, 30), (3, 12))]
    for _, event in lockstep.lockstep(engine, turns, streams):
        if isinstance(event, Tokens):
            left.append(len(streams.tokens))
    assert left[0] == 3
    assert left[-1] == 1
    assert left == sorted(left, reverse=True)


class OneConstraint(Engine):
    """An engine that hands the same constraint to every turn."""

    shared: Constraint | None = None

    def constraint(self, shape: GrammarSpec) -> Constraint:
        OneConstraint.shared = OneConstraint.shared or Engine.constraint(self, shape)
        return OneConstraint.shared


def test_two_streams_may_not_share_a_processor() -> None:
    plain = fake_engine()
    engine = OneConstraint(
        model=plain.model,
        vocabulary=plain.vocabulary,
        context=plain.context,
        template=plain.template,
        exact="exact",
    )
    OneConstraint.shared = None
    context: Any = engine.context
    turns = [request("Go.", SHAPES["regex"], seed=seed) for seed in range(2)]
    streams: FakeStreams = context.streams(2, context.length)
    ends = dict(lockstep.lockstep(engine, turns, streams))
    assert isinstance(ends[0], Finished)
    assert isinstance(ends[1], Failed)
    assert "belongs to one stream" in ends[1].message
    assert streams.closed


def test_a_fault_of_the_program_in_one_turn_fails_it_and_leaves_the_others_alone() -> None:
    class Faulty(Engine):
        def _turn(self, request: Generate) -> Iterator[Event]:
            for number, event in enumerate(super()._turn(request)):
                if request.sampling.seed == 1 and number == 4:
                    raise ZeroDivisionError
                yield event

    plain = fake_engine()
    engine = Faulty(
        model=plain.model,
        vocabulary=plain.vocabulary,
        context=plain.context,
        template=plain.template,
        exact="exact",
    )
    context: Any = engine.context
    streams: FakeStreams = context.streams(3, context.length)
    turns = [request("Go.", seed=seed) for seed in range(3)]
    ends = dict(lockstep.lockstep(engine, turns, streams))
    assert isinstance(ends[1], Failed)
    assert (ends[1].kind, "ZeroDivisionError" in ends[1].message) == ("internal", True)
    for seed in (0, 2):
        assert ends[seed].tokens == alone(fake_engine(), turns[seed])[4]
    assert streams.closed


def test_an_abort_cancels_every_stream_and_keeps_what_was_written() -> None:
    engine = fake_engine()
    events: list[Event] = []
    for event in lockstep.generate(engine, request("Go.", streams=3, max_tokens=1000)):
        events.append(event)
        if isinstance(event, Tokens) and len(events) > 30:
            engine.abort()
    ends = [event for event in events if isinstance(event, Finished)]
    assert [end.finish for end in ends] == ["cancelled"] * 3
    assert all(end.text for end in ends)


def test_an_abort_before_the_prompt_is_read_cancels_every_stream() -> None:
    engine = fake_engine()
    engine.abort()
    *_, last = lockstep.generate(engine, request(LONG, streams=2))
    assert isinstance(last, Finished)
    assert last.finish == "cancelled"


def test_leaving_early_ends_the_threads_and_gives_the_memory_back() -> None:
    engine = fake_engine()
    context: Any = engine.context
    streams: FakeStreams = context.streams(3, context.length)
    turns = [request("Go.", seed=seed) for seed in range(3)]
    driver = lockstep.lockstep(engine, turns, streams)
    for _ in range(9):
        next(driver)
    driver.close()  # type: ignore[attr-defined]
    assert streams.closed


def test_a_turn_that_cannot_start_fails_once() -> None:
    broken = GrammarSpec(kind="lark", text="start: missing")
    for turn in (
        request(" ", streams=3),
        request("Go.", broken, streams=3),
        request("Go.", SHAPES["choice"], streams=3, stop=("x",)),
    ):
        events = list(lockstep.generate(fake_engine(), turn))
        assert [type(event) for event in events] == [Failed]


def test_each_stream_can_be_replayed() -> None:
    events = list(lockstep.generate(fake_engine(), request("Go.", SHAPES["schema"], streams=3, verify=True)))
    checks = [event.verification for event in events if isinstance(event, Finished)]
    assert len(checks) == 3
    assert all(check is not None and check.equal and check.compared == check.total > 0 for check in checks)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = write_tiny_model(
        tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("llama-spm"), layers=2, width=128
    )
    engine, _ = load_engine(Load(model=str(path), context=2048, threads=1, numerics="exact"))
    yield engine


@pytest.mark.parametrize("count", [2, 4, 8])
def test_real_caches_keep_the_streams_apart(tiny: Engine, count: int) -> None:
    turns = mixed(count)
    assert together(tiny, turns) == [alone(tiny, turn) for turn in turns]


def test_a_long_prompt_is_read_once_for_several_replies(tiny: Engine) -> None:
    turn = request(LONG * 4, SHAPES["schema"], seed=5, max_tokens=24)
    assert len(tiny.prompt(turn.messages).ids) > 600
    events = list(lockstep.generate(tiny, replace(turn, streams=4)))
    for stream in range(4):
        mine = [event for event in events if getattr(event, "stream", None) == stream]
        sampling = Sampling(temperature=0.8, seed=5 + stream)
        assert reply(mine) == alone(tiny, replace(turn, sampling=sampling))


@pytest.mark.parametrize("hybrid", [False, True], ids=["recurrent", "hybrid"])
def test_memories_that_are_one_state_keep_the_streams_apart(tmp_path: Path, hybrid: bool) -> None:
    path = write_tiny_recurrent_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"), hybrid=hybrid)
    engine, _ = load_engine(Load(model=str(path), context=1024, threads=1))
    # The table of types knows no F32 matrices, of which these models have some; the kernels are exact all the same.
    numerics = NumericsPlan(exact=True, reason="", tiled=True, extra_buffers=True)
    engine.context = LlamaContext(Weights(path), length=1024, threads=1, numerics=numerics)
    assert not engine.context.can_rollback
    turns = mixed(4)
    assert together(engine, turns) == [alone(engine, turn) for turn in turns]
    turn = request(LONG, SHAPES["schema"], max_tokens=16)
    same = [replace(turn, sampling=Sampling(seed=seed)) for seed in range(3)]
    assert together(engine, same) == [alone(engine, turn) for turn in same]


@pytest.fixture(scope="module")
def starter(smollm2: Path) -> Engine:
    return load_engine(Load(model=str(smollm2), context=2048, threads=1, numerics="exact"))[0]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_starter_model_gives_equal_streams(starter: Engine, count: int) -> None:
    turn = request("Describe the city.", SHAPES["schema"], max_tokens=6, land=False)
    turns = [replace(turn, sampling=Sampling(temperature=1, seed=seed)) for seed in range(count)]
    assert together(starter, turns) == [alone(starter, turn, cold=False) for turn in turns]


@pytest.mark.proof
@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_starter_model_gives_equal_streams_behind_long_prompts(starter: Engine, count: int) -> None:
    turns = [
        request(
            LONG * 4 + "And then? " * (1 + 2 * number),
            list(SHAPES.values())[number % 4],
            seed=number,
            max_tokens=8 + number,
            land=False,
        )
        for number in range(count)
    ]
    assert all(len(starter.prompt(turn.messages).ids) > 600 for turn in turns)
    assert together(starter, turns) == [alone(starter, turn, cold=False) for turn in turns]
