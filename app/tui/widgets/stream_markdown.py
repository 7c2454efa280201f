"""Markdown that only grows: blocks that are whole are set out once, only the last one again and again.

Knows nothing of replies. Invariant: rows of settled blocks never change while the width stays. A last block that grows
long is shown plain until it is whole, and then only appended to, so that no update takes long.
"""

from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from app.terminal import printable
from app.tui.markdown import Settling, rendered
from app.tui.widgets.rows import Rows, Wrap, laid_out_once, reserved, wrapped

LONGEST_BLOCK = 2_000
"""Characters of an unfinished block that are still set out at each update."""


class StreamMarkdown(Widget):
    """Shows a growing Markdown text. Its height follows the rows, in steps."""

    DEFAULT_CSS = "StreamMarkdown { width: 1fr; height: auto; }"
    virtual_size = laid_out_once()

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
        if not self._width:
            return
        before, first = len(self._rows), self._set_out(text)
        if len(self._rows) > self._height:
            self.refresh(layout=True)
        elif changed := max(before, len(self._rows)) - first:
            self.refresh(Region(0, first, self.size.width, changed))

    def _set_out(self, new: str) -> int:
        """Set out the blocks that became whole, and what follows them; return the first row that is another one."""
        self._settling.append(new)
        self._unsettled.append(new)
        first = len(self._rows)
        if self._settling.end > self._settled:
            first = self._settle(self._settling.end)
        if self._plain is not None:
            last = len(self._plain.rows) - 1
            self._plain.append(_plain(new))
            return min(first, self._rows.put(self._kept + last, self._plain.rows[last:]))
        rest = self._join()
        if len(rest) > LONGEST_BLOCK:
            self._plain = Wrap(self._width)
            self._plain.append("\n" * bool(self._kept) + _plain(rest))
            return min(first, self._rows.put(self._kept, self._plain.rows))
        return min(first, self._rows.put(self._kept, self._block(rest) if rest.strip() else []))

    def _settle(self, end: int) -> int:
        """Set out what is whole for good; return the first row that is another one."""
        rest = self._join()
        first = self._rows.put(self._kept, self._block(rest[: end - self._settled]))
        self._unsettled = [rest[end - self._settled :]]
        self._settled, self._kept, self._plain = end, len(self._rows), None
        return first

    def _join(self) -> str:
        rest = "".join(self._unsettled)
        self._unsettled = [rest]
        return rest

    def _block(self, text: str) -> list[Content | str]:
        """Return the rows of a block, with one between it and the block before."""
        return [*[""] * bool(self._kept), *wrapped(rendered(text, self._width), self._width)]

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
