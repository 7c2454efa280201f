"""A short text that changes often: drawn only when it changes, laid out only when its height may change.

A plain `Static` lays out the whole screen at each update, many times a second while a reply is written.
"""

import time

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

SLOW_S = 0.25
"""How long a text that changes all the time stays at least."""

LATE_S = 0.1
"""More than a frame: what comes with the next frame is drawn together with all else that changed."""


class Line(Static):
    """Normally one row; `put` replaces the text."""

    def __init__(self, **options: str) -> None:
        super().__init__(markup=False, **options)
        self._now = Content()
        self._next: Content | str | None = None
        self._due: Timer | None = None
        self._slow_at = 0.0

    def put(self, content: Content | str) -> None:
        """Show a text, printable and without markup."""
        self._next = None
        new, old = Content(content) if isinstance(content, str) else content, self._now
        if new.is_same(old):
            return
        self._now = new
        longest = max(new.cell_length, old.cell_length)
        self.update(new, layout=longest > self.content_size.width or not old)

    def put_slowly(self, content: Content | str) -> None:
        """Show a text that changes many times a second: a few of these, and always the last."""
        wait = self._slow_at + SLOW_S - time.monotonic()
        if wait <= 0:
            self._slow_at = time.monotonic()
            self.put(content)
            return
        self._next = content
        if self._due is None:
            self._due = self.set_timer(wait + LATE_S, self._put_next)

    def _put_next(self) -> None:
        self._due = None
        if self._next is not None:
            self.put_slowly(self._next)
