"""The list of keys, made from the bindings themselves so that it cannot lag behind."""

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from app.tui.words import key_words

_COMPOSER = (
    ("Enter", "Send the message"),
    ("Ctrl+J", "Begin a new line; Shift+Enter on some terminals"),
    ("PageUp/Down", "Scroll the transcript"),
    ("Tab", "Go to the next part of the screen"),
    ("Ctrl+P", "Find any of these by name"),
)


class HelpScreen(ModalScreen[None]):
    """Shows every key; any of Escape, Enter and F1 closes it."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,f1", "dismiss", "Close", id="help.close")]

    def __init__(self, bindings: Sequence[Binding]) -> None:
        super().__init__()
        self._listed = bindings

    def compose(self) -> ComposeResult:
        """One line a key."""
        keys = [(key_words(binding.key), binding.tooltip) for binding in self._listed]
        table = Table.grid(padding=(0, 2))
        for key, text in (*_COMPOSER, *keys):
            table.add_row(Text(key, style="bold", no_wrap=True), Text(text))
        with VerticalScroll(classes="dialog"):
            yield Static("Keys", markup=False, classes="heading")
            yield Static(table)
            yield Static("Escape closes", markup=False, classes="hint")
