"""Drafts never change a token: every source, all of them, and one that only does harm, against the naive loop."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from fakestream import PROMPT, SHAPES, VOCABULARY, Oracle, RandomDrafts, run_loop, run_naive
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.decoding.processor import Bits
from engine.drafting.cascade import Cascade
from engine.drafting.cost import CostModel, Gate
from engine.drafting.draft_model import DraftModelSource
from engine.drafting.memory import SchemaMemory
from engine.drafting.recycling import RecyclingSource
from engine.drafting.source import DraftSource
from engine.drafting.suffix import SuffixSource
from engine.fake import FakeContext
from engine.protocol import Sampling
from grammars.spec import GrammarSpec


class Adversary(RandomDrafts):
    """Proposes what is illegal, spelled otherwise than the vocabulary would, or far past the end."""

    name = "adversary"

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        kind = self._random.integers(4)
        if kind == 0:
            return int(self._random.integers(VOCABULARY.size)), 1.0  # often illegal
        if kind == 1:
            return int(self._random.integers(256)), 1.0  # a byte: never the canonical spelling of a word
        if kind == 2:
            return min(VOCABULARY.end_ids), 1.0  # past the end
        return super().guess(mask)


def memory(reply: Sequence[int]) -> DraftSource:
    source = SchemaMemory()
    source.remember([list(reply), list(reply[:5])])
    return source


def draft_model(_reply: Sequence[int]) -> DraftSource:
    return DraftModelSource(
        FakeContext(VOCABULARY.size), vocab_size=VOCABULARY.size, end_ids=VOCABULARY.end_ids
    )


def everything(reply: Sequence[int]) -> DraftSource:
    return Cascade(
        [
            memory(reply),
            SuffixSource(),
            RecyclingSource(VOCABULARY.size),
            draft_model(reply),
            Adversary(len(reply)),
        ]
    )


SOURCES: dict[str, Callable[[Sequence[int]], DraftSource]] = {
    "suffix": lambda _reply: SuffixSource(),
    "recycling": lambda _reply: RecyclingSource(VOCABULARY.size),
    "memory": memory,
    "draft-model": draft_model,
    "oracle": Oracle,
    "adversary": lambda reply: Adversary(len(reply)),
    "everything": everything,
}
# Flat logits make many choices. The turn is asked twice, so that what was learned in the first speaks in the second.
SPREADS = (6.0, 1.0)


@cache
def naive_reply(shape: str, seed: int, spread: float, **more: float) -> tuple[list[int], str]:
    """Return what every source is compared with."""
    return run_naive(SHAPES[shape], Sampling(**more), seed, spread=spread)


def assert_equal(shape: str, source: str, temperature: float, seed: int, **more: float) -> None:
    sampling = Sampling(temperature=temperature, **more)
    for spread in SPREADS:
        expected = naive_reply(shape, seed, spread, temperature=temperature, **more)
        made = SOURCES[source](expected[0])
        for gate in (None, Gate(CostModel())):
            tokens, finish, _, _ = run_loop(SHAPES[shape], sampling, seed, made, gate=gate, spread=spread)
            assert (tokens, finish) == expected


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_source_gives_the_naive_stream(shape: str, source: str) -> None:
    for seed, temperature in enumerate((0.0, 0.8)):
        assert_equal(shape, source, temperature, seed)


@pytest.mark.parametrize(
    "more",
    [
        {"typical_p": 0.6},
        {"top_n_sigma": 1.5},
        {"typical_p": 0.4, "top_n_sigma": 2.0},
        {"dry_multiplier": 3.0, "dry_allowed_length": 1},
        {"dry_multiplier": 3.0, "dry_allowed_length": 1, "dry_last_n": 9, "repeat_penalty": 1.2},
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_samplers_that_look_at_all_candidates_or_at_the_history_give_the_naive_stream(
    shape: str, more: dict[str, float]
) -> None:
    assert_equal(shape, "everything", 0.9, 3, **more)


@pytest.mark.proof
@pytest.mark.parametrize("temperature", [0.0, 0.2, 0.8, 1.5])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_source_gives_the_naive_stream_at_thirty_seeds(
    shape: str, source: str, temperature: float
) -> None:
    for seed in range(30 if temperature else 1):
        assert_equal(shape, source, temperature, seed)


def schemas() -> st.SearchStrategy[object]:
    leaf = st.one_of(
        st.builds(lambda size: {"type": "string", "maxLength": size}, st.integers(0, 5)),
        st.builds(lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
                  st.integers(-20, 20), st.integers(0, 2000)),
        st.just({"type": "boolean"}),
        st.builds(lambda words: {"enum": words}, st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True)),
    )  # fmt: skip
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(
                lambda item, most: {"type": "array", "items": item, "maxItems": most},
                inner,
                st.integers(0, 3),
            ),
            st.builds(
                lambda fields, needed: {
                    "type": "object",
                    "properties": fields,
                    "required": [name for place, name in enumerate(fields) if needed >> place & 1],
                    "additionalProperties": False,
                },
                st.dictionaries(st.text("abthe", min_size=1, max_size=5), inner, max_size=3),
                st.integers(0, 7),
            ),
        ),
        max_leaves=5,
    )


def any_schema_any_seed_any_drafter(schema: object, seed: int, source: str) -> None:
    import json

    shape = GrammarSpec(kind="json_schema", text=json.dumps(schema))
    sampling = Sampling(temperature=seed % 3 / 2)
    expected = run_naive(shape, sampling, seed, budget=60)
    tokens, finish, _, model = run_loop(shape, sampling, seed, SOURCES[source](expected[0]), budget=60)
    assert (tokens, finish) == expected
    assert len(model.tokens) <= len(PROMPT) + len(tokens)


TRIPLES = given(schemas(), st.integers(0, 10**9), st.sampled_from(sorted(SOURCES)))
UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large]


@TRIPLES
@settings(max_examples=60, deadline=None, suppress_health_check=UNHURRIED)
def test_random_shapes_seeds_and_drafters(schema: object, seed: int, source: str) -> None:
    any_schema_any_seed_any_drafter(schema, seed, source)


@pytest.mark.proof
@TRIPLES
@settings(max_examples=1000, deadline=None, suppress_health_check=UNHURRIED)
def test_a_thousand_random_shapes_seeds_and_drafters(schema: object, seed: int, source: str) -> None:
    any_schema_any_seed_any_drafter(schema, seed, source)


def test_a_certain_token_whose_predecessors_are_accepted_is_accepted() -> None:
    """The reply is known, so the guesses are right; no row is read for what the grammar fills in behind them."""
    for name, shape in SHAPES.items():
        if shape is None:
            continue
        for seed in range(10):
            reply = run_naive(shape, Sampling(), seed)[0]
            _, _, decoder, model = run_loop(shape, Sampling(), seed, Oracle(reply))
            forced_only = run_loop(shape, Sampling(), seed)[2].figures
            assert decoder.figures.forced == forced_only.forced, name
            assert decoder.figures.choices == forced_only.choices
            assert model.rows >= decoder.figures.choices


def test_odd_ids_of_a_source_do_no_harm() -> None:
    class Odd(Adversary):
        def guess(self, mask: Bits | None) -> tuple[int, float] | None:
            return int(np.random.default_rng(len(self.seen)).choice([-1, 10**6, 31, 32])), 0.9

    expected = run_naive(SHAPES["schema"], Sampling(), 1)
    assert run_loop(SHAPES["schema"], Sampling(), 1, Odd(1))[:2] == expected
