"""The list of past chats.

Knows nothing of the store; posts `Chosen` with the chat's id. A chat without a title is told by its unsent text.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from app.conversation import title
from app.store.values import Chat, ChatSummary
from app.terminal import one_line
from app.tui.widgets.plain_list import PlainList
from app.tui.words import when


class ChatList(PlainList):
    """Titles and times, the latest first."""

    class Chosen(Message):
        """The person opens a chat."""

        def __init__(self, chat: int) -> None:
            super().__init__()
            self.chat = chat

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
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
        rows = [(chat.id, *_name(chat), when(chat.updated_at, now)) for chat in self._chats]
        if not width or (shown := (rows, self._current, width)) == self._shown:
            return
        self._shown = shown
        self.set_options([_option(*row, current=row[0] == self._current, width=width) for row in rows])
        ids = [row[0] for row in rows]
        if self._current in ids:
            self.highlighted = ids.index(self._current)

    def on_option_list_option_selected(self, event: PlainList.OptionSelected) -> None:
        """Turn the choice into our own message."""
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Chosen(int(event.option_id)))


def _name(chat: ChatSummary) -> tuple[str, bool]:
    """Return what a chat is called in the list, and whether that is its draft."""
    if chat.title:
        return one_line(chat.title), False
    draft = title(chat.draft) if isinstance(chat, Chat) else ""
    return (f"draft: {one_line(draft)}", True) if draft else ("New chat", False)


def _option(chat: int, name: str, draft: bool, time: str, *, current: bool, width: int) -> Option:
    room = max(8, width - len(time) - 2)
    name = Content(("› " if current else "  ") + name).truncate(room, ellipsis=True, pad=True).plain
    style = " ".join(word for word, wanted in (("bold", current), ("dim", draft)) if wanted)
    return Option(Content.assemble((name, style), ("  " + time, "dim")), id=str(chat))
