"""A second, smaller model with the same vocabulary guesses the next tokens greedily.

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192, with
sample-and-compare in place of rejection sampling. Knows token ids and one context of its own; nothing of shapes: the
mask it is given is that of the look-ahead which walks beside it, so it drafts as if under its own clone of the shape.
Invariants: what the small model has read is a prefix of what was observed, then of the last walk, also after a forward
that failed; nothing is read before a guess is asked for.
"""

import time
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from engine.decoding.decoder import Context
from engine.decoding.processor import Bits, Row

LEAST_CONFIDENCE = 0.5
"""Below even chances a guess costs more than it brings on the processors this was measured on."""


class DraftModelSource:
    """Guesses with the model behind `context`, as long as it is at least `confidence` sure of each.

    The context belongs to the source and must be able to take tokens back. `vocab_size` counts the ids both models
    know; the small one never hears of others. `end_ids` are never guessed, for nothing can be won behind them.
    """

    name = "draft-model"
    wants_topk = False

    def __init__(
        self,
        context: Context,
        *,
        vocab_size: int,
        end_ids: AbstractSet[int],
        confidence: float = LEAST_CONFIDENCE,
    ) -> None:
        self._context = context
        self._vocab_size = vocab_size
        self._end_ids = end_ids
        self._confidence = confidence
        self.seconds = 0.0
        """Seconds of forwards so far; those that a turn begins with read its prompt and are left out."""
        self._begun = False
        self._history: list[int] = []
        self._agreed = 0  # how many tokens are surely the same in the history and in the cache

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a turn; what an earlier one left in the cache is used as far as it is the same."""
        self._history.clear()
        self._agreed = 0
        self._begun = True
        self.observe(prompt)

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Note committed tokens; they are read when the next guess is asked for."""
        self._history.extend(self._known(tokens))

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Learn nothing: it was not asked for."""

    def walk(self) -> "DraftModelWalk":
        """Open a walk at the end of what was observed."""
        return DraftModelWalk(self)

    def feedback(self, submitted: int, accepted: int) -> None:
        """Change nothing: the small model's probabilities are its own."""

    def abort(self) -> None:
        """Make the running and every later guess raise `Aborted`; safe from any thread."""
        self._context.abort()

    def clear_abort(self) -> None:
        """Let guesses be made again."""
        self._context.clear_abort()

    def likeliest(self, path: Sequence[int], mask: Bits | None) -> tuple[int, float] | None:
        """Return the likeliest legal token after history and path, or None if it is not sure or there is none.

        Its probability is taken among the legal tokens. Raises `Aborted` and `DecodeFailed`.
        """
        row = self._row(list(self._known(path)))
        if row is None:
            return None
        logits = row[: self._vocab_size]
        legal = None
        if mask is not None:
            bits = np.unpackbits(mask.view(np.uint8), count=logits.size, bitorder="little")
            legal = np.flatnonzero(bits)
            logits = logits[legal]
            if legal.size == 0:
                return None
        place = int(logits.argmax())
        p = 1 / float(np.exp(logits - logits[place]).sum())
        token = place if legal is None else int(legal[place])
        return (token, p) if p >= self._confidence and token not in self._end_ids else None

    def _known(self, tokens: Iterable[int]) -> Iterable[int]:
        return (token for token in tokens if token < self._vocab_size)

    def _row(self, path: list[int]) -> Row | None:
        """Bring the cache to history and path; return the row behind them, None if there is no room or no text."""
        context, history = self._context, self._history
        total = len(history) + len(path)
        if not 0 < total <= context.length:
            return None
        at = context.keep(min(self._common_prefix(path), total - 1))
        begun, self._begun = self._begun, False
        started = time.perf_counter()
        row = None
        while row is None:
            upto = min(at + context.batch, total)
            tokens = history[at:upto] + path[max(0, at - len(history)) : max(0, upto - len(history))]
            rows = context.decode(tokens, (upto - at - 1,) if upto == total else ())
            row = rows[0] if rows else None
            at = upto
        if not begun:
            self.seconds += time.perf_counter() - started
        return row

    def _common_prefix(self, path: Sequence[int]) -> int:
        """Return how many tokens of history and path are in the cache. Looks at each token of the history once."""
        cached, history = self._context.tokens, self._history
        at = min(self._agreed, len(cached))  # a forward that failed may have emptied the cache
        while at < min(len(cached), len(history)) and cached[at] == history[at]:
            at += 1
        self._agreed = at
        if at == len(history):
            for token in path:
                if at == len(cached) or cached[at] != token:
                    break
                at += 1
        return at


class DraftModelWalk:
    """A walk of the small model into a possible future; rejected tokens leave its cache at the next guess."""

    def __init__(self, source: DraftModelSource) -> None:
        self._source = source
        self._path: list[int] = []

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        """Return the likeliest legal token and its probability. Raises `Aborted` and `DecodeFailed`."""
        return self._source.likeliest(self._path, mask)

    def advance(self, token: int) -> None:
        """Step over a token; it is read with the next guess."""
        self._path.append(token)
