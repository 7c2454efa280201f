"""The status line: what the program is doing, or what went wrong, as a sentence.

Knows nothing of the engine; the screen says which of the three it is.
"""

from app.tui.widgets.line import Line
from app.tui.words import shown


class StatusLine(Line):
    """Progress takes one row, a message what it needs; trouble is marked by a word, not by colour alone."""

    def progress(self, text: str) -> None:
        """Show something that changes by itself; cut where the row ends."""
        self._set("-progress", text)

    def message(self, text: str) -> None:
        """Show a sentence for the person."""
        self._set("-message", text)

    def trouble(self, text: str) -> None:
        """Show what went wrong and which key helps, the key in front: a small screen cuts the end."""
        self._set("-trouble", f"Problem: {text}")

    def _set(self, kind: str, text: str) -> None:
        for name in ("-progress", "-message", "-trouble"):
            self.set_class(name == kind, name)
        self.put(shown(text))
