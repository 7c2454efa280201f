"""The numerics probe: is a row of a batch bit for bit the row of a single token, on this machine and for this file?

Knows a context and token ids. Compares on a prompt above 512 tokens, because below 256 every kernel looks exact. The
verdict is kept (`engine.cache`) under everything it depends on.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from engine import cache
from engine.cache import Settings
from engine.decoding.decoder import Context
from engine.decoding.processor import Row
from engine.events import Exactness
from engine.numerics import NumericsPlan

PROMPT_TOKENS = 600
LENGTH = 768
"""Positions that a context needs to be probed."""
BATCHES = (2, 3, 4, 8, 16)
_SINGLES = max(BATCHES)
_KIND = "probe"
_METHOD = 1
"""Counts up when the comparison changes, so that older verdicts are not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a probe saw; `detail` is a sentence, with the first difference if there was one."""

    exact: bool
    detail: str


def judge(plan: NumericsPlan, verdict: Verdict | None) -> tuple[Exactness, str]:
    """Return what to call replies under a plan and why: exact only if it was planned and seen."""
    if verdict is None or not plan.exact:
        return plan.badge, plan.reason
    if verdict.exact:
        return "exact", f"{plan.reason}, and {verdict.detail}"
    return "fast", f"{plan.reason}, but {verdict.detail}"


def probe(context: Context, vocab_size: int) -> Verdict:
    """Compare single rows with batches on an empty context of at least `LENGTH` positions, which is left filled.

    Rows of batches are compared when all are asked for and when only the last is, and each time after the batch before
    was dropped. Raises `Aborted` when the abort flag is raised, `DecodeFailed`.
    """
    tokens = _tokens(PROMPT_TOKENS + _SINGLES, vocab_size)
    prompt, following = tokens[:PROMPT_TOKENS], tokens[PROMPT_TOKENS:]
    _read(context, prompt)
    singles = [context.decode([token], (0,))[0].copy() for token in following]
    for count in BATCHES:
        for wanted in (range(count), (count - 1,)):
            if context.keep(PROMPT_TOKENS) != PROMPT_TOKENS:  # a memory that cannot drop a tail reads again
                _read(context, prompt)
            rows = context.decode(following[:count], wanted)
            difference = _first_difference(count, wanted, rows, singles)
            if difference:
                return Verdict(exact=False, detail=difference)
    sizes = ", ".join(map(str, BATCHES[:-1]))
    return Verdict(
        exact=True,
        detail=f"batches of {sizes} and {BATCHES[-1]} rows behind {PROMPT_TOKENS} tokens "
        "equal single rows bit for bit",
    )


def recall(folder: Path, settings: Settings) -> Verdict | None:
    """Return the verdict kept in a folder for these settings, if any."""
    kept = cache.recall(folder, _KIND, settings, method=_METHOD)
    if isinstance(kept.get("exact"), bool) and isinstance(kept.get("detail"), str):
        return Verdict(exact=kept["exact"], detail=kept["detail"])
    return None


def keep(folder: Path, settings: Settings, verdict: Verdict) -> None:
    """Keep a verdict in a folder; one that cannot be written is passed over."""
    cache.keep(folder, _KIND, settings, asdict(verdict), method=_METHOD)


def _tokens(count: int, vocab_size: int) -> list[int]:
    return np.random.Generator(np.random.Philox(key=0)).integers(vocab_size, size=count).tolist()


def _read(context: Context, prompt: Sequence[int]) -> None:
    while len(context.tokens) < len(prompt):
        at = len(context.tokens)
        context.decode(prompt[at : at + context.batch], ())


def _first_difference(
    count: int, wanted: Sequence[int], rows: Sequence[Row], singles: Sequence[Row]
) -> str | None:
    for place, row in zip(wanted, rows, strict=True):
        if not np.array_equal(row, singles[place]):
            largest = float(np.max(np.abs(row - singles[place])))
            return (
                f"row {place + 1} of a batch of {count} differs from the single row, by at most {largest:.2g}"
            )
    return None
