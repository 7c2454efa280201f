"""The list of past chats.

Knows nothing of the store; posts `Chosen` with the chat's id, and `Asked` for what else is to be done with one. A chat
without a title is told by its unsent text, its system prompt or its shape.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from app.conversation import title
from app.store.values import Chat, ChatSummary
from app.terminal import one_line
from app.tui.widgets.plain_list import PlainList
from app.tui.words import shape_name, when


def _asks(key: str, what: str, name: str, tooltip: str) -> Binding:
    return Binding(key, f"ask('{what}')", name, id=f"chats.{what}", tooltip=tooltip)


class ChatList(PlainList):
    """Titles and times, pinned ones first, then the latest."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _asks("r", "rename", "Rename", "Give the chat another title"),
        _asks("p", "pin", "Pin", "Keep the chat at the top of the list (↑), or no longer"),
        _asks("d,delete", "trash", "Trash", "Put the chat into the trash"),
        _asks("u", "undo", "Undo", "Take what was last put into the trash out of it"),
        _asks("e", "export", "Export", "Write the chat to a new JSON file"),
        Binding("slash", "screen.search", "Search", id="chats.search", tooltip="Find a text in all chats"),
        Binding("t", "screen.trash", "Trash can", id="chats.trashed", tooltip="Look at what is in the trash"),
    ]

    class Chosen(Message):
        """The person opens a chat."""

        def __init__(self, chat: int) -> None:
            super().__init__()
            self.chat = chat

    class Asked(Message):
        """The person wants something done with a chat; `what` is the last part of the binding's id."""

        def __init__(self, what: str, chat: int) -> None:
            super().__init__()
            self.what = what
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
        rows = [(chat.id, *_name(chat), chat.pinned, when(chat.updated_at, now)) for chat in self._chats]
        if not width or (shown := (rows, self._current, width)) == self._shown:
            return
        self._shown = shown
        ids, chosen = [row[0] for row in rows], self._highlighted_chat
        self.set_options([_option(*row, current=row[0] == self._current, width=width) for row in rows])
        # While keys act on the list the highlight stays on its chat; else it follows the open one.
        wanted = chosen if self.has_focus and chosen in ids else self._current
        if wanted in ids:
            self.highlighted = ids.index(wanted)
        elif self.has_focus and ids:
            self.highlighted = 0

    @property
    def _highlighted_chat(self) -> int | None:
        if self.highlighted is None or not (chat := self.get_option_at_index(self.highlighted).id):
            return None
        return int(chat)

    def action_ask(self, what: str) -> None:
        """Post what is to be done with the highlighted chat."""
        chat = self._highlighted_chat
        if chat is not None or what == "undo":
            self.post_message(self.Asked(what, chat or 0))

    def on_option_list_option_selected(self, event: PlainList.OptionSelected) -> None:
        """Turn the choice into our own message."""
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Chosen(int(event.option_id)))


def _name(chat: ChatSummary) -> tuple[str, bool]:
    """Return what a chat is called in the list, and whether that is only what it holds."""
    if chat.title:
        return one_line(chat.title), False
    if isinstance(chat, Chat):
        if draft := title(chat.draft):
            return f"draft: {one_line(draft)}", True
        if system := title(chat.system):
            return f"system: {one_line(system)}", True
        if chat.shape is not None:
            return f"shape: {shape_name(chat.shape)}", True
    return "New chat", False


def _option(
    chat: int, name: str, draft: bool, pinned: bool, time: str, *, current: bool, width: int
) -> Option:
    room = max(8, width - len(time) - 2)
    name = (
        Content(("›" if current else " ") + ("↑" if pinned else " ") + name)
        .truncate(room, ellipsis=True, pad=True)
        .plain
    )
    style = " ".join(word for word, wanted in (("bold", current), ("dim", draft)) if wanted)
    return Option(Content.assemble((name, style), ("  " + time, "dim")), id=str(chat))
