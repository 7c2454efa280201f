"""Chats and their trees of messages on disk: reading them, and everything a person changes about them.

Knows no engine and no reply in the making (store.py adds them). Invariants: every method that changes
something is on disk when it returns, whole or not at all; a message's content is what was typed, character by
character; nothing is removed except by `delete_chat`, `empty_trash` and `remove_attachment`; what hangs on a message
goes into the trash with it and comes out with it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.store import rows
from app.store.database import Database
from app.store.values import Attachment, Chat, ChatSummary, StoredMessage, StoreError
from grammars.spec import GrammarSpec

_SUBTREE = """subtree(id) AS (
    SELECT ?1 UNION ALL SELECT m.id FROM subtree JOIN messages t ON t.id = subtree.id
    JOIN messages m ON m.chat_id = t.chat_id AND m.parent_id = t.id)"""

_KEPT = """kept(id) AS (
    SELECT id FROM messages WHERE trashed_at IS NULL OR trashed_at >= ?
    UNION SELECT m.parent_id FROM kept JOIN messages m ON m.id = kept.id WHERE m.parent_id IS NOT NULL)"""


class Chats:
    """The chats in one database. Every method raises `StoreError` with a sentence naming the file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_chat(self, *, title: str = "", system: str = "") -> int:
        """Add an empty chat; return its number, which is never given again."""
        moment = now()
        with self._database.transaction():
            return self._database.insert(
                "chats", title=title, system=system, created_at=moment, updated_at=moment
            )

    def chats(self, *, trashed: bool = False) -> list[ChatSummary]:
        """Return the chats, or those in the trash: pinned first, then the latest change first."""
        found = self._database.rows(
            f"{rows.CHATS} WHERE (c.trashed_at IS NOT NULL) = ? "
            "ORDER BY c.pinned DESC, c.updated_at DESC, c.id DESC",
            trashed,
        )
        return [rows.chat_summary(row) for row in found]

    def chat(self, chat_id: int) -> Chat:
        """Return one chat, also from the trash."""
        row = self._database.row(f"{rows.CHATS} WHERE c.id = ?", chat_id)
        if row is None:
            raise self._missing("chat", chat_id)
        return rows.read_chat(self._database, row)

    def rename_chat(self, chat_id: int, title: str) -> None:
        """Give a chat another title."""
        self._set_chat(chat_id, title=title)

    def set_system(self, chat_id: int, system: str) -> None:
        """Set the system prompt."""
        self._set_chat(chat_id, system=system)

    def set_pinned(self, chat_id: int, pinned: bool) -> None:
        """Keep a chat at the top of the list, or not."""
        self._set_chat(chat_id, pinned=pinned)

    def set_draft(self, chat_id: int, text: str) -> None:
        """Keep what was typed and not sent."""
        self._set_chat(chat_id, draft=text)

    def set_shape(self, chat_id: int, shape: GrammarSpec | None, *, on: bool, shown: bool) -> None:
        """Set the shape of the next reply, whether it is in force, and whether the model is to see it."""
        with self._database.transaction():
            self._set_chat(chat_id, shape_id=self.shape_id(shape), shape_on=on, shape_shown=shown)

    def set_settings(self, chat_id: int, settings: Mapping[str, Any]) -> None:
        """Set what this chat wants otherwise than the defaults; values are those of JSON."""
        self._set_chat(chat_id, settings=json.dumps(dict(settings), allow_nan=False))

    def trash_chat(self, chat_id: int) -> None:
        """Put a chat into the trash."""
        self._set_chat(chat_id, trashed_at=now())

    def restore_chat(self, chat_id: int) -> None:
        """Take a chat out of the trash."""
        self._set_chat(chat_id, trashed_at=None)

    def delete_chat(self, chat_id: int) -> None:
        """Remove a chat and all its messages for good."""
        with self._database.transaction():
            if not self._database.run("DELETE FROM chats WHERE id = ?", chat_id):
                raise self._missing("chat", chat_id)

    def path(self, chat_id: int, leaf: int | None = None) -> list[StoredMessage]:
        """Return the messages from the root to a leaf, by default the active one; empty for an empty chat."""
        if leaf is None:
            leaf = self.chat(chat_id).leaf
        else:
            self._require(chat_id, leaf)
        return rows.read_messages(
            self._database,
            """path(id, place) AS (
                SELECT id, 0 FROM messages WHERE id = ? AND chat_id = ?
                UNION ALL SELECT m.parent_id, place - 1 FROM path JOIN messages m ON m.id = path.id
                WHERE m.parent_id IS NOT NULL)""",
            leaf,
            chat_id,
        )

    def tree(self, chat_id: int) -> list[StoredMessage]:
        """Return every message but trashed ones and what hangs on them, oldest first: parents stand first."""
        return rows.read_messages(
            self._database,
            """path(id, place) AS (
                SELECT id, id FROM messages WHERE chat_id = ? AND parent_id IS NULL AND trashed_at IS NULL
                UNION ALL SELECT m.id, m.id FROM path JOIN messages m
                ON m.chat_id = ? AND m.parent_id = path.id AND m.trashed_at IS NULL)""",
            chat_id,
            chat_id,
        )

    def message(self, message_id: int) -> StoredMessage:
        """Return one message, also from the trash."""
        found = rows.read_messages(self._database, "path(id, place) AS (SELECT ?, 0)", message_id)
        if not found:
            raise self._missing("message", message_id)
        return found[0]

    def children(self, message_id: int) -> list[StoredMessage]:
        """Return the messages that answer one, in order, trash excluded."""
        return self._answers(self.message(message_id).chat_id, message_id)

    def siblings(self, message_id: int) -> list[StoredMessage]:
        """Return the messages with the same parent, this one included, in order, trash excluded."""
        message = self.message(message_id)
        return self._answers(message.chat_id, message.parent)

    def tip(self, message_id: int) -> int:
        """Return the leaf reached from a message by taking the newest child at each step."""
        row = self._database.row(
            """WITH RECURSIVE down(id, depth) AS (
                SELECT ?, 0 UNION ALL SELECT (
                    SELECT s.id FROM messages m
                    JOIN messages s ON s.chat_id = m.chat_id AND s.parent_id = m.id AND s.trashed_at IS NULL
                    WHERE m.id = down.id ORDER BY s.id DESC LIMIT 1), depth + 1
                FROM down WHERE down.id IS NOT NULL)
            SELECT id FROM down WHERE id IS NOT NULL ORDER BY depth DESC LIMIT 1""",
            self.message(message_id).id,
        )
        assert row is not None
        return row["id"]

    def set_leaf(self, chat_id: int, message_id: int | None) -> None:
        """Show the path that ends at a message, or none of the chat."""
        with self._database.transaction():
            if message_id is not None:
                self._require(chat_id, message_id)
            self._set_chat(chat_id, leaf_id=message_id)

    def trash_message(self, message_id: int) -> None:
        """Put a message and what hangs on it into the trash; the path moves to its neighbour."""
        with self._database.transaction():
            message = self.message(message_id)
            shown = message_id in [step.id for step in self.path(message.chat_id)]
            self._database.run(
                f"WITH RECURSIVE {_SUBTREE} UPDATE messages SET trashed_at = ? "
                "WHERE trashed_at IS NULL AND id IN subtree",
                message_id,
                now(),
            )
            if shown:
                others = self._answers(message.chat_id, message.parent)
                self._set_chat(message.chat_id, leaf_id=self.tip(others[-1].id) if others else message.parent)

    def restore_message(self, message_id: int) -> None:
        """Take a message and what went with it out of the trash, and what it hangs on, and show it."""
        with self._database.transaction():
            message = self.message(message_id)
            self._database.run(
                f"WITH RECURSIVE {_SUBTREE} UPDATE messages SET trashed_at = NULL "
                "WHERE id IN subtree AND trashed_at = (SELECT trashed_at FROM messages WHERE id = ?1)",
                message_id,
            )
            self._database.run(
                """WITH RECURSIVE above(id) AS (
                    SELECT ? UNION ALL SELECT m.parent_id FROM above JOIN messages m ON m.id = above.id
                    WHERE m.parent_id IS NOT NULL)
                UPDATE messages SET trashed_at = NULL WHERE id IN above""",
                message_id,
            )
            self._set_chat(message.chat_id, leaf_id=self.tip(message_id))

    def trashed(self) -> list[StoredMessage]:
        """Return the messages that were put into the trash by themselves, the last one first.

        What hangs on them went with them and is not listed; chats are (`chats(trashed=True)`).
        """
        return rows.read_messages(
            self._database,
            """path(id, place) AS (
                SELECT m.id, -m.trashed_at FROM messages m
                LEFT JOIN messages p ON p.id = m.parent_id
                WHERE m.trashed_at IS NOT NULL AND m.trashed_at IS NOT p.trashed_at)""",
        )

    def empty_trash(self, before: datetime) -> int:
        """Remove for good what went into the trash before a moment; return how many chats and messages that were.

        A message stays as long as something hangs on it that is newer in the trash or not in it.
        """
        moment = rows.to_milliseconds(before)
        with self._database.transaction():
            chats = self._database.run("DELETE FROM chats WHERE trashed_at < ?", moment)
            self._database.run(
                f"""WITH RECURSIVE {_KEPT} UPDATE chats SET leaf_id = (
                    SELECT max(m.id) FROM messages m WHERE m.chat_id = chats.id AND m.trashed_at IS NULL)
                WHERE leaf_id NOT IN kept""",
                moment,
            )
            messages = self._database.run(
                f"DELETE FROM messages WHERE id NOT IN (WITH RECURSIVE {_KEPT} SELECT id FROM kept)", moment
            )
        return chats + messages

    def add_user(
        self,
        chat_id: int,
        parent: int | None,
        content: str,
        *,
        shape: GrammarSpec | None = None,
        attachments: Sequence[Attachment] = (),
        with_draft: bool = False,
    ) -> int:
        """Add what the person sent and make it the leaf; `shape` is what the model is shown with it.

        `with_draft` takes the attachments of the draft along, behind `attachments`.
        """
        with self._database.transaction():
            message = self._add(chat_id, parent, "user", content, shape)
            for attachment in attachments:
                self.add_attachment(chat_id, attachment, message=message)
            if with_draft:
                # Each is added anew, so that their order is that of the message.
                for attachment in self.draft_attachments(chat_id):
                    self.add_attachment(chat_id, attachment, message=message)
                    self.remove_attachment(attachment.id or 0)
            return message

    def add_attachment(self, chat_id: int, attachment: Attachment, *, message: int | None = None) -> int:
        """Add a text beside the draft, or beside a message of the person; return its number."""
        with self._database.transaction():
            if message is not None:
                self._require(chat_id, message)
            self.chat(chat_id)
            return self._database.insert(
                "attachments",
                chat_id=chat_id,
                message_id=message,
                name=attachment.name,
                content=attachment.content,
            )

    def remove_attachment(self, attachment_id: int) -> None:
        """Remove an attachment for good."""
        with self._database.transaction():
            if not self._database.run("DELETE FROM attachments WHERE id = ?", attachment_id):
                raise self._missing("attachment", attachment_id)

    def draft_attachments(self, chat_id: int) -> list[Attachment]:
        """Return what is to be sent with the draft, in the order in which it was added."""
        found = self._database.rows(
            "SELECT * FROM attachments WHERE chat_id = ? AND message_id IS NULL ORDER BY id", chat_id
        )
        return [rows.read_attachment(row) for row in found]

    def _set_chat(self, chat_id: int, **columns: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in columns)
        with self._database.transaction():
            if not self._database.run(f"UPDATE chats SET {names} WHERE id = ?", *columns.values(), chat_id):
                raise self._missing("chat", chat_id)

    def _answers(self, chat_id: int, parent: int | None) -> list[StoredMessage]:
        return rows.read_messages(
            self._database,
            """path(id, place) AS (SELECT id, position FROM messages
                WHERE chat_id = ? AND parent_id IS ? AND trashed_at IS NULL)""",
            chat_id,
            parent,
        )

    def _add(
        self, chat_id: int, parent: int | None, role: str, content: str, shape: GrammarSpec | None
    ) -> int:
        if parent is not None:
            self._require(chat_id, parent)
        moment = now()
        self._set_chat(chat_id, updated_at=moment)
        row = self._database.row(
            "SELECT coalesce(max(position), 0) + 1 FROM messages WHERE chat_id = ? AND parent_id IS ?",
            chat_id,
            parent,
        )
        assert row is not None
        message = self._database.insert(
            "messages",
            chat_id=chat_id,
            parent_id=parent,
            position=row[0],
            role=role,
            content=content,
            indexed=without_nul(content),
            created_at=moment,
            shape_id=self.shape_id(shape),
        )
        self._set_chat(chat_id, leaf_id=message)
        return message

    def shape_id(self, shape: GrammarSpec | None) -> int | None:
        """Return the number of a shape, which is added if it is new."""
        if shape is None:
            return None
        columns = {
            "hash": shape.hash,
            "kind": shape.kind,
            "whitespace": shape.whitespace,
            "guards": json.dumps(shape.guards.own()),
            "text": shape.text,
            "name": shape.name,
        }
        same = " AND ".join(f"{name} IS ?" for name in columns)
        row = self._database.row(f"SELECT id FROM shapes WHERE {same}", *columns.values())
        return row["id"] if row else self._database.insert("shapes", **columns)

    def _require(self, chat_id: int, message_id: int) -> None:
        if not self._database.row("SELECT 1 FROM messages WHERE id = ? AND chat_id = ?", message_id, chat_id):
            raise self._missing("message", message_id, f" in chat {chat_id}")

    def _missing(self, kind: str, number: int, where: str = "") -> StoreError:
        return StoreError(f"{self._database.path} has no {kind} {number}{where}.")


def now() -> int:
    """Return the time as the store writes it."""
    return time.time_ns() // 1_000_000


def without_nul(content: str) -> str | None:
    """Return what the search index reads in place of a content, or None if it can read that itself."""
    return content.replace("\0", " ") if "\0" in content else None
