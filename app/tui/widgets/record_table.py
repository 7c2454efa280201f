"""A table of any length: only the rows that are seen are drawn, texts are shown and never obeyed.

Knows no records: it is told the columns, how many rows there are, and asks for the words of a cell when it draws it.
One row is highlighted; keys move it, Enter and a click on it open it. The heading stays while rows scroll.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.terminal import one_line

_GAP = 2
_CUT = 400  # characters of a cell that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and how wide it is, in cells; numbers stand at the right."""

    title: str
    width: int
    right: bool = False


class RecordTable(ScrollView, can_focus=True):
    """Rows under a heading; `show` replaces both."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"record--heading", "record--chosen", "record--cursor"}
    DEFAULT_CSS = """
    RecordTable { height: 1fr; }
    RecordTable > .record--heading { background: $panel; text-style: bold; }
    RecordTable > .record--chosen { background: $panel; text-style: bold reverse; }
    RecordTable > .record--cursor { background: $primary 40%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "end(0)", "First", show=False),
        Binding("end", "end(1)", "Last", show=False),
        Binding("left", "column(-1)", "Column before", show=False),
        Binding("right", "column(1)", "Next column", show=False),
        Binding("enter", "open", "Open", show=False),
    ]

    class Opened(Message):
        """A row was opened."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Moved(Message):
        """Another row or column is highlighted now."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._columns: Sequence[Column] = ()
        self._count = 0
        self._words: Callable[[int, int], str] = lambda row, column: ""
        self.row = 0
        self.column = 0

    def show(
        self, columns: Sequence[Column], count: int, words: Callable[[int, int], str], *, row: int = 0
    ) -> None:
        """Show `count` rows; `words` returns the text of a row and column. One row is highlighted."""
        self._columns, self._count, self._words = columns, count, words
        self.row = 0
        self.column = min(self.column, max(0, len(columns) - 1))
        width = sum(column.width + _GAP for column in columns) + _GAP  # the mark of the row
        self.virtual_size = Size(width, count + 1)
        self.scroll_to(y=0, animate=False, immediate=True)
        self.refresh()
        if row:
            self._go(row)
        self.post_message(self.Moved())

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._count

    def render_line(self, y: int) -> Strip:
        """Draw one line: the heading, or a row."""
        left, top = self.scroll_offset
        row = None if y == 0 else top + y - 1
        style = self.rich_style
        if row is None:
            style = self.get_component_rich_style("record--heading")
        elif row == self.row and row < self._count:
            style = self.get_component_rich_style("record--cursor")
        segments = []
        if row is None or row < self._count:
            for place, column in enumerate(self._columns):
                mark = ("› " if row == self.row else "  ") if place == 0 else ""
                text = column.title if row is None else self._words(row, place)[:_CUT]
                cell = mark + _fitted(one_line(text), column, right=column.right and row is not None)
                chosen = row is None and place == self.column
                segments.append(
                    Segment(cell, self.get_component_rich_style("record--chosen") if chosen else style)
                )
                segments.append(Segment(" " * _GAP, style))
        width = self.scrollable_content_region.width
        return Strip(segments).crop_extend(left, left + width, style)

    def action_move(self, step: int) -> None:
        """Highlight the next row."""
        self._go(self.row + step)

    def action_page(self, step: int) -> None:
        """Highlight a row a page away."""
        self._go(self.row + step * max(1, self.size.height - 2))

    def action_end(self, last: int) -> None:
        """Highlight the first or last row."""
        self._go(self._count * last)

    def action_column(self, step: int) -> None:
        """Highlight the next column and scroll to it."""
        self.column = min(max(self.column + step, 0), max(0, len(self._columns) - 1))
        starts = sum(column.width + _GAP for column in self._columns[: self.column])
        width = self._columns[self.column].width if self._columns else 0
        if starts < self.scroll_offset.x or starts + width > self.scroll_offset.x + self.size.width:
            self.scroll_to(x=starts, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_open(self) -> None:
        """Open the highlighted row."""
        if self.row < self._count:
            self.post_message(self.Opened(self.row))

    def on_click(self, event: events.Click) -> None:
        """Highlight the row under the pointer; open it if it is highlighted already."""
        row = self.scroll_offset.y + event.y - 1
        if event.y < 1 or row >= self._count:
            return
        if row == self.row:
            self.action_open()
        else:
            self._go(row)

    def _go(self, row: int) -> None:
        self.row = min(max(row, 0), max(0, self._count - 1))
        seen = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if not top <= self.row < top + seen:
            self.scroll_to(
                y=self.row if self.row < top else self.row - seen + 1, animate=False, immediate=True
            )
        self.refresh()
        self.post_message(self.Moved())


def fitting(title: str, texts: Sequence[str], most: int, *, right: bool = False) -> Column:
    """Return a column that is as wide as its texts need, at most `most`."""
    needed = max((cell_len(one_line(text[:most])) for text in texts), default=0)
    return Column(title=title, width=min(most, max(needed, cell_len(one_line(title)), 4)), right=right)


def _fitted(text: str, column: Column, *, right: bool) -> str:
    length = cell_len(text)
    if length > column.width:
        return set_cell_size(text, column.width - 1) + "…"
    return " " * (column.width - length) + text if right else set_cell_size(text, column.width)
