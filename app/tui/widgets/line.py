"""A short text that changes often: drawn only when it changes, laid out only when its height may change.

A plain `Static` lays out the whole screen at each update, many times a second while a reply is written.
"""

from textual.content import Content
from textual.widgets import Static


class Line(Static):
    """Normally one row; `put` replaces the text."""

    def __init__(self, **options: str) -> None:
        super().__init__(markup=False, **options)
        self._now = Content()

    def put(self, content: Content | str) -> None:
        """Show a text, printable and without markup."""
        new, old = Content(content) if isinstance(content, str) else content, self._now
        if new.is_same(old):
            return
        self._now = new
        longest = max(new.cell_length, old.cell_length)
        self.update(new, layout=longest > self.content_size.width or not old)
