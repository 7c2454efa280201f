"""What one sequence and several have in common: the life of a llama_context, filling a llama_batch, reading its rows.

Knows no cache contents. Bounds are the caller's: llama.cpp answers what is outside of them by ending the process.
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


class RawContext:
    """A llama_context of `length` positions for each sequence, with its memory and a batch of the size it takes.

    The one owner of the three: nothing of them is used after `close`. `abort_flag` may be shared between contexts.
    Raises `ModelFileError` when llama.cpp cannot make it, for want of room for example.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        length: int,
        threads: int,
        numerics: NumericsPlan,
        batch: int,
        abort_flag: AbortFlag,
        sequences: int = 1,
    ) -> None:
        self._weights = weights  # kept alive: the context points into it
        self._abort_flag = abort_flag  # and reads this
        context, self.memory = _open(
            weights,
            length=length,
            threads=threads,
            numerics=numerics,
            batch=batch,
            abort_flag=abort_flag,
            sequences=sequences,
        )
        self._context: llama_cpp.llama_context_p | None = context
        self.length: int = llama_cpp.llama_n_ctx_seq(context)
        self.vocab_size = weights.vocab_size
        self.batch = Batch(llama_cpp.llama_n_batch(context))  # llama.cpp clamps the size silently

    @property
    def pointer(self) -> llama_cpp.llama_context_p:
        """The llama_context pointer. Raises `ValueError` after `close`."""
        if not self._context:
            raise ValueError("the context is closed")
        return self._context

    def decode(self) -> int:
        """Compute the batch; return llama.cpp's status, whose reasons `raise_status` knows."""
        library.forget_errors()
        return llama_cpp.llama_decode(self.pointer, self.batch.struct)

    def row(self, index: int) -> NDArray[np.float32]:
        """Return the logits [vocabulary size] of a batch index; a view, valid and writable until the next decode."""
        pointer: Any = llama_cpp.llama_get_logits_ith(self.pointer, index)
        row: Any = (ctypes.c_float * self.vocab_size).from_address(ctypes.addressof(pointer.contents))
        return np.frombuffer(row, dtype=np.float32)

    def close(self) -> None:
        """Give everything back; harmless when repeated."""
        if self._context:
            self.batch.free()
            llama_cpp.llama_free(self._context)
            self._context = None


def _open(
    weights: Weights,
    *,
    length: int,
    threads: int,
    numerics: NumericsPlan,
    batch: int,
    abort_flag: AbortFlag,
    sequences: int,
) -> tuple[llama_cpp.llama_context_p, Any]:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = length * sequences
    params.n_seq_max = sequences
    params.n_batch = params.n_ubatch = min(batch, length * sequences)
    params.n_threads = params.n_threads_batch = threads
    params.kv_unified = False
    params.swa_full = True
    params.no_perf = True
    if numerics.exact:
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.type_k = GGML_TYPE_F16
    params.type_v = numerics.value_type
    library.forget_errors()
    context = llama_cpp.llama_init_from_model(weights.pointer, params)
    if not context:
        reason = (library.errors() or ["not enough memory?"])[0]
        kind = f"{length} tokens" if sequences == 1 else f"{sequences} times {length} tokens"
        raise ModelFileError(f"{weights.path.name}: no context of {kind}: {reason}")
    llama_cpp.llama_set_abort_callback(context, abort_flag.callback, abort_flag.data)
    memory = llama_cpp.llama_get_memory(context)
    if memory is None:
        llama_cpp.llama_free(context)
        raise ModelFileError(f"{weights.path.name}: this kind of model has no memory to decode with")
    return context, memory


class Batch:
    """A llama_batch of at most `size` tokens."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.struct = llama_cpp.llama_batch_init(size, 0, 1)
        self._ids = _view(self.struct.token, size)
        self._positions = _view(self.struct.pos, size)
        self._wanted = _view(self.struct.logits, size)
        _view(self.struct.n_seq_id, size)[:] = 1
        self._sequences = np.zeros(
            size, dtype=np.int32
        )  # what is in `seq_id`, whose every entry is a pointer
        for index in range(size):
            self.struct.seq_id[index][0] = 0

    def clear(self) -> None:
        """Start a new batch."""
        self.struct.n_tokens = 0

    def add(
        self, tokens: Sequence[int], *, position: int, sequence: int, wanted: Sequence[int], vocab_size: int
    ) -> None:
        """Append tokens of one sequence from `position` on. Raises `ValueError` for ids outside the vocabulary."""
        at: int = self.struct.n_tokens
        end = at + len(tokens)
        ids = self._ids[at:end]
        ids[:] = tokens
        if not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
            raise ValueError(f"token ids go from 0 to {vocab_size - 1}")
        self._positions[at:end] = np.arange(position, position + len(tokens))
        self._wanted[at:end] = 0
        if wanted:
            self._wanted[[at + index for index in wanted]] = 1
        for index in np.flatnonzero(self._sequences[at:end] != sequence).tolist():
            self.struct.seq_id[at + index][0] = sequence
        self._sequences[at:end] = sequence
        self.struct.n_tokens = end

    def free(self) -> None:
        """Give the memory back."""
        llama_cpp.llama_batch_free(self.struct)


def raise_status(status: int) -> None:
    """Turn a status of `llama_decode` other than 0 into `Aborted` or `DecodeFailed` with llama.cpp's reason."""
    if status == _ABORTED:
        raise Aborted
    reason = "; ".join(library.errors()) or ("no free cell" if status == _NO_SLOT else "no reason given")
    raise DecodeFailed(f"llama.cpp could not decode (status {status}): {reason}")


def _view(pointer: Any, count: int) -> NDArray[Any]:
    return np.ctypeslib.as_array(pointer, shape=(count,))
