"""Seconds to a finished valid document: Stampo beside other programs, same model, prompt and schema, interleaved.

    python tests/bench/peers.py [--tasks NAME ...] [--rounds N] [--prompt plain|shown|both] [--cache cold|warm|both]
                                [--attempts N] [--guidance PYTHON] [--llama-server PATH] [--model GGUF] [--threads N]
                                [--json]

The rounds are greedy. A document that breaks the schema is not finished work: its program is asked again, sampling at
temperature 0.7 with the seeds 1, 2 and so on, until one fits or `--attempts` are used up, and the seconds to a valid
document are those of all attempts together. The tasks are those of `stampo bench` that have a schema; by default the
first record, which is the reference. `plain` gives every program the prompt alone, `shown` also the text that describes
the schema. `cold` empties every program's cache of the prompt before a reply, `warm` leaves it as the program keeps it
between requests; Stampo's memories of replies are empty either way. Ways: Stampo with drafts, with forced spans only,
and its naive loop; llama-cpp-python's `response_format`, alone and with its prompt lookup (two tokens, as its
documentation advises for processors). With `--guidance` an interpreter that has guidance and llama-cpp-python installed
is asked as well (guidance pins another version of llguidance than Stampo, so it needs a virtual environment of its
own), and with `--llama-server` that binary. Tokens are counted in the document's text by the model's vocabulary.
"""

import argparse
import itertools
import json
import math
import platform
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import llama_cpp
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from app.bench.runs import Tally, write
from app.bench.tasks import BenchTurn, Task, load_tasks
from app.models import resolve_model
from engine.drafting.cost import CostModel, Gate
from engine.events import Finished, Ready
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.check import check
from grammars.describe import describe
from grammars.spec import GrammarSpec

CONTEXT = 4096
SERVER_STARTS_S = 60
RETRIED_AT = 0.7
GUIDANCE_PEER = Path(__file__).with_name("guidance_peer.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every program is asked: one schema, and a prompt that holds its description or not."""

    task: Task
    turn: BenchTurn
    shape: GrammarSpec
    shown: bool
    attempt: int = 0
    """0 is greedy; the others sample with this seed."""

    @property
    def temperature(self) -> float:
        return RETRIED_AT if self.attempt else 0.0

    @property
    def prompt(self) -> str:
        return f"{self.turn.prompt}\n\n{describe(self.shape)}" if self.shown else self.turn.prompt

    @property
    def request(self) -> Generate:
        return replace(
            self.task.request(self.turn),
            messages=(Message(role="user", content=self.prompt),),
            sampling=Sampling(temperature=self.temperature, seed=self.attempt),
        )


class Way(Protocol):
    """A program, or a way to use one."""

    name: str

    def reply(self, job: Job, cold: bool) -> str:
        """Return the document."""
        ...


class Stampo:
    """The engine, with drafts or with forced spans only. Its memories of replies are emptied before each."""

    def __init__(self, engine: Engine, name: str, *, speculate: bool) -> None:
        self.name = name
        self._engine = engine
        self._speculate = speculate
        self._learned = CostModel()

    def reply(self, job: Job, cold: bool) -> str:
        engine = self._engine
        if cold:
            engine.context.keep(0)
        engine.drafts = engine.drafts.emptied(self._learned)
        *_, last = engine.generate(replace(job.request, speculate=self._speculate))
        if not isinstance(last, Finished):
            raise SystemExit(f"{self.name}: {last}")
        return last.text


class Naive:
    """Stampo's naive loop: a mask and a forward for every token."""

    name = "stampo, naive loop"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def reply(self, job: Job, cold: bool) -> str:
        if cold:
            self._engine.context.keep(0)
        tokens = write(self._engine, job.request, Tally(), None, Gate(CostModel()))
        return self._engine.vocabulary.text(tokens)


class ResponseFormat:
    """llama-cpp-python's own grammar sampler, asked for by `response_format`."""

    def __init__(self, path: Path, threads: int, name: str, draft_model: Any = None) -> None:
        self.name = name
        self._llama = llama_cpp.Llama(
            str(path), n_ctx=CONTEXT, n_threads=threads, verbose=False, draft_model=draft_model
        )

    def reply(self, job: Job, cold: bool) -> str:
        if cold:
            self._llama.reset()
            self._llama._ctx.kv_cache_clear()
        answer: Any = self._llama.create_chat_completion(
            messages=[{"role": "user", "content": job.prompt}],
            response_format={"type": "json_object", "schema": json.loads(job.shape.text)},
            temperature=job.temperature,
            seed=job.attempt,
            max_tokens=job.task.max_tokens,
        )
        return answer["choices"][0]["message"]["content"]


class Guidance:
    """guidance, in an interpreter of its own."""

    name = "guidance"

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def reply(self, job: Job, cold: bool) -> str:
        request = {
            "prompt": job.prompt,
            "schema": json.loads(job.shape.text),
            "max_tokens": job.task.max_tokens,
            "temperature": job.temperature,
            "cold": cold,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("guidance has ended; what it said stands above.")
        return json.loads(answer)


class LlamaServer:
    """llama-server with `json_schema`, over a connection within this machine."""

    name = "llama-server"

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def wait(self) -> None:
        """Wait until the model is loaded."""
        until = time.monotonic() + SERVER_STARTS_S
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{self._address}/health", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError):  # it does not listen yet, or still loads
                time.sleep(0.2)
        raise SystemExit("llama-server did not become ready.")

    def reply(self, job: Job, cold: bool) -> str:
        body = {
            "messages": [{"role": "user", "content": job.prompt}],
            "json_schema": json.loads(job.shape.text),
            "temperature": job.temperature,
            "seed": job.attempt,
            "max_tokens": job.task.max_tokens,
            "cache_prompt": not cold,
        }
        request = urllib.request.Request(
            f"{self._address}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["choices"][0]["message"]["content"]


@contextmanager
def guidance(python: Path, model: Path, threads: int) -> Iterator[Guidance]:
    """Start guidance and end it."""
    command = [str(python), str(GUIDANCE_PEER), str(model), str(CONTEXT), str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Guidance(process)
        finally:
            process.kill()


@contextmanager
def llama_server(binary: Path, model: Path, threads: int) -> Iterator[LlamaServer]:
    """Start the server on a free port and end it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(binary), "-m", str(model), "-c", str(CONTEXT), "-t", str(threads), "-np", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = LlamaServer(port)
            server.wait()
            yield server
        finally:
            process.kill()


@dataclass(slots=True)
class Figures:
    """What one way took for one job, by round, and the attempts after a document that does not fit.

    `valid` tells whether the last of all these fits.
    """

    seconds: list[float]
    tokens: int = 0
    problem: str | None = None
    text: str = ""
    retries: list[float] = field(default_factory=list)
    valid: bool = True

    @property
    def valid_s(self) -> float:
        """Seconds to a valid document: of the greedy attempt and of those after it."""
        return statistics.median(self.seconds) + sum(self.retries) if self.valid else math.inf


def measure(
    ways: list[Way], job: Job, cold: bool, rounds: int, attempts: int, engine: Engine
) -> dict[str, Figures]:
    """Ask all ways in turn, once for warming up and then `rounds` times; then those whose document does not fit."""
    figures: dict[str, Figures] = defaultdict(lambda: Figures([]))
    for number in range(rounds + 1):
        for way in ways:
            started = time.perf_counter()
            text = way.reply(job, cold)
            seconds = time.perf_counter() - started
            if number:
                figures[way.name].seconds.append(seconds)
            figures[way.name].text = text
    for way in ways:
        one = figures[way.name]
        one.tokens = len(engine.vocabulary.tokenize(one.text))
        verdict = check(job.shape, one.text)
        one.problem = None if verdict.fits else f"{verdict.where}: {verdict.problem}"
        one.valid = verdict.fits
        while not one.valid and len(one.retries) + 1 < attempts:
            started = time.perf_counter()
            text = way.reply(replace(job, attempt=len(one.retries) + 1), cold)
            one.retries.append(time.perf_counter() - started)
            one.valid = check(job.shape, text).fits
    return figures


def show(job: Job, cold: bool, figures: dict[str, Figures]) -> None:
    """Print one table in Markdown."""
    cache = "caches empty" if cold else "prompt in the caches"
    print(
        f"\n**{job.task.title}**, {job.turn.prompt!r}, schema {'shown' if job.shown else 'not shown'}, {cache}\n"
    )
    print(
        "| | seconds, median | from - to | times Stampo's | tokens | ms a token | times Stampo's | fits "
        "| attempts to a valid one | seconds to it | times Stampo's |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    first = next(iter(figures.values()))
    for name, one in figures.items():
        median, base = statistics.median(one.seconds), statistics.median(first.seconds)
        token, first_token = median / max(1, one.tokens), base / max(1, first.tokens)
        attempts, reached = 1 + len(one.retries), statistics.median(one.seconds) + sum(one.retries)
        print(
            f"| {name} | {median:.2f} | {min(one.seconds):.2f} - {max(one.seconds):.2f} | {median / base:.2f} "
            f"| {one.tokens} | {1e3 * token:.1f} | {token / first_token:.2f} | {'no' if one.problem else 'yes'} "
            + (
                f"| {attempts} | {one.valid_s:.2f} | {one.valid_s / first.valid_s:.2f} |"
                if one.valid
                else f"| none of {attempts} | over {reached:.2f} | over {reached / first.valid_s:.2f} |"
            )
        )
    for name, one in figures.items():
        if one.problem:
            print(f"\nThe document of {name} does not fit: {one.problem}")


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Yield what to ask: every turn of the tasks named, or the first record."""
    shown = {"plain": (False,), "shown": (True,), "both": (False, True)}[arguments.prompt]
    for task in load_tasks(arguments.tasks or ["record"]):
        for turn in task.turns if arguments.tasks else task.turns[:1]:
            if turn.shape is None or turn.shape.kind != "json_schema" or turn.transcript is not None:
                raise SystemExit(
                    f"{task.name}: the programs are compared on schemas that the model fills itself"
                )
            yield from (Job(task=task, turn=turn, shape=turn.shape, shown=one) for one in shown)


def machine_line(ready: Ready, path: Path, rounds: int) -> str:
    return (
        f"{platform.machine()}, {ready.threads} threads, {path.name}, numerics {ready.exact}, llama-cpp-python "
        f"{llama_cpp.__version__}, median of {rounds}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--prompt", choices=("plain", "shown", "both"), default="both")
    parser.add_argument("--cache", choices=("cold", "warm", "both"), default="both")
    parser.add_argument("--attempts", type=int, default=5)
    parser.add_argument("--guidance", type=Path, metavar="PYTHON")
    parser.add_argument("--llama-server", type=Path, metavar="PATH")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    asked = list(jobs(arguments))
    path = resolve_model(arguments.model)
    engine, ready = load_engine(Load(model=str(path), context=CONTEXT, threads=arguments.threads))
    engine.warm_up()
    machine = machine_line(ready, path, arguments.rounds)
    lookup = LlamaPromptLookupDecoding(num_pred_tokens=2)
    ways: list[Way] = [
        Stampo(engine, "stampo", speculate=True),
        Stampo(engine, "stampo, forced spans only", speculate=False),
        Naive(engine),
        ResponseFormat(path, ready.threads, "llama-cpp-python response_format"),
        ResponseFormat(path, ready.threads, "llama-cpp-python with prompt lookup", lookup),
    ]
    if not arguments.json:
        print(machine)
    found = []
    with ExitStack() as running:
        if arguments.guidance:
            ways.append(running.enter_context(guidance(arguments.guidance, path, ready.threads)))
        if arguments.llama_server:
            ways.append(running.enter_context(llama_server(arguments.llama_server, path, ready.threads)))
        caches = {"cold": (True,), "warm": (False,), "both": (False, True)}[arguments.cache]
        for job, cold in itertools.product(asked, caches):
            figures = measure(ways, job, cold, arguments.rounds, arguments.attempts, engine)
            if arguments.json:
                found += [
                    {
                        "task": job.task.name,
                        "prompt": job.turn.prompt,
                        "shown": job.shown,
                        "cold": cold,
                        "way": name,
                        "seconds": one.seconds,
                        "tokens": one.tokens,
                        "problem": one.problem,
                        "retries": one.retries,
                        "valid": one.valid,
                        "text": one.text,
                    }
                    for name, one in figures.items()
                ]
            else:
                show(job, cold, figures)
    if arguments.json:
        print(json.dumps({"machine": machine, "figures": found}, indent=1))


if __name__ == "__main__":
    main()
