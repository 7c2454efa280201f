"""Finding a text in the open chat: a field, at how many places it stands, and which of them is shown.

Knows the messages it is handed, not where they are shown; posts `Found` with the one to show.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from app.store.values import StoredMessage
from app.terminal import one_line
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput


class FindBar(Horizontal):
    """Hidden until it is opened; Enter goes on to the place above, Escape closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="find.close"),
        Binding("up,enter", "step(-1)", "Above", id="find.above", priority=True),
        Binding("down", "step(1)", "Below", id="find.below", priority=True),
    ]

    class Found(Message):
        """This message is to be shown, where the text stands in it for the time with this number, from 0."""

        def __init__(self, message_id: int, text: str, number: int) -> None:
            super().__init__()
            self.message_id = message_id
            self.text = text
            self.number = number

    class Closed(Message):
        """The bar was closed."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._chat = 0
        self._messages: Callable[[], Sequence[StoredMessage]] = tuple
        self._hits: list[tuple[int, int]] = []  # messages, and which of the text's places in them
        self._place = 0

    def compose(self) -> ComposeResult:
        """The field and the count."""
        yield PlainInput(placeholder="Find in this chat", compact=True)
        yield Line(classes="count")

    def open(self, chat: int, messages: Callable[[], Sequence[StoredMessage]], text: str = "") -> None:
        """Show the bar over what `messages` returns of a chat, with a text to find or the last one."""
        self._chat = chat
        self._messages = messages
        self.display = True
        field = self.query_one(Input)
        if text:
            field.value = one_line(text)
        field.focus()
        self._find(field.value)

    def stay_with(self, chat: int) -> None:
        """Hide the bar when another chat is shown than the one it was opened over."""
        if self.display and chat != self._chat:
            focused = self.query_one(Input).has_focus
            self.display = False
            if focused:
                self.post_message(self.Closed())

    def action_close(self) -> None:
        """Hide the bar."""
        self.display = False
        self.post_message(self.Closed())

    def action_step(self, step: int) -> None:
        """Go to the next place of the text, above (-1) or below (1)."""
        if self._hits:
            self._place = (self._place + step) % len(self._hits)
            self._show()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._find(event.value)

    def _find(self, text: str) -> None:
        needle = text.casefold()
        self._hits = [
            (message.id, number)
            for message in self._messages()
            for number in range(message.content.casefold().count(needle) if needle else 0)
        ]
        self._place = len(self._hits) - 1
        self._show()

    def _show(self) -> None:
        if not self._hits:
            self.query_one(".count", Line).put("not found" if self.query_one(Input).value else "")
            return
        self.query_one(".count", Line).put(f"{self._place + 1} of {len(self._hits)}")
        message, number = self._hits[self._place]
        self.post_message(self.Found(message, self.query_one(Input).value, number))
