"""A model's key-value cache and its forward pass, with guards in front of every assertion of llama.cpp.

Knows token ids and positions; `tokens` always equals what is in the cache, also after an abort or an error.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import Aborted, DecodeFailed
from engine.gguf import ModelFileError
from engine.llama import library
from engine.llama.library import AbortFlag, llama_cpp
from engine.llama.weights import Weights
from engine.numerics import GGML_TYPE_F16, NumericsPlan

_NO_SLOT = 1
_ABORTED = 2


class LlamaContext:
    """One sequence in a KV cache of `length` positions.

    `batch` is the largest number of tokens in one `decode`. Raises `ModelFileError` when llama.cpp cannot make a
    context of that length, for want of memory for example.
    """

    def __init__(
        self, weights: Weights, *, length: int, threads: int, numerics: NumericsPlan, batch: int = 512
    ) -> None:
        self._weights = weights  # kept alive: the context points into it
        self._context: llama_cpp.llama_context_p | None = None
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = length
        params.n_batch = params.n_ubatch = min(batch, length)
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        params.swa_full = True
        params.no_perf = True
        if numerics.exact:
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.type_k = GGML_TYPE_F16
        params.type_v = numerics.value_type
        self._abort_flag = AbortFlag()
        library.forget_errors()
        self._context = llama_cpp.llama_init_from_model(weights.pointer, params)
        if not self._context:
            reason = (library.errors() or ["not enough memory?"])[0]
            raise ModelFileError(f"{weights.path.name}: no context of {length} tokens: {reason}")
        llama_cpp.llama_set_abort_callback(self._context, self._abort_flag.callback, self._abort_flag.data)
        self.length: int = llama_cpp.llama_n_ctx(self._context)
        self.batch: int = llama_cpp.llama_n_batch(self._context)  # llama.cpp clamps it silently
        self.vocab_size = weights.vocab_size
        self.tokens: list[int] = []
        memory = llama_cpp.llama_get_memory(self._context)
        if memory is None:
            raise ModelFileError(f"{weights.path.name}: this kind of model has no memory to decode with")
        self._memory = memory
        self._batch_struct = llama_cpp.llama_batch_init(self.batch, 0, 1)
        self._ids = _view(self._batch_struct.token, self.batch)
        self._positions = _view(self._batch_struct.pos, self.batch)
        self._wanted = _view(self._batch_struct.logits, self.batch)
        _view(self._batch_struct.n_seq_id, self.batch)[:] = 1
        for index in range(self.batch):
            self._batch_struct.seq_id[index][0] = 0

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        """Append tokens to the cache and return the rows of logits at the `wanted` indices of `tokens`.

        Rows have shape [vocabulary size]; they are views, valid (and writable) until the next decode. Raises
        `Aborted` when the abort flag is up, and the cache then holds what was read until there; `DecodeFailed`
        with llama.cpp's reason; `ValueError` for what llama.cpp would answer by ending the process.
        """
        pointer = self.pointer  # first of all: the arrays below are freed with it
        count = len(tokens)
        start = len(self.tokens)
        if not 0 < count <= self.batch:
            raise ValueError(f"a batch holds 1 to {self.batch} tokens, not {count}")
        if start + count > self.length:
            raise ValueError(
                f"{start} tokens in the cache and {count} more exceed the context of {self.length}"
            )
        self._ids[:count] = tokens
        if not 0 <= int(self._ids[:count].min()) <= int(self._ids[:count].max()) < self.vocab_size:
            raise ValueError(f"token ids go from 0 to {self.vocab_size - 1}")
        self._positions[:count] = np.arange(start, start + count)
        self._wanted[:count] = 0
        if wanted:
            self._wanted[list(wanted)] = 1
        self._batch_struct.n_tokens = count
        library.forget_errors()
        status = llama_cpp.llama_decode(pointer, self._batch_struct)
        if status != 0:
            self._follow_memory(tokens)
            if status == _ABORTED:
                raise Aborted
            reason = "; ".join(library.errors()) or (
                "no free cell" if status == _NO_SLOT else "no reason given"
            )
            raise DecodeFailed(f"llama.cpp could not decode (status {status}): {reason}")
        self.tokens.extend(tokens)
        return [self._row(index) for index in wanted]

    def keep(self, count: int) -> int:
        """Drop everything after the first `count` tokens; return how many are left.

        Memories that cannot drop a tail (recurrent, hybrid) are emptied: 0 is left.
        """
        if count < 0:
            raise ValueError("count may not be negative")
        if count >= len(self.tokens):
            return len(self.tokens)
        if count > 0 and llama_cpp.llama_memory_seq_rm(self._memory, 0, count, -1):
            del self.tokens[count:]
        else:
            llama_cpp.llama_memory_clear(self._memory, True)
            self.tokens.clear()
        return len(self.tokens)

    def abort(self) -> None:
        """Make the running and every later `decode` raise `Aborted`; safe from any thread."""
        self._abort_flag.raise_()

    def clear_abort(self) -> None:
        """Let `decode` work again."""
        self._abort_flag.clear()

    @property
    def pointer(self) -> llama_cpp.llama_context_p:
        """The llama_context pointer. Raises `ValueError` after `close`."""
        if not self._context:
            raise ValueError("the context is closed")
        return self._context

    def close(self) -> None:
        """Free the cache; harmless when repeated."""
        if self._context:
            llama_cpp.llama_batch_free(self._batch_struct)
            llama_cpp.llama_free(self._context)
            self._context = None

    def _row(self, index: int) -> NDArray[np.float32]:
        pointer: Any = llama_cpp.llama_get_logits_ith(self.pointer, index)
        row: Any = (ctypes.c_float * self.vocab_size).from_address(ctypes.addressof(pointer.contents))
        return np.frombuffer(row, dtype=np.float32)

    def _follow_memory(self, tokens: Sequence[int]) -> None:
        """After an abort whole micro-batches stay in the cache; count them as read."""
        present = llama_cpp.llama_memory_seq_pos_max(self._memory, 0) + 1
        read = max(0, present - len(self.tokens))
        self.tokens.extend(tokens[:read])
        del self.tokens[max(0, present) :]


def _view(pointer: Any, count: int) -> NDArray[Any]:
    return np.ctypeslib.as_array(pointer, shape=(count,))
