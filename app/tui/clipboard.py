"""Copying: the desktop's own tool first, then the terminal's sequence, then a file; and saying which way it went.

The terminal's sequence (OSC 52) is never acknowledged and some terminals ignore it, so it is said to be sent, not done.
"""

import asyncio
import os
import shutil
from typing import Any

from textual.app import App

from app.paths import data_dir, write_private

TOOL_S = 2.0
OSC_52_BYTES = 74_000
"""Longer sequences are dropped by many terminals."""


def _tools() -> list[list[str]]:
    """Return the desktop tools that could work here, the best first."""
    tools = [["pbcopy"], ["clip.exe"]]
    if os.environ.get("WAYLAND_DISPLAY"):
        tools.insert(0, ["wl-copy"])
    if os.environ.get("DISPLAY"):
        tools += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return [tool for tool in tools if shutil.which(tool[0])]


async def copy(app: App[Any], text: str) -> str:
    """Copy a text and return how, as the end of a sentence. Raises `OSError` if not even a file can be written."""
    data = text.encode()
    for tool in _tools():
        if await _pipe(tool, data):
            return f"was copied ({tool[0]})"
    if len(data) <= OSC_52_BYTES and not app.is_headless:
        app.copy_to_clipboard(text)
        return "was sent to the terminal's clipboard; if it does not arrive, the terminal does not take it"
    path = data_dir() / "clipboard.txt"
    path.unlink(missing_ok=True)
    write_private(path, data)
    return f"was written to {path}, since there is no clipboard for it"


async def _pipe(command: list[str], data: bytes) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(process.communicate(data), TOOL_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return process.returncode == 0
