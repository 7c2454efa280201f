"""The trash: chats and messages that were put there, to take out again or to delete for good.

Knows what keeps the chats, and does what is asked through it. Invariant: nothing is deleted without two questions, and
the last one is answered by a key that nothing else uses.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.conversation import title
from app.keeping import Keeping
from app.session import RefusedError
from app.store.values import ChatSummary, StoredMessage, StoreError
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.widgets.line import Line
from app.tui.widgets.plain_list import PlainList
from app.tui.words import when

_LAST_QUESTION = "This cannot be undone. Y deletes for good; any other key keeps it."


class TrashScreen(Dialog[None]):
    """Lists the trash, the latest first; Escape closes."""

    CSS_PATH = "chats.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="trash.close"),
        Binding("r", "restore", "Take out", id="trash.restore", tooltip="Take it out of the trash"),
        Binding("X", "delete", "Delete", id="trash.delete", tooltip="Delete the chat for good"),
        Binding("E", "empty", "Empty", id="trash.empty", tooltip="Delete all of the trash for good"),
    ]

    def __init__(self, keeping: Keeping) -> None:
        super().__init__()
        self._keeping = keeping
        self._listed: list[ChatSummary | StoredMessage] = []
        self._asked: tuple[str, Callable[[], object]] | None = None
        self._sure = False

    def compose(self) -> ComposeResult:
        """The list, the question that is asked, the ways out."""
        with Vertical(classes="dialog"):
            yield Static("Trash", markup=False, classes="heading")
            yield PlainList()
            yield Line(classes="state")
            yield Static(
                "Enter or R takes it out, Shift+X deletes a chat for good, Shift+E empties the trash, Escape closes",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """List what is there."""
        self._list()
        self.query_one(PlainList).focus()

    def on_key(self, event: events.Key) -> None:
        """Hear the answer to the last question; any key but Y takes the question back."""
        if self._asked is None or event.key in ("X", "E"):
            return
        delete, sure, self._asked, self._sure = self._asked[1], self._sure, None, False
        if sure and event.key in ("y", "Y"):
            event.stop()
            event.prevent_default()
            self._try(delete, "Deleted for good.")
        else:
            self._say("Nothing was deleted.")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the chosen one out."""
        event.stop()
        self.action_restore()

    def action_restore(self) -> None:
        """Take what is highlighted out of the trash."""
        chosen = self._chosen
        if isinstance(chosen, StoredMessage):
            self._try(lambda: self._keeping.restore_message(chosen.id), "Taken out of the trash, and opened.")
        elif chosen is not None:
            self._try(lambda: self._keeping.restore_chat(chosen.id), "Taken out of the trash.")

    def action_delete(self) -> None:
        """Ask whether the highlighted chat is to be deleted."""
        chosen = self._chosen
        if isinstance(chosen, StoredMessage):
            self._say("Single messages are deleted when the trash is emptied: Shift+E.")
        elif chosen is not None:
            chat = f"“{_name(chosen.title)}” with {_messages(chosen.messages)}"
            question = f"Delete {chat} for good? Shift+X again asks once more."
            self._ask(f"X{chosen.id}", question, lambda: self._keeping.delete_chat(chosen.id))

    def action_empty(self) -> None:
        """Ask whether everything is to be deleted."""
        if self._listed:
            question = f"Delete all {len(self._listed)} entries for good? Shift+E again asks once more."
            self._ask("E", question, self._keeping.empty_trash)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)

    @property
    def _chosen(self) -> ChatSummary | StoredMessage | None:
        place = self.query_one(PlainList).highlighted
        return None if place is None else self._listed[place]

    def _ask(self, what: str, question: str, delete: Callable[[], object]) -> None:
        """Ask for the first time, or for the second if this was asked just now."""
        self._sure = self._asked is not None and self._asked[0] == what
        self._asked = (what, delete)
        self._say(_LAST_QUESTION if self._sure else question)

    def _try(self, act: Callable[[], object], done: str) -> None:
        try:
            act()
        except (RefusedError, StoreError) as error:
            self._say(one_line(str(error)))
        else:
            self._say(done)
        self._list()

    def _say(self, text: str) -> None:
        self.query_one(Line).put(text)

    def _list(self) -> None:
        options = self.query_one(PlainList)
        place = options.highlighted or 0
        try:
            self._listed = [*self._keeping.trashed_chats(), *self._keeping.trashed_messages()]
            now = datetime.now(UTC)
            rows = [self._row(entry, now) for entry in self._listed]
        except StoreError as error:
            self._listed, rows = [], []
            self._say(one_line(str(error)))
        options.set_options([Option(row) for row in rows])
        if self._listed:
            options.highlighted = min(place, len(self._listed) - 1)
        elif not str(self.query_one(Line).content):
            self._say("The trash is empty.")

    def _row(self, entry: ChatSummary | StoredMessage, now: datetime) -> Content:
        time = when(entry.trashed_at, now) if entry.trashed_at else ""
        if isinstance(entry, StoredMessage):
            whose = "Your message" if entry.reply is None else "Reply"
            chat = _name(self._keeping.chat_title(entry.chat_id))
            text = one_line(title(entry.content)) or "(no text)"
            return Content.assemble((whose, "bold"), f"  {text}", (f"  in “{chat}”, {time}", "dim"))
        return Content.assemble(
            ("Chat", "bold"), f"  {_name(entry.title)}", (f"  {_messages(entry.messages)}, {time}", "dim")
        )


def _name(chat_title: str) -> str:
    return one_line(chat_title) or "New chat"


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"
