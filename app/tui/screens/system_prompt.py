"""The editor of a chat's system prompt."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from app.tui.widgets.plain_fields import PlainArea


class SystemPrompt(ModalScreen[str | None]):
    """Returns the new text, or None when nothing is to change."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="system.save", priority=True),
        Binding("escape", "cancel", "Cancel", id="system.cancel"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """A heading, the text, the two ways out."""
        with Vertical(classes="dialog"):
            yield Static("System prompt of this chat", markup=False, classes="heading")
            yield PlainArea(highlight_cursor_line=False, compact=True)
            yield Static("Ctrl+S saves, Escape changes nothing", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Begin at the end of the text."""
        area = self.query_one(PlainArea)
        area.set_text(self._text)
        area.focus()

    def action_save(self) -> None:
        """Return the text."""
        self.dismiss(self.query_one(PlainArea).text)

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)
