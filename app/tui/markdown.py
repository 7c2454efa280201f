"""Markdown as text with styles, wrapped to a width: for free replies, while they grow and when they are done.

Knows no widgets. Links are written out and never live, HTML is shown as it is written, and nothing in a text
acts on the terminal. What cannot be set out as Markdown is shown as plain text.
"""

import re
from copy import copy
from io import StringIO
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console
from rich.markdown import Heading, Markdown
from rich.text import Text
from textual.content import Content

from app.tui.words import shown

LONGEST = 30_000
"""Characters; a longer text is shown plain."""

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class _Heading(Heading):
    """A heading at the left edge, also the first level."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class _Markdown(Markdown):
    elements: ClassVar[dict[str, Any]] = Markdown.elements | {"heading_open": _Heading}


_EMPTY = _Markdown("", code_theme="ansi_dark", hyperlinks=False)
"""What every text is set out with, copied: making one sets up a parser, which takes as long as all the rest."""


def rendered(text: str, width: int) -> Content:
    """Return a text set out in lines of at most `width` cells."""
    text = shown(text)
    if len(text) > LONGEST:
        return Content(text)
    console = Console(file=StringIO(), width=max(8, width), color_system=None, legacy_windows=False)
    markdown = copy(_EMPTY)
    try:
        markdown.parsed = _with_line_breaks(_PARSER.parse(text))
        lines = console.render_lines(markdown, pad=False)
    except (RecursionError, ValueError, IndexError):  # of the library, on texts that no person writes
        return Content(text)
    rows = [
        Text.assemble(*((segment.text, segment.style or "") for segment in line), end="") for line in lines
    ]
    for row in rows:
        row.rstrip()
    while rows and not rows[-1].plain:
        rows.pop()
    return Content("\n").join([Content.from_rich_text(row, console=console) for row in rows])


def _with_line_breaks(tokens: list[Token]) -> list[Token]:
    """Let a line end where it ends in the text, as chats do: models write verses and code without a fence."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


class Settling:
    """Finds how much of a growing text can be set out for good: up to the last blank line between two blocks.

    What follows may still change its meaning, such as an open code fence. Each line is looked at once.
    """

    def __init__(self) -> None:
        self.end = 0
        """So many characters are settled."""
        self._place = 0
        self._partial: list[str] = []
        self._fence = ""
        self._blank = False

    def append(self, text: str) -> None:
        """Take what the text grew by."""
        lines = text.split("\n")
        for line in lines[:-1]:
            self._take("".join((*self._partial, line)))
            self._partial.clear()
        self._partial.append(lines[-1])

    def _take(self, line: str) -> None:
        blank, self._blank = self._blank, False
        if self._fence:
            mark = line.strip()
            if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
                self._fence = ""
        elif opening := _FENCE.match(line):
            self.end = self._place if blank else self.end
            self._fence = opening[1]
        elif not line.strip():
            self._blank = True
        elif blank and not line.startswith((" ", "\t")):
            self.end = self._place
        self._place += len(line) + 1
