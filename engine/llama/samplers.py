"""llama.cpp's own sampler chain, so that top-k, top-p, min-p and temperature mean what they mean there.

Narrows candidates only; the draw is the caller's, because llama.cpp's `dist` owns an advancing generator.
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


class SamplerChain:
    """top-k, top-p, min-p and temperature, in llama.cpp's order."""

    def __init__(self, *, top_k: int, top_p: float, min_p: float, temperature: float) -> None:
        self._chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        weakref.finalize(self, llama_cpp.llama_sampler_free, self._chain)
        for sampler in (
            llama_cpp.llama_sampler_init_top_k(top_k or WIDEST),
            llama_cpp.llama_sampler_init_top_p(top_p, 1),
            llama_cpp.llama_sampler_init_min_p(min_p, 1),
            llama_cpp.llama_sampler_init_temp(temperature),
        ):
            llama_cpp.llama_sampler_chain_add(self._chain, sampler)
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
        array = llama_cpp.llama_token_data_array(
            data=self._buffer.ctypes.data_as(llama_cpp.llama_token_data_p),
            size=count,
            selected=-1,
            sorted=False,
        )
        reference: Any = ctypes.byref(array)
        llama_cpp.llama_sampler_apply(self._chain, reference)
        left = self._buffer[: array.size]
        return left["id"], left["logit"]
