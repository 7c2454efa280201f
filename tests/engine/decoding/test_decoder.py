"""The decode loop gives the stream of the naive loop, token for token, whatever the drafts say."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Committed, Decoder, Reading, Round
from engine.decoding.naive import naive
from engine.decoding.processor import Bits
from engine.decoding.sampler import Sampler
from engine.drafting.source import DraftSource, NoDrafts
from engine.fake import FakeContext, FakeVocabulary
from engine.protocol import Sampling
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec

VOCABULARY = FakeVocabulary()
PROMPT = VOCABULARY.tokenize("Describe the city of Paris. " * 8)

SHAPES: dict[str, GrammarSpec | None] = {
    "none": None,
    "schema": GrammarSpec(
        kind="json_schema",
        text="""{"type": "object", "additionalProperties": false, "required": ["name", "tags", "large"], "properties": {
            "name": {"type": "string", "maxLength": 12},
            "mood": {"enum": ["calm", "tense", "calmer"]},
            "tags": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2000}, "maxItems": 4},
            "large": {"type": "boolean"}}}""",
    ),
    "regex": GrammarSpec(kind="regex", text=r"(yes|no): [a-z]{2,9}( the city)?, 20[0-9]{2}"),
    "lark": GrammarSpec(
        kind="lark", text='start: "SELECT " NAME ("," NAME)* " FROM the city"\nNAME: /[a-z]{1,4}/'
    ),
    "choice": GrammarSpec(kind="choice", text='["car", "cart", "carton", "the city 😀"]'),
}


class RandomDrafts:
    """Proposes anything: legal or not, far past the end, and sometimes what comes next."""

    name = "random"
    wants_topk = False

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.heard: list[tuple[int, int]] = []
        self.seen: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self.seen.extend(prompt)

    def observe(self, tokens: Sequence[int]) -> None:
        self.seen.extend(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        raise AssertionError("it was not asked for")

    def walk(self) -> "RandomDrafts":
        return self

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        if mask is not None and self._random.random() < 0.7:
            legal = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            legal = legal[legal < VOCABULARY.size]
            if legal.size:
                return int(self._random.choice(legal)), 0.5
        if mask is not None:
            return None
        return int(self._random.integers(VOCABULARY.size)), 0.5

    def advance(self, token: int) -> None:
        pass

    def feedback(self, submitted: int, accepted: int) -> None:
        self.heard.append((submitted, accepted))


class Oracle:
    """Knows the reply beforehand and is wrong about every seventh token."""

    name = "oracle"
    wants_topk = False

    def __init__(self, reply: Sequence[int]) -> None:
        self._reply = list(reply)
        self._at = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._at = 0

    def observe(self, tokens: Sequence[int]) -> None:
        self._at += len(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        raise AssertionError("it was not asked for")

    def walk(self) -> "OracleWalk":
        return OracleWalk(self._reply, self._at)

    def feedback(self, submitted: int, accepted: int) -> None:
        assert 0 <= accepted <= submitted


class OracleWalk:
    def __init__(self, reply: list[int], at: int) -> None:
        self._reply = reply
        self._at = at

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        if not 0 <= self._at < len(self._reply):
            return None
        token = self._reply[self._at]
        if self._at % 7 == 6:
            token = (token + 1) % 256
        if mask is not None and not mask[token // 32] >> np.uint32(token % 32) & np.uint32(1):
            return None
        return token, 0.9

    def advance(self, token: int) -> None:
        self._at += 1


def stream(
    shape: GrammarSpec | None, sampling: Sampling, seed: int, **context: Any
) -> tuple[FakeContext, Sampler, Constraint | None]:
    constraint = (
        None
        if shape is None
        else Constraint(compile_grammar(shape), VOCABULARY.tokenizer, VOCABULARY.end_ids)
    )
    sampler = Sampler(
        sampling, seed=seed, history=PROMPT, processors=[] if constraint is None else [constraint]
    )
    return FakeContext(VOCABULARY.size, **context), sampler, constraint


def run_naive(
    shape: GrammarSpec | None, sampling: Sampling, seed: int, budget: int = 120, **context: Any
) -> tuple[list[int], str]:
    model, sampler, constraint = stream(shape, sampling, seed, **context)
    *tokens, finish = naive(model, sampler, structure=constraint, end_ids=VOCABULARY.end_ids, budget=budget)
    return [committed.token for committed in tokens if isinstance(committed, Committed)], str(finish)


def run_loop(
    shape: GrammarSpec | None,
    sampling: Sampling,
    seed: int,
    source: DraftSource | None = None,
    budget: int = 120,
    **context: Any,
) -> tuple[list[int], str, Decoder, FakeContext]:
    model, sampler, constraint = stream(shape, sampling, seed, **context)
    decoder = Decoder(
        model,
        sampler,
        structure=constraint,
        source=source or NoDrafts(),
        end_ids=VOCABULARY.end_ids,
        budget=budget,
    )
    tokens: list[int] = []
    for step in decoder.run():
        assert model.tokens == sampler.history[: len(model.tokens)], "the cache holds what was not committed"
        if isinstance(step, Round):
            tokens.extend(committed.token for committed in step.tokens)
    assert decoder.finish is not None
    return tokens, decoder.finish, decoder, model


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_loop_equals_the_naive_loop(shape: str, temperature: float) -> None:
    for seed in range(8):
        sampling = Sampling(temperature=temperature, repeat_penalty=1.1, presence_penalty=0.2)
        expected = run_naive(SHAPES[shape], sampling, seed)
        tokens, finish, _, _ = run_loop(SHAPES[shape], sampling, seed)
        assert (tokens, finish) == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_drafts_change_nothing_but_the_number_of_forwards(shape: str, temperature: float) -> None:
    for seed in range(6):
        sampling = Sampling(temperature=temperature)
        expected = run_naive(SHAPES[shape], sampling, seed)
        tokens, finish, _, _ = run_loop(SHAPES[shape], sampling, seed, RandomDrafts(seed))
        assert (tokens, finish) == expected
        tokens, finish, told, model = run_loop(SHAPES[shape], sampling, seed, Oracle(expected[0]))
        assert (tokens, finish) == expected
        plain = run_loop(SHAPES[shape], sampling, seed)[3]
        assert model.decoded <= plain.decoded
        if len(tokens) > 20 and shape == "none":
            assert told.figures.accepted > 0.5 * len(tokens)
            assert model.decoded < 0.6 * plain.decoded


@pytest.mark.parametrize("shape", SHAPES)
def test_a_memory_that_cannot_drop_a_tail_gives_the_same_stream(shape: str) -> None:
    expected = run_naive(SHAPES[shape], Sampling(), 3)
    tokens, finish, _, _ = run_loop(SHAPES[shape], Sampling(), 3, can_drop=False)
    assert (tokens, finish) == expected


def test_forced_tokens_take_no_forward_and_no_row() -> None:
    shape = GrammarSpec(kind="regex", text="the city of (Paris|Rome) is here and stays")
    tokens, finish, decoder, model = run_loop(shape, Sampling(), 1)
    assert finish == "stop"
    assert decoder.figures.forced > 0.8 * len(tokens)
    assert model.rows == decoder.figures.choices < 0.2 * len(tokens)


def test_a_draft_cut_inside_a_forced_span_leaves_the_rest_of_it_forced() -> None:
    """The row behind such a draft may not be chosen from: a ban would then leave no legal token at all."""
    shape = GrammarSpec(
        kind="regex", text="(yes|no), the city of Paris is here and it stays for ever and a day"
    )
    banned = tuple(VOCABULARY.tokenize("y"))
    sampling = Sampling(banned=banned)
    for seed in range(6):
        expected = run_naive(shape, sampling, seed)
        tokens, finish, decoder, _ = run_loop(shape, sampling, seed, Oracle(expected[0]))
        assert (tokens, finish) == expected
        assert decoder.figures.forced == run_loop(shape, sampling, seed)[2].figures.forced


def test_forced_tokens_at_the_end_are_left_for_the_next_turn() -> None:
    shape = GrammarSpec(kind="regex", text="(yes|no), the city")
    _, _, decoder, model = run_loop(shape, Sampling(), 2)
    assert len(model.tokens) < len(PROMPT) + decoder.figures.forced


def test_an_end_marker_ends_the_reply_and_is_no_part_of_it() -> None:
    tokens, finish, _, _ = run_loop(
        None, Sampling(temperature=1.5, min_p=0, top_p=1), 4, budget=3000, spread=0.5
    )
    assert finish == "stop"
    assert not VOCABULARY.end_ids & set(tokens)


@pytest.mark.parametrize("shape", ["none", "schema"])
@pytest.mark.parametrize("budget", [1, 2, 7, 20])
def test_the_budget_is_kept_to_the_token(shape: str, budget: int) -> None:
    expected = run_naive(SHAPES[shape], Sampling(), 5, budget=budget)
    assert expected == (expected[0][:budget], "length")
    assert len(expected[0]) == budget
    source = Oracle(run_naive(SHAPES[shape], Sampling(), 5)[0])
    assert run_loop(SHAPES[shape], Sampling(), 5, budget=budget)[:2] == expected
    assert run_loop(SHAPES[shape], Sampling(), 5, source, budget=budget)[:2] == expected


def test_a_reply_that_completes_on_its_last_token_ends_properly() -> None:
    shape = GrammarSpec(kind="regex", text="(car|yes) [a-z]{9}")
    tokens, finish, _, _ = run_loop(shape, Sampling(), 6)
    assert finish == "stop"
    assert run_loop(shape, Sampling(), 6, budget=len(tokens))[:2] == (tokens, "stop")
    assert run_loop(shape, Sampling(), 6, budget=len(tokens) - 1)[1] == "length"


def test_a_full_context_ends_the_reply_without_an_error() -> None:
    length = len(PROMPT) + 30
    expected = run_naive(None, Sampling(), 7, length=length)
    assert expected[1] == "context_full"
    assert len(expected[0]) == 31  # the last token needs no place in the cache
    assert run_loop(None, Sampling(), 7, length=length)[:2] == expected
    assert (
        run_loop(None, Sampling(), 7, Oracle(run_naive(None, Sampling(), 7)[0]), length=length)[:2]
        == expected
    )


def test_long_prompts_are_read_in_batches_and_reported() -> None:
    model, sampler, _ = stream(None, Sampling(), 8, batch=16)
    decoder = Decoder(model, sampler, structure=None, source=NoDrafts(), end_ids=VOCABULARY.end_ids, budget=3)
    done = [step.done for step in decoder.run() if isinstance(step, Reading)]
    assert done == list(range(16, len(PROMPT), 16))
    assert decoder.figures.forwards == 2  # three tokens, the first from the prompt's own last batch


def test_a_prompt_that_is_wholly_cached_is_not_read_again() -> None:
    model, sampler, _ = stream(None, Sampling(), 9, batch=1000)
    model.decode(PROMPT, ())
    decoder = Decoder(model, sampler, structure=None, source=NoDrafts(), end_ids=VOCABULARY.end_ids, budget=1)
    tokens = [
        committed.token for step in decoder.run() if isinstance(step, Round) for committed in step.tokens
    ]
    assert tokens == run_naive(None, Sampling(), 9, budget=1)[0]
    assert model.decoded == 2


def test_a_consumer_that_leaves_early_leaves_cache_and_history_equal() -> None:
    for leave_after in range(1, 12):
        reply = run_naive(SHAPES["schema"], Sampling(), 10)[0]
        model, sampler, constraint = stream(SHAPES["schema"], Sampling(), 10)
        decoder = Decoder(
            model,
            sampler,
            structure=constraint,
            source=Oracle(reply),
            end_ids=VOCABULARY.end_ids,
            budget=120,
        )
        run = decoder.run()
        for _ in zip(range(leave_after), run, strict=False):
            pass
        run.close()
        assert model.tokens == sampler.history[: len(model.tokens)]


def test_an_abort_ends_the_reply_as_cancelled_and_the_next_one_is_as_if_nothing_was() -> None:
    expected = run_naive(None, Sampling(), 11)
    model, sampler, _ = stream(None, Sampling(), 11)
    decoder = Decoder(
        model, sampler, structure=None, source=NoDrafts(), end_ids=VOCABULARY.end_ids, budget=120
    )
    for count, _ in enumerate(decoder.run()):
        if count == 5:
            model.abort()
    assert decoder.finish == "cancelled"
    model.clear_abort()
    again = Sampler(Sampling(), seed=11, history=PROMPT)
    model.keep(len(PROMPT))
    *tokens, finish = naive(model, again, structure=None, end_ids=VOCABULARY.end_ids, budget=120)
    assert ([committed.token for committed in tokens], finish) == expected  # type: ignore[union-attr]


def test_a_watch_ends_the_reply_on_the_very_token_also_inside_a_draft() -> None:
    reply = run_naive(None, Sampling(), 12)[0]
    model, sampler, _ = stream(None, Sampling(), 12)
    seen: list[int] = []

    def watch(token: int) -> Any:
        seen.append(token)
        return "stop_text" if len(seen) == 9 else None

    decoder = Decoder(
        model,
        sampler,
        structure=None,
        source=Oracle(reply),
        end_ids=VOCABULARY.end_ids,
        budget=120,
        watch=watch,
    )
    tokens = [
        committed.token for step in decoder.run() if isinstance(step, Round) for committed in step.tokens
    ]
    assert tokens == reply[:9]
    assert decoder.finish == "stop_text"
    assert model.tokens == sampler.history[: len(model.tokens)]


def test_feedback_counts_what_was_verified() -> None:
    source = RandomDrafts(13)
    _, _, decoder, _ = run_loop(SHAPES["schema"], Sampling(temperature=1.5), 13, source)
    assert sum(submitted for submitted, _ in source.heard) == decoder.figures.drafted > 0
    assert sum(accepted for _, accepted in source.heard) == decoder.figures.accepted
    assert source.seen[: len(PROMPT)] == PROMPT


def test_counts_add_up_to_the_reply() -> None:
    for seed in range(5):
        tokens, _, decoder, _ = run_loop(SHAPES["schema"], Sampling(), seed, RandomDrafts(seed))
        figures = decoder.figures
        assert figures.forced + figures.sampled + figures.accepted == len(tokens)
        assert figures.masked > 0


def test_equal_seeds_repeat_and_others_differ() -> None:
    replies = [tuple(run_loop(None, Sampling(), seed, budget=20)[0]) for seed in (1, 1, 2, 3)]
    assert replies[0] == replies[1]
    assert all(left != right for left, right in pairwise(replies[1:]))
