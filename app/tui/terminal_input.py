"""What Textual's parser of the terminal's input gets wrong (textual/_xterm_parser.py, 8.2), set right.

It reads a bracketed paste character by character and takes an escape character in it for the end of what came before,
so that the beginning of such a paste is lost; here a paste is cut out before that parser sees it. It drops Alt from
Enter and Backspace where the terminal says Alt by an escape character in front; here the key keeps it. Bytes that are
no UTF-8, which would end Textual's driver, come as lone surrogates in a paste, whose field says so, and as U+FFFD where
they are typed. Invariant: everything else goes through unchanged; a paste whose opening is itself cut in two by a read
is left to Textual.
"""

import codecs
from collections.abc import Generator, Iterable
from functools import partial

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.drivers import linux_driver
from textual.message import Message

from app.terminal import well_formed

_WITH_ALT = {"\x1b\r": "alt+enter", "\x1b\x7f": "alt+backspace", "\x1b\x08": "alt+backspace"}


class TerminalParser(XTermParser):
    """Textual's parser with pastes taken out in front of it, and Alt kept with its key."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._paste: list[str] | None = None
        self._tail = ""

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of what was read; an empty text is the end."""
        if not data:
            yield from super().feed(data)
            return
        while data:
            if self._paste is None:
                before, start, data = data.partition(BRACKETED_PASTE_START)
                if before:
                    yield from super().feed(well_formed(before))
                if start:
                    self._paste, self._tail = [], ""
            else:
                data = yield from self._collect(self._paste, data)

    def _collect(self, paste: list[str], data: str) -> Generator[Message, None, str]:
        """Take the paste's part of what was read and return the rest; the end may come in two reads."""
        text, end, rest = (self._tail + data).partition(BRACKETED_PASTE_END)
        if not end:
            keep = len(BRACKETED_PASTE_END) - 1
            paste.append(text[:-keep])
            self._tail = text[-keep:]
            return ""
        self._paste = None
        yield events.Paste("".join([*paste, text]).replace("\0", ""))
        return rest

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence in _WITH_ALT:
            return [events.Key(_WITH_ALT[sequence], None)]
        return super()._sequence_to_key_events(sequence, alt)


def install() -> None:
    """Let Textual's driver for terminals read with this parser, whatever bytes come."""
    linux_driver.XTermParser = TerminalParser
    linux_driver.getincrementaldecoder = _lenient


def _lenient(encoding: str) -> partial[codecs.IncrementalDecoder]:
    """Return what makes a decoder that keeps the bytes it cannot read as lone surrogates."""
    return partial(codecs.getincrementaldecoder(encoding), errors="surrogateescape")
