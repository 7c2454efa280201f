"""Schema memory guesses from earlier replies under the same shape, from the first token of a reply on."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.processor import Bits
from engine.drafting.memory import SchemaMemory
from engine.drafting.suffix import MatchWalk

FIRST, SECOND = [10, 11, 50, 12, 13, 60, 14], [10, 11, 51, 12, 13, 61, 14]


def bits(*legal: int) -> Bits:
    mask = np.zeros(4, dtype=np.uint32)
    for token in legal:
        mask[token // 32] |= np.uint32(1 << token % 32)
    return mask


def memory_of(*replies: Sequence[int], limit: int = 1000) -> SchemaMemory:
    memory = SchemaMemory(limit)
    memory.remember(replies)
    return memory


def follow(walk: MatchWalk, mask: Bits | None = None) -> list[int]:
    guesses: list[int] = []
    while len(guesses) < 50 and (guess := walk.guess(mask)) is not None:
        guesses.append(guess[0])
        walk.advance(guess[0])
    return guesses


def said(memory: SchemaMemory, tokens: Sequence[int]) -> list[int]:
    memory.begin([99, 98])
    memory.observe(tokens)
    return follow(memory.walk())


def test_the_first_token_of_a_reply_is_guessed_from_how_replies_begin() -> None:
    memory = memory_of(FIRST, [20, 21])
    assert said(memory, [])[:1] == [20]
    assert (
        memory.walk().guess(bits(10)) is None
    )  # the latest reply began otherwise, and nothing shorter matches


def test_the_latest_reply_wins_and_an_older_one_is_found_by_what_it_alone_said() -> None:
    memory = memory_of(FIRST, SECOND)
    assert said(memory, [10, 11]) == [51, 12, 13]
    assert said(memory, [10, 11, 50, 12, 13]) == [60, 14]


def test_the_match_is_found_again_after_something_new() -> None:
    memory = memory_of(FIRST)
    assert said(memory, [10, 11, 77]) == []
    assert said(memory, [10, 11, 77, 12]) == [13]
    assert said(memory, [10, 11, 77, 12, 13]) == [60, 14]
    walk = memory_of(FIRST).walk()
    for token in (10, 11, 77, 12, 13):
        walk.advance(token)
    assert follow(walk) == [60]  # nobody chose these tokens, so not more is ventured


def test_a_reply_is_never_guessed_over_its_end() -> None:
    memory = memory_of(FIRST, SECOND)
    for reply in (FIRST, SECOND):
        assert said(memory, reply) == []


def test_a_turn_begins_at_the_opening_whatever_was_said_before() -> None:
    memory = memory_of(FIRST)
    expected = said(memory, [])
    memory.observe([10, 11, 50])
    assert said(memory, []) == expected == [10]


def test_another_shape_forgets_everything() -> None:
    memory = memory_of(FIRST, SECOND)
    memory.remember([[30, 31, 32]])
    assert said(memory, [10, 11]) == []
    assert said(memory, [30, 31]) == [32]
    memory.remember([])
    assert said(memory, [30, 31]) == []


def test_a_new_reply_is_added_without_building_again() -> None:
    memory = memory_of(FIRST)
    automaton = memory._automaton
    memory.remember([FIRST, SECOND])
    memory.remember([SECOND, [10, 40]])  # the oldest no longer fitted into what the caller sends
    assert memory._automaton is automaton
    assert memory._held == [tuple(FIRST), tuple(SECOND), (10, 40)]
    assert said(memory, [10]) == [40]
    memory.remember([FIRST, [10, 40], [10, 41]])  # one was taken out of the middle
    assert memory._automaton is not automaton
    assert memory._held == [tuple(FIRST), (10, 40), (10, 41)]


REPLIES = st.lists(st.lists(st.integers(-1, 3), max_size=5), max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(REPLIES, max_size=6), st.lists(st.integers(0, 3), max_size=5), st.sets(st.integers(0, 3)))
def test_every_guess_followed_the_match_in_a_reply_that_was_given(
    turns: list[list[list[int]]], reply: list[int], legal: set[int]
) -> None:
    memory = SchemaMemory(limit=40)
    given_replies: list[list[int]] = []
    for replies in turns:
        memory.remember(replies)
        given_replies += [[token for token in earlier if token >= 0] for earlier in replies]
        assert len(memory._automaton.text) <= 40
        assert len(memory._automaton.text) == sum(len(held) + 1 for held in memory._held)
    memory.observe(reply)
    guess = memory.walk().guess(bits(*legal))
    if guess is not None:
        token, p = guess
        assert token in legal
        assert 0 < p < 1
        pairs = [[-1, *earlier] for earlier in given_replies]
        last = [-1, *reply][-1]
        assert any([last, token] == pair[at : at + 2] for pair in pairs for at in range(len(pair)))


@settings(max_examples=200, deadline=None)
@given(REPLIES, REPLIES)
def test_what_is_held_ends_with_the_newest_replies(
    earlier: list[list[int]], replies: list[list[int]]
) -> None:
    memory = SchemaMemory(limit=10_000)
    memory.remember(earlier)
    memory.remember(replies)
    wanted = [tuple(token for token in reply if token >= 0) for reply in replies]
    held = memory._held
    shared = min(len(held), len(wanted))
    assert held[len(held) - shared :] == wanted[len(wanted) - shared :]


def test_at_the_bound_the_newest_replies_are_kept() -> None:
    replies = [[at, at, at] for at in range(100)]
    memory = memory_of(*replies, limit=80)
    assert memory._held == [tuple(reply) for reply in replies[-10:]]
    memory.remember([*replies, *([at, 7] for at in range(40))])
    assert len(memory._automaton.text) <= 80
    assert memory._held[-1] == (39, 7)
    memory = memory_of(FIRST, list(range(100)), limit=20)
    assert memory._held == [tuple(range(9))]
    for limit in (0, 1, 2, 3):
        assert len(memory_of(FIRST, limit=limit)._automaton.text) <= limit


def test_walks_are_pure() -> None:
    memory = memory_of(FIRST, SECOND)
    memory.observe([10, 11])
    walk = memory.walk()
    for token in (51, 12, 1 << 70, -1, -9, 13):
        assert walk.guess(None) == walk.guess(None)
        walk.guess(bits(1))
        walk.advance(token)
    assert follow(memory.walk()) == [51, 12, 13]


def test_guesses_under_a_mask_are_legal() -> None:
    memory = memory_of(FIRST, SECOND)
    memory.observe([10, 11])
    assert memory.walk().guess(bits(50)) is None  # the latest continuation of every match is 51
    guess = memory.walk().guess(bits(51))
    assert guess is not None
    assert guess[0] == 51


def test_feedback_moves_the_probability() -> None:
    memory = memory_of(FIRST, SECOND)
    memory.observe([10, 11])

    def p() -> float:
        guess = memory.walk().guess(None)
        assert guess is not None
        return guess[1]

    before = p()
    follow(memory.walk())
    memory.feedback(3, 3)
    assert p() > before
    for _ in range(100):
        follow(memory.walk())
        memory.feedback(1, 0)
    assert p() < 0.2 < before
    memory.feedback(1, 1)
    low = p()
    follow(memory.walk())
    memory.begin([])
    memory.feedback(1, 1)
    memory.observe([10, 11])
    assert p() == pytest.approx(low)


def test_odd_ids_raise_nothing() -> None:
    memory = memory_of([-5, 1 << 70, -1, 3], [])
    memory.begin([-1])
    memory.observe([1 << 70, -1, -5])
    memory.observe(())
    memory.observe_topk(-1, (5,))
    walk = memory.walk()
    walk.guess(bits(3))
    walk.advance(-1)
    walk.advance(1 << 70)
    assert walk.guess(None) == (3, pytest.approx(walk.guess(None)[1]))  # type: ignore[index]
    memory.feedback(5, 5)
    SchemaMemory().walk().guess(None)
