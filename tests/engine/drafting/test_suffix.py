"""The suffix automaton equals brute force, and its walks guess what truly followed the longest match."""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.processor import Bits
from engine.drafting import suffix
from engine.drafting.suffix import CLIMB, MatchWalk, Record, SuffixAutomaton, SuffixSource

SMALL_TEXTS = st.lists(st.integers(-1, 2), max_size=40)
"""Short enough that no state has more than `CLIMB` shorter suffixes; -1 is a boundary."""


def automaton_of(text: Sequence[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for token in text:
        automaton.append(token)
    return automaton


def find(automaton: SuffixAutomaton, word: Sequence[int]) -> int | None:
    state = length = 0
    for token in word:
        state, length = automaton.step(state, length, token)
    return state if length == len(word) else None


def followers(text: Sequence[int], word: Sequence[int]) -> list[int]:
    """Return where an occurrence of `word` is followed by a token that is no boundary."""
    size = len(word)
    return [at for at in range(size, len(text)) if text[at] >= 0 and text[at - size : at] == word]


def longest_match(text: Sequence[int]) -> int:
    """Return the length of the longest suffix that also occurs before the end of the text."""
    return next(
        size
        for size in range(len(text) - 1, -1, -1)
        if size == 0 or any(text[at - size : at] == text[len(text) - size :] for at in range(size, len(text)))
    )


def bits(*legal: int, size: int = 64) -> Bits:
    mask = np.zeros(size // 32, dtype=np.uint32)
    for token in legal:
        mask[token // 32] |= np.uint32(1 << token % 32)
    return mask


def follow(walk: Any, masks: Sequence[Bits | None]) -> list[int]:
    guesses = []
    for mask in masks:
        guess = walk.guess(mask)
        if guess is None:
            break
        guesses.append(guess[0])
        walk.advance(guess[0])
    return guesses


def source_of(*turns: Sequence[int]) -> SuffixSource:
    source = SuffixSource(template=0)
    for turn in turns:
        source.begin(turn)
    return source


# --- the automaton ---


@settings(max_examples=150, deadline=None)
@given(SMALL_TEXTS)
def test_every_substring_is_found_with_its_latest_continuation(text: list[int]) -> None:
    automaton = automaton_of(text)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            word = text[start:end]
            state = find(automaton, word)
            assert state is not None
            assert automaton.latest[state] == max(followers(text, word), default=-1)


@settings(max_examples=150, deadline=None)
@given(SMALL_TEXTS, st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_what_is_no_substring_is_not_found(text: list[int], word: list[int]) -> None:
    occurs = any(text[at : at + len(word)] == word for at in range(len(text)))
    assert (find(automaton_of(text), word) is not None) == occurs


@settings(max_examples=150, deadline=None)
@given(SMALL_TEXTS.filter(bool))
def test_the_match_is_the_longest_suffix_that_occurred_before(text: list[int]) -> None:
    automaton = automaton_of(text)
    assert automaton.length[automaton.matched()] == longest_match(text)


@settings(max_examples=150, deadline=None)
@given(SMALL_TEXTS, SMALL_TEXTS)
def test_a_step_keeps_the_longest_match_with_another_text(text: list[int], other: list[int]) -> None:
    automaton = automaton_of(text)
    state = length = 0
    for end, token in enumerate(other, 1):
        state, length = automaton.step(state, length, token)
        expected = next(
            size
            for size in range(end, -1, -1)
            if size == 0
            or any(text[at : at + size] == other[end - size : end] for at in range(len(text) - size + 1))
        )
        assert length == expected
        assert length == 0 or automaton.length[automaton.link[state]] < length <= automaton.length[state]


@pytest.mark.parametrize("seed", range(3))
def test_beyond_the_climb_a_continuation_still_is_a_true_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    text: list[int] = []
    while len(text) < 1500:
        text += [1] * int(random.integers(1, 3 * CLIMB)) + random.integers(0, 3, size=3).tolist()
    automaton = automaton_of(text)
    for state in range(1, len(automaton.length)):
        at = automaton.latest[state]
        if at >= 0:
            size = automaton.length[state]
            assert find(automaton, text[at - size : at]) == state


def test_of_a_long_run_the_longest_states_have_the_latest_continuation() -> None:
    text = [1] * (3 * CLIMB)
    automaton = automaton_of(text)
    for size in range(len(text) - CLIMB, len(text)):
        state = find(automaton, text[:size])
        assert state is not None
        assert automaton.latest[state] == len(text) - 1


def test_a_step_that_shortens_too_often_falls_back_to_the_single_token() -> None:
    run = [1] * (3 * CLIMB)
    automaton = automaton_of([2, 3, *run, 9, *run])
    state = automaton.matched()
    assert automaton.length[state] == len(run)
    assert automaton.step(state, len(run), 2) == (find(automaton, [2]), 1)
    assert automaton.step(state, len(run), 4) == (0, 0)


# --- its cost ---


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of the module that run: operations, not seconds."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != suffix.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def prose(size: int) -> list[int]:
    random = np.random.default_rng(5)
    text: list[int] = []
    while len(text) < size:
        at = int(random.integers(max(1, len(text))))
        text += (random.zipf(1.3, size=20) % 5000).tolist() + text[at : at + 20]
    return text[:size]


KINDS: dict[str, Callable[[int], list[int]]] = {
    "prose": prose,
    "one token": lambda size: [1] * size,
    "two tokens": lambda size: np.random.default_rng(6).integers(0, 2, size=size).tolist(),
    "a period": lambda size: [at % 7 for at in range(size)],
    "a run that breaks": lambda size: [0 if at % 300 == 299 else 1 for at in range(size)],
    "no token twice": lambda size: list(range(size)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_learning_a_token_costs_the_same_early_and_late(kind: str) -> None:
    text = KINDS[kind](4000)
    source = source_of(text[:1000])
    early = lines_run(lambda: source.observe(text[1000:2000]))
    source.observe(text[2000:3000])
    late = lines_run(lambda: source.observe(text[3000:]))
    assert 0.8 * early < late < 1.2 * early
    assert late < 1000 * (4 * CLIMB + 50)


@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_costs_the_same_in_a_long_text(kind: str) -> None:
    source = source_of(KINDS[kind](3000))

    def work() -> None:
        walk = source.walk()
        for token in (9999, 1, 0, 1):
            walk.guess(bits())
            walk.advance(token)

    assert lines_run(work) < 4 * 2 * CLIMB * 6


# --- the source ---


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_the_first_guess_followed_the_latest_occurrence_of_the_longest_match(text: list[int]) -> None:
    guess = source_of(text).walk().guess(None)
    size = longest_match(text)
    if size == 0:
        assert guess is None
    else:
        assert guess is not None
        assert guess[0] == text[max(followers(text, text[len(text) - size :]))]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.sets(st.integers(0, 5)))
def test_under_a_mask_the_longest_match_with_a_legal_continuation_counts(
    text: list[int], legal: set[int]
) -> None:
    guess = source_of(text).walk().guess(bits(*legal))
    # Suffixes with the same continuations are one state; the latest continuation of each is the same.
    expected = next(
        (
            text[at]
            for size in range(longest_match(text), 0, -1)
            if text[at := max(followers(text, text[len(text) - size :]))] in legal
        ),
        None,
    )
    assert (None if guess is None else guess[0]) == expected


def test_the_latest_of_two_continuations_wins() -> None:
    assert follow(source_of([1, 2, 3, 9, 1, 2, 4, 9, 1, 2]).walk(), [None]) == [4]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_match_gives_as_many_guesses_as_it_is_long(size: int) -> None:
    known = list(range(100, 100 + 3 * size))
    assert follow(source_of([*known, 7, *known[:size]]).walk(), [None] * 50) == known[size : 2 * size]


def test_a_longer_match_is_likelier_before_anything_is_known() -> None:
    ps = []
    for size in (1, 2, 4, 8, 16, 32):
        known = list(range(100, 200))
        guess = source_of([*known, 7, *known[:size]]).walk().guess(None)
        assert guess is not None
        ps.append(guess[1])
    assert ps == sorted(set(ps))
    assert 0 < ps[0] < ps[-1] < 1


def test_a_walk_goes_on_over_a_certain_token_that_it_did_not_guess() -> None:
    text = [5, 6, 1, 2, 3, 9, 5, 6, 7, 8, 3, 4, 9, 5, 6]
    walk = source_of(text).walk()
    assert walk.guess(None) == (7, pytest.approx(0.45))
    walk.advance(1)  # not what followed last, but what followed once
    assert follow(walk, [None, None]) == [2, 3]
    walk = source_of(text).walk()
    walk.advance(8)  # never followed: only the 8 itself still matches
    assert follow(walk, [None]) == [3]
    walk = source_of(text).walk()
    walk.advance(77)
    assert walk.guess(None) is None
    walk.advance(7)
    assert follow(walk, [None]) == [8]


def test_forced_tokens_in_a_match_are_no_evidence() -> None:
    known = list(range(100, 140))

    def p(*spans: tuple[int, bool]) -> float:
        source = source_of([*known, 7])
        at = 0
        for size, certain in spans:
            source.observe(known[at : at + size], certain=certain)
            at += size
        guess = source.walk().guess(None)
        assert guess is not None and guess[0] == known[at]
        return guess[1]

    assert p((1, False), (11, True)) == p((11, True), (1, False)) == p((1, False)) < p((12, False))
    assert p((12, True)) < p((1, False))
    assert p((4, False), (5, True), (4, False)) == p((8, False))


def test_forced_tokens_on_a_walk_are_no_evidence_either() -> None:
    known = list(range(100, 140))

    def p(steps: Sequence[bool]) -> float:
        walk = source_of([*known, 7, *known[:12]]).walk()
        for token, chosen in zip(known[12:], steps, strict=False):
            assert not chosen or walk.guess(None) is not None
            walk.advance(token)
        guess = walk.guess(None)
        assert guess is not None
        return guess[1]

    assert p([False] * 8) == p([]) < p([True, False] * 4) == p([True] * 4)


def test_what_ends_every_prompt_is_no_evidence() -> None:
    template = [1, 2, 3, 4, 5]
    source = SuffixSource(template=5)
    source.begin([50, 51, 52, *template])
    source.observe([60, 61, 62, 63])
    source.begin([50, 51, 52, *template, 60, 61, 62, 63, 53, 54, 55, *template])
    opening = source.walk().guess(None)
    source.begin([50, 51, 52, *template])  # asked again: the question is evidence
    again = source.walk().guess(None)
    assert opening is not None and again is not None
    assert opening[0] == again[0] == 60
    assert opening[1] < again[1]


def test_a_walk_changes_neither_its_source_nor_itself_by_guessing() -> None:
    source = source_of(prose(500))
    source.observe(prose(500)[:40])
    expected = follow(source.walk(), [None] * 20)
    walk = source.walk()
    for token in [*expected, 3, 1 << 40, -5, 4]:
        assert walk.guess(None) == walk.guess(None)
        walk.guess(bits(1, 2))
        walk.advance(token)
    assert len(expected) > 3
    assert follow(source.walk(), [None] * 20) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-2, 3), max_size=30), st.lists(st.sets(st.integers(0, 3)), max_size=12))
def test_guesses_are_legal_and_never_boundaries(text: list[int], masks: list[set[int]]) -> None:
    walk = source_of(text).walk()
    for legal in masks:
        guess = walk.guess(bits(*legal))
        if guess is not None:
            assert guess[0] in legal
            assert 0 < guess[1] < 1
        walk.advance(min(legal, default=1))


def test_ids_beyond_the_mask_are_illegal() -> None:
    source = source_of([1, 64, 1])
    assert source.walk().guess(bits(1, size=64)) is None
    assert source.walk().guess(bits(64, size=96)) is not None


def test_odd_ids_raise_nothing_and_match_nothing() -> None:
    source = SuffixSource()
    source.begin([-1, -1, 1 << 70, -7, 0])
    source.observe([-1, 1 << 70, -1])
    source.observe(())
    source.observe_topk(-3, (1, -2))
    walk = source.walk()
    assert walk.guess(None) is None
    walk.advance(-1)
    walk.advance(1 << 70)
    assert walk.guess(bits(0)) is None
    source.feedback(9, 4)
    SuffixSource().walk().advance(3)
    SuffixSource().feedback(1, 1)


# --- turns ---


def test_a_prompt_that_goes_on_costs_only_what_is_new() -> None:
    text = prose(2000)
    source = source_of(text)
    source.observe([1, 2, 3])
    longer = [*text, 1, 2, 3, 4]
    assert lines_run(lambda: source.begin(longer)) < 2 * 2000 + 500  # the comparison, and one token
    fresh = source_of(longer)
    source.observe(text[:10])
    fresh.observe(text[:10])
    assert follow(source.walk(), [None] * 10) == follow(fresh.walk(), [None] * 10) == text[10:20]


def test_the_same_prompt_again_guesses_the_reply_that_it_had() -> None:
    prompt, reply = [11, 12, 13, 14, 15], [21, 22, 23]
    source = source_of(prompt)
    source.observe(reply)
    source.begin(prompt)
    assert follow(source.walk(), [None] * 3) == reply


def test_an_edited_prompt_keeps_what_both_turns_said() -> None:
    source = source_of([1, 2, 3, 30, 31, 32, 33])
    source.begin([1, 2, 3, 40, 41, 30, 31])
    assert follow(source.walk(), [None] * 2) == [32, 33]
    source.observe([40])
    assert follow(source.walk(), [None]) == [41]


def test_the_edited_turn_is_the_one_that_the_next_prompt_is_compared_with() -> None:
    source = source_of([1, 2, 3, 4], [1, 2, 8, 9])
    before = lines_run(lambda: source.begin([1, 2, 8, 9]))
    again = source_of([1, 2, 3, 4], [1, 2, 8, 9])
    assert lines_run(lambda: again.begin([1, 2, 3, 4])) > before
    assert follow(again.walk(), [None]) == []
    again.observe([1, 2, 8])
    assert follow(again.walk(), [None]) == [9]


def test_an_unrelated_prompt_never_matches_across_the_border() -> None:
    source = source_of([1, 2, 3], [4, 5, 6], [3])
    assert source.walk().guess(None) is None  # 4 did not follow 3, it began another turn
    source.observe([1, 2])
    assert follow(source.walk(), [None]) == [3]


def test_the_text_is_bounded_and_begins_again_from_its_newest_half() -> None:
    source = SuffixSource(limit=100)
    for at in range(0, 1000, 7):
        source.observe(range(at, at + 7))
        if at % 70 == 0:
            source.begin(range(at, at + 20))
    source.begin(range(5000, 5400))
    source.observe([5390])
    assert follow(source.walk(), [None]) == [5391]
    source.observe([5200])
    assert source.walk().guess(None) is None
    assert len(source._automaton.text) <= 100
    assert len(source._turn) <= 100
    for limit in (0, 1, 2):
        tiny = SuffixSource(limit=limit)
        tiny.begin([1, 1, 1, 1])
        tiny.observe([1])
        tiny.walk().guess(None)
        assert len(tiny._automaton.text) <= limit


# --- the record ---


def p_after(source: SuffixSource) -> float:
    guess = source.walk().guess(None)
    assert guess is not None
    return guess[1]


def test_feedback_moves_the_probability_of_the_match_lengths_that_were_guessed() -> None:
    source = source_of([1, 2, 3, 4, 5, 6, 9, 1, 2, 3])
    first = p_after(source)
    for submitted, accepted, better in ((3, 3, True), (1, 1, True), (2, 0, False), (1, 0, False)):
        before = p_after(source)
        follow(source.walk(), [None] * 3)
        source.feedback(submitted, accepted)
        assert (p_after(source) > before) == better
    for _ in range(300):
        follow(source.walk(), [None] * 3)
        source.feedback(3, 0)
    assert 0 < p_after(source) < 0.05 < first
    other = source_of([1, 2, 9, 1])
    before = p_after(other)
    follow(other.walk(), [None])
    other.feedback(0, 0)
    assert p_after(other) == before


def test_feedback_counts_followed_guesses_only_and_only_once() -> None:
    source = source_of([1, 2, 3, 4, 5, 6, 9, 1, 2, 3])
    before = p_after(source)
    source.feedback(1, 1)  # the guess was looked at, not followed
    assert p_after(source) == before
    walk = source.walk()
    walk.guess(None)
    walk.advance(5)  # another source's token
    source.feedback(1, 0)
    assert p_after(source) == before
    follow(source.walk(), [None])
    source.feedback(1, 1)
    once = p_after(source)
    follow(source.walk(), [None])
    source.feedback(1, 1)
    twice = p_after(source)
    assert before < once < twice
    follow(source.walk(), [None])
    source.begin([1, 2, 3, 4, 5, 6, 9, 1, 2, 3])
    source.feedback(1, 0)  # of no walk of this turn
    assert p_after(source) == twice


def test_nothing_is_learned_from_guesses_after_the_first_wrong_one() -> None:
    record = Record([0.5, 0.5, 0.5])
    record.learn([0, 1, 2], submitted=3, accepted=1)
    assert record.p(0) > 0.5 > record.p(1)
    assert record.p(2) == 0.5


def test_a_record_tends_to_the_share_that_was_right() -> None:
    random = np.random.default_rng(9)
    record = Record([0.1])
    seen = []
    for _ in range(2000):
        record.learn([0], 1, int(random.random() < 0.7))
        seen.append(record.p(0))
    assert np.mean(seen[200:]) == pytest.approx(0.7, abs=0.05)


def test_a_walk_that_outlives_its_source_text_still_walks() -> None:
    source = SuffixSource(limit=40)
    source.begin([1, 2, 3, 1, 2])
    walk: MatchWalk = source.walk()
    source.observe(range(100, 200))
    assert follow(walk, [None]) == [3]
