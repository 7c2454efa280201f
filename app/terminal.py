"""How text from people, files and models reaches a terminal: shown, never obeyed.

Knows nothing of chats or widgets. Invariant: what these functions return holds no character that a terminal
acts on or that reorders its neighbours, apart from newline and tab where they are kept; what they do not
replace is unchanged. Joiners and variation selectors stay, because emoji and several scripts are written with
them.
"""

import json
import re
import sys
from typing import Any, NoReturn

import typer

# C0, DEL and C1 controls; bidirectional marks, embeddings, overrides and isolates; the Unicode line and
# paragraph separators; lone surrogates, which have no bytes.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    print(printable(message), file=sys.stderr, flush=True)


def refuse(message: str, *, code: int = 2) -> NoReturn:
    """Say in one sentence what is wrong and end the command."""
    narrate(message)
    raise typer.Exit(code)


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code < 0xA0:
        return f"\\x{code:02x}"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
