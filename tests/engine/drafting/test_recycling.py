"""Token Recycling keeps the likeliest successors of each token and guesses the best legal one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.decoding.processor import Bits
from engine.drafting.recycling import SUCCESSORS, RecyclingSource, RecyclingWalk, top_successors

VOCABULARY = 100


def bits(*legal: int) -> Bits:
    mask = np.zeros((VOCABULARY + 31) // 32, dtype=np.uint32)
    for token in legal:
        mask[token // 32] |= np.uint32(1 << token % 32)
    return mask


def source_at(token: int, **successors: list[int]) -> RecyclingSource:
    source = RecyclingSource(VOCABULARY)
    for name, ids in successors.items():
        source.observe_topk(int(name[1:]), ids)
    source.observe([3, token])
    return source


def follow(walk: RecyclingWalk, mask: Bits | None = None) -> list[int]:
    guesses: list[int] = []
    while len(guesses) < 50 and (guess := walk.guess(mask)) is not None:
        guesses.append(guess[0])
        walk.advance(guess[0])
    return guesses


def p_of(source: RecyclingSource, mask: Bits | None = None) -> float:
    guess = source.walk().guess(mask)
    assert guess is not None
    return guess[1]


def test_a_walk_goes_from_likeliest_successor_to_likeliest_successor() -> None:
    source = source_at(5, t5=[6, 7], t6=[9, 1], t9=[2])
    assert source.wants_topk
    assert follow(source.walk()) == [6, 9, 2]


def test_a_circle_ends() -> None:
    assert 0 < len(follow(source_at(5, t5=[6], t6=[5]).walk())) < 10


def test_under_a_mask_the_best_legal_successor_is_taken() -> None:
    source = source_at(5, t5=[6, 7, 8])
    assert follow(source.walk(), bits(8, 7)) == [7]
    assert follow(source.walk(), bits(8, 40)) == [8]
    assert follow(source.walk(), bits(40)) == []
    assert follow(source.walk(), bits()) == []


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(-5, VOCABULARY + 5), st.lists(st.integers(-5, VOCABULARY + 5), max_size=12)),
    st.lists(st.tuples(st.sets(st.integers(0, VOCABULARY - 1)), st.integers(-5, VOCABULARY + 5)), max_size=9),
)
def test_every_guess_is_legal_and_the_first_that_is(
    known: dict[int, list[int]], steps: list[tuple[set[int], int]]
) -> None:
    source = RecyclingSource(VOCABULARY)
    for token, successors in known.items():
        source.observe_topk(token, successors)
    walk = source.walk()
    stands = None
    for legal, token in steps:
        guess = walk.guess(bits(*legal))
        if stands is not None and 0 <= stands < VOCABULARY:
            successors = known.get(stands, [])[:SUCCESSORS]
            expected = next((successor for successor in successors if successor in legal), None)
            assert (None if guess is None else guess[0]) == expected
        if guess is not None:
            assert 0 < guess[1] < 1
        walk.advance(token)
        stands = token


def test_new_successors_replace_the_old_ones_wholly() -> None:
    source = source_at(5, t5=[6, 7, 8])
    source.observe_topk(5, [9])
    assert follow(source.walk(), bits(0, 6, 7, 8)) == []
    assert follow(source.walk(), bits(6, 9)) == [9]


def test_a_turn_keeps_what_is_known_and_moves_to_the_end_of_its_prompt() -> None:
    source = source_at(5, t5=[6], t7=[8])
    source.begin([5, 5, 7])
    assert follow(source.walk()) == [8]
    source.begin([])
    assert follow(source.walk()) == []


def test_a_walk_changes_neither_its_source_nor_itself_by_guessing() -> None:
    source = source_at(5, t5=[6, 7], t6=[9], t7=[5])
    walk = source.walk()
    for token in (7, 5, -1, 1 << 40, 6):
        assert walk.guess(None) == walk.guess(None)
        walk.guess(bits(1))
        walk.advance(token)
    assert follow(source.walk()) == [6, 9]


def test_a_mask_makes_the_best_legal_successor_likelier() -> None:
    source = source_at(5, t5=[6, 7, 8])
    for legal in (6, 7, 8):
        assert 1 > p_of(source, bits(legal)) > p_of(source) > 0


def test_feedback_moves_the_rank_that_was_guessed_and_no_other() -> None:
    source = source_at(5, t5=[6, 7, 8], t7=[7])
    first, second, free = p_of(source, bits(6)), p_of(source, bits(7)), p_of(source)
    walk = source.walk()
    walk.guess(bits(7))
    walk.advance(7)
    source.feedback(1, 1)
    assert p_of(source, bits(7)) > second
    assert (p_of(source, bits(6)), p_of(source)) == (first, free)
    for _ in range(200):
        walk = source.walk()
        walk.guess(None)
        walk.advance(6)
        source.feedback(1, 0)
    assert 0 < p_of(source) < 0.05
    assert p_of(source, bits(6)) == first


def test_feedback_counts_followed_guesses_only() -> None:
    source = source_at(5, t5=[6, 7])
    before = p_of(source)
    source.feedback(1, 1)
    walk = source.walk()
    walk.guess(None)
    walk.advance(9)
    source.feedback(1, 0)
    source.feedback(3, 2)
    follow(source.walk())
    source.begin([5])
    source.feedback(1, 0)
    assert p_of(source) == before


def test_memory_is_one_table_that_is_made_with_the_first_row() -> None:
    source = RecyclingSource(49_152)
    source.observe([1, 2])
    source.walk().guess(None)
    assert source._successors.nbytes == 0
    for token in range(0, 49_152, 500):
        source.observe_topk(token, range(token, token + 20))
        assert source._successors.nbytes == 49_152 * SUCCESSORS * 4


def test_odd_ids_raise_nothing_and_are_not_guessed() -> None:
    source = source_at(5, t5=[-4, VOCABULARY, 1 << 70, 6])
    source.observe_topk(-1, [1])
    source.observe_topk(1 << 70, [1])
    source.observe(())
    assert follow(source.walk()) == [6]
    for token in (-1, 1 << 70, VOCABULARY):
        source.observe([token])
        assert source.walk().guess(None) is None
    source.begin([1 << 70])
    assert source.walk().guess(bits(1)) is None


ROWS = st.one_of(
    arrays.arrays(np.float32, st.integers(1, 1500), elements=st.floats(-50, 50, width=32)),
    arrays.arrays(
        np.float32,
        st.integers(500, 1500),
        elements=st.sampled_from([-np.inf, 0.0, 1.0, 2.5]),
        fill=st.just(-1.0),
    ),
)


@settings(max_examples=100, deadline=None)
@given(ROWS, st.integers(1, 12))
def test_top_successors_are_the_largest_logits_in_order(row: np.ndarray, k: int) -> None:
    before = row.copy()
    found = top_successors(row, k)
    assert np.array_equal(row, before)
    expected = np.sort(row)[::-1][:k]
    assert len(set(found)) == len(found)
    assert [float(row[token]) for token in found] == expected[expected > -np.inf].tolist()


@pytest.mark.parametrize("size", [49_152, 151_936, 262_145])
def test_top_successors_of_real_vocabularies(size: int) -> None:
    random = np.random.default_rng(size)
    for scale in (0.0, 0.01, 1, 8):
        row = (random.standard_normal(size) * scale).astype(np.float32)
        row[random.integers(0, size, size=5)] += 20
        row[-1] += 19
        row.setflags(write=False)
        assert [row[token] for token in top_successors(row)] == np.sort(row)[::-1][:SUCCESSORS].tolist()


def test_forbidden_tokens_are_no_successors() -> None:
    row = np.full(5000, -np.inf, dtype=np.float32)
    assert top_successors(row) == []
    row[[4, 4000]] = 1, 2
    assert top_successors(row) == [4000, 4]
