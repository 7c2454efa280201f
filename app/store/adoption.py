"""Taking whole chats in from elsewhere, as they are described and under new numbers.

Knows the layout of the tables. Invariant: within the caller's transaction, what comes out of the store again equals
what went in, apart from numbers; a reply that was being written elsewhere counts as interrupted here.
"""

import functools
import json
from collections.abc import Callable

from app.store import codec, rows
from app.store.chats import without_nul
from app.store.database import Database
from app.store.values import NewChat, Reply, StoredMessage
from engine.events import ModelInfo
from grammars.spec import GrammarSpec

_INTERRUPTED = "interrupted"


class Adoption:
    """Adds chats within one transaction. `shape_id` and `model_id` say the numbers of shapes and models."""

    def __init__(
        self,
        database: Database,
        shape_id: Callable[[GrammarSpec | None], int | None],
        model_id: Callable[[ModelInfo | None], int | None],
    ) -> None:
        self._database = database
        self._shape_id = functools.cache(shape_id)  # a large shape may stand behind thousands of messages
        self._model_id = functools.cache(model_id)

    def add(self, new: NewChat) -> int:
        """Add a chat with all its branches; return its number."""
        described = new.chat
        chat = self._database.insert(
            "chats",
            title=described.title,
            system=described.system,
            created_at=rows.to_milliseconds(described.created_at),
            updated_at=rows.to_milliseconds(described.updated_at),
            shape_id=self._shape_id(described.shape),
            shape_on=described.shape_on,
            shape_shown=described.shape_shown,
            settings=json.dumps(dict(described.settings), allow_nan=False),
        )
        numbers: dict[int, int] = {}
        for position, message in enumerate(new.messages):
            self._add_message(chat, position, message, numbers)
            if message.reply is not None:
                self._add_reply(message, message.reply, new, numbers)
        leaf = None if described.leaf is None else numbers[described.leaf]
        self._database.run("UPDATE chats SET leaf_id = ? WHERE id = ?", leaf, chat)
        return chat

    def _add_message(self, chat: int, position: int, message: StoredMessage, numbers: dict[int, int]) -> None:
        number = numbers[message.id] = self._database.insert(
            "messages",
            chat_id=chat,
            parent_id=None if message.parent is None else numbers[message.parent],
            position=position,
            role=message.role,
            content=message.content,
            indexed=without_nul(message.content),
            created_at=rows.to_milliseconds(message.created_at),
            shape_id=self._shape_id(message.shape),
        )
        for attachment in message.attachments:
            self._database.insert(
                "attachments",
                chat_id=chat,
                message_id=number,
                name=attachment.name,
                content=attachment.content,
            )

    def _add_reply(self, message: StoredMessage, reply: Reply, new: NewChat, numbers: dict[int, int]) -> None:
        number = numbers[message.id]
        self._database.insert(
            "replies",
            message_id=number,
            state="done",
            finish=reply.finish or "cancelled",
            error=reply.error if reply.finish else _INTERRUPTED,
            reasoning=reply.reasoning,
            valid=reply.valid,
            seed=reply.seed,
            sampling=rows.SAMPLING.dump_json(reply.sampling).decode(),
            options=json.dumps(dict(reply.options), allow_nan=False),
            model_id=self._model_id(reply.model),
            stats=None if reply.stats is None else rows.STATS.dump_json(reply.stats).decode(),
            finished_at=None if reply.finished_at is None else rows.to_milliseconds(reply.finished_at),
            continued_from=None if reply.continued_from is None else numbers[reply.continued_from],
        )
        trace = new.traces.get(message.id, ())
        if reply.tokens or trace:
            self._database.insert(
                "reply_tokens",
                message_id=number,
                ids=codec.pack_ids(reply.tokens),
                trace=codec.pack_trace(trace),
            )
