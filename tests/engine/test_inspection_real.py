"""Inspections on real weights and through a worker: later turns are bit for bit the same, a cancel is obeyed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from workers import Worker

from engine.events import Failed, Finished, Inspected, Ready, Started, Token, Tokens
from engine.inspection import inspect
from engine.loading import load_engine
from engine.protocol import Cancel, Generate, Inspect, Load, Message, Sampling
from engine.turn import Engine
from grammars.spec import GrammarSpec

REPORT = " ".join(f"On day {day} the river stood at {day * 3 % 17} feet." for day in range(1, 45))
RECORD = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"river":{"type":"string","maxLength":20},"feet":{"enum":[1,12,3]}},'
    '"required":["river","feet"],"additionalProperties":false}',
)


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    engine, _ = load_engine(Load(model=str(smollm2), context=2048, threads=1, numerics="exact"))
    yield engine


def asked(text: str = REPORT, **options: object) -> Generate:
    return Generate(
        turn=1,
        messages=(Message(role="user", content=text),),
        shape=RECORD,
        sampling=Sampling(seed=4),
        max_tokens=40,
        **options,  # type: ignore[arg-type]
    )


def written(engine: Engine, request: Generate) -> tuple[list[Token], Finished]:
    *events, end = engine.generate(request)
    assert isinstance(end, Finished), end
    return [token for event in events if isinstance(event, Tokens) for token in event.tokens], end


@pytest.mark.proof
def test_what_is_computed_is_what_the_reply_saw_and_the_next_turn_is_bit_for_bit_the_same(
    engine: Engine,
) -> None:
    request = asked()
    assert len(engine.prompt(request.messages).ids) > 512  # shorter prompts look equal on any numerics
    runs = []
    for inspecting in (False, True):
        engine.context.keep(0)
        engine.drafts.remember([])
        reply, end = written(engine, request)
        if inspecting:
            for place in (len(reply) - 1, 0, 5, 6):
                ids = tuple(token.id for token in reply[:place])
                wish = Inspect(
                    generate=replace(request, prefix=ids), vocabulary=engine.vocabulary.fingerprint
                )
                (told,) = inspect(engine, wish)
                assert isinstance(told, Inspected), told
                assert told.forced == (reply[place].origin == "forced")
                assert reply[place].allowed in (None, told.allowed)
        answer = Message(
            role="assistant",
            content=end.text,
            tokens=end.tokens,
            vocabulary=engine.vocabulary.fingerprint,
        )
        again = Message(role="user", content="And on the next day?")
        follow = replace(request, messages=(*request.messages, answer, again))
        tokens, _ = written(engine, follow)
        ids = [token.id for token in tokens]
        history = [*engine.prompt(follow.messages).ids, *ids]
        engine.reuse(history)
        rest = history[len(engine.context.tokens) :]
        row = engine.context.decode(rest, (len(rest) - 1,))[0].copy()
        runs.append(([token.id for token in reply], ids, row))
    assert runs[0][:2] == runs[1][:2]
    assert np.array_equal(runs[0][2], runs[1][2])


def test_an_inspection_waits_for_the_turn_before_it_and_obeys_a_cancel(smollm2: Path, tmp_path: Path) -> None:
    worker = Worker(tmp_path / "log")
    try:
        worker.send(Load(model=str(smollm2), threads=1, context=2048))
        ready = worker.until(Ready, Failed)[-1]
        assert isinstance(ready, Ready), ready
        look = Inspect(generate=replace(asked("Which river?"), turn=-1), vocabulary=ready.model.vocabulary)
        worker.send(asked("Which river?"), look)
        kinds = [type(event) for event in worker.until(Inspected, Failed)]
        assert kinds.index(Started) < kinds.index(Finished) < kinds.index(Inspected)
        far = Inspect(
            generate=replace(asked(REPORT + " " + REPORT), turn=-2), vocabulary=ready.model.vocabulary
        )
        worker.send(far, Cancel())
        stopped = worker.until(Inspected, Failed)[-1]
        assert isinstance(stopped, Failed)
        assert (stopped.kind, stopped.turn) == ("cancelled", -2)
        worker.send(replace(look, generate=replace(look.generate, turn=-3)))
        told = worker.until(Inspected, Failed)[-1]
        assert isinstance(told, Inspected)
        assert told.turn == -3
    finally:
        worker.process.stdin.close()
        worker.process.wait(timeout=60)
        worker.process.stdout.close()
