"""The engine as a process: newline-delimited JSON on standard input and output.

Run with `python -P -m engine.worker --log FILE` (`-P`: a folder named `engine` where the person stands is not
imported). The real standard output is moved aside before llama.cpp is imported, and descriptors 1 and 2 point at the
log, so nothing but events ever reaches the client. A reader thread takes cancels at once, a second thread sends
heartbeats, and the end of standard input ends the process, whatever it is doing: no orphan is left.
"""

import argparse
import os
import queue
import signal
import sys
import threading
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, BinaryIO

from engine.events import Event, Failed, Heartbeat, Hello, Loading
from engine.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    Command,
    Generate,
    Load,
    ProtocolError,
    decode_command,
    encode_event,
)

if TYPE_CHECKING:
    from engine.turn import Engine

HEARTBEAT_S = 1.0
_PROGRESS_STEP = 0.01


class Worker:
    """Carries out commands one after another; a cancel reaches the running one from the reader thread."""

    def __init__(self, commands: BinaryIO, events: BinaryIO) -> None:
        self._commands = commands
        self._events = events
        self._writing = threading.Lock()
        self._queue: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._engine: Engine | None = None
        self._state = threading.Lock()
        self._queued = 0
        self._running = 0
        self._cancelled_upto = 0

    def run(self) -> None:
        """Serve until standard input ends; never returns."""
        self._send(Hello(protocol=PROTOCOL_VERSION, version=_version(), pid=os.getpid()))
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        while True:
            self._carry_out(self._queue.get())

    def _read(self) -> None:
        """Queue commands and take cancels until standard input ends, and the process with it."""
        try:
            self._read_lines()
        except Exception:  # a worker that cannot hear must not live on
            traceback.print_exc()
        os._exit(0)

    def _read_lines(self) -> None:
        for line in self._commands:
            try:
                command = decode_command(line)
            except ProtocolError as error:
                self._send(
                    Failed(kind="internal", message=f"The engine was sent a message it cannot read: {error}")
                )
                continue
            if isinstance(command, Cancel):
                self._cancel()
            else:
                with self._state:
                    self._queued += 1
                self._queue.put(command)

    def _cancel(self) -> None:
        """Stop the commands read so far. Commands are numbered, so that none that comes later is hit."""
        with self._state:
            self._cancelled_upto = self._queued
            if self._engine is not None and self._cancelled:
                self._engine.abort()

    @property
    def _cancelled(self) -> bool:
        return self._running <= self._cancelled_upto

    def _begin(self) -> None:
        """Count the next command as running, and raise or clear the abort flag for it."""
        with self._state:
            self._running += 1
            if self._engine is not None:
                if self._cancelled:
                    self._engine.abort()
                else:
                    self._engine.clear_abort()

    def _carry_out(self, command: Command) -> None:
        self._begin()
        turn = command.turn if isinstance(command, Generate) else None
        try:
            if isinstance(command, Load):
                self._load(command)
            elif isinstance(command, Generate):
                self._generate(command)
        except (
            Exception
        ) as error:  # the last resort of the process: said, logged, and the next command is served
            traceback.print_exc()
            text = f"The engine failed on its own account: {type(error).__name__}: {error}"
            self._send(Failed(kind="internal", message=text, turn=turn))

    def _load(self, command: Load) -> None:
        from engine.gguf import ModelFileError
        from engine.llama.weights import LoadCancelled
        from engine.loading import load_engine

        if self._engine is not None:
            self._send(Failed(kind="internal", message="This engine process has a model already."))
            return
        said = -1.0

        def progress(fraction: float) -> bool:
            nonlocal said
            if fraction - said >= _PROGRESS_STEP or fraction >= 1:
                said = fraction
                self._send(Loading(fraction=fraction))
            return not self._cancelled

        try:
            engine, ready = load_engine(command, progress=progress)
            if self._cancelled:
                raise LoadCancelled
        except LoadCancelled:
            self._send(Failed(kind="cancelled", message="Loading was stopped."))
            return
        except ModelFileError as error:
            self._send(Failed(kind="model", message=str(error)))
            return
        with self._state:
            self._engine = engine
        self._send(ready)
        engine.warm_up()

    def _generate(self, command: Generate) -> None:
        if self._engine is None:
            self._send(Failed(kind="model", message="No model is loaded.", turn=command.turn))
            return
        for event in self._engine.generate(command):
            self._send(event)

    def _beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            self._send(Heartbeat())

    def _send(self, event: Event) -> None:
        try:
            with self._writing:
                self._events.write(encode_event(event))
                self._events.flush()
        except BrokenPipeError:
            os._exit(0)  # the client is gone


def _version() -> str:
    try:
        return version("stampo")
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    """Run the worker on the process's own standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m engine.worker", description="Stampo's engine process.")
    parser.add_argument(
        "--log", default=os.devnull, help="where llama.cpp and Python write what they have to say"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events = os.fdopen(os.dup(1), "wb")
    log = os.open(arguments.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)

    from engine.llama.library import send_log_to

    send_log_to(lambda text: print(text, end="", file=sys.stderr, flush=True))
    Worker(sys.stdin.buffer, events).run()


if __name__ == "__main__":
    main()
