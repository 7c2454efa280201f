"""Asks for a path, shows how it may go on, and tries to do something with the file.

Knows no chats: what is to be done is a function, which may take its time, and what it refuses is said here.
"""

from collections.abc import Callable
from inspect import isawaitable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.session import RefusedError
from app.store.values import StoreError
from app.terminal import one_line
from app.text_files import TextFileError, completions
from app.tui.screens.closing import Dialog
from app.tui.until_closed import until_closed
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList, is_listed


class PathDialog(Dialog[bool]):
    """Returns True when `attempt` has taken a path, False when nothing is to be done; a `path` that is given is tried
    at once.
    """

    CSS_PATH = "chats.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="path.cancel"),
        Binding("tab", "complete", "Complete", id="path.complete", priority=True),
        Binding("up", "move(-1)", "Up", id="path.up", show=False, priority=True),
        Binding("down", "move(1)", "Down", id="path.down", show=False, priority=True),
    ]

    def __init__(self, heading: str, attempt: Callable[[str], object], path: str = "") -> None:
        super().__init__()
        self._heading = heading
        self._attempt = attempt
        self._path = path
        self._listed: list[str] = []

    def compose(self) -> ComposeResult:
        """The field, how it may go on, what is wrong, the ways out."""
        with Vertical(classes="dialog"):
            yield Static(self._heading, markup=False, classes="heading")
            yield PlainInput(placeholder="Path of a file", compact=True)
            yield PlainList()
            yield Line(classes="state")
            yield Static(
                "Tab takes the highlighted name, Enter the file, Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """Begin in the current folder, or with the path that was given."""
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self._list(self._path)
        if self._path:
            with self.prevent(Input.Changed):
                self._go(self._path)
            self._begin(self._path)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._list(event.value)
        self.query_one(Line).put("")

    def _list(self, path: str) -> None:
        self._listed = completions(path)
        options = self.query_one(OptionList)
        options.set_options([Option(Content(one_line(_last(name)))) for name in self._listed])
        options.highlighted = 0 if self._listed else None

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self._begin(event.value)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        if is_listed(event):
            self._go(self._listed[event.option_index])

    def _begin(self, path: str) -> None:
        self.query_one(Line).put("Reading… Escape leaves it.")
        self.run_worker(self._take(path), group="path", exclusive=True)

    @until_closed
    async def _take(self, path: str) -> None:
        try:
            doing = self._attempt(path)
            if isawaitable(doing):
                await doing
        except (RefusedError, StoreError, TextFileError) as error:
            self.query_one(Line).put(one_line(str(error)))
        else:
            self.dismiss(True)

    def _go(self, path: str) -> None:
        field = self.query_one(Input)
        field.value = path
        field.cursor_position = len(path)

    def action_complete(self) -> None:
        """Put the highlighted name into the field."""
        place = self.query_one(OptionList).highlighted
        if place is not None:
            self._go(self._listed[place])

    def action_move(self, step: int) -> None:
        """Move in the list while the field keeps the focus."""
        self.query_one(PlainList).move(step)

    def action_cancel(self) -> None:
        """Do nothing."""
        self.dismiss(False)


def _last(path: str) -> str:
    """Return the last name of a path, a folder's slash included."""
    return path[path.rstrip("/").rfind("/") + 1 :]
