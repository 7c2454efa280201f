"""Models whose memory is one state: nothing can be taken back from it, and replies are the same all the same."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from data import vocabulary
from tiny import write_tiny_model, write_tiny_recurrent_model

from engine.decoding.decoder import Committed
from engine.decoding.naive import naive
from engine.decoding.sampler import Sampler
from engine.errors import Aborted
from engine.events import Finished, Started
from engine.llama.context import LlamaContext
from engine.llama.weights import Weights
from engine.loading import load_engine
from engine.numerics import NumericsPlan, plan
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.spec import GrammarSpec

RECORD = GrammarSpec(
    kind="json_schema",
    text="""{"type": "object", "additionalProperties": false, "required": ["name", "mood", "size"], "properties": {
        "name": {"type": "string", "maxLength": 30}, "mood": {"enum": ["calm", "tense", "calmer"]},
        "size": {"type": "integer", "minimum": 0, "maximum": 2000}}}""",
)
EXACT = NumericsPlan(exact=True, reason="", tiled=True, extra_buffers=True)
PROMPT = [token % 1000 for token in range(7, 4000, 13)]


@pytest.fixture(scope="module", params=["recurrent", "hybrid"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    return write_tiny_recurrent_model(path, vocabulary("llama-spm"), hybrid=request.param == "hybrid")


@pytest.fixture
def context(model: Path) -> Iterator[LlamaContext]:
    with Weights(model) as weights:
        context = LlamaContext(weights, length=1024, threads=1, numerics=EXACT)
        yield context
        context.close()


@pytest.fixture(scope="module")
def engine(model: Path) -> Engine:
    engine = load_engine(Load(model=str(model), context=1024, threads=1))[0]
    # The table of types knows no F32 matrices, of which these models have some; the kernels are exact all the same.
    engine.context = LlamaContext(Weights(model), length=1024, threads=1, numerics=EXACT)
    return engine


def test_the_probe_finds_that_nothing_can_be_taken_back_and_leaves_nothing(context: LlamaContext) -> None:
    assert not context.can_rollback
    assert context.tokens == []
    context.decode(PROMPT, ())
    assert context.keep(len(PROMPT) - 1) == 0
    assert context.tokens == []


def test_the_probe_finds_that_a_cache_of_entries_can_drop_a_tail(tmp_path: Path) -> None:
    with Weights(write_tiny_model(tmp_path / "llama.gguf", vocabulary("llama-spm"))) as weights:
        context = LlamaContext(weights, length=64, threads=1, numerics=plan({}, "fast"))
        assert context.can_rollback
        assert context.tokens == []
        context.close()


def test_reading_in_pieces_gives_the_rows_of_reading_at_once(context: LlamaContext) -> None:
    context.decode(PROMPT, ())
    singles = [context.decode([token], (0,))[0].copy() for token in (5, 700, 123)]
    context.keep(0)
    context.decode(PROMPT[:100], ())
    context.decode(PROMPT[100:], ())
    batch = context.decode([5, 700, 123], (0, 1, 2))
    assert all(np.array_equal(row, single) for row, single in zip(batch, singles, strict=True))


def test_an_abort_leaves_no_half_written_state(context: LlamaContext) -> None:
    """llama.cpp cannot remove an aborted batch from a state, though it still counts its positions as read."""
    context.decode(PROMPT, ())
    expected = context.decode([5], (0,))[0].copy()
    for delay in (0.001, 0.003, 0.01):
        context.keep(0)
        context.decode(PROMPT, ())
        timer = threading.Timer(delay, context.abort)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Aborted):
            while time.monotonic() - started < 20:
                if len(context.tokens) + 400 > context.length:
                    context.keep(0)
                context.decode([9] * 400, ())
        timer.join()
        context.clear_abort()
        assert context.tokens == []
        context.decode(PROMPT, ())
        assert np.array_equal(context.decode([5], (0,))[0], expected)


def request(text: str, shape: GrammarSpec | None, temperature: float) -> Generate:
    return Generate(
        turn=1,
        messages=(Message(role="user", content=text),),
        shape=shape,
        sampling=Sampling(temperature=temperature, seed=11),
        max_tokens=40,
    )


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("shape", [None, RECORD])
def test_replies_equal_the_naive_loop(engine: Engine, shape: GrammarSpec | None, temperature: float) -> None:
    generate = request("Describe the city of Paris. " * 30, shape, temperature)
    *_, end = engine.generate(generate)
    assert isinstance(end, Finished)
    assert (end.stats.forced_tokens > 0) == (shape is not None)
    prompt = engine.prompt(generate.messages)
    armed = engine.arm(generate, prompt)
    sampler = Sampler(generate.sampling, seed=11, history=prompt.ids, processors=armed.processors)
    engine.context.keep(0)
    *tokens, finish = naive(
        engine.context,
        sampler,
        structure=armed.structure,
        end_ids=engine.vocabulary.end_ids,
        budget=armed.budget,
    )
    assert end.tokens == tuple(each.token for each in tokens if isinstance(each, Committed))
    assert end.finish == ("landed" if finish == "stop" and armed.landed else finish)


def test_a_turn_that_parts_from_the_cache_reads_everything_again_and_says_the_same(engine: Engine) -> None:
    engine.context.keep(0)
    generate = request("What is it?", RECORD, 0.9)
    *_, fresh = engine.generate(generate)
    list(engine.generate(request("What is it not?", None, 0.9)))
    started, *_, again = engine.generate(generate)
    assert isinstance(started, Started)
    assert started.reused_tokens == 0
    assert isinstance(fresh, Finished)
    assert isinstance(again, Finished)
    assert again.tokens == fresh.tokens


def test_a_chat_that_goes_on_keeps_what_was_read(engine: Engine) -> None:
    engine.context.keep(0)
    text = "Tell me about"
    first = engine.prompt([Message(role="user", content=text)]).ids
    list(engine.generate(request(text, None, 0.9)))
    cached = list(engine.context.tokens)
    assert cached[: len(first)] == first
    assert engine.context.keep(len(cached)) == len(cached)
