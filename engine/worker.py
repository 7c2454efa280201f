"""The engine as a process: newline-delimited JSON on standard input and output.

Run with `python -P -m engine.worker --log FILE` (`-P`: a folder named `engine` where the person stands is not
imported). The real standard output is moved aside before llama.cpp is imported, and descriptors 1 and 2 point at the
log, so nothing but events ever reaches the client. A reader thread takes cancels at once, a second thread sends
heartbeats, and the end of standard input ends the process, whatever it is doing: no orphan is left. On Linux the
system ends it with its parent, also when it hangs or was stopped and reads nothing. In the first
pause after a reply the numerics are verified, on a context of their own, until the next command comes.
"""

import argparse
import ctypes
import os
import queue
import signal
import sys
import threading
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engine.events import Event, Failed, Finished, Heartbeat, Hello, Loading, Probed
from engine.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    Command,
    Count,
    Generate,
    Inspect,
    Load,
    Probe,
    ProtocolError,
    decode_command,
    encode_event,
)

if TYPE_CHECKING:
    from engine.decoding.decoder import Context
    from engine.turn import Engine

HEARTBEAT_S = 1.0
IDLE_S = 1.0
"""How long nothing must have happened before the numerics are verified."""
_PROGRESS_STEP = 0.01
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Worker:
    """Carries out commands one after another; a cancel reaches the running one from the reader thread."""

    def __init__(self, commands: BinaryIO, events: BinaryIO, cache: Path | None) -> None:
        self._cache = cache
        self._commands = commands
        self._events = events
        self._writing = threading.Lock()
        self._queue: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._engine: Engine | None = None
        self._probing: Context | None = None
        self._probe_due = False
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
            try:
                command = self._queue.get(timeout=IDLE_S if self._probe_due else None)
            except queue.Empty:
                self._probe_in_pause()
            else:
                self._carry_out(command)

    def _read(self) -> None:
        """Queue commands and take cancels until standard input ends, and the process with it."""
        try:
            self._read_lines()
        except Exception:  # a worker that cannot hear must not live on
            traceback.print_exc()
            os._exit(1)
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
                self._accept(command)

    def _accept(self, command: Command) -> None:
        """Queue a command; a probe in a pause makes way for it."""
        with self._state:
            self._queued += 1
            if self._probing is not None:
                self._probing.abort()
        self._queue.put(command)

    def _cancel(self) -> None:
        """Stop the commands read so far. Commands are numbered, so that none that comes later is hit."""
        with self._state:
            self._cancelled_upto = self._queued
            if self._engine is not None and self._cancelled:
                self._engine.abort()
            if self._probing is not None:
                self._probing.abort()

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
        turn = _turn(command)
        try:
            if isinstance(command, Load):
                self._load(command)
            elif isinstance(command, Generate):
                self._generate(command)
            elif isinstance(command, Inspect):
                self._inspect(command)
            elif isinstance(command, Count):
                self._count(command)
            elif isinstance(command, Probe) and not self._probe():
                self._send(Failed(kind="cancelled", message="The numerics were not verified."))
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
            engine, ready = load_engine(command, progress=progress, cache=self._cache)
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
            if isinstance(event, Finished):
                self._probe_due = self._engine.exact == "unverified"
        self._keep_costs(self._engine)

    def _count(self, command: Count) -> None:
        from engine.counting import count

        if self._engine is None:
            self._send(Failed(kind="model", message="No model is loaded.", turn=command.turn))
            return
        self._send(count(self._engine, command))

    def _inspect(self, command: Inspect) -> None:
        if self._engine is None:
            self._send(Failed(kind="model", message="No model is loaded.", turn=command.generate.turn))
            return
        from engine.inspection import inspect

        for event in inspect(self._engine, command):
            self._send(event)

    def _keep_costs(self, engine: "Engine") -> None:
        """Keep what forwards cost for the next engine over this file."""
        from engine.drafting import cost_cache

        if self._cache is not None and engine.settings is not None:
            cost_cache.keep(self._cache, engine.settings, engine.drafts.gate.cost)

    def _probe_in_pause(self) -> None:
        """Verify the numerics unless a command comes; a failure is for the log, the badge then stays as it is."""
        self._probe_due = False
        try:
            self._probe(in_pause=True)
        except Exception:  # nobody asked for it, so nobody is to be troubled
            traceback.print_exc()

    def _probe(self, *, in_pause: bool = False) -> bool:
        """Compare rows on a context beside the chat's and say what was seen; return False if it was interrupted."""
        from engine import probe
        from engine.errors import Aborted

        engine = self._engine
        if engine is None or engine.numerics is None:
            self._send(Failed(kind="model", message="No model is loaded."))
            return True
        context = engine.context.twin(probe.LENGTH)
        with self._state:
            self._probing = context
            if self._running < self._queued if in_pause else self._cancelled:
                context.abort()
        try:
            verdict = probe.probe(context, engine.model.vocab_size)
        except Aborted:
            return False
        finally:
            with self._state:
                self._probing = None
            context.close()
        if self._cache is not None and engine.settings is not None:
            probe.keep(self._cache, engine.settings, verdict)
        engine.exact, reason = probe.judge(engine.numerics, verdict)
        self._send(Probed(exact=engine.exact, detail=reason))
        return True

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


def _die_with_parent() -> None:
    """Have the system kill this process when the thread that started it ends; on Linux, elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _turn(command: Command) -> int | None:
    """Return the turn that a command belongs to."""
    if isinstance(command, Inspect):
        return command.generate.turn
    return command.turn if isinstance(command, Generate | Count) else None


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
    parser.add_argument(
        "--cache", type=Path, help="the folder where verdicts on numerics and costs of forwards are kept"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    events = os.fdopen(os.dup(1), "wb")
    log = os.open(arguments.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)

    from engine.llama.library import send_log_to

    send_log_to(lambda text: print(text, end="", file=sys.stderr, flush=True))
    Worker(sys.stdin.buffer, events, arguments.cache).run()


if __name__ == "__main__":
    main()
