"""A key-value cache for several sequences that share every forward.

Knows token ids and positions; `tokens[i]` always equals what is in the cache of stream i, also after an abort or an
error. Streams are numbered from 0 without gaps, because llama.cpp puts only neighbours into one micro-batch: when one
is dropped, the last takes its number. Each has a cache of its own (`kv_unified` off): with a common one the order of
cells, and so of summation, would depend on the neighbours.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.decoding.streams import Part
from engine.llama.library import AbortFlag, llama_cpp
from engine.llama.raw import RawContext, raise_status
from engine.llama.weights import Weights
from engine.numerics import NumericsPlan

_EVERYTHING = -1


class LlamaStreams:
    """`count` sequences of `length` positions each; `batch` tokens fit into one `decode`, of all of them together.

    `abort_flag` and `can_rollback` are those of a context over the same weights. Raises `ModelFileError` when there
    is no room.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        count: int,
        length: int,
        threads: int,
        numerics: NumericsPlan,
        batch: int,
        abort_flag: AbortFlag,
        can_rollback: bool,
    ) -> None:
        self._raw = RawContext(
            weights,
            length=length,
            threads=threads,
            numerics=numerics,
            batch=batch,
            abort_flag=abort_flag,
            sequences=count,
        )
        self.length = self._raw.length
        self.batch = self._raw.batch.size
        self.can_rollback = can_rollback
        self.vocab_size = weights.vocab_size
        self.tokens: list[list[int]] = [[] for _ in range(count)]

    def decode(self, parts: Sequence[Part]) -> list[list[NDArray[np.float32]]]:
        """Append tokens to the caches of some streams, each at most once; return the `wanted` rows of each part.

        Rows have shape [vocabulary size]; they are views, valid (and writable) until the next decode. Raises
        `Aborted` when the abort flag is up, and the caches then hold what was read until there; `DecodeFailed`
        with llama.cpp's reason; `ValueError` for what llama.cpp would answer by ending the process.
        """
        _ = self._raw.pointer  # first of all: the batch below is freed with it
        self._check(parts)
        batch = self._raw.batch
        batch.clear()
        starts: list[int] = []
        at = 0
        for part in parts:
            batch.add(
                part.tokens,
                position=len(self.tokens[part.stream]),
                sequence=part.stream,
                wanted=part.wanted,
                vocab_size=self.vocab_size,
            )
            starts.append(at)
            at += len(part.tokens)
        status = self._raw.decode()
        if status != 0:
            for part in parts:
                self._follow_memory(part)
            raise_status(status)
        for part in parts:
            self.tokens[part.stream].extend(part.tokens)
        return [
            [self._raw.row(start + index) for index in part.wanted]
            for start, part in zip(starts, parts, strict=True)
        ]

    def keep(self, stream: int, count: int) -> int:
        """Drop everything after the first `count` tokens of a stream; return how many are left.

        Memories that cannot drop a tail are emptied: 0 is left.
        """
        if count < 0:
            raise ValueError("count may not be negative")
        tokens = self.tokens[stream]
        if count < len(tokens):
            if count > 0 and llama_cpp.llama_memory_seq_rm(self._raw.memory, stream, count, _EVERYTHING):
                del tokens[count:]
            else:
                self._empty(stream)
        return len(tokens)

    def copy(self, source: int, target: int) -> None:
        """Make the cache of a stream equal to that of another, byte for byte."""
        if source != target:
            self._empty(target)
            llama_cpp.llama_memory_seq_cp(self._raw.memory, source, target, _EVERYTHING, _EVERYTHING)
            self.tokens[target] = list(self.tokens[source])

    def drop(self, stream: int) -> None:
        """Forget a stream; the last one takes its number."""
        last = len(self.tokens) - 1
        self.copy(last, stream)
        self._empty(last)
        self.tokens.pop()

    def close(self) -> None:
        """Free the caches; harmless when repeated."""
        self._raw.close()

    def _check(self, parts: Sequence[Part]) -> None:
        streams = [part.stream for part in parts]
        if (
            streams != sorted(set(streams))
            or not streams
            or not 0 <= streams[0] <= streams[-1] < len(self.tokens)
        ):
            raise ValueError(f"streams are ascending numbers below {len(self.tokens)}, not {streams}")
        count = sum(len(part.tokens) for part in parts)
        if count > self.batch or not all(part.tokens for part in parts):
            raise ValueError(f"a batch holds 1 to {self.batch} tokens and some of each stream, not {count}")
        for part in parts:
            filled = len(self.tokens[part.stream])
            if filled + len(part.tokens) > self.length:
                raise ValueError(
                    f"{filled} tokens in the cache and {len(part.tokens)} more exceed the context of {self.length}"
                )

    def _empty(self, stream: int) -> None:
        llama_cpp.llama_memory_seq_rm(self._raw.memory, stream, _EVERYTHING, _EVERYTHING)
        self.tokens[stream].clear()

    def _follow_memory(self, part: Part) -> None:
        """After an abort whole micro-batches stay in the cache; count them as read."""
        if not self.can_rollback:
            self._empty(part.stream)
            return
        present = llama_cpp.llama_memory_seq_pos_max(self._raw.memory, part.stream) + 1
        tokens = self.tokens[part.stream]
        tokens.extend(part.tokens[: max(0, present - len(tokens))])
        del tokens[max(0, present) :]
