"""Chats as a person keeps them: names, pins, the trash, and files to take chats out and in.

Knows the session and the store, no screen. Invariants: nothing is removed for good but by `delete_chat` and
`empty_trash`; a file that exists is never written over.
"""

import asyncio
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from app.exchange import Imported, ImportRefusedError, adopt, dumps, export_chat, export_chats, read_chats
from app.exchange.import_ import MAX_BYTES, Incoming
from app.paths import data_dir, write_private
from app.session import RefusedError, Session
from app.store.values import ChatSummary, Hit, StoredMessage
from app.terminal import well_formed
from app.text_files import TextFileError, named_path, read_text

_ALL_CHATS = "stampo-chats"


class Keeping:
    """What is done with whole chats. Methods raise `RefusedError`, or `StoreError` with nothing done."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store

    def rename(self, chat_id: int, title: str) -> None:
        """Give a chat another title."""
        self._store.rename_chat(chat_id, " ".join(well_formed(title).split()))
        self._session.refresh()

    def pin(self, chat_id: int) -> bool:
        """Keep a chat at the top of the list, or no longer; return which."""
        pinned = not self._store.chat(chat_id).pinned
        self._store.set_pinned(chat_id, pinned)
        self._session.refresh()
        return pinned

    def trash(self, chat_id: int) -> None:
        """Put a chat into the trash; the session's `undo` takes it out again. Another chat is opened in its place."""
        if self._session.growing_in(chat_id) is not None:
            raise RefusedError("A reply is being written in this chat. Escape stops it.")
        self._store.trash_chat(chat_id)
        self._session.can_take_back(lambda: self.restore_chat(chat_id))
        if chat_id == self._session.chat.id:
            self._session.new_chat()
        else:
            self._session.refresh()

    def restore_chat(self, chat_id: int) -> None:
        """Take a chat out of the trash."""
        self._store.restore_chat(chat_id)
        self._session.refresh()

    def restore_message(self, message_id: int) -> None:
        """Take a message out of the trash with what went with it, and with its chat."""
        message = self._store.message(message_id)
        if self._store.chat(message.chat_id).trashed_at is not None:
            self._store.restore_chat(message.chat_id)
        self._session.restore(message_id)

    def trashed_chats(self) -> list[ChatSummary]:
        """Return the chats in the trash."""
        return self._store.chats(trashed=True)

    def trashed_messages(self) -> list[StoredMessage]:
        """Return the messages that were put into the trash by themselves, the last one first."""
        return self._store.trashed()

    def chat_title(self, chat_id: int) -> str:
        """Return a chat's title, also from the trash."""
        return self._store.chat(chat_id).title

    def delete_chat(self, chat_id: int) -> None:
        """Remove a chat for good; only from the trash."""
        if self._store.chat(chat_id).trashed_at is None:
            raise RefusedError("Only chats in the trash can be deleted.")
        self._store.delete_chat(chat_id)

    def empty_trash(self) -> int:
        """Remove for good all that is in the trash; return how many chats and messages that were."""
        count = self._store.empty_trash(datetime.now(UTC))
        self._session.refresh()
        return count

    def search(self, text: str) -> list[Hit]:
        """Find the titles and messages that hold every word of a text, the newest first."""
        return self._store.search(text)

    async def import_file(self, path: str, most: int = MAX_BYTES) -> Imported:
        """Add the chats of an export file of at most `most` bytes, which a thread reads.

        Raises `RefusedError` with nothing added.
        """
        incoming = await asyncio.to_thread(_read_chats, path, most)
        imported = adopt(self._store, incoming)
        self._session.refresh()
        return imported

    def export(self, path: str = "", *, chat_id: int | None = None) -> Path:
        """Write a chat, by default the open one, into a new file; return where.

        Without a path it goes into the current folder, else into the data folder. Raises `RefusedError` for a chat
        without a message and for a path that is taken, `OSError` if it cannot be written.
        """
        chat = self._store.chat(self._session.chat.id if chat_id is None else chat_id)
        if not chat.messages:
            raise RefusedError("There is nothing to export yet.")
        name = re.sub(r"[^\w-]+", "-", chat.title)[:40].strip("-").lower() or f"chat-{chat.id}"
        return _write(path, name, dumps(export_chat(self._store, chat.id)))

    def export_all(self, path: str = "") -> Path:
        """Write all chats into one new file, as `export` does."""
        chats = sorted(chat.id for chat in self._store.chats() if chat.messages)
        if not chats:
            raise RefusedError("There is nothing to export yet.")
        return _write(path, _ALL_CHATS, dumps(export_chats(self._store, chats)))


def _read_chats(path: str, most: int) -> Incoming:
    try:
        name, text = read_text(path, most)
    except TextFileError as error:
        raise RefusedError(str(error)) from error
    try:
        return read_chats(text, most)
    except ImportRefusedError as error:
        raise RefusedError(f"{name} cannot be imported: {error}. Nothing was added.") from error


def _write(path: str, name: str, text: str) -> Path:
    data = text.encode()
    if path.strip():
        return _write_named(path, name, data)
    try:
        return _write_new(Path.cwd(), name, data)
    except OSError:  # the folder is read-only or gone
        return _write_new(data_dir(), name, data)


def _write_named(path: str, name: str, data: bytes) -> Path:
    try:
        target = named_path(path)
    except TextFileError as error:
        raise RefusedError(str(error)) from error
    if target.is_dir():
        return _write_new(target, name, data)
    try:
        write_private(target, data)
    except FileExistsError as error:
        raise RefusedError(f"{target} exists; name a new file.") from error
    return target


def _write_new(folder: Path, name: str, data: bytes) -> Path:
    """Write a file under a name that is free; return its path."""
    for path in _names(folder, name):
        try:
            write_private(path, data)
        except FileExistsError:
            continue
        return path
    raise AssertionError("counting never ends")


def _names(folder: Path, name: str) -> Iterator[Path]:
    yield folder / f"{name}.json"
    for number in itertools.count(2):
        yield folder / f"{name}-{number}.json"
