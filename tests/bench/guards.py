"""What guards and landing cost: the engine's decode loop with them and without, interleaved.

    python tests/bench/guards.py [--rounds N] [--model GGUF] [--threads N]

Greedy, drafts off, SmolLM2 by default, the default budget, the same messages and the same context for all ways; the
cache is cut back to the prompt before each, so that only decoding is timed. A shape whose replies the guards change
would compare different work, so the streams are asserted to be equal.

What counts is the processor time of every call into the structure while a reply is decoded, that of building it
included: medians of the rounds, less that of the bare constraint, as a share of the bare reply's time. It is taken
between the forwards, because those empty the processor's caches. The seconds of whole replies differ by less than
a machine's noise; the ratio of the fastest ones is printed beside it, and the forwards are asserted to be as many.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.models import resolve_model
from engine.decoding.decoder import Decoder, Figures, Round
from engine.decoding.guards import RunGuard
from engine.decoding.landing import Landing
from engine.decoding.processor import Bits, Lookahead, Row, Shaped, Structured
from engine.decoding.sampler import Sampler
from engine.decoding.tokens import TokenTable, token_table
from engine.drafting.source import NoDrafts
from engine.loading import load_engine
from engine.protocol import Load, Message, Sampling
from engine.turn import Engine
from grammars.describe import describe
from grammars.presets import presets
from grammars.spec import GrammarSpec

NAMES = ("city", "recipe", "invoice", "sql-select")
BUDGET = 1024
WAYS = ("bare", "guards", "landing", "both")

T = TypeVar("T")


class Stopwatch:
    """Adds up the processor time of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, call: Callable[..., T], *arguments: object) -> T:
        started = time.thread_time()
        try:
            return call(*arguments)
        finally:
            self.seconds += time.thread_time() - started


class TimedLookahead:
    """A look-ahead under a stopwatch."""

    def __init__(self, inner: Lookahead, watch: Stopwatch) -> None:
        self._inner = inner
        self._watch = watch

    @property
    def ended(self) -> bool:
        return self._watch(lambda: self._inner.ended)

    def forced(self) -> Sequence[int]:
        return self._watch(self._inner.forced)

    def mask(self) -> Bits:
        return self._watch(self._inner.mask)

    def advance(self, token: int) -> None:
        self._watch(self._inner.advance, token)

    def copy(self) -> "TimedLookahead":
        return TimedLookahead(self._watch(self._inner.copy), self._watch)


class Timed:
    """A structured processor under a stopwatch."""

    def __init__(self, inner: Structured, watch: Stopwatch) -> None:
        self._inner = inner
        self._watch = watch

    def process(self, row: Row, history: Sequence[int]) -> None:
        self._watch(self._inner.process, row, history)

    def admit(self, token: int) -> int:
        return self._watch(self._inner.admit, token)

    def commit(self, token: int) -> None:
        self._watch(self._inner.commit, token)

    def reset(self) -> None:
        self._watch(self._inner.reset)

    def ahead(self) -> TimedLookahead:
        return TimedLookahead(self._watch(self._inner.ahead), self._watch)

    def clone(self) -> "Timed":
        return Timed(self._inner.clone(), self._watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One reply: seconds in all and in calls into the structure, its tokens, and what it took."""

    seconds: float
    calls: float
    tokens: list[int]
    figures: Figures


def structured(engine: Engine, shape: GrammarSpec, way: str) -> Structured:
    """Return the processor of one way; what a turn builds anew is built here."""
    known = engine.compiled(shape)
    made: Shaped = engine.constraint(shape)
    if way in ("guards", "both") and known.guards is not None:
        made = RunGuard(made, guards=known.guards, vocabulary=engine.vocabulary)
    if way in ("landing", "both"):
        return Landing(made, budget=BUDGET, endings=known.endings)
    return made


def reply(engine: Engine, shape: GrammarSpec, prompt: list[int], way: str) -> Decoded:
    """Decode one reply, timed from building the processor to the end."""
    engine.context.keep(len(prompt) - 1)
    watch = Stopwatch()
    started = time.perf_counter()
    structure = Timed(watch(structured, engine, shape, way), watch)
    sampler = Sampler(Sampling(temperature=0), seed=0, history=prompt, processors=[structure])
    decoder = Decoder(
        engine.context,
        sampler,
        structure=structure,
        source=NoDrafts(),
        end_ids=engine.vocabulary.end_ids,
        budget=BUDGET,
    )
    tokens = [each.token for step in decoder.run() if isinstance(step, Round) for each in step.tokens]
    seconds = time.perf_counter() - started
    return Decoded(seconds=seconds, calls=watch.seconds, tokens=tokens, figures=decoder.figures)


def row(name: str, replies: dict[str, list[Decoded]]) -> str:
    """Return what a shape's replies came to. Raises AssertionError where the ways did not do the same work."""
    every = [each for way in WAYS for each in replies[way]]
    tokens = every[0].tokens
    assert all(each.tokens == tokens for each in every), "the ways wrote different replies"
    assert len({each.figures.forwards for each in every}) == 1, "the ways took different numbers of forwards"
    calls = {way: statistics.median(each.calls for each in replies[way]) for way in WAYS}
    least = {way: min(each.seconds for each in replies[way]) for way in WAYS}
    told = "; ".join(
        f"{way} {(calls[way] - calls['bare']) / len(tokens) * 1e6:+.0f} us a token, "
        f"{(calls[way] - calls['bare']) / least['bare']:+.2%} (whole replies {least[way] / least['bare'] - 1:+.1%})"
        for way in WAYS[1:]
    )
    return (
        f"{name:11} {len(tokens):4} tokens, {least['bare']:.3f} s, {calls['bare'] / len(tokens) * 1e6:.0f} us a token "
        f"in the constraint; {told}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    path = Path(resolve_model(arguments.model))
    engine, ready = load_engine(Load(model=str(path), context=2048, threads=arguments.threads))
    print(f"{platform.machine()}, Python {platform.python_version()}, {path.name}, {ready.threads} threads")
    token_table(engine.vocabulary)
    started = time.perf_counter()
    TokenTable(engine.vocabulary)
    print(
        f"classes of {engine.vocabulary.size:,} tokens: {(time.perf_counter() - started) * 1e3:.0f} ms, once a model"
    )
    for name in NAMES:
        preset = presets()[name]
        shape = preset.spec()
        asked = Message(role="user", content=f"{preset.example_prompt}\n\n{describe(shape)}")
        prompt = list(engine.prompt([asked]).ids)
        replies: dict[str, list[Decoded]] = {way: [] for way in WAYS}
        for number in range(arguments.rounds + 1):
            for way in WAYS[number % 4 :] + WAYS[: number % 4]:
                decoded = reply(engine, shape, prompt, way)
                if number:  # the first round warms up
                    replies[way].append(decoded)
        print(row(name, replies), flush=True)


if __name__ == "__main__":
    main()
