"""The list of past chats.

Knows nothing of the store; posts `Chosen` with the chat's id.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.store.values import ChatSummary
from app.terminal import one_line
from app.tui.words import when


class ChatList(OptionList):
    """Titles and times, the latest first."""

    class Chosen(Message):
        """The person opens a chat."""

        def __init__(self, chat: int) -> None:
            super().__init__()
            self.chat = chat

    def __init__(self, **options: str) -> None:
        super().__init__(markup=False, compact=True, **options)
        self._chats: Sequence[ChatSummary] = ()
        self._current: int | None = None
        self._shown: tuple[object, ...] = ()

    def show(self, chats: Sequence[ChatSummary], current: int | None) -> None:
        """List chats and mark the current one."""
        self._chats, self._current = chats, current
        self._list()

    def on_resize(self) -> None:
        """Cut titles to the new width."""
        self._list()

    def _list(self) -> None:
        now, width = datetime.now(UTC), self.scrollable_content_region.width
        rows = [(chat.id, chat.title, when(chat.updated_at, now)) for chat in self._chats]
        if not width or (shown := (rows, self._current, width)) == self._shown:
            return
        self._shown = shown
        self.set_options([_option(*row, current=row[0] == self._current, width=width) for row in rows])
        ids = [row[0] for row in rows]
        if self._current in ids:
            self.highlighted = ids.index(self._current)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Turn the choice into our own message."""
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Chosen(int(event.option_id)))


def _option(chat: int, title: str, time: str, *, current: bool, width: int) -> Option:
    room = max(8, width - len(time) - 2)
    name = Content(("› " if current else "  ") + (one_line(title) or "New chat"))
    name = name.truncate(room, ellipsis=True, pad=True).plain
    return Option(Content.assemble((name, "bold" if current else ""), ("  " + time, "dim")), id=str(chat))
