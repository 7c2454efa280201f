"""Runs of the bench's tasks: counted once by a recorded curve, then timed in interleaved rounds.

Knows one loaded engine; nothing of screens. Everything is greedy. What is measured begins where all of a prompt but its
last token is in the cache and ends with the reply, so reading prompts is no part of it. The forward that reads the last
token of the prompt is no decoding either: it is not counted, its modelled time is only what it carries beyond that
token, and the wall time holds it in every mode. Time outside the forwards is processor time of this thread, which other
programs disturb less.

Modes: `naive` reads a mask and makes a forward for every token, `forced` commits forced spans at once, `full` guesses
with memories that were empty before the turn, `warm` with what turns of other inputs under the same shape have left,
`limit` knows the reply. The counted pass lets the gate follow the recorded curve, so its decisions are those of any
machine; in the timed rounds the gate learns, as it does in a chat.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.bench.clock import Clock, Timed
from app.bench.foreknowledge import Foreknowledge
from app.bench.tasks import GREEDY, BenchTurn, Task, TranscriptSampler
from engine.decoding.decoder import Committed, Context, Decoder, Round
from engine.decoding.naive import naive
from engine.decoding.processor import Row
from engine.decoding.sampler import Sampler
from engine.drafting.cost import CostModel, Gate
from engine.drafting.drafts import Drafts
from engine.drafting.source import DraftSource, NoDrafts
from engine.errors import Aborted
from engine.protocol import Generate
from engine.turn import Engine

Mode = Literal["naive", "forced", "full", "warm", "limit"]
MODES: tuple[Mode, ...] = ("naive", "forced", "full", "warm", "limit")
TIMED: tuple[Mode, ...] = ("naive", "forced", "full", "warm")
COLD: tuple[Mode, ...] = ("naive", "forced", "full", "limit")


@dataclass(slots=True)
class Tally:
    """Counts and seconds of replies in one mode. `kinds` counts forwards by (rows, rows of logits)."""

    tokens: int = 0
    forced: int = 0
    accepted: int = 0
    drafted: int = 0
    forwards: int = 0
    wall_s: float = 0.0
    outside_s: float = 0.0
    kinds: Counter[tuple[int, int]] = field(default_factory=Counter)
    sources: dict[str, dict[str, float]] = field(default_factory=dict)

    def forward_s(self, curve: CostModel) -> float:
        """Return the seconds that the forwards take by a curve."""
        return sum(count * curve.seconds(*kind) for kind, count in self.kinds.items())

    def modelled_s(self, curve: CostModel) -> float:
        """Return the forwards' seconds by a curve and the measured ones outside of them."""
        return self.forward_s(curve) + self.outside_s

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        for name in ("tokens", "forced", "accepted", "drafted", "forwards", "wall_s", "outside_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, count in other.kinds.items():
            self.kinds[kind] += count
        for source, figures in other.sources.items():
            mine = self.sources.setdefault(source, {})
            for name, value in figures.items():
                mine[name] = mine.get(name, 0) + value


@dataclass(slots=True, kw_only=True)
class Result:
    """What came out of a task: tallies of the counted pass and wall seconds of the rounds, by mode and turn.

    `parts` are the seconds that the parts of the engine took in one more full pass, `replies` the naive ones.
    `differing` counts the runs whose reply was not the naive one.
    """

    task: Task
    counted: dict[Mode, dict[int, Tally]]
    walls: dict[Mode, dict[int, list[float]]]
    parts: Clock
    replies: list[list[int]] = field(default_factory=list)
    differing: int = 0

    def total(self, mode: Mode, turns: Iterable[int] | None = None) -> Tally:
        """Return the tally of a mode over some of its turns, or all."""
        whole = Tally()
        for turn in self.counted[mode] if turns is None else turns:
            whole.add(self.counted[mode][turn])
        return whole

    def rounds(self, mode: Mode, turns: Iterable[int]) -> list[float]:
        """Return the wall seconds of some turns together, by round; empty if none was timed."""
        return [
            sum(seconds) for seconds in zip(*(self.walls[mode].get(turn, []) for turn in turns), strict=True)
        ]


class Bench:
    """Runs tasks on a loaded engine. `recorded` is the curve of the counted pass; `learned` becomes this machine's.

    `stepped` is called after every run; there are `steps` of them.
    """

    def __init__(
        self, engine: Engine, recorded: CostModel, stepped: Callable[[], None] = lambda: None
    ) -> None:
        self.learned = CostModel()
        self._engine = engine
        self._recorded = recorded
        self._stepped = stepped

    def run(self, task: Task, rounds: int) -> Result:
        """Run a task. Raises `Aborted` after an abort, and what the engine raises."""
        result = Result(
            task=task,
            counted={mode: {} for mode in MODES},
            walls={mode: {} for mode in TIMED},
            parts=Clock(),
        )
        for turn, mode, tally in self._pass(result, self._recorded, COLD):
            result.counted[mode][turn] = tally
        for turn, one in enumerate(task.turns):
            drafts = self._engine.drafts.emptied(self._recorded)
            self._timed(result, turn, one, drafts.sources, drafts.gate, result.parts)
        for number in range(rounds):
            order = TIMED[:3][number % 3 :] + TIMED[:3][: number % 3]
            for turn, mode, tally in self._pass(result, self.learned, order):
                result.walls[mode].setdefault(turn, []).append(tally.wall_s)
        return result

    def _pass(
        self, result: Result, curve: CostModel, modes: Sequence[Mode]
    ) -> Iterator[tuple[int, Mode, Tally]]:
        """Run every turn once in every mode, the last one warm where it can be."""
        kept: dict[str | None, Drafts] = {}
        replies: dict[str | None, list[list[int]]] = {}
        for turn, one in enumerate(result.task.turns):
            shape = None if one.shape is None else one.shape.hash
            fresh = self._engine.drafts
            for mode in modes:
                if mode == "naive":
                    yield turn, mode, self._timed(result, turn, one, None, Gate(curve))
                elif mode == "forced":
                    yield turn, mode, self._timed(result, turn, one, NoDrafts(), Gate(curve))
                elif mode == "limit":
                    known = Foreknowledge(result.replies[turn])
                    yield turn, mode, self._timed(result, turn, one, known, Gate(curve))
                else:
                    drafts = self._engine.drafts.emptied(curve)
                    yield turn, mode, self._drafted(result, turn, one, drafts)
                    fresh = drafts
            if shape not in kept:
                kept[shape] = fresh  # its memories hold this turn, and so they are warm for the next one
            else:
                if shape is not None:
                    kept[shape].remember(replies[shape])
                yield turn, "warm", self._drafted(result, turn, one, kept[shape])
            replies.setdefault(shape, []).append(result.replies[turn])

    def _drafted(self, result: Result, turn: int, one: BenchTurn, drafts: Drafts) -> Tally:
        before = drafts.statistics()
        tally = self._timed(result, turn, one, drafts.sources, drafts.gate)
        tally.sources = drafts.since(before)
        return tally

    def _timed(
        self,
        result: Result,
        turn: int,
        one: BenchTurn,
        source: DraftSource | None,
        gate: Gate,
        clock: Clock | None = None,
    ) -> Tally:
        """Write one reply, naively if there is no source, and compare it with the naive one."""
        tally = Tally()
        request = result.task.request(one)
        tokens = write(self._engine, request, tally, source, gate, transcript=one.transcript, clock=clock)
        if turn == len(result.replies):  # the counted pass begins with the naive mode
            result.replies.append(tokens)
        result.differing += tokens != result.replies[turn]
        self._stepped()
        return tally


def steps(tasks: Iterable[Task], rounds: int) -> int:
    """Return how many runs a bench of these tasks makes."""
    count = 0
    for task in tasks:
        shapes = {None if turn.shape is None else turn.shape.hash for turn in task.turns}
        warm = len(task.turns) - len(shapes)
        count += (len(COLD) + 1 + 3 * rounds) * len(task.turns) + (1 + rounds) * warm
    return count


def write(
    engine: Engine,
    request: Generate,
    tally: Tally,
    source: DraftSource | None,
    gate: Gate,
    *,
    transcript: str | None = None,
    clock: Clock | None = None,
) -> list[int]:
    """Decode one greedy reply, naively if there is no source; return its tokens. Raises `Aborted`, `TurnRefused`."""
    constraint = None if request.shape is None else engine.constraint(request.shape)
    prompt = engine.prompt(request.messages).ids
    _read(engine.context, prompt)
    context: Any = _Observed(engine.context, len(prompt), tally, gate if source is None else None)
    structure: Any = constraint
    drafter: Any = source
    judge: Any = gate
    if clock is not None:  # what stands in for an object has its methods, and no type that says so
        context = Timed(context, clock, "forward")
        structure = structure and Timed(structure, clock, "mask", opens=("ahead",))
        drafter = drafter and Timed(drafter, clock, "drafts", opens=("walk",))
        judge = Timed(judge, clock, "drafts")
    processors = [] if structure is None else [structure]
    sampler = (
        Sampler(GREEDY, seed=0, history=prompt, processors=processors)
        if transcript is None
        else TranscriptSampler(
            GREEDY,
            vocabulary=engine.vocabulary,
            transcript=transcript,
            seed=0,
            history=prompt,
            processors=processors,
        )
    )
    chooser: Any = sampler if clock is None else Timed(sampler, clock, "choice")
    end_ids, budget = engine.vocabulary.end_ids, request.max_tokens
    accounted = 0.0 if clock is None else sum(clock.seconds.values())
    started, worked = time.perf_counter(), time.thread_time()
    if drafter is None:
        steps = naive(context, chooser, structure=structure, end_ids=end_ids, budget=budget)
        tokens = [step.token for step in steps if isinstance(step, Committed)]
    else:
        decoder = Decoder(
            context, chooser, structure=structure, source=drafter, gate=judge, end_ids=end_ids, budget=budget
        )
        rounds = [step for step in decoder.run() if isinstance(step, Round)]
        if decoder.finish == "cancelled":
            raise Aborted
        tokens = [one.token for step in rounds for one in step.tokens]
        tally.forced = decoder.figures.forced
        tally.accepted, tally.drafted = decoder.figures.accepted, decoder.figures.drafted
    looking = sampler.looking_s if isinstance(sampler, TranscriptSampler) else 0.0
    tally.wall_s = time.perf_counter() - started - looking
    worked = time.thread_time() - worked - looking
    tally.outside_s += worked
    if clock is not None:
        clock.seconds["choice"] -= looking
        clock.seconds["loop"] += worked - sum(clock.seconds.values()) + accounted
    tally.tokens = len(tokens)
    return tokens


def _read(context: Context, prompt: Sequence[int]) -> None:
    """Bring all of a prompt but its last token into the cache, and nothing else."""
    shared = 0
    for cached, wanted in zip(context.tokens, prompt[:-1], strict=False):
        if cached != wanted:
            break
        shared += 1
    at = context.keep(shared)
    while at < len(prompt) - 1:
        context.decode(prompt[at : min(at + context.batch, len(prompt) - 1)], ())
        at = len(context.tokens)


class _Observed:
    """A context whose forwards are tallied; the naive loop has no gate, so its forwards are shown to one here."""

    def __init__(self, context: Context, prompt: int, tally: Tally, gate: Gate | None) -> None:
        self.length, self.batch, self.can_rollback = context.length, context.batch, context.can_rollback
        self.tokens = context.tokens
        self.keep, self.abort, self.clear_abort = context.keep, context.abort, context.clear_abort
        self._context = context
        self._prompt = prompt
        self._tally = tally
        self._gate = gate

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[Row]:
        """Append tokens and return rows, as the context does."""
        of_prompt = min(len(tokens), max(0, self._prompt - len(self._context.tokens)))
        started, worked = time.perf_counter(), time.thread_time()
        rows = self._context.decode(tokens, wanted)
        seconds = time.perf_counter() - started
        tally = self._tally
        tally.outside_s -= time.thread_time() - worked
        tally.forwards += not of_prompt
        if of_prompt < len(tokens):
            tally.kinds[len(tokens), len(wanted)] += 1
            if of_prompt:
                tally.kinds[of_prompt, 1] -= 1
        if self._gate is not None and not of_prompt:
            self._gate.learn(len(tokens), len(wanted), seconds)
        return rows
