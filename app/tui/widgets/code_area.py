"""A text area for shapes: JSON in colours, one line at a time, so that a long schema costs what is seen of it.

Knows JSON's words only, no schemas. No text of JSON goes over a line's end, so each line can be read alone.
"""

import re
from typing import ClassVar

from rich.text import Text

from app.tui.widgets.plain_fields import PlainArea

_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<value>-?\d[\d.eE+-]*|\btrue\b|\bfalse\b'
    r"|\bnull\b)|(?P<mark>[{}\[\],:])"
)
_LONGEST = 2_000  # characters of a line


class CodeArea(PlainArea):
    """Plain text, or JSON while `json` is true; the cursor's place can be set by offset."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"code--key", "code--text", "code--value", "code--mark"}
    DEFAULT_CSS = """
    CodeArea > .code--key { text-style: bold; }
    CodeArea > .code--text { color: $text-success; }
    CodeArea > .code--value { color: $text-warning; }
    CodeArea > .code--mark { color: $text-muted; }
    """
    json = True

    def get_line(self, line_index: int) -> Text:
        """Return a line with its words in colours."""
        line = super().get_line(line_index)
        if self.json:
            for match in _TOKEN.finditer(line.plain[:_LONGEST]):
                style = self.get_component_rich_style(f"code--{match.lastgroup}", partial=True)
                line.stylize(style, match.start(), match.end())
        return line

    def go_to(self, place: int) -> None:
        """Put the cursor at an offset of the text."""
        before = self.text[:place]
        self.move_cursor((before.count("\n"), place - (before.rfind("\n") + 1)), center=True)

    def put(self, text: str) -> None:
        """Replace the whole text as one edit, which can be undone."""
        self.replace(text, self.document.start, self.document.end, maintain_selection_offset=False)
