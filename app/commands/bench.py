"""`stampo bench`: what forced spans and drafts are worth on this machine, task by task.

Standard output is the figures, standard error the progress. Exit codes: 0 every run gave the reply of the naive loop,
or was not bound to (numerics that are not exact); 1 on exact numerics one did not; 2 usage error, or standard output
cannot be written; 3 model error; 130 interrupted.
"""

import json
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands.options import DraftModelOption, ModelOption, ThreadsOption
from app.headless import INTERRUPTED, MODEL, OK, UNFIT
from app.models import NoModel, resolve_model
from app.terminal import emit, narrate, refuse
from engine.errors import Aborted, EngineError, TurnRefused
from engine.gguf import ModelFileError
from engine.protocol import Load, Numerics

if TYPE_CHECKING:
    from app.bench.tasks import Task
    from engine.events import Ready
    from engine.turn import Engine

_CONTEXT = 4096
_FILE_WIDTH = 110


def bench(
    model: ModelOption = None,
    draft_model: DraftModelOption = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", metavar="NAME", help="Only this task; repeat, or part by commas."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=0, max=100, metavar="N", help="Timed rounds; 0 only counts and models.")
    ] = 3,
    threads: ThreadsOption = None,
    numerics: Annotated[
        Numerics, typer.Option("--numerics", help="exact compares the replies of all modes bit for bit.")
    ] = "exact",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what forced spans and guesses are worth: every task naive, forced only, and in full.

    Exit codes: 0 all went well, 1 modes disagreed on exact numerics, 2 usage error, 3 model error,
    130 interrupted.
    """
    from app.bench.tasks import load_tasks

    names = [name.strip() for given in tasks or () for name in given.split(",") if name.strip()]
    try:
        chosen = load_tasks(names)
    except ValueError as error:
        refuse(f"{error}; there are {', '.join(task.name for task in load_tasks())}.")
    try:
        load = Load(
            model=str(resolve_model(model)),
            draft_model=None if draft_model is None else str(resolve_model(draft_model)),
            context=_CONTEXT,
            threads=threads,
            numerics=numerics,
        )
    except NoModel as error:
        refuse(str(error), code=MODEL)
    try:
        with _interruptible() as interrupt:
            code = _bench(load, chosen, rounds, as_json, interrupt)
    except Aborted:
        refuse("Interrupted.", code=INTERRUPTED)
    except TurnRefused as refusal:
        refuse(str(refusal), code=MODEL if refusal.kind == "model" else 2)
    except (ModelFileError, EngineError) as error:
        refuse(str(error), code=MODEL)
    raise typer.Exit(code)


class _Interrupt:
    """Whether Ctrl+C was pressed, and the engine to stop then."""

    def __init__(self) -> None:
        self.pressed = False
        self.engine: Engine | None = None

    def press(self, _signal: int, _frame: FrameType | None) -> None:
        self.pressed = True
        if self.engine is not None:
            self.engine.abort()

    def check(self) -> None:
        """Raise `Aborted` if it was pressed."""
        if self.pressed:
            raise Aborted


@contextmanager
def _interruptible() -> Iterator[_Interrupt]:
    """Take Ctrl+C as a wish to stop at the next forward, for as long as this lasts."""
    interrupt = _Interrupt()
    before = signal.signal(signal.SIGINT, interrupt.press)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _bench(load: Load, tasks: "Sequence[Task]", rounds: int, as_json: bool, interrupt: _Interrupt) -> int:
    from app.bench.curve import recorded_curve
    from app.bench.report import Report, machine_line
    from app.bench.runs import Bench, steps

    engine, ready = _load(load, interrupt)
    curve = recorded_curve()
    with _progress() as progress:
        bar = progress.add_task("", total=steps(tasks, rounds))

        def stepped() -> None:
            interrupt.check()
            progress.advance(bar)

        runner = Bench(engine, curve.cost(), stepped)
        results = []
        for task in tasks:
            progress.update(bar, description=task.title)
            if progress.disable:
                narrate(f"{task.title} ...")
            results.append(runner.run(task, rounds))
    report = Report(results, curve, runner.learned, machine_line(ready), rounds)
    emit(json.dumps(report.document()) + "\n" if as_json else report.text(_width()))
    return UNFIT if ready.exact != "fast" and any(result.differing for result in results) else OK


def _load(load: Load, interrupt: _Interrupt) -> "tuple[Engine, Ready]":
    from engine.llama.weights import LoadCancelled
    from engine.loading import load_engine

    try:
        engine, ready = load_engine(load, progress=lambda _fraction: not interrupt.pressed)
    except LoadCancelled as cancelled:
        raise Aborted from cancelled
    interrupt.engine = engine
    for notice in ready.notices:
        narrate(notice)
    engine.warm_up()
    interrupt.check()
    return engine, ready


def _progress() -> Progress:
    """Return a bar on standard error, which is disabled without a terminal there."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _width() -> int:
    """Return how wide the tables may be: the terminal, or wide enough for a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _FILE_WIDTH
