"""After a cancelled turn the next one is that of a fresh worker given the same path, ids included.

A cancel may come while the prompt is read, between two tokens, or before anything has begun; what is in the cache then
is a beginning of a path, and nothing else of the cancelled turn may be left. Real processes.
"""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
from data import vocabulary
from tiny import write_tiny_model, write_tiny_recurrent_model
from workers import Worker

from engine.events import Failed, Finished, PromptRead, Ready, Started, Tokens
from engine.protocol import Cancel, Generate, Load, Message, Sampling
from grammars.spec import GrammarSpec

RECORD = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"name":{"type":"string","maxLength":12},"n":{"type":"integer","minimum":0,'
    '"maximum":9999}},"required":["name","n"],"additionalProperties":false}',
)
LONG = "Tell me of the stars that are counted, and of the city. " * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_model(folder / "tiny.gguf", vocabulary("llama-spm"), layers=2)
    write_tiny_model(folder / "draft.gguf", vocabulary("llama-spm"), seed=2)
    write_tiny_recurrent_model(folder / "hybrid.gguf", vocabulary("llama-spm"), hybrid=True)
    return folder


@contextmanager
def loaded(model: Path, log: Path, draft: Path | None = None) -> Iterator[tuple[Worker, str]]:
    """Yield a worker with a model, and the fingerprint of its vocabulary."""
    worker = Worker(log)
    worker.send(Load(model=str(model), draft_model=str(draft) if draft else None, threads=1, context=2048))
    ready = worker.until(Ready, Failed)[-1]
    assert isinstance(ready, Ready), ready
    try:
        yield worker, ready.model.vocabulary
    finally:
        assert worker.process.stdin is not None
        assert worker.process.stdout is not None
        worker.process.stdin.close()
        assert worker.process.wait(timeout=60) in (0, -signal.SIGKILL)
        worker.process.stdout.close()


def cancelled(worker: Worker, moment: str, after: int) -> Finished:
    """Ask for a long reply, cancel it at a moment, and return its end."""
    message = Message(role="user", content=LONG if moment == "prompt" else "Tell me.")
    request = Generate(
        turn=1, messages=(message,), sampling=Sampling(temperature=1.5, seed=3), max_tokens=1500
    )
    worker.send(request)
    if moment == "at once":
        worker.send(Cancel())
    heard = 0
    for event in worker.events():
        heard += isinstance(event, {"prompt": PromptRead, "reply": Tokens}.get(moment, Started))
        if heard == after:
            worker.send(Cancel())
            heard = -(10**9)
            started = monotonic()
        if isinstance(event, Finished | Failed):
            assert moment == "at once" or monotonic() - started < 60
            assert isinstance(event, Finished)
            assert event.finish == "cancelled"
            return event
    raise AssertionError("the worker ended")


def following(end: Finished, vocabulary: str, moment: str) -> list[Generate]:
    """Return turns that may come after a cancelled one: the path goes on, and something else is asked."""
    first = Message(role="user", content=LONG if moment == "prompt" else "Tell me.")
    reply = Message(role="assistant", content=end.text, tokens=end.tokens, vocabulary=vocabulary)
    next_one = Message(role="user", content="And then?")
    paths = [(first, reply, next_one) if end.text else (first,), (next_one,)]
    return [
        Generate(
            turn=10 + place,
            messages=path,
            shape=RECORD if place == 0 else None,
            sampling=Sampling(temperature=0.9, seed=7 + place),
            max_tokens=24,
        )
        for place, path in enumerate(paths)
    ]


def answers(worker: Worker, requests: list[Generate]) -> list[tuple[int, ...]]:
    found = []
    for request in requests:
        worker.send(request)
        end = worker.until(Finished, Failed)[-1]
        assert isinstance(end, Finished), end
        assert end.error is None
        found.append(end.tokens)
    return found


def compare(model: Path, log: Path, moments: list[tuple[str, int]], draft: Path | None = None) -> None:
    with loaded(model, log, draft) as (worker, vocabulary):
        for moment, after in moments:
            end = cancelled(worker, moment, after)
            requests = following(end, vocabulary, moment)
            got = answers(worker, requests)
            with loaded(model, log) as (fresh, _):
                assert got == answers(fresh, requests), (moment, after)


@pytest.mark.parametrize(
    ("model", "draft"),
    [
        ("tiny.gguf", None),
        pytest.param("tiny.gguf", "draft.gguf", marks=pytest.mark.proof),
        pytest.param("hybrid.gguf", None, marks=pytest.mark.proof),
    ],
)
def test_the_turn_after_a_cancel_is_that_of_a_fresh_worker(
    folder: Path, tmp_path: Path, model: str, draft: str | None
) -> None:
    moments = [("prompt", 1), ("reply", 5)]
    compare(folder / model, tmp_path / "log", moments, folder / draft if draft else None)


@pytest.mark.proof
@pytest.mark.timeout(500)
def test_so_it_is_on_real_weights_at_random_moments(smollm2: Path, tmp_path: Path) -> None:
    source = random.Random(11)
    moments = [("prompt", 1), *(("reply", source.randrange(1, 30)) for _ in range(3))]
    compare(smollm2, tmp_path / "log", moments)
