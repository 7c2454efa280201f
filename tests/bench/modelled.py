"""What drafts are worth, free of the machine's noise: every task naive, with forced spans only, and in full.

    python tests/bench/modelled.py [--tasks NAME ...] [--model GGUF] [--threads N] [--json]

The forwards are real, their time is modelled: the sum of T(rows, rows of logits) over the forwards that decoded the
reply, with one recorded curve (SmolLM2 135M Q4_1, two threads: 3.5 ms + 3 ms a row + 2 ms a row of logits), which the
gate is given as well. So two runs give the same figures on any machine. Reading the prompt is the same in all modes
and left out. Beside it the wall time outside the forwards, and the whole wall time. All greedy, all checked to give
the same tokens. `full` begins every turn with empty memories; `warm` keeps them through the turns of a task and is
given the replies to its earlier prompts of the same shape; `limit` knows the reply beforehand, so it is what drafts of
this length could bring at best. Tasks marked * follow a recorded transcript.
"""

import argparse
import json
import platform
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tasks import GREEDY, BenchTurn, Task, TranscriptSampler, load_tasks

from app.models import resolve_model
from engine.decoding.decoder import Decoder, Round
from engine.decoding.naive import naive
from engine.decoding.processor import Bits
from engine.decoding.sampler import Sampler
from engine.drafting.cost import CostModel, Gate
from engine.drafting.drafts import Drafts
from engine.drafting.source import DraftSource, NoDrafts
from engine.loading import load_engine
from engine.protocol import Load
from engine.turn import Engine

CURVE = CostModel(fixed=0.0035, row=0.003, logit_row=0.002, learning=False)
MODES = ("naive", "forced", "full", "warm", "limit")
CONTEXT = 4096


@dataclass(slots=True)
class Tally:
    """Counts and seconds over the turns of a task in one mode."""

    tokens: int = 0
    forwards: int = 0
    forced: int = 0
    accepted: int = 0
    drafted: int = 0
    modelled_s: float = 0.0
    outside_s: float = 0.0
    wall_s: float = 0.0
    drafts: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def acceptance(self) -> float:
        return self.accepted / self.drafted if self.drafted else 0.0


class Foreknowledge:
    """A source that knows the reply."""

    name = "foreknowledge"
    wants_topk = False

    def __init__(self, reply: Sequence[int]) -> None:
        self._reply = reply
        self._at = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._at = 0

    def observe(self, tokens: Sequence[int]) -> None:
        self._at += len(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        pass

    def walk(self) -> "ForeknowingWalk":
        return ForeknowingWalk(self._reply[self._at :])

    def feedback(self, submitted: int, accepted: int) -> None:
        pass


class ForeknowingWalk:
    """Guesses the rest of the reply."""

    def __init__(self, rest: Sequence[int]) -> None:
        self._rest = iter(rest)
        self._next = next(self._rest, None)

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        return None if self._next is None else (self._next, 1.0)

    def advance(self, token: int) -> None:
        self._next = next(self._rest, None)


def fresh_drafts(engine: Engine) -> Drafts:
    """Return sources that know nothing, behind a gate that knows the recorded curve."""
    drafts = Drafts(engine.vocabulary.size)
    drafts.gate = Gate(CURVE, muted=lambda: drafts.sources.muted)
    return drafts


def add_figures(tally: Tally, drafts: Drafts) -> None:
    for name, figures in drafts.statistics().items():
        add(tally.drafts.setdefault(name, {}), figures)


def add(totals: dict[str, float], figures: dict[str, float]) -> None:
    """Add figures to totals of the same names."""
    for name, value in figures.items():
        totals[name] = totals.get(name, 0) + value


@contextmanager
def watched(engine: Engine, prompt: int, tally: Tally) -> Iterator[None]:
    """Account every forward beyond the prompt."""
    context: Any = engine.context
    decode = context.decode
    inside = 0.0

    def account(tokens: Sequence[int], wanted: Sequence[int]) -> Any:
        nonlocal inside
        of_prompt = min(len(tokens), max(0, prompt - len(context.tokens)))
        started = time.perf_counter()
        rows = decode(tokens, wanted)
        inside += time.perf_counter() - started
        if len(tokens) > of_prompt or not of_prompt:
            tally.modelled_s += CURVE.seconds(len(tokens), len(wanted))
            tally.modelled_s -= CURVE.seconds(of_prompt, 1) if of_prompt else 0.0
        tally.forwards += not of_prompt
        return rows

    started = time.perf_counter()
    context.decode = account
    try:
        yield
    finally:
        context.decode = decode
        wall = time.perf_counter() - started
        tally.wall_s += wall
        tally.outside_s += wall - inside


def run(
    engine: Engine,
    task: Task,
    turn: BenchTurn,
    tally: Tally,
    source: DraftSource | None,
    gate: Gate | None = None,
) -> list[int]:
    """Decode one reply from an empty cache, naively if there is no source; return its tokens."""
    request = task.request(turn)
    constraint = None if turn.shape is None else engine.constraint(turn.shape)
    prompt = engine.prompt(request.messages).ids
    processors = [] if constraint is None else [constraint]
    sampler = (
        Sampler(GREEDY, seed=0, history=prompt, processors=processors)
        if turn.transcript is None
        else TranscriptSampler(
            GREEDY,
            vocabulary=engine.vocabulary,
            transcript=turn.transcript,
            seed=0,
            history=prompt,
            processors=processors,
        )
    )
    engine.context.keep(0)
    end_ids, budget = engine.vocabulary.end_ids, request.max_tokens
    with watched(engine, len(prompt), tally):
        if source is None:
            *committed, _ = naive(
                engine.context, sampler, structure=constraint, end_ids=end_ids, budget=budget
            )
            tokens = [one.token for one in committed]  # type: ignore[union-attr]
        else:
            decoder = Decoder(
                engine.context,
                sampler,
                structure=constraint,
                source=source,
                gate=gate,
                end_ids=end_ids,
                budget=budget,
            )
            rounds = [step for step in decoder.run() if isinstance(step, Round)]
            tokens = [one.token for step in rounds for one in step.tokens]
            tally.forced += decoder.figures.forced
            tally.accepted += decoder.figures.accepted
            tally.drafted += decoder.figures.drafted
    tally.tokens += len(tokens)
    return tokens


def run_task(engine: Engine, task: Task) -> dict[str, Tally]:
    """Return the tallies by mode."""
    tallies = {mode: Tally() for mode in MODES}
    kept = fresh_drafts(engine)
    replies: dict[str, list[list[int]]] = defaultdict(list)
    for turn in task.turns:
        reply = run(engine, task, turn, tallies["naive"], None)
        fresh = fresh_drafts(engine)
        if turn.shape is not None:
            kept.remember(replies[turn.shape.hash])
            replies[turn.shape.hash].append(reply)
        for mode, source, gate in (
            ("forced", NoDrafts(), None),
            ("full", fresh.sources, fresh.gate),
            ("warm", kept.sources, kept.gate),
            ("limit", Foreknowledge(reply), Gate(CURVE)),
        ):
            tokens = run(engine, task, turn, tallies[mode], source, gate)
            if tokens != reply:
                raise SystemExit(f"{task.name}: {mode} differs from naive:\n{engine.vocabulary.text(tokens)}")
        add_figures(tallies["full"], fresh)
    add_figures(tallies["warm"], kept)
    return tallies


def show(task: Task, tallies: dict[str, Tally]) -> None:
    """Print one task."""
    plain, forced = tallies["naive"].modelled_s, tallies["forced"].modelled_s
    marked = "*" if any(turn.transcript is not None for turn in task.turns) else ""
    print(f"\n{task.title}{marked}: {len(task.turns)} replies, {tallies['naive'].tokens} tokens")
    print(
        "          fwd/token  forced accepted sampled  acceptance  modelled  x naive x forced   outside    wall"
    )
    for mode, tally in tallies.items():
        shares = (tally.forced / tally.tokens, tally.accepted / tally.tokens)
        split = "     -        -       -" if mode == "naive" else ""
        split = split or f"{shares[0]:6.1%} {shares[1]:8.1%} {1 - sum(shares):7.1%}"
        print(
            f"  {mode:7} {tally.forwards / tally.tokens:9.3f}  {split}  {tally.acceptance:10.2f}  "
            f"{tally.modelled_s:7.3f}s  {plain / tally.modelled_s:7.2f} {forced / tally.modelled_s:8.2f}  "
            f"{tally.outside_s:7.3f}s {tally.wall_s:6.2f}s"
        )
    for mode in ("full", "warm"):
        sources = dict(tallies[mode].drafts)
        rounds = ", ".join(
            f"{name.replace('_', ' ')} {value:.0f}" for name, value in sources.pop("gate").items()
        )
        by_source = ", ".join(
            f"{name} {figures['accepted']:.0f}/{figures['submitted']:.0f}"
            + (f" ({figures['mutes']:.0f} mutes)" if figures["mutes"] else "")
            for name, figures in sources.items()
        )
        print(f"  {mode}: {rounds}; accepted {by_source}")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    path = resolve_model(arguments.model)
    engine, ready = load_engine(
        Load(model=str(path), context=CONTEXT, threads=arguments.threads, numerics="exact")
    )
    engine.warm_up()
    machine = f"{platform.machine()}, {ready.threads} threads, {path.name}, numerics {ready.exact}"
    if not arguments.json:
        print(machine)
    figures: dict[str, Any] = {}
    for task in load_tasks(arguments.tasks):
        tallies = run_task(engine, task)
        if not arguments.json:
            show(task, tallies)
        figures[task.name] = {mode: asdict(tally) for mode, tally in tallies.items()}
    if arguments.json:
        print(json.dumps({"machine": machine, "tasks": figures}, indent=1))


if __name__ == "__main__":
    main()
