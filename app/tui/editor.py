"""The person's own editor: what they name in VISUAL or EDITOR, else nano or vi, on a private file.

Knows no screen but through `App.suspend`. Invariants: the file is gone afterwards; the text before is never lost,
because the caller has it; all else goes on meanwhile, so that a reply is written and kept, but nothing is drawn; the
terminal is given to one editor at a time.
"""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

MOST_BYTES = 16_000_000


class EditorError(Exception):
    """The text could not be edited; the text is a sentence for the person."""


_terminal = asyncio.Lock()  # never waited for


async def edit(app: App[Any], text: str, *, suffix: str = ".txt") -> str:
    """Let the person edit a text outside and return it; the terminal is theirs meanwhile. Raises `EditorError`."""
    if _terminal.locked():  # by a key that was pressed twice before the terminal was given away
        raise EditorError("The editor is open already.")
    command = _command()
    try:
        with tempfile.TemporaryDirectory(prefix="stampo-") as folder:  # only its owner may enter
            path = Path(folder) / f"text{suffix}"
            path.write_bytes(text.encode())
            async with _terminal:
                with app.batch_update(), app.suspend(), _interrupts_for_others():
                    code = await asyncio.to_thread(_run, [*command, str(path)])
            if isinstance(code, OSError):
                raise code
            if code:
                raise EditorError(f"{command[0]} ended with exit code {code}; the text stays as it was.")
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
    except SuspendNotSupported:
        raise EditorError("Another program cannot be shown in this terminal.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise EditorError(f"{command[0]} could not edit the text: {reason}. It stays as it was.") from None
    if len(data) > MOST_BYTES:
        raise EditorError("The file has become too large; the text stays as it was.")
    try:
        edited = data.decode("utf-8-sig")
        # Editors end the last line, which a text in a field does not have.
        return edited if text.endswith("\n") else edited.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise EditorError(
            f"The file is no UTF-8 text (byte {error.start}); the text stays as it was."
        ) from None


def _run(command: list[str]) -> int | OSError:
    """Run a program in the terminal; return its exit code, or what kept it from running.

    Nothing is raised: `App.suspend` would leave the terminal to itself.
    """
    try:
        return subprocess.run(command, check=False).returncode
    except OSError as error:
        return error
    except ValueError as error:  # a NUL in the command
        return OSError(str(error))


@contextmanager
def _interrupts_for_others() -> Iterator[None]:
    """Take no notice of Ctrl+C, which is for the program in the terminal alone."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _command() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        if value := os.environ.get(name, "").strip():
            try:
                return shlex.split(value)
            except ValueError as error:
                raise EditorError(f"{name}={value} cannot be read as a command: {error}.") from None
    for name in ("nano", "vi"):
        if shutil.which(name):
            return [name]
    raise EditorError("There is no editor: name one in VISUAL or EDITOR.")
