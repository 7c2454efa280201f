"""Text that only grows, wrapped once: appending costs the same however long the text is.

Knows nothing of replies. Invariant: rows before the last never change while the width stays.
"""

from rich.cells import cell_len
from rich.segment import Segment
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from app.tui.widgets.rows import Wrap, laid_out_once, reserved


class StreamText(Widget):
    """Shows a growing text. Its height follows the rows, in steps; styles come from the style sheet."""

    DEFAULT_CSS = "StreamText { width: 1fr; height: auto; }"
    virtual_size = laid_out_once()

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._pieces: list[str] = []
        self._wrap = Wrap(80)
        self._width = 0
        self._height = 0
        self._strips: LRUCache[tuple, Strip] = LRUCache(512)

    @property
    def text(self) -> str:
        """Everything appended."""
        return "".join(self._pieces)

    def append(self, text: str) -> None:
        """Add printable text at the end."""
        self._pieces.append(text)
        if not self._width:
            return
        first = len(self._wrap.rows) - 1
        self._wrap.append(text)
        rows = len(self._wrap.rows)
        if rows > self._height:
            self.refresh(layout=True)
        else:
            self.refresh(Region(0, first, self.size.width, rows - first))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Take all there is."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows at a width, and some for what comes."""
        if width and width != self._width:
            self._width = width
            self._wrap = Wrap(width)
            self._wrap.append("".join(self._pieces))
            self._height = 0
        self._height = reserved(len(self._wrap.rows), self._height, viewport.height)
        return self._height

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        rows = self._wrap.rows
        text = rows[y] if y < len(rows) else ""
        style = self.visual_style.rich_style
        key = (text, style, self.size.width)
        if (strip := self._strips.get(key)) is None:
            strip = Strip([Segment(text, style)], cell_len(text)).adjust_cell_length(self.size.width, style)
            self._strips[key] = strip
        return strip
