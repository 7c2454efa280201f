"""Many random turns against one worker: shapes, cancels, edits and restarts, each turn replayed on a fresh engine.

The process that calls `soak` plays the interface: a client over its pipe, and nothing of the engine in it. A second
worker-like process replays every turn with a new context, new drafts and new constraints over weights loaded once.
Invariant that is checked: a turn is token for token its replay, a cancelled one a beginning of it.
"""

import asyncio
import json
import os
import random
import signal
import sys
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.client import EngineClient
from engine.events import Event, Exited, Failed, Finished, Ready, Tokens
from engine.protocol import COMMAND, Cancel, Generate, Load, Message, Sampling
from grammars.spec import GrammarSpec

CONTEXT = 1024
SHAPES = (
    None,
    None,
    GrammarSpec(kind="choice", text='["yes", "no", "perhaps not"]'),
    GrammarSpec(kind="regex", text="[a-z]{3,9}( [a-z]{3,9}){1,4}"),
    GrammarSpec(kind="lark", text='start: "<" /[0-9]{2,6}/ ">"'),
    GrammarSpec(
        kind="json_schema",
        text='{"type":"object","properties":{"name":{"type":"string","maxLength":8},"n":{"type":"integer",'
        '"minimum":0,"maximum":999}},"required":["name","n"],"additionalProperties":false}',
    ),
)
WORDS = "tell me of the city where stars are counted by number and name again".split()  # noqa: SIM905

REPLAY = """
import sys
from soaking import replay
replay(sys.argv[1])
"""


@dataclass(slots=True)
class Report:
    """What a soak saw; sizes in bytes, taken after each turn."""

    turns: int = 0
    cancelled: int = 0
    restarts: int = 0
    edits: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)
    interface: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    files: list[tuple[int, int]] = field(default_factory=list)

    def growth(self, sizes: list[int], start: int, end: int) -> float:
        """Return by what share the largest size of the later half of a stretch exceeds that of its first quarter."""
        stretch = sizes[start:end]
        return max(stretch[len(stretch) // 2 :]) / max(stretch[: len(stretch) // 4 or 1]) - 1


async def soak(model: Path, turns: int, *, seed: int = 1, log: Path | None = None) -> Report:
    """Play turns; restarts happen in the first and the last tenth, so that what lies between is one process.

    In the second tenth the questions are long: drafts remember the last 65,536 tokens, and that memory is to be full
    before anything is compared.
    """
    play = _Play(model, random.Random(seed), log)
    try:
        await play.start()
        for number in range(turns):
            calm = turns // 10 <= number < turns - turns // 10
            if not calm and play.random.random() < 0.2:
                await play.restart()
            await play.turn(number, filling=turns // 10 <= number < turns // 5)
    finally:
        await play.close()
    return play.report


class _Play:
    def __init__(self, model: Path, source: random.Random, log: Path | None) -> None:
        self.random = source
        self.report = Report()
        self._load = Load(model=str(model), threads=1, context=CONTEXT)
        self._log = log
        self._client: EngineClient | None = None
        self._replayer: asyncio.subprocess.Process | None = None
        self._paths: list[tuple[Message, ...]] = [()]
        self._vocabulary = ""

    async def start(self) -> None:
        """Start the worker, and the replayer once."""
        self._client = EngineClient()
        await self._client.start(log=self._log)
        self._client.send(self._load)
        ready = (await self._until(Ready))[-1]
        assert isinstance(ready, Ready)
        self._vocabulary = ready.model.vocabulary
        if self._replayer is None:
            self._replayer = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                REPLAY,
                self._load.model,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                limit=1 << 24,
            )

    async def restart(self) -> None:
        """End the worker, kindly or not, and start another."""
        assert self._client is not None and self._client.pid is not None
        self.report.restarts += 1
        if self.random.random() < 0.5:
            os.kill(self._client.pid, signal.SIGKILL)
            await self._until(Exited)
        await self._client.close()
        await self.start()

    async def close(self) -> None:
        """End both processes."""
        if self._client is not None:
            await self._client.close()
        if self._replayer is not None and self._replayer.stdin is not None:
            self._replayer.stdin.close()
            await self._replayer.wait()

    async def turn(self, number: int, *, filling: bool = False) -> None:
        """Ask for one reply on a path new, old or edited; compare it with its replay."""
        path = () if filling else self._path()
        question = Message(
            role="user",
            content=" ".join(self.random.choices(WORDS, k=600 if filling else self.random.randint(1, 12))),
        )
        request = Generate(
            turn=number,
            messages=(*path, question),
            shape=self.random.choice(SHAPES),
            sampling=Sampling(
                temperature=self.random.choice((0.0, 0.8, 1.5)), seed=self.random.randrange(2**40)
            ),
            max_tokens=self.random.choice((1, 8, 32, 64)),
            speculate=filling or self.random.random() < 0.8,
        )
        cancel_after = self.random.randrange(6) if self.random.random() < 0.2 else None
        end = await self._ask(request, cancel_after)
        self.report.turns += 1
        if isinstance(end, Failed):
            self.report.refused += 1
            self._paths = [()]
            self._measure()
            return
        self.report.cancelled += end.finish == "cancelled"
        await self._compare(request, end)
        reply = Message(role="assistant", content=end.text, tokens=end.tokens, vocabulary=self._vocabulary)
        if end.text:
            self._paths = [*self._paths[-20:], (*path, question, reply)]
        self._measure()

    def _path(self) -> tuple[Message, ...]:
        """Return the path to go on with: mostly the last one, else an earlier one, cut somewhere, or none."""
        chance = self.random.random()
        if chance < 0.6:
            return self._paths[-1]
        if chance < 0.7:
            return ()
        self.report.edits += 1
        path = self.random.choice(self._paths)
        return path[: 2 * self.random.randint(0, len(path) // 2)]

    async def _ask(self, request: Generate, cancel_after: int | None) -> Finished | Failed:
        assert self._client is not None
        self._client.send(request)
        if cancel_after == 0:
            self._client.send(Cancel())
        heard = 0
        async for event in self._client.events():
            if isinstance(event, Tokens):
                heard += 1
                if heard == cancel_after:
                    self._client.send(Cancel())
            if isinstance(event, Finished | Failed):
                return event
            if isinstance(event, Exited):
                raise AssertionError(event.message)
        raise AssertionError("the events ended")

    async def _compare(self, request: Generate, end: Finished) -> None:
        replayer = self._replayer
        assert replayer is not None and replayer.stdin is not None and replayer.stdout is not None
        replayer.stdin.write(COMMAND.dump_json(request) + b"\n")
        wanted = json.loads(await replayer.stdout.readline())
        ids = list(end.tokens)
        same = ids == wanted["tokens"][: len(ids)] if end.finish == "cancelled" else ids == wanted["tokens"]
        if not same or (end.finish != "cancelled" and end.finish != wanted["finish"]):
            self.report.differences.append(
                f"turn {request.turn} ({end.finish}, replay {wanted['finish']}): {ids} / {wanted['tokens']}"
            )

    async def _until(self, kind: type[Event]) -> list[Event]:
        assert self._client is not None
        seen: list[Event] = []
        async for event in self._client.events():
            seen.append(event)
            if isinstance(event, kind):
                return seen
            if isinstance(event, Exited | Failed):
                raise AssertionError(event.message)
        raise AssertionError("the events ended")

    def _measure(self) -> None:
        assert self._client is not None and self._client.pid is not None
        self.report.interface.append(_resident(os.getpid()))
        self.report.worker.append(_resident(self._client.pid))
        self.report.files.append((_open_files(os.getpid()), _open_files(self._client.pid)))


def replay(model: str) -> None:
    """Answer requests on standard input with their tokens from a fresh engine each; the replaying process."""
    from engine.drafting.drafts import Drafts
    from engine.loading import load_engine

    engine: Any
    engine, _ = load_engine(Load(model=model, threads=1, context=CONTEXT))
    for line in sys.stdin.buffer:
        request = COMMAND.validate_json(line)
        assert isinstance(request, Generate)
        context = engine.context.twin(engine.context.length)
        try:
            fresh = replace(engine, context=context, drafts=Drafts(engine.vocabulary.size))
            fresh._shapes, fresh._earlier = OrderedDict(), {}
            end = list(fresh.generate(request))[-1]
        finally:
            context.close()
        answer = {"tokens": getattr(end, "tokens", ()), "finish": getattr(end, "finish", "failed")}
        print(json.dumps(answer), flush=True)


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
