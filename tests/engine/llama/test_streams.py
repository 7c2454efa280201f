"""Several sequences in one cache: each has the rows that it would have alone, whatever happens to its neighbours."""

from collections.abc import Iterator

import numpy as np
import pytest
from data import vocabulary
from tiny import write_tiny_model

from engine.decoding.streams import Part
from engine.errors import Aborted
from engine.gguf import read_header
from engine.llama.context import LlamaContext
from engine.llama.streams import LlamaStreams
from engine.llama.weights import Weights
from engine.numerics import matrices, plan

TEXTS = [list(range(start, start + 300 + 40 * start)) for start in (3, 5, 7, 11)]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaContext]:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny_model(path, vocabulary("llama-spm"), layers=2, width=128)
    with Weights(path) as weights:
        numerics = plan(matrices(read_header(path)), "exact")
        context = LlamaContext(weights, length=1024, threads=2, numerics=numerics)
        yield context
        context.close()


@pytest.fixture
def streams(context: LlamaContext) -> Iterator[LlamaStreams]:
    streams = context.streams(4, 1024)
    yield streams
    streams.close()


def read(streams: LlamaStreams) -> None:
    """Read the texts in batches that hold something of each, of different lengths."""
    while any(len(filled) < len(text) for filled, text in zip(streams.tokens, TEXTS, strict=True)):
        streams.decode(
            [
                Part(stream, text[len(filled) : len(filled) + 30 + 7 * stream], ())
                for stream, (filled, text) in enumerate(zip(streams.tokens, TEXTS, strict=True))
                if len(filled) < len(text)
            ]
        )


def expected(context: LlamaContext, text: list[int], token: int) -> np.ndarray:
    context.keep(0)
    for at in range(0, len(text), context.batch):
        context.decode(text[at : at + context.batch], ())
    return context.decode([token], (0,))[0].copy()


def test_rows_are_those_of_the_sequence_alone(context: LlamaContext, streams: LlamaStreams) -> None:
    read(streams)
    rows = streams.decode([Part(0, [50], (0,)), Part(1, [60, 61], (0, 1)), Part(3, [70], (0,))])
    assert [len(row) for row in rows] == [1, 2, 1]
    for text, token, row in (
        (TEXTS[0], 50, rows[0][0]),
        (TEXTS[1], 60, rows[1][0]),
        (TEXTS[3], 70, rows[2][0]),
    ):
        assert np.array_equal(row, expected(context, text, token))
    assert np.array_equal(rows[1][1], expected(context, [*TEXTS[1], 60], 61))


def test_a_copy_a_move_and_a_dropped_tail_change_no_bit(context: LlamaContext, streams: LlamaStreams) -> None:
    read(streams)
    streams.drop(0)  # the last takes its number
    assert streams.tokens == [TEXTS[3], TEXTS[1], TEXTS[2]]
    streams.copy(1, 2)
    streams.decode([Part(0, [9, 9, 9], ()), Part(2, [8], ())])
    assert streams.keep(0, len(TEXTS[3])) == len(TEXTS[3])
    assert streams.keep(2, 100) == 100
    rows = streams.decode([Part(stream, [50], (0,)) for stream in range(3)])
    for text, row in zip((TEXTS[3], TEXTS[1], TEXTS[1][:100]), rows, strict=True):
        assert np.array_equal(row[0], expected(context, text, 50))


def test_what_would_end_the_process_is_refused_in_python(streams: LlamaStreams) -> None:
    for parts in (
        [],
        [Part(0, [], ())],
        [Part(4, [1], ())],
        [Part(-1, [1], ())],
        [Part(1, [1], ()), Part(0, [1], ())],
        [Part(1, [1], ()), Part(1, [1], ())],
        [Part(0, [1] * 300, ()), Part(1, [1] * 300, ())],
        [Part(0, [32000], ())],
        [Part(0, [-1], ())],
    ):
        with pytest.raises(ValueError, match=r"streams|batch|token ids"):
            streams.decode(parts)
    for _ in range(2):
        streams.decode([Part(0, [1] * 512, ())])
    with pytest.raises(ValueError, match="exceed"):
        streams.decode([Part(0, [1], ())])
    with pytest.raises(ValueError, match="negative"):
        streams.keep(0, -1)
    assert [len(tokens) for tokens in streams.tokens] == [1024, 0, 0, 0]
    streams.close()
    streams.close()
    with pytest.raises(ValueError, match="closed"):
        streams.decode([Part(0, [1], ())])


def test_an_abort_of_the_context_reaches_the_streams(context: LlamaContext, streams: LlamaStreams) -> None:
    read(streams)
    context.abort()
    with pytest.raises(Aborted):
        streams.decode([Part(stream, [50], (0,)) for stream in range(4)])
    context.clear_abort()
    assert [filled[: len(text)] for filled, text in zip(streams.tokens, TEXTS, strict=True)] == TEXTS
    for stream, text in enumerate(TEXTS):
        streams.keep(stream, len(text))
    rows = streams.decode([Part(stream, [50], (0,)) for stream in range(4)])
    assert np.array_equal(rows[2][0], expected(context, TEXTS[2], 50))


def test_a_twin_is_an_empty_context_with_the_same_settings(context: LlamaContext) -> None:
    context.keep(0)
    context.decode([5, 6, 7], ())
    twin = context.twin(512)
    assert (twin.tokens, twin.threads, twin.numerics) == ([], context.threads, context.numerics)
    assert twin.length == 512
    twin.decode([9], ())
    assert context.tokens == [5, 6, 7]
    twin.close()
