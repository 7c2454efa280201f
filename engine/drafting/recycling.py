"""Token Recycling: a token is followed by one of those that the model found likely after it the last time.

Knows token ids and rows of logits. The likeliest successors of every token are kept across turns, taken from rows that
were read anyway. Source: Luo et al., "Turning Trash into Treasure: Accelerating Inference of Large Language Models with
Token Recycling", arXiv 2408.08696; here a chain, not a tree, and under a mask the best legal successor.

Memory: vocabulary x `SUCCESSORS` ids of 4 bytes (1.6 MB at 49k, 8.4 MB at 262k), allocated with the first row.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.decoding.masks import is_legal
from engine.decoding.processor import Bits, Row
from engine.drafting.suffix import Record

SUCCESSORS = 8
"""How many successors of a token are kept."""

_LONGEST = 6
"""How many guesses a walk gives: each stands on the one before, and none of them looks further back than one token."""

_FREE = SUCCESSORS
_PRIORS = (0.45,) * SUCCESSORS + (0.33,)
"""By rank under a mask, and without one, where the rank is always the first.

Measured with a 135M model on prose and code: without a mask 0.30 to 0.36; under masks that leave a tenth of the
vocabulary 0.3 to 0.6 at every rank, for the better ranks are only passed over where the mask leaves little to choose.
"""

_NONE = -1
_COLUMN = 64


class RecyclingWalk:
    """A walk along the likeliest successors. `kinds` are those of followed guesses."""

    def __init__(self, successors: NDArray[np.int32], token: int, record: Record) -> None:
        self.kinds: list[int] = []
        self._successors = successors
        self._token = token
        self._record = record
        self._guessed = (_NONE, 0)

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        """Return the likeliest legal successor and the record of its rank."""
        self._guessed = (_NONE, 0)
        if len(self.kinds) >= _LONGEST or not 0 <= self._token < len(self._successors):
            return None
        for rank, stored in enumerate(self._successors[self._token].tolist()):
            if stored == 0:
                break
            token = stored - 1
            if is_legal(mask, token):
                kind = _FREE if mask is None else rank
                self._guessed = (token, kind)
                return token, self._record.p(kind)
        return None

    def advance(self, token: int) -> None:
        """Step over a token."""
        guessed, kind = self._guessed
        if token == guessed != _NONE:
            self.kinds.append(kind)
        self._guessed = (_NONE, 0)
        self._token = token


class RecyclingSource:
    """Guesses from the likeliest successors of each token. Ids from `vocabulary_size` on are unknown to it."""

    name = "recycling"
    wants_topk = True

    def __init__(self, vocabulary_size: int) -> None:
        self._size = vocabulary_size
        self._successors = np.empty((0, SUCCESSORS), dtype=np.int32)
        self._token = _NONE
        self._record = Record(_PRIORS)
        self._walk: RecyclingWalk | None = None

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a turn: only its last token matters, what is known of successors stays."""
        self._token = _NONE
        self.observe(prompt[-1:])
        self._walk = None

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Stand on the last of the committed tokens."""
        if len(tokens):
            self._token = int(tokens[-1])

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Replace what is known of a token's successors, given likeliest first."""
        if not 0 <= token < self._size:
            return
        if not len(self._successors):
            # Ids are stored plus one, so that the system gives memory only where something is known.
            self._successors = np.zeros((self._size, SUCCESSORS), dtype=np.int32)
        known = [successor + 1 for successor in successors[:SUCCESSORS] if 0 <= successor < self._size]
        self._successors[token] = known + [0] * (SUCCESSORS - len(known))

    def walk(self) -> RecyclingWalk:
        """Open a walk at the last observed token."""
        self._walk = RecyclingWalk(self._successors, self._token, self._record)
        return self._walk

    def feedback(self, submitted: int, accepted: int) -> None:
        """Update the record from the guesses of the last walk."""
        if self._walk is not None:
            self._record.learn(self._walk.kinds, submitted, accepted)
            self._walk = None


def top_successors(row: Row, k: int = SUCCESSORS) -> list[int]:
    """Return the ids of the `k` largest logits of a row [vocabulary size], largest first; fewer if the rest is -inf.

    The row stays as it is. Linear with a small constant: the `k` largest stand in the `k` columns with the largest
    maxima, so all but those columns are only looked at for their maximum; and none is below the least of those maxima.
    """
    columns = row.size // _COLUMN
    if columns <= k:
        ids, logits = np.arange(row.size), row
    else:
        table = row[: columns * _COLUMN].reshape(_COLUMN, columns)
        highest = table.max(axis=0)
        best = highest.argpartition(columns - k)[columns - k :]
        floor = highest[best].min()
        candidates, rest = table[:, best].ravel(), row[columns * _COLUMN :]
        near, behind = np.flatnonzero(candidates >= floor), np.flatnonzero(rest >= floor)
        ids = np.concatenate((near // k * columns + best[near % k], behind + columns * _COLUMN))
        logits = np.concatenate((candidates[near], rest[behind]))
    order = np.argsort(-logits, kind="stable")[:k]
    return ids[order[logits[order] > -np.inf]].tolist()
