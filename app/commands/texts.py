"""Texts that options and arguments carry: themselves, or in a file. What is no text ends the command."""

import sys
from pathlib import Path

from app.terminal import refuse, well_formed
from app.text_files import TextFileError, decoded, unreadable
from grammars.compile import MAX_TEXT

MAX_BYTES = 4 * MAX_TEXT


def text_of(value: str, option: str) -> str:
    """Return an option's value. Bytes that are no UTF-8 end the command: nothing could mean or match them."""
    if well_formed(value) != value:
        refuse(f"{option}: {value!r} is no UTF-8 text.")
    return value


def text_or_file(value: str, option: str) -> str:
    """Return an option's text: `@FILE` is read, `@@` is a literal `@`."""
    if value.startswith("@@"):
        return text_of(value[1:], option)
    if value.startswith("@"):
        return read_text(value[1:], f"{option}: ")
    return text_of(value, option)


def read_text(name: str, said_before: str = "", *, most: int = MAX_BYTES) -> str:
    """Return the text of a file, also of a pipe, or of standard input for `-`; ends the command if there is none.

    A byte order mark is left out; no more than `most` bytes are taken.
    """
    try:
        if name == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(name).expanduser().open("rb") as file:
                data = file.read(most + 1)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; no such user
        refuse(f"{said_before}{unreadable(name, error)}")
    try:
        return decoded(data, name, most)
    except TextFileError as error:
        refuse(f"{said_before}{error}")
