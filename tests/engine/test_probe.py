"""The numerics probe finds rows that depend on their batch, and its verdict is kept under all it depends on."""

import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from data import vocabulary
from numpy.typing import NDArray
from tiny import write_tiny_model

from engine.cache import Settings
from engine.errors import Aborted
from engine.fake import FakeContext
from engine.gguf import read_header
from engine.llama.context import LlamaContext
from engine.llama.weights import Weights
from engine.numerics import NumericsPlan, matrices, plan
from engine.probe import LENGTH, Verdict, judge, keep, probe, recall
from engine.protocol import Generate, Load, Message, encode_command
from engine.worker import Worker

VOCAB = 300
EXACT = plan({"w": "Q8_0"}, "exact")
FAST = plan({"w": "Q8_0"}, "fast")
SEEN = Verdict(exact=True, detail="rows equal")


class Leaning(FakeContext):
    """A context whose rows are off by a rounding error where `wrong` says so, given batch and wanted rows."""

    def __init__(self, wrong: "Callable[[Leaning, int, Sequence[int]], bool]", **options: Any) -> None:
        super().__init__(VOCAB, length=LENGTH, **options)
        self._wrong = wrong
        self.dropped = 0

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        rows = super().decode(tokens, wanted)
        if rows and self._wrong(self, len(tokens), wanted):
            rows[-1][7] = np.nextafter(rows[-1][7], np.float32(np.inf))
        return rows

    def keep(self, count: int) -> int:
        self.dropped += count < len(self.tokens)
        return super().keep(count)


def test_rows_that_depend_on_the_prefix_alone_are_exact() -> None:
    assert probe(Leaning(lambda *_: False), VOCAB).exact
    assert probe(Leaning(lambda *_: False, can_drop=False), VOCAB).exact


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_one_bit_in_one_row_of_one_batch_is_found_and_named(count: int) -> None:
    verdict = probe(Leaning(lambda _context, size, _wanted: size == count), VOCAB)
    assert not verdict.exact
    assert f"row {count} of a batch of {count}" in verdict.detail


def test_rows_are_compared_when_only_the_last_is_asked_for() -> None:
    verdict = probe(Leaning(lambda _context, size, wanted: size > 1 and len(wanted) == 1), VOCAB)
    assert not verdict.exact


def test_rows_are_compared_after_a_tail_was_dropped() -> None:
    assert not probe(Leaning(lambda context, _size, _wanted: context.dropped > 1), VOCAB).exact


def test_an_abort_ends_the_probe_without_a_verdict() -> None:
    context = FakeContext(VOCAB)
    context.abort()
    with pytest.raises(Aborted):
        probe(context, VOCAB)


@pytest.mark.parametrize(
    ("chosen", "verdict", "badge"),
    [
        (EXACT, None, "unverified"),
        (EXACT, SEEN, "exact"),
        (EXACT, Verdict(exact=False, detail="row 2 differs"), "fast"),
        (FAST, None, "fast"),
        (FAST, SEEN, "fast"),
    ],
)
def test_replies_are_exact_only_if_planned_and_seen(
    chosen: NumericsPlan, verdict: Verdict | None, badge: str
) -> None:
    found, reason = judge(chosen, verdict)
    assert found == badge
    assert chosen.reason in reason
    assert verdict is None or not chosen.exact or verdict.detail in reason


def settings(chosen: NumericsPlan = EXACT, **changes: Any) -> Settings:
    return replace(Settings.of(chosen, fingerprint="f", threads=2), **changes)


def test_a_verdict_is_kept_under_everything_it_depends_on(tmp_path: Path) -> None:
    keep(tmp_path, settings(), SEEN)
    assert recall(tmp_path, settings()) == SEEN
    others = [
        settings(fingerprint="g"),
        settings(threads=1),
        settings(tiled=False),
        settings(extra_buffers=False),
        settings(library="llama-cpp-python 9"),
        settings(processor="another"),
        settings(FAST),
    ]
    assert [recall(tmp_path, other) for other in others] == [None] * len(others)


def test_damaged_or_missing_verdicts_only_mean_another_probe(tmp_path: Path) -> None:
    keep(tmp_path, settings(), SEEN)
    (file,) = tmp_path.iterdir()
    whole = json.loads(file.read_text())
    for damage in (
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        json.dumps(whole | {"exact": "yes"}).encode(),
        json.dumps(whole | {"settings": {}}).encode(),
        json.dumps({"exact": True}).encode(),
    ):
        file.write_bytes(damage)
        assert recall(tmp_path, settings()) is None
    keep(tmp_path, settings(), SEEN)
    assert recall(tmp_path, settings()) == SEEN
    keep(tmp_path / "missing", settings(), SEEN)
    assert recall(tmp_path / "missing", settings()) is None


def test_real_kernels_are_exact_under_the_plan_and_not_without(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"), width=128)
    verdicts = []
    with Weights(path) as weights:
        for wish in ("exact", "fast"):
            chosen = plan(matrices(read_header(path)), wish)
            context = LlamaContext(weights, length=LENGTH, threads=2, numerics=chosen)
            verdicts.append(probe(context, weights.vocab_size))
            context.close()
    assert verdicts[0].exact, verdicts[0].detail
    assert not verdicts[1].exact


class Patient(FakeContext):
    """A context whose forwards wait for an abort."""

    def __init__(self) -> None:
        super().__init__(VOCAB)
        self.begun = threading.Event()
        self._stopped = threading.Event()

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        self.begun.set()
        assert self._stopped.wait(timeout=60)
        raise Aborted

    def abort(self) -> None:
        self._stopped.set()


def worker_over(context: FakeContext, cache: Path | None) -> tuple[Worker, io.BytesIO, SimpleNamespace]:
    said = io.BytesIO()
    worker = Worker(io.BytesIO(), said, cache)
    engine = SimpleNamespace(
        context=SimpleNamespace(twin=lambda _length: context),
        numerics=EXACT,
        settings=Settings.of(EXACT, fingerprint="f", threads=1),
        exact="unverified",
        model=SimpleNamespace(vocab_size=VOCAB),
    )
    worker._engine = cast(Any, engine)
    return worker, said, engine


def test_the_next_command_interrupts_a_probe_in_a_pause(tmp_path: Path) -> None:
    context = Patient()
    worker, said, engine = worker_over(context, tmp_path)
    probing = threading.Thread(target=worker._probe_in_pause)
    probing.start()
    assert context.begun.wait(timeout=60)
    worker._accept(Generate(turn=1, messages=(Message(role="user", content="Go."),)))
    probing.join(timeout=60)
    assert not probing.is_alive()
    assert said.getvalue() == b""
    assert engine.exact == "unverified"
    assert not list(tmp_path.iterdir())


def test_a_probe_in_a_pause_is_told_and_kept(tmp_path: Path) -> None:
    worker, said, engine = worker_over(FakeContext(VOCAB), tmp_path)
    worker._probe_in_pause()
    event = json.loads(said.getvalue())
    assert (event["type"], event["exact"]) == ("probed", "exact")
    assert engine.exact == "exact"
    assert recall(tmp_path, Settings.of(EXACT, fingerprint="f", threads=1)) is not None


def test_a_worker_verifies_in_its_first_pause_and_the_next_one_knows(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"))
    (tmp_path / "cache").mkdir()
    load = Load(model=str(path), threads=1, context=256)
    ask = Generate(turn=1, messages=(Message(role="user", content="Go."),), max_tokens=1)
    badges: list[str] = []
    for last in ("probed", "finished"):
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.worker", "--cache", str(tmp_path / "cache")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(encode_command(load) + encode_command(ask))
            process.stdin.flush()
            for line in process.stdout:
                event = json.loads(line)
                if event["type"] in ("ready", "probed"):
                    badges.append(event["exact"])
                if event["type"] == last:
                    break
            process.stdin.close()
    assert badges == ["unverified", "exact", "exact"]
