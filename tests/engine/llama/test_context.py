"""The cache and the forward pass of a real model: guards, exact rows, aborts."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import Aborted
from engine.gguf import ModelFileError, read_header
from engine.llama.context import LlamaContext
from engine.llama.library import AbortFlag
from engine.llama.weights import LoadCancelled, Weights
from engine.numerics import matrices, plan

PROMPT = list(range(100, 660))
"""More than five hundred tokens: below 256 every kernel looks exact."""


@pytest.fixture(scope="module")
def weights(smollm2: Path) -> Iterator[Weights]:
    with Weights(smollm2) as weights:
        yield weights


def exact_context(weights: Weights, length: int) -> LlamaContext:
    numerics = plan(matrices(read_header(weights.path)), "exact")
    assert numerics.exact
    return LlamaContext(weights, length=length, threads=1, numerics=numerics, batch=256)


@pytest.fixture
def context(weights: Weights) -> Iterator[LlamaContext]:
    context = exact_context(weights, 512)
    yield context
    context.close()


def read(context: LlamaContext, tokens: list[int]) -> None:
    for at in range(0, len(tokens), context.batch):
        context.decode(tokens[at : at + context.batch], ())


def test_a_row_of_a_batch_equals_the_single_row_bit_for_bit_also_after_dropped_tails(
    weights: Weights,
) -> None:
    context = exact_context(weights, 1024)
    read(context, PROMPT)
    following = [5, 700, 1234, 40, 2000, 17]
    singles = [context.decode([token], (0,))[0].copy() for token in following]
    context.keep(len(PROMPT))
    batch = [row.copy() for row in context.decode(following, range(len(following)))]
    context.keep(len(PROMPT) + 1)
    context.decode([900, 901, 902], ())  # a draft that is rejected
    assert context.keep(len(PROMPT) + 1) == len(PROMPT) + 1
    some = [row.copy() for row in context.decode(following[1:], (0, 3))]
    context.close()
    for place, row in enumerate(singles):
        assert np.array_equal(row, batch[place])
    assert np.array_equal(some[0], singles[1])
    assert np.array_equal(some[1], singles[4])


def test_keep_follows_the_cache(context: LlamaContext) -> None:
    read(context, PROMPT[:40])
    assert context.keep(100) == 40
    assert context.keep(13) == 13
    assert context.tokens == PROMPT[:13]
    assert context.keep(0) == 0
    assert context.tokens == []
    with pytest.raises(ValueError, match="negative"):
        context.keep(-1)


def test_what_would_end_the_process_is_refused_in_python(context: LlamaContext) -> None:
    with pytest.raises(ValueError, match="1 to 256"):
        context.decode([], ())
    with pytest.raises(ValueError, match="1 to 256"):
        context.decode([1] * 257, ())
    with pytest.raises(ValueError, match="token ids"):
        context.decode([49152], (0,))
    with pytest.raises(ValueError, match="token ids"):
        context.decode([-1], (0,))
    context.decode([7] * 20, ())
    context.length = 30  # as if it were nearly full
    with pytest.raises(ValueError, match="exceed the context"):
        context.decode([7] * 11, ())
    assert len(context.tokens) == 20


def test_the_batch_is_what_llama_cpp_really_allows(weights: Weights) -> None:
    numerics = plan(matrices(read_header(weights.path)), "fast")
    small = LlamaContext(weights, length=64, threads=1, numerics=numerics, batch=512)
    assert small.batch <= small.length
    small.decode([5] * small.batch, ())
    small.close()
    with pytest.raises(ValueError, match="closed"):
        small.decode([5], ())


def test_an_abort_stops_a_forward_and_leaves_cache_and_tokens_equal(context: LlamaContext) -> None:
    read(context, PROMPT[:100])
    expected = context.decode([11], (0,))[0].copy()
    context.keep(100)
    timer = threading.Timer(0.02, context.abort)
    timer.start()
    started = time.monotonic()
    with pytest.raises(Aborted):
        while time.monotonic() - started < 20:
            context.keep(100)
            context.decode(PROMPT[100:356], ())
    assert context.tokens == PROMPT[: len(context.tokens)]
    with pytest.raises(Aborted):
        context.decode([11], (0,))
    context.clear_abort()
    context.keep(100)
    assert np.array_equal(context.decode([11], (0,))[0], expected)


def test_the_abort_flag_is_read_by_c() -> None:
    flag = AbortFlag()
    call = flag.callback
    assert not call(flag.data)
    flag.raise_()
    assert call(flag.data)
    flag.clear()
    assert not call(flag.data)


def test_loading_reports_progress_and_can_be_cancelled(smollm2: Path) -> None:
    heard: list[float] = []
    Weights(smollm2, progress=lambda fraction: heard.append(fraction) or True).close()  # type: ignore[func-returns-value]
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    with pytest.raises(LoadCancelled):
        Weights(smollm2, progress=lambda fraction: fraction < 0.3)


def test_what_llama_cpp_refuses_is_told_in_its_own_words(smollm2: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.gguf"
    strange.write_bytes(smollm2.read_bytes().replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0llamx"))
    with pytest.raises(ModelFileError, match=r"strange\.gguf.*unknown model architecture.*llamx"):
        Weights(strange)
