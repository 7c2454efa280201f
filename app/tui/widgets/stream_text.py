"""Text that only grows, wrapped once: appending costs the same however long the text is.

Knows nothing of replies. Invariant: rows before the last never change while the width stays.
"""

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget


class Wrap:
    """Greedy wrap that can be continued. `rows` are the lines so far, each at most `width` cells."""

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.rows: list[str] = [""]

    def append(self, text: str) -> None:
        """Add text; only the last row is looked at again."""
        first, *others = text.split("\n")
        self._fill(self.rows.pop() + first)
        for line in others:
            self._fill(line)

    def _fill(self, line: str) -> None:
        while cell_len(line) > self.width:
            cut = _cut(line, self.width)
            self.rows.append(line[:cut])
            line = line[cut:]
        self.rows.append(line)


def _cut(line: str, width: int) -> int:
    """Return how many characters go into a row: up to the last blank or comma, else what fits."""
    cells = 0
    gap = 0
    for place, character in enumerate(line):
        cells += get_character_cell_size(character)
        if cells > width:
            if character == " ":
                return place + 1  # a blank may hang over the edge, where it is not seen
            # A joiner or a mark of no width stays with what it belongs to.
            return gap or max(1, place)
        if character in " ,":
            gap = place + 1
    return len(line)


class StreamText(Widget):
    """Shows a growing text. Its height follows the rows; styles come from the style sheet."""

    DEFAULT_CSS = "StreamText { width: 1fr; height: auto; }"

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._pieces: list[str] = []
        self._wrap = Wrap(80)
        self._width = 0
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
        if rows > first + 1:
            self.refresh(layout=True)
        else:
            self.refresh(Region(0, first, self.size.width, 1))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Take all there is."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows at a width."""
        if width and width != self._width:
            self._width = width
            self._wrap = Wrap(width)
            self._wrap.append("".join(self._pieces))
        return len(self._wrap.rows)

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        rows = self._wrap.rows
        text = rows[y] if y < len(rows) else ""
        style = self.rich_style
        key = (text, style, self.size.width)
        if (strip := self._strips.get(key)) is None:
            strip = Strip([Segment(text, style)], cell_len(text)).adjust_cell_length(self.size.width, style)
            self._strips[key] = strip
        return strip
