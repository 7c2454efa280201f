"""A worker process with its pipe, driven by hand."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.events import Event, Heartbeat
from engine.protocol import Command, decode_event, encode_command


class Worker:
    """The real worker; the caller closes its input and waits for it."""

    def __init__(self, log: Path, folder: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.worker", "--log", str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
        )

    def send(self, *commands: Command) -> None:
        """Send commands."""
        for command in commands:
            self.send_line(encode_command(command).rstrip(b"\n"))

    def send_line(self, line: bytes) -> None:
        """Send a line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def events(self) -> Iterator[Event]:
        """Yield events without heartbeats until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = decode_event(line)
            if not isinstance(event, Heartbeat):
                yield event

    def until(self, *kinds: type) -> list[Event]:
        """Return the events up to the first of some kinds."""
        seen: list[Event] = []
        for event in self.events():
            seen.append(event)
            if isinstance(event, kinds):
                return seen
        raise AssertionError(f"the worker ended after {seen}")
