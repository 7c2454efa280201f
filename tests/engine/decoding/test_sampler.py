"""The sampler: penalties and chain mean what they mean in llama.cpp, and draws depend on seed and position alone."""

import ctypes
from collections.abc import Sequence

import llama_cpp
import numpy as np
import pytest

from engine.decoding.bias import BannedTokens, LogitBias
from engine.decoding.sampler import Sampler, uniform
from engine.errors import AllTokensMasked, BrokenLogits, SharedProcessor
from engine.llama.samplers import SamplerChain
from engine.protocol import Sampling

VOCAB = 5000


def row(seed: int, size: int = VOCAB) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32) * 4


def llama_candidates(logits: np.ndarray, *samplers: int) -> tuple[list[int], np.ndarray]:
    """Apply llama.cpp's own samplers to a row; return ids and logits as it leaves them."""
    data = (llama_cpp.llama_token_data * logits.size)(
        *(llama_cpp.llama_token_data(index, float(logit), 0.0) for index, logit in enumerate(logits))
    )
    array = llama_cpp.llama_token_data_array(data, logits.size, -1, False)
    for sampler in samplers:
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        llama_cpp.llama_sampler_free(sampler)
    left = array.data[: array.size]
    return [entry.id for entry in left], np.array([entry.logit for entry in left], dtype=np.float32)


class Seen:
    """Remembers the row it was shown and everything that was committed."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.committed: list[int] = []

    def process(self, row: np.ndarray, history: Sequence[int]) -> None:
        self.rows.append(row.copy())

    def admit(self, token: int) -> int:
        return token

    def commit(self, token: int) -> None:
        self.committed.append(token)

    def reset(self) -> None:
        self.rows.clear()


def test_temperature_zero_takes_the_likeliest() -> None:
    logits = row(1)
    assert Sampler(Sampling(temperature=0), seed=0, history=[1]).next(logits.copy()) == int(logits.argmax())


@pytest.mark.parametrize("settings", [(1.3, 0.0, 0.0), (1.0, 0.4, 0.0), (1.0, 0.0, 0.7), (1.1, -0.2, 0.3)])
def test_penalties_equal_those_of_llama_cpp_bit_for_bit(settings: tuple[float, float, float]) -> None:
    repeat, frequency, presence = settings
    history = np.random.default_rng(7).integers(0, 300, size=200).tolist()
    sampling = Sampling(
        temperature=0, repeat_penalty=repeat, frequency_penalty=frequency, presence_penalty=presence
    )
    ours = row(2)
    Sampler(sampling, seed=0, history=history).next(ours)
    oracle = llama_cpp.llama_sampler_init_penalties(VOCAB, 64, repeat, frequency, presence)
    for token in history:
        llama_cpp.llama_sampler_accept(oracle, token)
    ids, logits = llama_candidates(row(2), oracle)
    expected = np.empty(VOCAB, dtype=np.float32)
    expected[ids] = logits
    assert np.array_equal(ours, expected)


def test_penalties_count_forced_tokens_and_the_prompt() -> None:
    sampler = Sampler(Sampling(temperature=0, presence_penalty=2), seed=0, history=[10, 11])
    sampler.take(12)
    logits = np.zeros(20, dtype=np.float32)
    sampler.next(logits)
    assert np.flatnonzero(logits == -2).tolist() == [10, 11, 12]


def test_a_bias_comes_before_the_penalties_as_in_llama_cpp() -> None:
    """A bias may change the sign of a logit, and with it whether the repeat penalty multiplies or divides."""
    logits = np.array([-3.0, 0.0], dtype=np.float32)
    sampler = Sampler(
        Sampling(temperature=0, repeat_penalty=1.3), seed=0, history=[0], processors=[LogitBias({0: 5.0})]
    )
    sampler.next(logits)
    assert logits[0] == np.float32(2.0) / np.float32(1.3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_fail_loudly(temperature: float) -> None:
    logits = row(8)
    logits[17] = np.nan
    with pytest.raises(BrokenLogits):
        Sampler(Sampling(temperature=temperature), seed=0, history=[]).next(logits)


@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p", "temperature"),
    [(40, 0.95, 0.05, 0.7), (0, 1.0, 0.0, 1.0), (5, 0.5, 0.0, 1.5), (0, 0.9, 0.1, 0.3), (100, 1.0, 0.2, 2.0)],
)
def test_draws_follow_the_distribution_of_llama_cpps_chain(
    top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    ids, logits = llama_candidates(
        row(3),
        llama_cpp.llama_sampler_init_top_k(top_k or 1000),
        llama_cpp.llama_sampler_init_top_p(top_p, 1),
        llama_cpp.llama_sampler_init_min_p(min_p, 1),
        llama_cpp.llama_sampler_init_temp(temperature),
    )
    weights = np.exp(logits.astype(np.float64) - logits.max())
    cumulative = np.cumsum(weights / weights.sum())
    for seed in range(200):
        sampler = Sampler(
            Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
            seed=seed,
            history=[0] * 9,
        )
        place = min(int(np.searchsorted(cumulative, uniform(seed, 9), side="right")), len(ids) - 1)
        assert sampler.next(row(3)) == ids[place]


def test_uniform_numbers_are_uniform_in_seed_and_in_position() -> None:
    by_position = np.array([uniform(3, position) for position in range(20000)])
    by_seed = np.array([uniform(seed, 3) for seed in range(20000)])
    for numbers in (by_position, by_seed):
        counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
        assert abs(counts - 1000).max() < 150
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03
    assert by_position.min() >= 0
    assert by_position.max() < 1


@pytest.mark.parametrize(
    ("typical_p", "top_n_sigma"), [(0.5, 0.0), (0.2, 0.0), (1.0, 1.0), (1.0, 2.5), (0.6, 2.0)]
)
@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_typical_p_and_top_n_sigma_keep_what_llama_cpp_keeps(
    typical_p: float, top_n_sigma: float, scale: float
) -> None:
    """llama.cpp stumbles over candidates without weight, so the oracle is not shown them."""
    logits = (row(9) / 4 * scale).astype(np.float32)
    chain = SamplerChain(
        top_k=0, top_p=0.9, min_p=0.01, temperature=0.7, typical_p=typical_p, top_n_sigma=top_n_sigma
    )
    left = llama_candidates(logits, llama_cpp.llama_sampler_init_top_n_sigma(top_n_sigma))
    left = llama_candidates(left[1], llama_cpp.llama_sampler_init_top_k(1000))
    likely = left[1] > max(-1e30, float(left[1].max()) - 80)
    ids = np.array(left[0])[likely]
    kept, narrowed = llama_candidates(
        logits[ids],
        *([llama_cpp.llama_sampler_init_typical(typical_p, 1)] if typical_p < 1 else []),
        llama_cpp.llama_sampler_init_top_p(0.9, 1),
        llama_cpp.llama_sampler_init_min_p(0.01, 1),
        llama_cpp.llama_sampler_init_temp(0.7),
    )
    for _ in range(2):  # what was asked before leaves nothing behind
        found, values = chain.narrow(np.arange(VOCAB), logits)
        assert sorted(found.tolist()) == sorted(ids[kept].tolist())
        assert np.array_equal(values, np.sort(values)[::-1])
        assert np.array_equal(np.sort(values), np.sort(narrowed))


def test_a_draw_depends_on_seed_and_position_only() -> None:
    long = Sampler(Sampling(temperature=1), seed=5, history=range(100))
    for token in (1, 2, 3):
        long.take(token)
    short = Sampler(Sampling(temperature=1), seed=5, history=range(103))
    assert long.next(row(4)) == short.next(row(4))


def test_every_token_is_committed_once_to_every_processor() -> None:
    first, second = Seen(), Seen()
    sampler = Sampler(Sampling(), seed=1, history=[1], processors=[first, second])
    chosen = sampler.next(row(5))
    sampler.take(7)
    assert first.committed == second.committed == [chosen, 7]
    assert sampler.history == [1, chosen, 7]


def test_a_processor_may_replace_the_chosen_token_before_it_is_committed() -> None:
    class Lands(Seen):
        def admit(self, token: int) -> int:
            return 42

    processor = Lands()
    assert Sampler(Sampling(), seed=1, history=[], processors=[processor]).next(row(6)) == 42
    assert processor.committed == [42]


def test_bias_bans_and_penalties_compose() -> None:
    logits = np.array([5.0, 4.0, 3.0, 2.0], dtype=np.float32)
    sampler = Sampler(
        Sampling(temperature=0, presence_penalty=3),
        seed=0,
        history=[1],
        processors=[LogitBias({3: 1.5}), BannedTokens([0])],
    )
    # 0 is banned, 1 falls to 1 by its penalty, 3 rises to 3.5 by its bias
    assert sampler.next(logits) == 3
    assert (sampler.allowed, sampler.masked) == (3, 1)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_legal_token_fails_loudly(temperature: float) -> None:
    sampler = Sampler(
        Sampling(temperature=temperature), seed=0, history=[], processors=[BannedTokens(range(50))]
    )
    with pytest.raises(AllTokensMasked):
        sampler.next(row(7, 50))


def test_two_streams_may_not_share_a_processor() -> None:
    processor = Seen()
    first = Sampler(Sampling(), seed=0, history=[], processors=[processor])
    with pytest.raises(SharedProcessor):
        Sampler(Sampling(), seed=0, history=[], processors=[processor])
    del first
    Sampler(Sampling(), seed=0, history=[], processors=[processor])
