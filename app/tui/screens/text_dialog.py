"""A dialog with one text to edit: a system prompt, a message to send again."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from app.tui.screens.closing import Dialog
from app.tui.widgets.plain_fields import PlainArea


class TextDialog(Dialog[str | None]):
    """Returns the new text, or None when nothing is to change; `take` says what becomes of it."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="text.save", priority=True),
        Binding("escape", "cancel", "Cancel", id="text.cancel"),
    ]

    def __init__(self, heading: str, text: str, *, take: str = "takes it", note: str = "") -> None:
        super().__init__()
        self._heading = heading
        self._text = text
        self._take = take
        self._note = note
        self.left = ""
        """What was typed when the dialog was cancelled; empty if nothing was changed."""

    def compose(self) -> ComposeResult:
        """A heading, the text, the two ways out."""
        with Vertical(classes="dialog"):
            yield Static(self._heading, markup=False, classes="heading")
            yield PlainArea(highlight_cursor_line=False, compact=True)
            hint = f"Ctrl+S {self._take}, Enter begins a new line, Escape changes nothing"
            yield Static(f"{hint}. {self._note}" if self._note else hint, markup=False, classes="hint")

    def on_mount(self) -> None:
        """Begin at the end of the text."""
        area = self.query_one(PlainArea)
        area.set_text(self._text)
        area.focus()

    def keep_all(self) -> list[str]:
        """Name the text, if it was changed."""
        return [] if self.query_one(PlainArea).text == self._text else ["the text in front"]

    def action_save(self) -> None:
        """Return the text."""
        self.dismiss(self.query_one(PlainArea).text)

    def action_cancel(self) -> None:
        """Return nothing."""
        typed = self.query_one(PlainArea).text
        self.left = "" if typed == self._text else typed
        self.dismiss(None)
