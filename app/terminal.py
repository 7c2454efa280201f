"""How text from people, files and models reaches a terminal: shown, never obeyed.

Knows nothing of chats or widgets. Standard output is data: UTF-8, lossless, unless a terminal with another
encoding reads it. Invariant: what these functions return holds no character that a terminal
acts on or that reorders its neighbours, apart from newline and tab where they are kept; what they do not
replace is unchanged. Joiners and variation selectors stay, because emoji and several scripts are written with
them.
"""

import errno
import json
import os
import re
import sys
from typing import Any, NoReturn, TextIO

import typer

# C0, DEL and C1 controls; bidirectional marks, embeddings, overrides and isolates; the Unicode line and
# paragraph separators; lone surrogates, which have no bytes.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class OutputError(Exception):
    """Standard output takes no more; the text says why, and is empty where its reader has left."""


def prepare_streams() -> None:
    """Make the three standard streams usable, whatever they were when the program began.

    A closed one becomes the null device: otherwise the next file opened, such as the store, would take its
    number and its text.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 (for good)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    if not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(errors="replace")
    sys.stderr.reconfigure(errors="backslashreplace")


def emit(text: str) -> None:
    """Write data to standard output at once. Raises `OutputError`, after which nothing more is written."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise output_error(error) from error


def output_error(error: OSError) -> OutputError:
    """Turn a failed write into what to tell the person, and let the rest of the output go nowhere."""
    _discard(sys.stdout)
    if error.errno == errno.EPIPE:
        return OutputError()
    return OutputError(f"Standard output cannot be written: {(error.strerror or str(error)).lower()}.")


def printable(text: str) -> str:
    """Return a text as it may be shown; newlines and tabs are kept, CR LF becomes a newline.

    C0 controls and DEL become their pictures (`␛`, `␡`), C1 controls `\\x9b` and bidirectional controls
    `\\u202e` in writing, lone surrogates U+FFFD.
    """
    return _UNSAFE.sub(_show, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return a text as it may be shown within a line: as `printable`, with newline and tab as pictures
    too.
    """
    return printable(text).replace("\n", "␊").replace("\t", "␉")


def well_formed(text: str) -> str:
    """Return a text with lone surrogates replaced by U+FFFD, so that it has bytes; callers compare to say
    so.
    """
    return _SURROGATE.sub("\ufffd", text)


def json_text(value: Any) -> str:
    """Return indented JSON that loses nothing and is harmless to print: unsafe characters as `\\uXXXX`
    escapes.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # they only stand inside strings


def narrate(message: str) -> None:
    """Tell the person something on standard error; standard output is for data."""
    try:
        print(printable(message), file=sys.stderr, flush=True)
    except OSError:  # there is nobody to tell
        _discard(sys.stderr)


def refuse(message: str, *, code: int = 2) -> NoReturn:
    """Say in one sentence what is wrong and end the command."""
    narrate(message)
    raise typer.Exit(code)


def _discard(stream: TextIO) -> None:
    """Let a stream go nowhere: what it still holds would fail again when the interpreter ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code < 0xA0:
        return f"\\x{code:02x}"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
