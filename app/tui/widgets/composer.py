"""Where the next message is typed. Enter sends, Ctrl+J or Shift+Enter breaks the line.

Knows nothing of chats.
"""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from app.terminal import one_line
from app.tui.widgets.plain_fields import PlainArea

_PROMPT = "Write a message"
_NEWLINE_KEYS = ("ctrl+j", "shift+enter", "alt+enter")


class Composer(PlainArea):
    """A multi-line text field that posts `Submitted`; page keys move the transcript above it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.page(-1)", "Scroll up", id="transcript.up", show=False),
        Binding("pagedown", "screen.page(1)", "Scroll down", id="transcript.down", show=False),
    ]

    class Submitted(Message):
        """The person asks to send `text`."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, **options: str) -> None:
        super().__init__(placeholder=_PROMPT, highlight_cursor_line=False, compact=True, **options)

    def suggest(self, example: str) -> None:
        """Show an example while nothing is written; an empty one takes it away."""
        self.placeholder = Content(one_line(f"{_PROMPT}, for example: {example}" if example else _PROMPT))

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Submitted(self.text))
        elif event.key in _NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self._replace_via_keyboard("\n", *self.selection)
        else:
            await super()._on_key(event)
