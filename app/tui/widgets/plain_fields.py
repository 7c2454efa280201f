"""Text fields that are safe to paste into.

What is pasted is cleaned at this border, because these fields write their characters to the terminal as they
are. Many terminals, tmux among them, send the line breaks of a paste as carriage returns.
"""

from textual import events
from textual.widgets import Input, TextArea

from app.terminal import one_line, printable


class PlainArea(TextArea):
    """A text area without control characters."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # or the base class would take the event once more, uncleaned
        await super()._on_paste(events.Paste(printable(_with_newlines(event.text))))

    def set_text(self, text: str) -> None:
        """Replace the whole text and put the cursor at its end."""
        self.text = printable(text)
        self.move_cursor(self.document.end)


class PlainInput(Input):
    """A one-line field without control characters."""

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        lines = _with_newlines(event.text).split("\n")
        super()._on_paste(events.Paste(one_line(" ".join(filter(None, map(str.strip, lines))))))


def _with_newlines(text: str) -> str:
    """Return a pasted text with every line break as a newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
