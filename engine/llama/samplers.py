"""llama.cpp's own sampler chain, so that top-k, top-p, min-p and temperature mean what they mean there.

Narrows candidates only; the draw is the caller's, because llama.cpp's `dist` owns an advancing generator. Invariant:
every sampler here is a function of the candidates alone, whatever was asked before.
"""

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.llama.library import llama_cpp

_CANDIDATE = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])

WIDEST = 1000
"""The top-k of a chain that was given none: top-p over a full row would take 3 to 10 ms."""
_NEGLIGIBLE = 80.0
"""How far below the likeliest logit a candidate has no weight in float32, over whose logarithm typical-p stumbles."""


class SamplerChain:
    """top-n-sigma, top-k, typical-p, top-p, min-p and temperature, in llama.cpp's order."""

    def __init__(
        self,
        *,
        top_k: int,
        top_p: float,
        min_p: float,
        temperature: float,
        typical_p: float = 1.0,
        top_n_sigma: float = 0.0,
    ) -> None:
        self._typical = typical_p < 1
        self._sigma = (
            _chain(llama_cpp.llama_sampler_init_top_n_sigma(top_n_sigma)) if top_n_sigma > 0 else None
        )
        first = [llama_cpp.llama_sampler_init_top_k(top_k or WIDEST)]
        rest = [
            llama_cpp.llama_sampler_init_top_p(top_p, 1),
            llama_cpp.llama_sampler_init_min_p(min_p, 1),
            llama_cpp.llama_sampler_init_temp(temperature),
        ]
        if self._typical:
            self._chains = (
                _chain(*first),
                _chain(llama_cpp.llama_sampler_init_typical(typical_p, 1), *rest),
            )
        else:
            self._chains = (_chain(*first, *rest),)
        for chain in (*self._chains, *filter(None, (self._sigma,))):
            weakref.finalize(self, llama_cpp.llama_sampler_free, chain)
        self._buffer = np.zeros(0, dtype=_CANDIDATE)

    def narrow(
        self, ids: NDArray[np.intp], logits: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the ids left over, likeliest first, and their logits divided by the temperature.

        `ids` and `logits` have the same shape [candidates], at least one, none of them infinite. The result is a
        view, valid until the next call.
        """
        count = len(ids)
        if count > len(self._buffer):
            self._buffer = np.zeros(count, dtype=_CANDIDATE)
        self._buffer["id"][:count] = ids
        self._buffer["logit"][:count] = logits
        is_sorted = False
        if self._sigma is not None:  # it leaves what it rules out in place, with a logit of -inf
            count, _ = self._apply(self._sigma, count, is_sorted)
            count = self._drop_below(count, -np.inf)
        for place, chain in enumerate(self._chains):
            if place:
                count = self._drop_below(count, float(self._buffer["logit"][0]) - _NEGLIGIBLE)
            count, is_sorted = self._apply(chain, count, is_sorted)
        left = self._buffer[:count]
        if self._typical and not is_sorted:
            left[:] = left[np.argsort(-left["logit"], kind="stable")]
        return left["id"], left["logit"]

    def _apply(self, chain: Any, count: int, is_sorted: bool) -> tuple[int, bool]:
        """Let llama.cpp narrow the first `count` candidates; return how many are left and whether they are sorted."""
        array = llama_cpp.llama_token_data_array(
            data=self._buffer.ctypes.data_as(llama_cpp.llama_token_data_p),
            size=count,
            selected=-1,
            sorted=is_sorted,
        )
        reference: Any = ctypes.byref(array)
        llama_cpp.llama_sampler_apply(chain, reference)
        return array.size, bool(array.sorted)

    def _drop_below(self, count: int, least: float) -> int:
        """Close the gaps of candidates with a logit of `least` or lower; return how many are left."""
        kept = self._buffer[:count][self._buffer["logit"][:count] > least]
        self._buffer[: kept.size] = kept
        return kept.size


def _chain(*samplers: Any) -> Any:
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for sampler in samplers:
        llama_cpp.llama_sampler_chain_add(chain, sampler)
    return chain
