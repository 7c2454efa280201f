"""From rows to values: what every query that returns messages or chats shares.

Knows the layout of the tables; changes nothing.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from app.store.codec import unpack_ids
from app.store.database import Database
from app.store.values import Attachment, Chat, ChatSummary, Reply, StoredMessage
from engine.events import ModelInfo, Stats
from engine.protocol import Sampling
from grammars.spec import GrammarSpec, Guards

MODEL: TypeAdapter[ModelInfo] = TypeAdapter(ModelInfo)
SAMPLING: TypeAdapter[Sampling] = TypeAdapter(Sampling)
STATS: TypeAdapter[Stats] = TypeAdapter(Stats)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What export files may hold: from 1970 to 9989 every time has a local time, too.
_LATEST = (datetime(9990, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1) - 1

CHATS = """
    SELECT c.*, (SELECT count(*) FROM messages m WHERE m.chat_id = c.id AND m.trashed_at IS NULL) AS messages
    FROM chats c"""

# `path` is a table expression the caller puts in front, with the ids to read and the order to read them in.
_MESSAGES = """
    SELECT m.*, r.*, t.ids,
        (SELECT count(*) FROM messages s WHERE s.chat_id = m.chat_id AND s.parent_id IS m.parent_id
            AND s.trashed_at IS NULL AND s.position <= m.position) AS sibling,
        (SELECT count(*) FROM messages s WHERE s.chat_id = m.chat_id AND s.parent_id IS m.parent_id
            AND s.trashed_at IS NULL) AS siblings
    FROM path JOIN messages m ON m.id = path.id
    LEFT JOIN replies r ON r.message_id = m.id
    LEFT JOIN reply_tokens t ON t.message_id = m.id
    ORDER BY path.place"""


def to_milliseconds(time: datetime) -> int:
    """Return an aware datetime as the store writes it."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def to_datetime(milliseconds: int) -> datetime:
    """Return a stored time as an aware datetime; one that no date can hold, by damage, as the nearest."""
    return _EPOCH + timedelta(milliseconds=min(max(milliseconds, 0), _LATEST))


def read_messages(database: Database, path: str, *values: Any) -> list[StoredMessage]:
    """Return the messages that a table expression `path(id, place)` names, in the order of `place`.

    A reply that is still being written comes with what was checkpointed of it.
    """
    rows = database.rows(f"WITH RECURSIVE {path} {_MESSAGES}", *values)
    with _readable(database, "a message"):
        return _messages(database, rows)


def read_chunks(database: Database, reply_id: int) -> list[sqlite3.Row]:
    """Return what was checkpointed of a reply that is being written, oldest first."""
    return database.rows("SELECT * FROM reply_chunks WHERE message_id = ? ORDER BY id", reply_id)


def chat_summary(row: sqlite3.Row) -> ChatSummary:
    """Return a row of `CHATS` as a list entry."""
    return ChatSummary(**_summary(row))


def read_chat(database: Database, row: sqlite3.Row) -> Chat:
    """Return a row of `CHATS` as a chat."""
    with _readable(database, "a chat"):
        return Chat(
            **_summary(row),
            system=row["system"],
            leaf=row["leaf_id"],
            draft=row["draft"],
            shape=_read_shapes(database, {row["shape_id"]}).get(row["shape_id"]),
            shape_on=bool(row["shape_on"]),
            shape_shown=bool(row["shape_shown"]),
            settings=json.loads(row["settings"]),
        )


@contextmanager
def _readable(database: Database, what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, RecursionError) as error:  # not JSON, not what the JSON should be, or damaged blobs
        raise database.damaged(f"holds {what} that is damaged and cannot be read.") from error


def _messages(database: Database, rows: list[sqlite3.Row]) -> list[StoredMessage]:
    specs = _read_shapes(database, {row["shape_id"] for row in rows})
    models = _read_models(database, {row["model_id"] for row in rows})
    attachments = _read_attachments(database, [row["id"] for row in rows if row["role"] == "user"])
    messages = []
    for row in rows:
        content, reply = row["content"], None
        if row["role"] == "assistant":
            reply = _reply(row, models.get(row["model_id"]))
            if row["state"] == "generating":
                content = "".join(chunk["text"] for chunk in read_chunks(database, row["id"]))
        messages.append(
            StoredMessage(
                id=row["id"],
                chat_id=row["chat_id"],
                parent=row["parent_id"],
                role=row["role"],
                content=content,
                created_at=to_datetime(row["created_at"]),
                trashed_at=_time(row["trashed_at"]),
                shape=specs.get(row["shape_id"]),
                sibling=row["sibling"],
                siblings=row["siblings"],
                attachments=tuple(attachments.get(row["id"], ())),
                reply=reply,
            )
        )
    return messages


def _summary(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "title": row["title"],
        "created_at": to_datetime(row["created_at"]),
        "updated_at": to_datetime(row["updated_at"]),
        "pinned": bool(row["pinned"]),
        "trashed_at": _time(row["trashed_at"]),
        "messages": row["messages"],
    }


def _reply(row: sqlite3.Row, model: ModelInfo | None) -> Reply:
    return Reply(
        state=row["state"],
        finish=row["finish"],
        error=row["error"],
        reasoning=row["reasoning"],
        valid=None if row["valid"] is None else bool(row["valid"]),
        seed=row["seed"],
        sampling=SAMPLING.validate_json(row["sampling"]),
        options=json.loads(row["options"]),
        model=model,
        stats=STATS.validate_json(row["stats"]) if row["stats"] else None,
        finished_at=_time(row["finished_at"]),
        continued_from=row["continued_from"],
        tokens=unpack_ids(row["ids"]) if row["ids"] else (),
    )


def _read_shapes(database: Database, ids: Iterable[int | None]) -> dict[int, GrammarSpec]:
    rows = _by_id(database, "SELECT * FROM shapes WHERE id IN", ids)
    return {row["id"]: shape(dict(row)) for row in rows}


def shape(row: Mapping[str, Any]) -> GrammarSpec:
    """Return the shape of a row, also of one from before shapes had guards. Raises `ValueError`."""
    return GrammarSpec(
        kind=row["kind"],
        text=row["text"],
        whitespace=row["whitespace"],
        guards=Guards(**json.loads(row.get("guards", "{}"))),
        name=row["name"],
    )


def _read_models(database: Database, ids: Iterable[int | None]) -> dict[int, ModelInfo]:
    rows = _by_id(database, "SELECT id, info FROM models WHERE id IN", ids)
    return {row["id"]: MODEL.validate_json(row["info"]) for row in rows}


def read_attachment(row: sqlite3.Row) -> Attachment:
    """Return a row of the table of attachments as a value."""
    return Attachment(id=row["id"], name=row["name"], content=row["content"])


def _read_attachments(database: Database, ids: Iterable[int]) -> dict[int, list[Attachment]]:
    found: dict[int, list[Attachment]] = {}
    for row in _by_id(database, "SELECT * FROM attachments WHERE message_id IN", ids, "ORDER BY id"):
        found.setdefault(row["message_id"], []).append(read_attachment(row))
    return found


def _by_id(database: Database, select: str, ids: Iterable[int | None], order: str = "") -> list[sqlite3.Row]:
    wanted = [i for i in ids if i is not None]
    if not wanted:
        return []
    return database.rows(f"{select} (SELECT value FROM json_each(?)) {order}", json.dumps(wanted))


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else to_datetime(milliseconds)
