"""A model's key-value cache and its forward pass, with guards in front of every assertion of llama.cpp.

Knows token ids and positions; `tokens` always equals what is in the cache, also after an abort or an error. What a
memory can do is found out by trying, never by the name of an architecture.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.errors import DecodeFailed
from engine.gguf import ModelFileError
from engine.llama.library import AbortFlag, llama_cpp
from engine.llama.raw import RawContext, raise_status
from engine.llama.streams import LlamaStreams
from engine.llama.weights import Weights
from engine.numerics import NumericsPlan


class LlamaContext:
    """One sequence in a KV cache of `length` positions.

    `batch` is the largest number of tokens in one `decode`. `can_rollback` tells whether `keep` can drop a tail; it is
    False for memories that are one state and not one entry a token (recurrent and hybrid models). Raises
    `ModelFileError` when llama.cpp cannot make a context of that length, for want of memory for example.
    """

    def __init__(
        self, weights: Weights, *, length: int, threads: int, numerics: NumericsPlan, batch: int = 512
    ) -> None:
        self._weights = weights
        self._abort_flag = AbortFlag()
        self._raw = RawContext(
            weights,
            length=length,
            threads=threads,
            numerics=numerics,
            batch=batch,
            abort_flag=self._abort_flag,
        )
        self.numerics = numerics
        self.threads = threads
        self.length = self._raw.length
        self.batch = self._raw.batch.size
        self.vocab_size = weights.vocab_size
        self.tokens: list[int] = []
        self.can_rollback = False  # until it was tried
        self.can_rollback = self._probe_rollback()

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        """Append tokens to the cache and return the rows of logits at the `wanted` indices of `tokens`.

        Rows have shape [vocabulary size]; they are views, valid (and writable) until the next decode. Raises
        `Aborted` when the abort flag is up, and the cache then holds what was read until there; `DecodeFailed`
        with llama.cpp's reason; `ValueError` for what llama.cpp would answer by ending the process.
        """
        _ = self._raw.pointer  # first of all: the batch below is freed with it
        count = len(tokens)
        start = len(self.tokens)
        if not 0 < count <= self.batch:
            raise ValueError(f"a batch holds 1 to {self.batch} tokens, not {count}")
        if start + count > self.length:
            raise ValueError(
                f"{start} tokens in the cache and {count} more exceed the context of {self.length}"
            )
        self._raw.batch.clear()
        self._raw.batch.add(tokens, position=start, sequence=0, wanted=wanted, vocab_size=self.vocab_size)
        status = self._raw.decode()
        if status != 0:
            self._follow_memory(tokens)
            raise_status(status)
        self.tokens.extend(tokens)
        return [self._raw.row(index) for index in wanted]

    def keep(self, count: int) -> int:
        """Drop everything after the first `count` tokens; return how many are left.

        Memories that cannot drop a tail (recurrent, hybrid) are emptied: 0 is left.
        """
        if count < 0:
            raise ValueError("count may not be negative")
        if count >= len(self.tokens):
            return len(self.tokens)
        if count > 0 and llama_cpp.llama_memory_seq_rm(self._raw.memory, 0, count, -1):
            del self.tokens[count:]
        else:
            self._empty()
        return len(self.tokens)

    def abort(self) -> None:
        """Make the running and every later `decode` raise `Aborted`; safe from any thread."""
        self._abort_flag.raise_()

    def clear_abort(self) -> None:
        """Let `decode` work again."""
        self._abort_flag.clear()

    def twin(self, length: int) -> "LlamaContext":
        """Return an empty context over the same weights, with the same settings and a length of its own."""
        return LlamaContext(self._weights, length=length, threads=self.threads, numerics=self.numerics)

    def streams(self, count: int, length: int) -> LlamaStreams:
        """Return an empty cache for `count` sequences of `length` positions or more, aborted together with this one."""
        original = self._weights.metadata(
            f"{self._weights.metadata('general.architecture')}.rope.scaling.original_context_length"
        )
        if original is not None and self.length > int(original):
            length = max(length, int(original) + 1)  # LongRoPE takes other factors for longer caches
        return LlamaStreams(
            self._weights,
            count=count,
            length=min(length, self.length),
            threads=self.threads,
            numerics=self.numerics,
            batch=self.batch,
            abort_flag=self._abort_flag,
            can_rollback=self.can_rollback,
        )

    @property
    def pointer(self) -> llama_cpp.llama_context_p:
        """The llama_context pointer. Raises `ValueError` after `close`."""
        return self._raw.pointer

    def close(self) -> None:
        """Free the cache; harmless when repeated."""
        self._raw.close()

    def _probe_rollback(self) -> bool:
        """Read two tokens and try to take one back; leave the cache empty."""
        try:
            self.decode([0, 0], ())
        except DecodeFailed as error:
            raise ModelFileError(f"{self._weights.path.name}: {error}") from error
        able = bool(llama_cpp.llama_memory_seq_rm(self._raw.memory, 0, 1, -1))
        self.keep(0)
        return able

    def _empty(self) -> None:
        llama_cpp.llama_memory_clear(self._raw.memory, True)
        self.tokens.clear()

    def _follow_memory(self, tokens: Sequence[int]) -> None:
        """After an abort whole micro-batches stay in the cache; count them as read.

        A memory that is one state is then half overwritten, and llama.cpp cannot remove the batch from it.
        """
        if not self.can_rollback:
            self._empty()
            return
        present = llama_cpp.llama_memory_seq_pos_max(self._raw.memory, 0) + 1
        read = max(0, present - len(self.tokens))
        self.tokens.extend(tokens[:read])
        del self.tokens[max(0, present) :]
