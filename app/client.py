"""The other end of the worker's pipe: starts the process, sends commands, hands out events.

Knows nothing of chats or screens. Invariants: one client is one process, a restart is a new client; reading
never waits for the consumer; however the process ends, and whatever goes wrong while it is read, the consumer
gets exactly one `Exited` as the last event, and none at all when the end was asked for by `close`; after
`close` the process is gone, also one that was still being started.
"""

import asyncio
import dataclasses
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import get_args

from app import paths
from engine.events import Event, Exited, Failed, Hello, Ready
from engine.protocol import PROTOCOL_VERSION, Command, Load, ProtocolError, decode_event, encode_command

LINE_LIMIT = 64 * 1024 * 1024
GATHER_S = 0.05
"""How long lines are gathered if nothing else is said."""
SILENCE_S = 15.0
CLOSE_S = 1.0

_KNOWN_TYPES = frozenset(
    field.default
    for kind in get_args(get_args(Event)[0])
    for field in dataclasses.fields(kind)
    if field.name == "type"
)

_SIGNALS = {
    signal.SIGKILL: "was killed, often by the system when memory runs out",
    signal.SIGSEGV: "crashed with a segmentation fault",
    signal.SIGBUS: "crashed with a bus error, as when a model file is changed or cut while in use",
    signal.SIGABRT: "stopped itself over a failed assertion",
    signal.SIGILL: "met an instruction this processor lacks",
    signal.SIGFPE: "crashed with an arithmetic fault",
    signal.SIGTERM: "was asked to end by another program",
}
_CRASHES = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE))
_ASSERTION = re.compile(rb"([\w.-]+:\d+: GGML_ASSERT\(.{1,300}\) failed)")
_LOG_TAIL = 65536
_LONGEST_NAME = 255


def worker_command(log: Path | None = None, cache: Path | None = None) -> list[str]:
    """Return the command that starts the worker of this very installation.

    `-P` keeps a folder named `engine` in the current directory from being imported.
    """
    command = [sys.executable, "-P", "-m", "engine.worker"]
    for option, place in (("--log", log), ("--cache", cache)):
        if place is not None:
            command += [option, str(place)]
    return command


class EngineClient:
    """One worker process, whose lines are read together each `gather_s` seconds.

    `on_silence` is told the seconds without a line each time `silence_s` has passed, and 0.0 when the worker
    speaks again: heartbeats come about once a second, so silence means a hang.
    """

    def __init__(
        self,
        *,
        on_silence: Callable[[float], None] | None = None,
        silence_s: float = SILENCE_S,
        gather_s: float = GATHER_S,
    ) -> None:
        self._gather_s = gather_s
        self._on_silence = on_silence
        self._silence_s = silence_s
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._log: Path | None = None
        self._log_start = 0
        self._loading = ""
        self._closing = False
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The worker's process id, once started."""
        return self._process.pid if self._process else None

    async def start(self, command: Sequence[str] | None = None, log: Path | None = None) -> None:
        """Start the process and begin to read. A program that cannot be started becomes an `Exited` event.

        A log that cannot be written is done without: on a full disk or in a read-only folder there is still an engine.
        """
        async with self._starting:
            if self._closing:
                return
            errors = _open_log(log)
            self._log = None if errors is None else log
            self._log_start = 0 if errors is None else os.fstat(errors).st_size
            try:
                self._process = await self._spawn(command or worker_command(self._log, _cache()), errors)
            except (OSError, ValueError) as error:  # ValueError: a name that no program can have
                self._end(f"The engine could not be started: {error}.", None)
                return
            finally:
                if errors is not None:
                    os.close(errors)
            self._pump = asyncio.create_task(self._read(self._process), name="engine-client")

    def send(self, command: Command) -> None:
        """Send a command without waiting. To a process that is gone it is dropped: `Exited` tells of that."""
        if self._process is None or self._process.stdin is None or self._process.stdin.is_closing():
            return
        if isinstance(command, Load):
            self._loading = Path(command.model).name[:_LONGEST_NAME]
        self._process.stdin.write(encode_command(command))

    async def events(self) -> AsyncIterator[Event]:
        """Yield events until the process is gone; for one consumer."""
        while (event := await self._queue.get()) is not None:
            yield event

    async def close(self) -> None:
        """End the process: end of input, a second later a kill. Safe to call again, before `start` and during it."""
        self._closing = True
        async with self._starting:  # what is being started is waited for, or it would be left behind
            process = self._process
        if process is None:
            self._queue.put_nowait(None)
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            self._kill()
        await process.wait()
        if self._pump is not None:
            await self._pump

    async def _spawn(self, command: Sequence[str], log: int | None) -> asyncio.subprocess.Process:
        # A session of its own: keys of the terminal (Ctrl+C, Ctrl+Z) reach the interface alone, from the
        # first instant, and nothing in the worker can write to the terminal. If the interface dies in any
        # way, its end of the pipe closes and the worker exits at end of input.
        ours, workers = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=workers,
                stderr=asyncio.subprocess.DEVNULL if log is None else log,
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(workers)
        # A pipe of our own, because asyncio's own cannot be told to wait before it is read again.
        self._output = asyncio.StreamReader(limit=LINE_LIMIT)
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._output), os.fdopen(ours, "rb", buffering=0)
        )
        return process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Turn lines into events until the end of output, then tell how the process ended."""
        fault = None
        try:
            fault = await self._take_lines()
        except Exception as error:
            # Nobody watches this task: whatever ends it must end the process and be told.
            fault = f"The engine could not be listened to ({type(error).__name__}: {error}); it was stopped."
            self._kill()
            while await self._output.read(LINE_LIMIT):
                pass
        code = await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._end(fault or f"The engine {_manner(code)}{self._circumstances(code)}.", code)

    async def _take_lines(self) -> str | None:
        """Queue the events of the process until the end of its output; return what it did wrong."""
        fault = None
        greeted = False
        async for line in self._lines():
            if fault is not None:
                continue  # the process is being killed; read to the end so that the pipe closes
            try:
                event = _decode(line)
                if not greeted and event is not None:
                    _check_greeting(event)
                    greeted = True
            except ProtocolError as error:
                fault = str(error)
                self._kill()
                continue
            if isinstance(event, Ready) or (isinstance(event, Failed) and event.turn is None):
                self._loading = ""
            if event is not None:
                self._queue.put_nowait(event)
        return fault

    async def _lines(self) -> AsyncIterator[bytes]:
        """Yield lines without their ends; one above the limit comes as what is no message.

        What is behind the last end of a line is the rest of a process that died. A token comes as a line: to wake up
        for each by itself would cost more than all that is done with it.
        """
        parts: list[bytes] = []
        while data := await self._some():
            first, *others = data.split(b"\n")
            parts.append(first)
            for line in others:
                yield b"".join(parts)
                parts = [line]
            if sum(map(len, parts)) > LINE_LIMIT:
                yield b"(a line above the limit)"
                parts = []
            if parts == [b""]:
                self._pipe.pause_reading()
                await asyncio.sleep(self._gather_s)
                self._pipe.resume_reading()

    async def _some(self) -> bytes:
        """Return what has come, at least a byte; nothing at the end."""
        silent = 0.0
        while True:
            try:
                async with asyncio.timeout(self._silence_s):
                    data = await self._output.read(LINE_LIMIT)
            except TimeoutError:
                silent += self._silence_s
                self._tell_silence(silent)
            else:
                if silent and data:
                    self._tell_silence(0.0)
                return data

    def _tell_silence(self, seconds: float) -> None:
        if self._on_silence is not None and not self._closing:
            self._on_silence(seconds)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _circumstances(self, code: int) -> str:
        """Say what the process was loading when it died, and what llama.cpp itself said of it."""
        said = ""
        if self._loading:
            said = f" while it loaded {self._loading}"
            if -code in _CRASHES:
                said += ", which may be damaged or of a kind that this llama.cpp cannot run"
        assertion = self._assertion() if -code == signal.SIGABRT else ""
        return f"{said}: {assertion}" if assertion else said

    def _assertion(self) -> str:
        """Return the assertion that failed last in this process, from its log; empty if there is none."""
        if self._log is None:
            return ""
        try:
            with self._log.open("rb") as log:
                log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - _LOG_TAIL))
                found = _ASSERTION.findall(log.read())
        except OSError:  # the sentence does without
            return ""
        return found[-1].decode("utf-8", "replace") if found else ""

    def _end(self, message: str, code: int | None) -> None:
        if not self._closing:
            where = f" Its log is {self._log}." if self._log is not None else ""
            self._queue.put_nowait(Exited(message=message + where, code=code))
        self._queue.put_nowait(None)


def _open_log(log: Path | None) -> int | None:
    """Open the log for appending, readable by its owner only; None where that cannot be done."""
    if log is None:
        return None
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return None


def _cache() -> Path | None:
    """Return where the engine may keep what it measured; it works without."""
    try:
        return paths.cache_dir()
    except paths.PathError:
        return None


def _decode(line: bytes) -> Event | None:
    """Return the event of a line, None when its type is of a later version. Raises `ProtocolError`."""
    try:
        return decode_event(line)
    except ProtocolError as error:
        try:
            kind = json.loads(line).get("type")
        except (ValueError, AttributeError, RecursionError):
            kind = None
        if isinstance(kind, str) and kind not in _KNOWN_TYPES:
            return None
        raise ProtocolError(
            f"The engine sent a line that is no message ({error}); it was stopped."
        ) from error


def _check_greeting(event: Event) -> None:
    if not isinstance(event, Hello):
        raise ProtocolError("The engine began without a greeting; it was stopped.")
    if event.protocol != PROTOCOL_VERSION:
        raise ProtocolError(
            f"The engine speaks protocol {event.protocol} (version {event.version}), this interface "
            f"{PROTOCOL_VERSION}: two versions are mixed. Install stampo again."
        )


def _manner(code: int) -> str:
    """Say in words how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"was ended by signal {-code}"
    return f"{_SIGNALS.get(number, 'was ended')} ({number.name})"
