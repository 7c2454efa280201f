"""Markdown that only grows: blocks that are whole are set out once, only the last one again and again.

Knows nothing of replies. Invariant: rows of settled blocks never change while the width stays. A last block that grows
long is shown plain until it is whole, and then only appended to, so that no update takes long.
"""

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from app.terminal import printable
from app.tui.markdown import Settling, rendered
from app.tui.widgets.rows import Rows, Wrap, reserved, wrapped

LONGEST_BLOCK = 2_000
"""Characters of an unfinished block that are still set out at each update."""


class StreamMarkdown(Widget):
    """Shows a growing Markdown text. Its height follows the rows, in steps."""

    DEFAULT_CSS = "StreamMarkdown { width: 1fr; height: auto; }"

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._pieces: list[str] = []
        self._width = 0
        self._height = 0
        self._begin()

    def _begin(self) -> None:
        """Forget what was set out."""
        self._settling = Settling()
        self._settled = 0
        self._rows = Rows()
        self._kept = 0
        self._plain: Wrap | None = None
        self._unsettled: list[str] = []

    @property
    def text(self) -> str:
        """Everything appended."""
        return "".join(self._pieces)

    def append(self, text: str) -> None:
        """Add text at the end."""
        self._pieces.append(text)
        if self._width:
            kept, rows, plain = self._kept, len(self._rows), self._plain
            self._set_out(text)
            first = kept if plain is None or plain is not self._plain else rows - 1
            if len(self._rows) > self._height:
                self.refresh(layout=True)
            else:
                self.refresh(Region(0, first, self.size.width, self._height - first))

    def _set_out(self, new: str) -> None:
        """Set out the blocks that became whole, and what follows them."""
        self._settling.append(new)
        self._unsettled.append(new)
        if self._settling.end > self._settled:
            self._settle(self._settling.end)
        if self._plain is not None:
            first = len(self._plain.rows) - 1
            self._plain.append(_plain(new))
            self._rows.put(self._kept + first, self._plain.rows[first:])
            return
        rest = self._join()
        self._rows.cut(self._kept)
        if len(rest) > LONGEST_BLOCK:
            self._plain = Wrap(self._width)
            self._plain.append("\n" * bool(self._kept) + _plain(rest))
            self._rows.put(self._kept, self._plain.rows)
        elif rest.strip():
            self._add(rest)

    def _settle(self, end: int) -> None:
        """Set out what is whole for good."""
        rest = self._join()
        self._rows.cut(self._kept)
        self._add(rest[: end - self._settled])
        self._unsettled = [rest[end - self._settled :]]
        self._settled, self._kept, self._plain = end, len(self._rows), None

    def _join(self) -> str:
        rest = "".join(self._unsettled)
        self._unsettled = [rest]
        return rest

    def _add(self, text: str) -> None:
        if len(self._rows):
            self._rows.add([""])
        self._rows.add(wrapped(rendered(text, self._width), self._width))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Take all there is."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows at a width, and some for what comes."""
        if width and width != self._width:
            self._begin()
            self._width = width
            self._height = 0
            self._set_out(self.text)
        self._height = reserved(max(1, len(self._rows)), self._height, viewport.height)
        return self._height

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        return self._rows.strip(y, self)


def _plain(text: str) -> str:
    """Return a piece of a text as it may be shown; tabs are blanks, whose number cannot depend on what was before."""
    return printable(text).replace("\t", "    ")
