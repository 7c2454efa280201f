"""What a forward costs, and whether a draft is worth its rows.

Knows counts of rows and seconds; nothing of models, tokens or sources. Invariants: the same inputs in the same order
give the same decisions; a decision changes how long a reply takes, never a token of it.

The gate maximises goodput, after SmartSpec (Liu et al., "Optimizing Speculative Decoding for Serving Large Language
Models Using Goodput", arXiv 2406.14066). There every committed token counts one. Here it counts the seconds that
plain decoding would take to commit it, because a forced token costs plain decoding a row and no forward: counting it
as one would buy long forced spans behind unlikely guesses. Without forced tokens both are the same.
"""

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.drafting.constrained import Draft

LARGEST_LEARNED = 64
"""Forwards of more rows read prompts; they say nothing about drafts."""

_WINDOW = 9
_EVIDENCE = 3
_SURPRISE = math.log(1.5)
_SOFTENING = 0.03
_STALE_AFTER = 128
_REFRESH_EVERY = 64


class Point(NamedTuple):
    """A measured forward: `rows` tokens read, `logit_rows` rows of logits, `seconds`."""

    rows: int
    logit_rows: int
    seconds: float


@dataclass(slots=True)
class _Cell:
    """The last forwards of one kind, as logarithms of measured over assumed seconds."""

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    measured_at: int = 0

    @property
    def estimate(self) -> float:
        return statistics.median_low(self.recent)


class CostModel:
    """Seconds of a forward, T(rows, logit_rows), from an assumed line and what was measured.

    The assumed line is `fixed + row * rows + logit_row * logit_rows`; its defaults are a 135M model on two cores.
    Every kind of forward keeps the moving median of its last nine times, so that a stall is forgotten and a
    staircase is kept. Between the kinds the ratio of measured to assumed is interpolated with inverse distances
    (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM 1968), each kind weighted
    by how often and how lately it was measured. `learning` False keeps a recorded curve as it is.
    """

    def __init__(
        self,
        *,
        fixed: float = 0.0035,
        row: float = 0.003,
        logit_row: float = 0.002,
        learning: bool = True,
    ) -> None:
        if not (fixed >= 0 and row > 0 and logit_row >= 0):
            raise ValueError("a forward takes time, and more rows take no less")
        self._line = (fixed, row, logit_row)
        self._learning = learning
        self._cells: dict[tuple[int, int], _Cell] = {}
        self.revision = 0
        """Counts how often expected times changed."""
        self._clock = 0
        self._known: dict[tuple[int, int], float] = {}
        self._arrays: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None = None

    @classmethod
    def from_points(
        cls, points: Iterable[Point | tuple[int, int, float]], *, learning: bool = True
    ) -> "CostModel":
        """Return a model that starts from recorded forwards. Raises `ValueError` for what is no measurement.

        Where they determine a line, it is the assumed one: its proportions are those of their machine.
        """
        recorded = [Point(*point) for point in points]
        for rows, logit_rows, seconds in recorded:
            if not (rows >= 1 and 0 <= logit_rows <= rows and 0 < seconds < math.inf):
                raise ValueError(f"{(rows, logit_rows, seconds)} is no forward")
        model = cls(learning=learning)
        model._line = _fitted_line(recorded) or model._line
        for rows, logit_rows, seconds in recorded:
            cell = model._cells.setdefault((rows, logit_rows), _Cell())
            cell.recent.extend([math.log(seconds / model._assumed(rows, logit_rows))] * _EVIDENCE)
        return model

    def points(self) -> list[Point]:
        """Return what is known, for `from_points`."""
        return [
            Point(rows, logits, self._assumed(rows, logits) * math.exp(cell.estimate))
            for (rows, logits), cell in sorted(self._cells.items())
        ]

    def seconds(self, rows: int, logit_rows: int) -> float:
        """Return the expected time of a forward that reads `rows` tokens and computes `logit_rows` rows of logits."""
        kind = (rows, logit_rows)
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._assumed(*kind) * math.exp(self._ratio(*kind))
        return known

    def learn(self, rows: int, logit_rows: int, seconds: float) -> None:
        """Take note of a forward. What reads a prompt, and what no clock measures, is passed over."""
        if not self._learning or rows > LARGEST_LEARNED or not 0 < seconds < math.inf:
            return
        ratio = math.log(seconds / self._assumed(rows, logit_rows))
        cell = self._cells.get((rows, logit_rows))
        if (cell is None or len(cell.recent) < _EVIDENCE) and self._settled():
            # A kind of forward that is new is believed half way: its first time may be a stall.
            expected = self._ratio(rows, logit_rows)
            ratio = min(max(ratio, expected - _SURPRISE), expected + _SURPRISE)
        if cell is None:
            cell = self._cells[(rows, logit_rows)] = _Cell()
        self._clock += 1
        cell.recent.append(ratio)
        cell.measured_at = self._clock
        if len(cell.recent) <= _EVIDENCE or self._clock % _REFRESH_EVERY == 0:
            self._known.clear()
            self._arrays = None
            self.revision += 1

    def _assumed(self, rows: int, logit_rows: int) -> float:
        fixed, row, logit_row = self._line
        return fixed + row * rows + logit_row * logit_rows

    def _settled(self) -> bool:
        return any(len(cell.recent) >= _EVIDENCE for cell in self._cells.values())

    def _ratio(self, rows: int, logit_rows: int) -> float:
        """Return the logarithm of measured over assumed seconds; 0 if nothing was measured."""
        if not self._cells:
            return 0.0
        if self._arrays is None:
            cells = self._cells.values()
            self._arrays = (
                np.array(list(self._cells), dtype=np.float64),
                np.array([cell.estimate for cell in cells]),
                np.array(
                    [
                        len(cell.recent) * 0.5 ** ((self._clock - cell.measured_at) / _STALE_AFTER)
                        for cell in cells
                    ]
                ),
            )
        places, estimates, evidence = self._arrays
        distances = ((places - (rows, logit_rows)) ** 2).sum(axis=1)
        weights = evidence / (distances + _SOFTENING) ** 2
        total = float(weights.sum())
        if total < 1e-300:  # everything is stale beyond floating point
            return float(estimates.mean())
        return float(weights @ estimates) / total


def _fitted_line(points: Sequence[Point]) -> tuple[float, float, float] | None:
    """Return the line with the least squares of relative errors; None if there is none on which rows take time."""
    seconds = np.array([point.seconds for point in points])
    terms = np.array([(1.0, point.rows, point.logit_rows) for point in points]).reshape(-1, 3)
    line, _, rank, _ = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(points)), rcond=None)
    fixed, row, logit_row = line.tolist()
    return (fixed, row, logit_row) if rank == 3 and min(fixed, logit_row) >= 0 < row else None


class Gate:
    """Chooses how much of a draft goes into the next forward.

    A draft is taken if it is expected to be faster than the plain forward by more than `margin` (a share). `muted`
    is asked why a draft is empty: True if sources that might have guessed are muted.
    """

    def __init__(
        self, cost: CostModel, *, margin: float = 0.03, muted: Callable[[], bool] = lambda: False
    ) -> None:
        self.cost = cost
        self._margin = margin
        self._muted = muted
        self._counts = dict.fromkeys(("drafted", "no_guess", "not_worth_it", "muted"), 0)
        self._least: dict[tuple[int, int], float] = {}
        self._revision = cost.revision

    def choose(self, draft: Sequence[Draft], pending: int) -> int:
        """Return how many tokens of a draft to submit behind `pending` certain rows; 0 for the plain forward.

        Certain tokens at the beginning are taken in any case: they are as good as pending. A draft is never cut
        before a certain token, since nothing is chosen there that a row of logits could be read for.
        """
        size = len(draft)
        best = 0
        while best < size and draft[best].certain:
            best += 1
        if best == size:
            self._counts["muted" if not draft and self._muted() else "no_guess"] += 1
            return best
        seconds = self.cost.seconds
        plain = seconds(pending + best, 1)
        work, reached = (
            plain,
            1.0,
        )  # plain seconds committed, as expected; probability that the draft holds so far
        highest = 1.0 + self._margin
        logit_rows = 1
        chosen = at = best
        while at < size:
            reached *= min(max(draft[at].p, 0.0), 1.0)
            first = at
            at += 1
            while at < size and draft[at].certain:
                at += 1
            logit_rows += 1
            work += reached * seconds(at - first, 1)
            goodput = work / seconds(pending + at, logit_rows)
            if goodput > highest:
                highest, chosen = goodput, at
        self._counts["drafted" if chosen > best else "not_worth_it"] += 1
        return chosen

    def least(self, pending: int, longest: int) -> float:
        """Return the probability below which a first guess cannot pay, however right the guesses behind it are.

        A draft of n guesses is then worth at most 1 + n p plain forwards.
        """
        if self._revision != self.cost.revision:
            self._revision = self.cost.revision
            self._least.clear()
        least = self._least.get((pending, longest))
        if least is None:
            seconds = self.cost.seconds
            worth = seconds(pending, 1) / (1.0 + self._margin)
            least = self._least[pending, longest] = min(
                (seconds(pending + more, 1 + more) / worth - 1.0) / more for more in range(1, longest + 1)
            )
        return least

    def learn(self, rows: int, logit_rows: int, seconds: float) -> None:
        """Take note of what a forward took."""
        self.cost.learn(rows, logit_rows, seconds)

    def statistics(self) -> dict[str, float]:
        """Return rounds in all, rounds drafted, and rounds declined by reason."""
        counts = self._counts
        return {
            "rounds": sum(counts.values()),
            "drafted": counts["drafted"],
            "declined_no_guess": counts["no_guess"],
            "declined_not_worth_it": counts["not_worth_it"],
            "declined_muted": counts["muted"],
        }
