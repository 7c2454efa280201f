"""DRY means what it means in llama.cpp, and says the same of a history whatever was asked before."""

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from data import load_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.dry import Dry
from engine.llama.vocabulary import LlamaVocabulary

BREAKERS = ':"*'
WORDS = [1, 2, 3, 260, 300, 346]
"""Ids of SmolLM2 that spell words and the like, and, below, some that break sequences."""


def ours(vocabulary: LlamaVocabulary, history: list[int], **options: float) -> np.ndarray:
    row = np.zeros(vocabulary.size, dtype=np.float32)
    Dry(breakers=BREAKERS, piece=vocabulary.piece, **options).process(row, history)
    return row


def theirs(vocabulary: LlamaVocabulary, history: list[int], **options: float) -> np.ndarray:
    marks = (ctypes.c_char_p * 4)(*(mark.encode() for mark in ("\n", *BREAKERS)))
    sampler = llama_cpp.llama_sampler_init_dry(
        vocabulary._pointer,
        options["multiplier"],
        options["base"],
        options["allowed"],
        options["last_n"],
        marks,
        len(marks),
    )
    for token in history:
        llama_cpp.llama_sampler_accept(sampler, token)
    size = vocabulary.size
    data = (llama_cpp.llama_token_data * size)(
        *(llama_cpp.llama_token_data(n, 0.0, 0.0) for n in range(size))
    )
    array = llama_cpp.llama_token_data_array(data, size, -1, False)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    llama_cpp.llama_sampler_free(sampler)
    row = np.empty(size, dtype=np.float32)
    row[[entry.id for entry in data]] = [entry.logit for entry in data]
    return row


@settings(max_examples=25, deadline=None)
@given(
    drawn=st.lists(st.integers(0, 8), max_size=60),
    multiplier=st.sampled_from([0.8, 2.0]),
    base=st.sampled_from([1.0, 1.75, 40.0]),
    allowed=st.integers(1, 4),
    last_n=st.sampled_from([1, 7, 64, 1000]),
)
def test_penalties_equal_those_of_llama_cpp(
    smollm2: Path, drawn: list[int], multiplier: float, base: float, allowed: int, last_n: int
) -> None:
    vocab = load_vocabulary(smollm2)
    ids = [*WORDS, *(vocab.tokenize(text)[0] for text in ("\n", ":", '"'))]
    history = [ids[place] for place in drawn]
    options = {"multiplier": multiplier, "base": base, "allowed": allowed, "last_n": last_n}
    expected = np.maximum(theirs(vocab, history, **options), np.float32(-1e30))
    assert np.allclose(ours(vocab, history, **options), expected, rtol=1e-5)


def test_the_longer_a_repetition_the_less_likely_it_goes_on(smollm2: Path) -> None:
    vocab = load_vocabulary(smollm2)
    usual = {"multiplier": 1.0, "base": 2.0, "allowed": 2, "last_n": 1000}
    a, b, c, d = WORDS[:4]
    assert not ours(vocab, [a, b, c], **usual).any()
    row = ours(vocab, [a, b, c, d, a, b], **usual)
    assert (row[c], np.count_nonzero(row)) == (-1.0, 1)
    assert ours(vocab, [a, b, c, d, a, b, c], **usual)[d] == -2.0
    quote = vocab.tokenize('"')[0]
    assert not ours(vocab, [a, b, quote, c, a, b, quote], **usual).any()


@pytest.mark.parametrize(("multiplier", "base"), [(1.0, 2.0), (1000.0, 1000.0), (1000.0, 1.75)])
def test_the_largest_penalty_makes_nothing_illegal(multiplier: float, base: float) -> None:
    row = np.zeros(3, dtype=np.float32)
    dry = Dry(multiplier=multiplier, base=base, allowed=2, last_n=1000, breakers="", piece=lambda token: b"x")
    dry.process(row, [1] * 1000)
    assert row[1] == np.float32(-1e30)  # and not an infinity, as what a mask forbids
    assert np.count_nonzero(row) == 1


def test_what_a_shape_forbids_stays_forbidden() -> None:
    row = np.full(9, -np.inf, dtype=np.float32)
    row[8] = 0.0
    dry = Dry(multiplier=1.0, base=2.0, allowed=1, last_n=9, breakers="", piece=lambda token: b"x")
    dry.process(row, [1, 2, 1])
    assert np.isneginf(row[:8]).all()
    assert row[8] == 0.0


@pytest.mark.parametrize("history", [[], [1], [1, 1]])
def test_a_short_history_repeats_nothing(history: list[int]) -> None:
    row = np.zeros(3, dtype=np.float32)
    Dry(multiplier=1.0, base=2.0, allowed=2, last_n=9, breakers="", piece=lambda token: b"x").process(
        row, history
    )
    assert not row.any()
