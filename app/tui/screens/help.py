"""The list of keys and commands, made from the bindings and the table themselves so that it cannot lag behind."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from app.tui.keymap import remapped
from app.tui.slash import COMMANDS
from app.tui.widgets.attachments_line import AttachmentsLine
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Enter
from app.tui.widgets.transcript import Transcript
from app.tui.words import key_words

_COMPOSER = (
    ("Alt+Up/Down", "Go back to what you sent before, and forth to your draft; Up does it in an empty field"),
    ("PageUp/Down", "Scroll the transcript"),
    ("Tab", "Go to the next part of the screen"),
    ("Ctrl+P", "Find any of these by name"),
)
_ENTER: Mapping[Enter, Sequence[tuple[str, str]]] = {
    "send": (
        ("Enter", "Send the message"),
        ("Ctrl+J", "Begin a new line; Alt+Enter and Shift+Enter on some terminals"),
    ),
    "newline": (
        ("Enter", "Begin a new line"),
        ("Ctrl+J", "Send the message; Alt+Enter on some terminals"),
    ),
}
_PARTS = (
    ("On a message", Transcript),
    ("In the list of chats", ChatList),
    ("On attachments", AttachmentsLine),
)


class HelpScreen(ModalScreen[None]):
    """Shows every key and command; any of Escape, Enter and F1 closes it.

    `bindings` are those of the main screen as they are in force, `keys` what the person gave to others by their ids.
    """

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,f1", "dismiss", "Close", id="help.close")]

    def __init__(
        self,
        bindings: Iterable[Binding],
        *,
        keys: Mapping[str, Sequence[str]] | None = None,
        enter: Enter = "send",
    ) -> None:
        super().__init__()
        self._listed = list(bindings)
        self._keys = keys or {}
        self._enter: Enter = enter

    def compose(self) -> ComposeResult:
        """A table a part, one line a key or command."""
        with VerticalScroll(classes="dialog"):
            yield Static("Keys", markup=False, classes="heading")
            yield Static(_table([*_ENTER[self._enter], *_COMPOSER, *_rows(self._listed)]))
            for heading, part in _PARTS:
                own = [binding for binding in part.BINDINGS if isinstance(binding, Binding)]
                yield Static(f"\n{heading}", markup=False, classes="heading")
                yield Static(_table(_rows(remapped(own, self._keys))))
            yield Static("\nCommands, at the beginning of a message", markup=False, classes="heading")
            yield Static(_table([(command.usage, command.tooltip) for command in COMMANDS]))
            yield Static("//  sends a text that begins with a slash", markup=False, classes="hint")
            yield Static("Escape closes", markup=False, classes="hint")


def _rows(bindings: Iterable[Binding]) -> list[tuple[str, str]]:
    return [
        (" ".join(map(key_words, binding.key.split(","))), binding.tooltip or binding.description)
        for binding in bindings
    ]


def _table(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for left, right in rows:
        table.add_row(Text(left, style="bold", no_wrap=True), Text(right))
    return table
