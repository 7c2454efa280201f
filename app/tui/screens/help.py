"""The list of keys and commands, made from the bindings and the table themselves so that it cannot lag behind."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from app.tui.keymap import Keys, part_words, remapped
from app.tui.screens.closing import Dialog
from app.tui.slash import COMMANDS
from app.tui.widgets.attachments_line import AttachmentsLine
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Enter
from app.tui.widgets.transcript import Transcript
from app.tui.words import key_words

Rows = Sequence[tuple[str, str]]

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


class HelpScreen(Dialog[None]):
    """Shows keys and commands, a heading and a table a part; any of Escape, Enter and F1 closes it."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,f1", "dismiss", "Close", id="help.close")]

    def __init__(self, parts: Sequence[tuple[str, Rows]], *, hint: str = "") -> None:
        super().__init__()
        self._parts = parts
        self._hint = hint

    def compose(self) -> ComposeResult:
        """A table a part, one line a key or command."""
        with VerticalScroll(classes="dialog"):
            for place, (heading, rows) in enumerate(self._parts):
                yield Static(f"\n{heading}" if place else heading, markup=False, classes="heading")
                yield Static(_table(rows))
            if self._hint:
                yield Static(self._hint, markup=False, classes="hint")
            yield Static("Escape closes", markup=False, classes="hint")


def chat_help(bindings: Iterable[Binding], *, keys: Keys, enter: Enter) -> HelpScreen:
    """Return all there is in the main screen.

    `bindings` are those of the main screen as they are in force, `keys` what the person gave to others by their ids.
    """
    parts = [("Keys", [*_ENTER[enter], *_COMPOSER, *_rows(bindings)])]
    parts += [(heading, _rows(remapped(part.BINDINGS, keys))) for heading, part in _PARTS]
    commands = [(command.usage, command.tooltip) for command in COMMANDS]
    parts.append(("Commands, at the beginning of a message", commands))
    return HelpScreen(parts, hint="//  sends a text that begins with a slash")


def screen_help(screen: Screen[Any], *, keys: Keys) -> HelpScreen:
    """Return what there is in another screen now: its own keys and those of the part that has the focus."""
    nodes = (screen.focused or screen).ancestors_with_self
    own = [
        type(node)
        for node in nodes
        if type(node).__module__.startswith("app.tui.") and node is not screen.app
    ]
    rows = [row for kind in own for row in _rows(remapped(vars(kind).get("BINDINGS", ()), keys))]
    return HelpScreen([(f"Keys: {part_words(type(screen))}", list(dict.fromkeys(rows)))])


def _rows(bindings: Iterable[Binding]) -> Rows:
    return [
        (" ".join(map(key_words, binding.key.split(","))), binding.tooltip or binding.description)
        for binding in bindings
    ]


def _table(rows: Rows) -> Table:
    table = Table.grid(padding=(0, 2))
    for left, right in rows:
        table.add_row(Text(left, style="bold", no_wrap=True), Text(right))
    return table
