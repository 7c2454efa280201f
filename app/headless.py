"""One turn without a screen: a worker is started, asked once and ended.

Knows no command line. Invariants: what was interrupted before anything was asked is never asked; the worker
is gone when `Conversation.run` returns; the reply goes to `output` as it comes, everything else is narrated.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from app.client import EngineClient
from app.record import Record
from app.terminal import OutputError, narrate
from engine.events import (
    Event,
    Exited,
    Failed,
    Finish,
    Finished,
    Loading,
    ModelInfo,
    Notice,
    Ready,
    Started,
    Token,
    Tokens,
)
from engine.protocol import Cancel, Generate, Load

OK, UNFIT, USAGE, MODEL, INTERRUPTED = 0, 1, 2, 3, 130

_FAILED_CODES = {"usage": USAGE, "shape": USAGE, "model": MODEL, "cancelled": INTERRUPTED, "internal": MODEL}


@dataclass(slots=True)
class Outcome:
    """How the turn went. `code` is the exit code if a reply is missing, and `error` says why.

    It is 0 if the reader of standard output left before the end.
    """

    code: int = MODEL
    model: ModelInfo | None = None
    replies: list[Finished] = field(default_factory=list)
    error: str = ""

    @property
    def finish(self) -> Finish:
        """How a single reply ended, also where the engine did not say."""
        if self.replies:
            return self.replies[0].finish
        return "cancelled" if self.code in (OK, INTERRUPTED) else "error"


class Conversation:
    """Drives one worker through loading and one turn."""

    def __init__(
        self,
        load: Load,
        request: Generate,
        output: Callable[[str], None],
        record: Record | None,
        *,
        client: EngineClient | None = None,
        log: Path | None = None,
    ) -> None:
        self._load = load
        self._request = request
        self._output = output
        self._record = record
        self._client = client or EngineClient(on_silence=_tell_silence)
        self._log = log
        self._outcome = Outcome()
        self._trace: list[Token] = []
        self._progress = _Progress()
        self._asked = False
        self._interrupted = False
        self._leaving: asyncio.Task[None] | None = None

    @property
    def trace(self) -> tuple[Token, ...]:
        """The tokens of a single reply so far."""
        return tuple(self._trace)

    async def run(self) -> Outcome:
        """Return how it went; the worker is gone afterwards."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            await self._client.start(log=self._log)
            self._client.send(self._load)
            async for event in self._client.events():
                if self._follow(event):
                    break
        except OutputError as error:
            self._outcome.code = USAGE if str(error) else OK  # a reader that has read enough may leave
            self._fail(str(error))
        finally:
            self._progress.clear()
            await self._client.close()
            loop.remove_signal_handler(signal.SIGINT)
        if self._interrupted and not self._complete:
            self._outcome.code = INTERRUPTED
        self._outcome.replies.sort(key=lambda reply: reply.stream)
        return self._outcome

    @property
    def _complete(self) -> bool:
        return len(self._outcome.replies) == self._request.streams

    def _follow(self, event: Event) -> bool:
        """Take an event and return whether it is the last that matters."""
        if isinstance(event, Loading):
            self._progress.show(f"Loading the model {event.fraction:.0%}")
        elif isinstance(event, Ready):
            return self._ask(event)
        elif isinstance(event, Started):
            _narrate_all(event.notices)
        elif isinstance(event, Notice):
            narrate(event.message)
        elif isinstance(event, Tokens):
            self._trace.extend(event.tokens)
            if self._record is not None:
                self._record.grow(event.text, self._trace, event.reasoning)
            self._output(event.text)
        elif isinstance(event, Finished):
            self._outcome.replies.append(event)
            return self._complete
        elif isinstance(event, Failed):
            self._outcome.code = _FAILED_CODES[event.kind]
            self._fail(event.message)
        elif isinstance(event, Exited):
            self._fail(event.message)
        return isinstance(event, Failed | Exited)

    def _ask(self, ready: Ready) -> bool:
        self._progress.clear()
        if self._interrupted:
            return True
        self._outcome.model = ready.model
        _narrate_all(ready.notices)
        if self._record is not None:
            self._record.begin(ready.model)
        self._asked = True
        self._client.send(self._request)
        return False

    def _fail(self, message: str) -> None:
        self._progress.clear()
        self._outcome.error = message
        if message:
            narrate(message)

    def _interrupt(self) -> None:
        """Stop the turn at the first Ctrl+C; a second one ends at once."""
        if self._interrupted:
            os._exit(INTERRUPTED)
        self._interrupted = True
        if self._asked:
            self._client.send(Cancel())
        else:  # there is nothing to wait for; the end of the client ends its events, too
            self._progress.clear()
            narrate("Interrupted.")
            self._leaving = asyncio.create_task(self._client.close())


class _Progress:
    """One line on standard error that replaces itself; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _tell_silence(seconds: float) -> None:
    if seconds:
        narrate(f"The engine has said nothing for {seconds:.0f} seconds; Ctrl+C twice ends it.")


def _narrate_all(sentences: tuple[str, ...]) -> None:
    for sentence in sentences:
        narrate(sentence)
