"""The decode loop gives the stream of the naive loop, token for token, whatever the drafts say."""

from itertools import pairwise
from typing import Any

import pytest
from fakestream import PROMPT, SHAPES, VOCABULARY, Oracle, RandomDrafts, run_loop, run_naive, stream

from engine.decoding.decoder import Decoder, Reading, Round
from engine.decoding.naive import naive
from engine.decoding.sampler import Sampler
from engine.drafting.source import NoDrafts
from engine.protocol import Sampling
from grammars.spec import GrammarSpec


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
