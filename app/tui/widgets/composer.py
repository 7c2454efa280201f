"""Where the next message is typed. Enter sends, Ctrl+J or Shift+Enter breaks the line.

Knows nothing of chats. Keys are taken strictly in their order: what is typed after a key that empties the field
stands in the empty field, however fast it comes.
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
# Left to the screen this would run when the keys after it are already in the old text.
_RUN_IN_ORDER = {"ctrl+n": "screen.new_chat"}


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

    def drop(self, sent: str) -> None:
        """Take away what was sent; what was typed since stays."""
        self.set_text(self.text.removeprefix(sent))

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
        elif event.key in _RUN_IN_ORDER:
            event.stop()
            event.prevent_default()
            await self.run_action(_RUN_IN_ORDER[event.key])
        else:
            await super()._on_key(event)
