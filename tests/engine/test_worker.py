"""The worker as a process: greets, loads, answers, obeys, and leaves no orphan. Real processes, a tiny model."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from data import vocabulary
from tiny import write_tiny_model
from workers import Worker

from engine.events import Failed, Finished, Hello, Loading, Ready, Started, Tokens
from engine.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    Generate,
    Load,
    Message,
    Sampling,
)
from grammars.spec import GrammarSpec

YES_NO = GrammarSpec(kind="choice", text='["yes", "no"]')


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("qwen2"), layers=2)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path / "log")
    yield worker
    assert worker.process.stdin is not None
    assert worker.process.stdout is not None
    worker.process.stdin.close()
    assert worker.process.wait(timeout=60) in (0, -signal.SIGKILL)
    worker.process.stdout.close()


def ask(turn: int, text: str, shape: GrammarSpec | None = None, **options: Any) -> Generate:
    sampling = options.pop("sampling", Sampling(seed=1))
    return Generate(
        turn=turn, messages=(Message(role="user", content=text),), shape=shape, sampling=sampling, **options
    )


def test_a_model_is_loaded_and_turns_are_answered(worker: Worker, model: Path) -> None:
    worker.send(Load(model=str(model), threads=1, context=512))
    hello, *loading, ready = worker.until(Ready, Failed)
    assert isinstance(hello, Hello)
    assert hello.protocol == PROTOCOL_VERSION
    assert isinstance(ready, Ready), ready
    fractions = [event.fraction for event in loading if isinstance(event, Loading)]
    assert fractions == sorted(fractions)
    assert ready.context == 512
    assert ready.model.architecture == "llama"
    assert any("no chat template" in notice for notice in ready.notices)
    worker.send(ask(1, "Is it?", YES_NO), ask(2, "And what?", max_tokens=5))
    first = worker.until(Finished, Failed)
    assert isinstance(first[0], Started)
    assert isinstance(first[-1], Finished)
    assert first[-1].text in ("yes", "no")
    second = worker.until(Finished, Failed)[-1]
    assert isinstance(second, Finished)
    assert (second.turn, second.finish) == (2, "length")
    assert len(second.tokens) == 5


def test_a_cancel_ends_a_turn_at_once_and_the_next_one_works(worker: Worker, model: Path) -> None:
    worker.send(
        Load(model=str(model), threads=1),
        ask(1, "Tell me.", max_tokens=100_000, sampling=Sampling(temperature=1.5)),
    )
    worker.until(Tokens)
    started = time.monotonic()
    worker.send(Cancel())
    end = worker.until(Finished, Failed)[-1]
    assert isinstance(end, Finished)
    assert end.finish == "cancelled"
    assert end.tokens
    assert time.monotonic() - started < 20  # 100,000 tokens take minutes
    worker.send(Cancel())  # nothing runs: it may not hit the next turn
    worker.send(ask(2, "Is it?", YES_NO))
    assert isinstance(worker.until(Finished, Failed)[-1], Finished)


def test_a_cancel_while_loading_leaves_a_worker_that_can_load_again(worker: Worker, smollm2: Path) -> None:
    worker.send(Load(model=str(smollm2), threads=1), Cancel())
    end = worker.until(Ready, Failed)[-1]
    assert isinstance(end, Failed)
    assert (end.kind, end.turn) == ("cancelled", None)
    worker.send(Load(model=str(smollm2), threads=1, context=256))
    assert isinstance(worker.until(Ready, Failed)[-1], Ready)


def test_a_cancel_never_hits_a_turn_that_was_asked_for_after_it(worker: Worker, model: Path) -> None:
    """The next turn may be read before the cancelled one has wholly ended."""
    worker.send(Load(model=str(model), threads=1))
    worker.until(Ready)
    hot = Sampling(temperature=1.5)
    for number in range(0, 40, 2):
        worker.send(ask(number, "Tell me.", max_tokens=100_000, sampling=hot))
        worker.until(Tokens)
        worker.send(Cancel(), ask(number + 1, "Is it?", YES_NO))
        cancelled = worker.until(Finished, Failed)[-1]
        answered = worker.until(Finished, Failed)[-1]
        assert isinstance(cancelled, Finished)
        assert isinstance(answered, Finished)
        assert (cancelled.finish, answered.finish) == ("cancelled", "stop")


def test_a_cancel_hits_what_waits_in_the_queue_too(worker: Worker, model: Path) -> None:
    worker.send(Load(model=str(model), threads=1), ask(1, "Tell me."), Cancel())
    seen = worker.until(Failed)
    assert isinstance(seen[-1], Failed)
    assert seen[-1].kind in ("cancelled", "model")


def test_a_cancel_late_in_loading_is_obeyed(worker: Worker, smollm2: Path) -> None:
    worker.send(Load(model=str(smollm2), threads=1))
    for event in worker.events():
        if isinstance(event, Loading) and event.fraction >= 1:
            worker.send(Cancel())
            break
    end = worker.until(Ready, Failed)[-1]
    # The cancel may come when loading has just ended; then it must not hit what follows.
    if isinstance(end, Ready):
        worker.send(ask(1, "Is it?", YES_NO))
        assert isinstance(worker.until(Finished, Failed)[-1], Finished)
    else:
        assert end.kind == "cancelled"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no file"),
        (b"", "GGUF"),
        (b"PK\x03\x04 a zip file, no model", "GGUF"),
        (b"GGUF\x03\0\0\0" + b"\x10" * 20, ""),
    ],
)
def test_a_file_that_is_no_model_is_refused_by_name(
    worker: Worker, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "odd.gguf"
    if content is not None:
        path.write_bytes(content)
    worker.send(Load(model=str(path)))
    end = worker.until(Ready, Failed)[-1]
    assert isinstance(end, Failed)
    assert end.kind == "model"
    assert "odd.gguf" in end.message
    assert says.lower() in end.message.lower()
    assert "\n" not in end.message


def test_a_truncated_model_is_refused(worker: Worker, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(model.read_bytes()[:-1000])
    worker.send(Load(model=str(path)))
    end = worker.until(Ready, Failed)[-1]
    assert isinstance(end, Failed)
    assert end.kind == "model"
    assert "cut.gguf" in end.message


def test_lines_that_are_no_commands_are_answered_and_do_no_harm(worker: Worker, model: Path) -> None:
    for line in (b"", b"{", b"[]", b'{"type":"cancel","more":1}', b'{"type":"explode"}', b"\xff\xfe"):
        worker.send_line(line)
        assert isinstance(worker.until(Failed)[-1], Failed)
    worker.send(ask(1, "Too early."))
    end = worker.until(Failed)[-1]
    assert isinstance(end, Failed)
    assert end.turn == 1
    worker.send(Load(model=str(model), threads=1))
    assert isinstance(worker.until(Ready, Failed)[-1], Ready)
    worker.send(Load(model=str(model), threads=1))
    assert isinstance(worker.until(Failed)[-1], Failed)


def test_the_end_of_input_ends_the_worker_in_the_middle_of_a_turn(worker: Worker, model: Path) -> None:
    worker.send(
        Load(model=str(model), threads=1),
        ask(1, "Tell me.", max_tokens=100_000, sampling=Sampling(temperature=1.5)),
    )
    worker.until(Tokens)
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.process.wait(timeout=60) == 0


def test_ctrl_c_in_the_terminal_is_none_of_the_workers_business(worker: Worker, model: Path) -> None:
    worker.until(Hello)
    os.kill(worker.process.pid, signal.SIGINT)
    worker.send(Load(model=str(model), threads=1))
    assert isinstance(worker.until(Ready, Failed)[-1], Ready)


def test_heartbeats_come_while_the_worker_is_idle(worker: Worker) -> None:
    assert worker.process.stdout is not None
    kinds = [json.loads(worker.process.stdout.readline())["type"] for _ in range(3)]
    assert kinds == ["hello", "heartbeat", "heartbeat"]


def test_a_folder_with_hostile_names_is_not_imported(tmp_path: Path, model: Path) -> None:
    for name in ("engine", "grammars", "app"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(66)")
    (tmp_path / "json.py").write_text("raise SystemExit(66)")
    worker = Worker(tmp_path / "log", folder=tmp_path)
    worker.send(Load(model=str(model), threads=1))
    assert isinstance(worker.until(Ready, Failed)[-1], Ready)
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.process.wait(timeout=60) == 0
    assert worker.process.stdout is not None
    worker.process.stdout.close()
