"""The chat that is open: the path shown through its tree of messages, its draft, its shape and its settings.

Knows the store, no engine and no screen. Invariants: a path is not changed while a reply grows at its end; a shape is
switched off rather than forgotten; nothing is removed but into the trash, and `undo` takes it out again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from app.conversation import LEFT_OUT
from app.settings import NAMES, ReplySettings, as_mapping, overlaid
from app.store.store import Store
from app.store.values import Chat, ChatSummary, StoredMessage
from app.terminal import well_formed
from grammars.spec import GrammarSpec


class RefusedError(Exception):
    """Something that cannot be done now; the text is written for the person."""


class OpenChat:
    """One chat of a store at a time.

    `revision` changes with whatever is shown, `listing` when other chats than the open one have changed. `trouble` is
    the last thing that went wrong with the open chat, as a sentence, or empty. `system` is the system prompt of new
    chats and `defaults` are the settings of chats that want nothing else.
    """

    def __init__(self, store: Store, *, settings: ReplySettings | None = None, system: str = "") -> None:
        self.store = store
        self.defaults = settings or ReplySettings()
        self.system = system
        self.trouble = store.notice
        self.revision = 0
        self.listing = 0
        self._undos: list[Callable[[], None]] = []
        self.chat, self.path = self._first_chat()

    @property
    def growing(self) -> int | None:
        """The reply that is being written in the open chat."""
        return self.growing_in(self.chat.id)

    def growing_in(self, chat_id: int) -> int | None:
        """Return the reply that is being written in a chat."""
        return None

    # --- chats

    @property
    def settings(self) -> ReplySettings:
        """How the next reply of the open chat is asked for: the defaults and what the chat wants otherwise."""
        return overlaid(self.defaults, self.chat.settings)[0]

    def told_in_path(self, trouble: str) -> bool:
        """Tell whether the open chat's last reply says itself that this went wrong."""
        reply = self.path[-1].reply if self.path else None
        return reply is not None and reply.finish == "error" and reply.error == trouble

    @property
    def can_undo(self) -> bool:
        """True when something was put into the trash in this session and is still there."""
        return bool(self._undos)

    def chats(self) -> list[ChatSummary]:
        """Return the chats that hold something, and the open one; those without a message with their drafts."""
        chats = [
            summary if summary.messages or summary.title else self.store.chat(summary.id)
            for summary in self.store.chats()
        ]
        return [chat for chat in chats if chat.id == self.chat.id or not _is_blank(chat, self.system)]

    def open(self, chat_id: int) -> None:
        """Open a chat; a reply of another one goes on being written."""
        self.chat = self.store.chat(chat_id)
        self.trouble = ""
        self._read_path()

    def open_at(self, chat_id: int, message_id: int) -> None:
        """Open a chat with the path that leads through a message.

        Raises `RefusedError` while another path of the chat grows, with nothing opened.
        """
        if all(message.id != message_id for message in self.store.path(chat_id)):
            self.need_rest(chat_id)
            self.store.set_leaf(chat_id, self.store.tip(message_id))
        self.open(chat_id)

    def new_chat(self) -> None:
        """Open an empty chat, an unused one if there is any."""
        empty = (self.store.chat(chat.id) for chat in self.store.chats() if not chat.messages)
        blank = next((chat.id for chat in empty if _is_blank(chat, self.system)), None)
        self.open(self._create_chat() if blank is None else blank)
        if self.chat.system != self.system:  # an unused one from before the default was changed
            self.set_system(self.system)

    def set_draft(self, text: str, chat_id: int | None = None) -> None:
        """Keep unsent text with a chat, by default the open one."""
        text = well_formed(text)
        if chat_id is not None and chat_id != self.chat.id:
            self.store.set_draft(chat_id, text)
            self.listing += 1
        elif text != self.chat.draft:
            self.store.set_draft(self.chat.id, text)
            self._read_chat()

    # --- what the next reply is asked for with

    def set_system(self, text: str) -> None:
        """Set the system prompt of the open chat."""
        self.store.set_system(self.chat.id, well_formed(text).strip())
        self._read_chat()

    def set_defaults(self, settings: ReplySettings, system: str) -> None:
        """Set how replies are asked for where a chat says nothing, and the system prompt of new chats.

        An open chat that is unused takes the system prompt, too.
        """
        unused = _is_blank(self.chat, self.system)
        self.defaults, self.system = settings, system
        if unused and self.chat.system != system:
            self.set_system(system)

    def set_shape(self, shape: GrammarSpec | None) -> None:
        """Pour the next replies into a shape, or into none."""
        self._set_shape(shape, on=shape is not None, shown=self.chat.shape_shown)

    def toggle_shape(self) -> None:
        """Switch the shape off, or on again."""
        self._need_shape()
        self._set_shape(self.chat.shape, on=not self.chat.shape_on, shown=self.chat.shape_shown)

    def toggle_shown(self) -> None:
        """Show the shape to the model, or hide it."""
        self._need_shape()
        self._set_shape(self.chat.shape, on=self.chat.shape_on, shown=not self.chat.shape_shown)

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Ask for the open chat's next replies otherwise; what equals the default is no longer the chat's own.

        Raises `RefusedError` naming what cannot be used, with nothing changed.
        """
        _, faulty = overlaid(self.defaults, changes)
        if faulty:
            raise RefusedError(f"{faulty[0]} cannot be {changes[faulty[0]]}.")
        defaults = as_mapping(self.defaults)
        kept = {**self.chat.settings, **changes}
        self._keep_settings(
            {name: value for name, value in kept.items() if name not in NAMES or value != defaults[name]}
        )

    def leave_out(self, messages: int) -> None:
        """Keep so many of the path's oldest messages from the model; 0 shows it all of them again."""
        self._keep_settings({**self.chat.settings, LEFT_OUT: messages})

    # --- the tree

    def show_sibling(self, message_id: int, step: int) -> bool:
        """Show the path through the next (1) or the one before (-1) of a message's siblings; False at an end."""
        self.need_rest()
        siblings = [message.id for message in self.store.siblings(message_id)]
        if message_id not in siblings:
            raise RefusedError("This message is in the trash.")
        place = siblings.index(message_id) + step
        if not 0 <= place < len(siblings):
            return False
        self.store.set_leaf(self.chat.id, self.store.tip(siblings[place]))
        self._read_all()
        return True

    def go_back_to(self, message_id: int) -> None:
        """End the shown path at a message, so that what is sent next begins a branch there."""
        self.need_rest()
        self.store.set_leaf(self.chat.id, message_id)
        self._read_all()

    def trash(self, message_id: int) -> None:
        """Put a message and what hangs on it into the trash; `undo` takes it out again."""
        self.need_rest()
        self.store.trash_message(message_id)
        self.can_take_back(lambda: self.restore(message_id))
        self._read_all()

    def restore(self, message_id: int) -> None:
        """Take a message out of the trash with what went with it, and open its chat there."""
        message = self.store.message(message_id)
        self.need_rest(message.chat_id)
        self.store.restore_message(message.id)
        self.chat = self.store.chat(message.chat_id)
        self._read_all()

    def can_take_back(self, undo: Callable[[], None]) -> None:
        """Remember how something that was just done is undone."""
        self._undos.append(undo)

    def undo(self) -> None:
        """Take what was last put into the trash out of it. Raises `RefusedError` if there is nothing."""
        if not self._undos:
            raise RefusedError("Nothing was put into the trash since Stampo was started.")
        undo = self._undos.pop()
        try:
            undo()
        except RefusedError:  # for now
            self._undos.append(undo)
            raise

    def refresh(self) -> None:
        """Read the open chat and its path anew, after chats were changed in the store."""
        self.listing += 1
        self._read_all()

    # --- inside

    def _first_chat(self) -> tuple[Chat, list[StoredMessage]]:
        """Return the chat to begin with: the latest one if it holds unsent text or no message, else a new one."""
        latest = max(self.store.chats(), key=lambda chat: chat.updated_at, default=None)
        chat = self.store.chat(latest.id if latest is not None else self._create_chat())
        if chat.messages and not chat.draft:
            chat = self.store.chat(self._create_chat())
        elif chat.system != self.system and _is_blank(chat, self.system):
            self.store.set_system(chat.id, self.system)  # unused since before the default was changed
            chat = self.store.chat(chat.id)
        return chat, self.store.path(chat.id)

    def _create_chat(self) -> int:
        return self.store.create_chat(system=self.system)

    def _set_shape(self, shape: GrammarSpec | None, *, on: bool, shown: bool) -> None:
        self.store.set_shape(self.chat.id, shape, on=on, shown=shown)
        self._read_chat()

    def _need_shape(self) -> None:
        if self.chat.shape is None:
            raise RefusedError("There is no shape yet. Ctrl+T picks one.")

    def _keep_settings(self, settings: Mapping[str, Any]) -> None:
        self.store.set_settings(self.chat.id, settings)
        self._read_chat()

    def need_rest(self, chat_id: int | None = None) -> None:
        """Raise `RefusedError` while a reply is being written in a chat, by default the open one."""
        if self.growing_in(self.chat.id if chat_id is None else chat_id) is not None:
            raise RefusedError("A reply is being written. Escape stops it.")

    def _read_chat(self) -> None:
        self.chat = self.store.chat(self.chat.id)
        self.revision += 1

    def _read_path(self) -> None:
        """Read the open chat's messages; the reply being written is not among them."""
        growing = self.growing
        self.path = [message for message in self.store.path(self.chat.id) if message.id != growing]
        self.revision += 1

    def _read_all(self) -> None:
        self._read_chat()
        self._read_path()


def _is_blank(chat: ChatSummary, system: str) -> bool:
    """Tell whether nothing was ever put into a chat, which must come whole if it has no message.

    `system` is the system prompt that new chats begin with.
    """
    return isinstance(chat, Chat) and not (
        chat.messages or chat.title or chat.draft or chat.system not in ("", system) or chat.shape
    )
