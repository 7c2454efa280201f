"""Rows of text for widgets that draw only what is looked at: a text of a megabyte costs what is on the screen.

Knows nothing of messages. Invariants: a row is at most as wide as it was wrapped to, but for a blank that hangs over
the edge; text that is only appended costs the same however long it is.
"""

from collections.abc import Sequence

from rich.cells import cell_len, get_character_cell_size
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

_JOINER = "\u200d"


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
        start = 0
        while (end := _cut(line, start, self.width)) is not None:
            self.rows.append(line[start:end])
            start = end
        self.rows.append(line[start:])


def _cut(line: str, start: int, width: int) -> int | None:
    """Return where the row that begins at `start` ends: behind the last blank or comma, else after what fits.

    None if all that is left fits.
    """
    window = line[start : start + width + 1]
    if window.isascii():
        if len(window) <= width:
            return None
        if window[width] == " ":
            return start + width + 1  # a blank may hang over the edge, where it is not seen
        gap = max(window.rfind(" ", 0, width), window.rfind(",", 0, width)) + 1
        return start + (gap or width)
    cells = gap = 0
    for place in range(start, len(line)):
        character = line[place]
        cells += get_character_cell_size(character)
        if cells > width:
            if character == " ":
                return place + 1
            # A joiner or a mark of no width stays with what it belongs to, and what is joined stays whole.
            whole = place
            while whole > start and (line[whole - 1] == _JOINER or not get_character_cell_size(line[whole])):
                whole -= 1
            return gap or (whole if whole > start else max(start + 1, place))
        if character in " ,":
            gap = place + 1
    return None


def reserved(rows: int, height: int, screen: int) -> int:
    """Return the height of a growing text that has so many rows and had a height, on a screen of some rows.

    It grows by steps: each time it does, all that is around the text is laid out, scrolled and drawn again. A long text
    grows by longer steps, a short one leaves little room empty.
    """
    return height if rows <= height else rows - 1 + max(1, screen // 8, min(rows // 2, screen // 3))


def laid_out_once() -> Reactive[Size]:
    """Return a `virtual_size` for a widget that grows all the time, whose layout says all there is to know.

    Textual's own lays out the whole screen once more for each size that a layout gave.
    """
    return Reactive(Size(0, 0))


def blank_rows(widget: Widget, crop: Region) -> list[Strip]:
    """Return a part of a widget that shows nothing of its own: its ground, without edges or padding.

    Textual draws such a widget row by row, too, only for what is in it to be drawn over it.
    """
    strip = Strip.blank(crop.width, widget.visual_style.rich_style)
    for line_filter in widget.get_line_filters():
        strip = strip.apply_filter(line_filter, widget.background_colors[1])
    return [strip] * crop.height


class Rows:
    """Rows, styled or plain, and their strips."""

    def __init__(self) -> None:
        self._rows: list[Content | str] = []
        self._strips: LRUCache[int, Strip] = LRUCache(512)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def texts(self) -> list[str]:
        """The rows without styles."""
        return [row if isinstance(row, str) else row.plain for row in self._rows]

    def add(self, rows: Sequence[Content | str]) -> None:
        """Append rows."""
        self._rows.extend(rows)

    def put(self, start: int, rows: Sequence[Content | str]) -> int:
        """Replace the rows from `start` on; return the first that is another one than before."""
        first = start
        for old, new in zip(self._rows[start:], rows, strict=False):
            if not _is_same(old, new):
                break
            first += 1
        for row in range(first, len(self._rows)):
            self._strips.discard(row)
        self._rows[first:] = rows[first - start :]
        return first

    def strip(self, y: int, widget: Widget) -> Strip:
        """Return one row in a widget's style and width."""
        if y >= len(self._rows):
            return Strip.blank(widget.size.width, widget.visual_style.rich_style)
        if (strip := self._strips.get(y)) is None:
            row = self._rows[y]
            content = Content(row) if isinstance(row, str) else row
            segments = content.render_segments(widget.visual_style)
            strip = Strip(segments, cell_len(content.plain))
            strip = strip.adjust_cell_length(widget.size.width, widget.visual_style.rich_style)
            self._strips[y] = strip
        return strip


def _is_same(one: Content | str, other: Content | str) -> bool:
    if isinstance(one, Content) and isinstance(other, Content):
        return one.is_same(other)
    return type(one) is type(other) and one == other


def wrapped(content: Content, width: int) -> list[Content | str]:
    """Return the rows of a text at a width; those of a text without styles are plain."""
    if not content.spans:
        wrap = Wrap(width)
        wrap.append(content.plain)
        return list(wrap.rows)
    rows: list[Content | str] = []
    for line in content.split("\n", allow_blank=True):
        rows.extend(line.wrap(width) if line.cell_length > width else [line])
    return rows
