"""The one place that chooses tokens, on every path.

Knows rows of logits and token ids. Owns the history (prompt included). Every token enters it through `next` (chosen)
or `take` (forced), and is committed to every processor exactly once. A draw is a function of the seed and the
position in the history alone, so it does not matter in which batch a row was computed.
"""

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from engine.decoding.processor import LogitProcessor, Row
from engine.errors import AllTokensMasked, BrokenLogits, SharedProcessor
from engine.llama.samplers import SamplerChain
from engine.protocol import Sampling

_MASK64 = (1 << 64) - 1

_streams: "WeakValueDictionary[int, Sampler]" = WeakValueDictionary()
"""Which living stream uses a processor, by the processor's `id`; the stream keeps the processor alive."""


class Sampler:
    """Chooses, admits and commits the tokens of one stream.

    Resets the processors. `wrapped` are those inside of others. Raises `SharedProcessor` if another living stream uses
    one of either.
    """

    def __init__(
        self,
        settings: Sampling,
        *,
        seed: int,
        history: Sequence[int],
        processors: Sequence[LogitProcessor] = (),
        wrapped: Sequence[LogitProcessor] = (),
    ) -> None:
        self.seed = seed
        self.history: list[int] = list(history)
        self.allowed: int | None = None
        """How many ids were legal at the last choice; None if all were."""
        self.masked = 0
        """How many ids were illegal at the last choice."""
        self.replaced = False
        """True if a processor put another token in the place of the last one chosen."""
        self._settings = settings
        self._ids = np.arange(0)
        self._processors = tuple(processors)
        self._wrapped = tuple(wrapped)
        self._chain = (
            SamplerChain(
                top_k=settings.top_k,
                top_p=settings.top_p,
                min_p=settings.min_p,
                typical_p=settings.typical_p,
                top_n_sigma=settings.top_n_sigma,
                temperature=settings.temperature,
            )
            if settings.temperature > 0
            else None
        )
        self._penalised = settings.penalty_last_n > 0 and (
            settings.repeat_penalty != 1 or settings.frequency_penalty != 0 or settings.presence_penalty != 0
        )
        for processor in (*self._processors, *self._wrapped):
            if _streams.setdefault(id(processor), self) is not self:
                raise SharedProcessor("a processor belongs to one stream; give the other stream a clone")
        for processor in self._processors:
            processor.reset()

    def next(self, row: Row) -> int:
        """Choose a token from a row of logits [vocabulary size], which is changed in place, and commit it.

        Raises `AllTokensMasked` if no token is legal, `BrokenLogits` for what is no number.
        """
        for processor in self._processors:
            processor.process(row, self.history)
        if self._penalised:
            self._penalise(row)
        chosen = token = self._choose(row)
        for processor in self._processors:
            token = processor.admit(token)
        self.replaced = token != chosen
        self.take(token)
        return token

    def take(self, token: int) -> None:
        """Commit a token that needed no choice."""
        for processor in self._processors:
            processor.commit(token)
        self.history.append(token)

    def _choose(self, row: Row) -> int:
        ids: NDArray[np.intp] | None = None
        self.allowed, self.masked = None, 0
        if self._processors:
            legal = row > -np.inf
            count = int(np.count_nonzero(legal))
            if count == 0 and not np.isnan(row).any():
                raise AllTokensMasked("no token is legal here")
            if count < row.size:
                self.allowed, self.masked = count, row.size - count
                if self._chain is not None:
                    ids = np.flatnonzero(legal)
        if not np.isfinite(row.max()):  # the maximum of a row with a NaN is NaN
            raise BrokenLogits("the model's logits are no numbers; its file may be damaged")
        if self._chain is None:
            return int(row.argmax())
        if ids is None:
            ids = self._every_id(row.size)
        left, logits = self._chain.narrow(ids, row if ids.size == row.size else row[ids])
        weights = np.exp(logits.astype(np.float64) - float(logits[0]))
        cumulative = np.cumsum(weights)
        place = np.searchsorted(
            cumulative, uniform(self.seed, len(self.history)) * cumulative[-1], side="right"
        )
        return int(left[min(int(place), left.size - 1)])

    def _every_id(self, size: int) -> NDArray[np.intp]:
        if self._ids.size != size:
            self._ids = np.arange(size)
        return self._ids

    def _penalise(self, row: Row) -> None:
        """Repeat, frequency and presence penalties over the last tokens, as llama.cpp's penalties sampler does."""
        settings = self._settings
        ids, counts = np.unique(self.history[-settings.penalty_last_n :], return_counts=True)
        logits = row[ids]
        repeat = np.float32(settings.repeat_penalty)
        logits = np.where(logits <= 0, logits * repeat, logits / repeat)
        logits -= counts.astype(np.float32) * np.float32(settings.frequency_penalty) + np.float32(
            settings.presence_penalty
        )
        row[ids] = logits


def uniform(seed: int, position: int) -> float:
    """Return a number in [0, 1) for a seed and an absolute position: two rounds of splitmix64.

    Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
    """
    return (_splitmix64(_splitmix64(seed & _MASK64) ^ position) >> 11) * 2.0**-53


def _splitmix64(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)
