"""Reading what is left of a damaged database, row by row, into a fresh one.

Knows the layout of the tables. Invariants: a row that cannot be read costs that row; every value that comes over can
be read by rows.py; what refers to a lost row refers to nothing, a message of a lost chat comes into a chat of its own,
and a reply of which only the text is left says so.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

from app.store import codec, files, rows
from app.store.chats import now, without_nul
from app.store.database import Database
from app.store.values import StoreError
from engine.events import Finish
from engine.protocol import Sampling

_DAMAGED = "damaged"
_LARGEST = 2**63 - 1

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """How much came over."""

    chats: int
    messages: int


def salvage(source: sqlite3.Connection, target: Database) -> Salvaged:
    """Copy every row that can be read into an empty store, as one change. Raises `StoreError` if that fails."""
    source.row_factory = sqlite3.Row
    source.text_factory = lambda text: text.decode("utf-8", "replace")
    with target.transaction():
        salvaged = _Salvage(source, target)
        salvaged.run()
    return Salvaged(chats=len(salvaged.there["chats"]), messages=len(salvaged.there["messages"]))


@dataclass(slots=True)
class _Salvage:
    source: sqlite3.Connection
    target: Database
    there: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # numbers that came over
    homes: dict[int, int] = field(default_factory=dict)  # message -> its chat
    roles: dict[int, str] = field(default_factory=dict)
    leaves: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Take the tables over, those first that others refer to."""
        self._table("shapes", "id", self._shape)
        self._table("models", "id", self._model)
        self._table("chats", "id", self._chat)
        self._table("messages", "id", self._message)
        self._table("attachments", "id", self._attachment)
        self._table("replies", "message_id", self._reply)
        self._table("reply_tokens", "message_id", self._tokens)
        self._table("reply_chunks", "id", self._chunk)
        newest: dict[int, int] = {}
        for message in sorted(self.there["messages"]):
            newest[self.homes[message]] = message
            if self.roles[message] == "assistant" and message not in self.there["replies"]:
                self._insert("replies", "message_id", {"message_id": message} | _LOST_REPLY)
        for chat, last in newest.items():
            leaf = self.leaves.get(chat)
            leaf = leaf if leaf is not None and self._is_in(leaf, chat) else last
            self.target.run("UPDATE chats SET leaf_id = ? WHERE id = ?", leaf, chat)

    def _table(self, table: str, key: str, check: Callable[[Row], Row | None]) -> None:
        columns = {row["name"] for row in self.target.rows(f"PRAGMA table_info({table})")}
        for row in readable_rows(self.source, table, key):
            with suppress(
                ValueError, TypeError, KeyError, RecursionError
            ):  # no value that this column may have
                if (checked := check({k: v for k, v in row.items() if k in columns})) is not None:
                    self._insert(table, key, checked)

    def _insert(self, table: str, key: str, row: Row) -> None:
        """Add a row unless the layout forbids it."""
        try:
            self.target.insert(table, **row)
        except StoreError as error:
            if not isinstance(error.__cause__, sqlite3.IntegrityError):
                raise
        else:
            self.there[table].add(row[key])

    def _shape(self, row: Row) -> Row:
        return row | {"hash": rows.shape(row).hash}

    def _model(self, row: Row) -> Row:
        model = rows.MODEL.validate_json(row["info"])
        return row | {"fingerprint": model.fingerprint}

    def _chat(self, row: Row) -> Row:
        if isinstance(row["leaf_id"], int):
            self.leaves[row["id"]] = row["leaf_id"]
        moment = now()
        return {
            "id": row["id"],
            "title": _text(row["title"]),
            "system": _text(row["system"]),
            "created_at": _time(row["created_at"]) or moment,
            "updated_at": _time(row["updated_at"]) or moment,
            "pinned": int(bool(row["pinned"])),
            "trashed_at": _time(row["trashed_at"]),
            "draft": _text(row["draft"]),
            "shape_id": _known(row["shape_id"], self.there["shapes"]),
            "shape_on": int(bool(row["shape_on"])),
            "shape_shown": int(bool(row["shape_shown"])),
            "settings": _object(row["settings"]),
        }

    def _message(self, row: Row) -> Row | None:
        number, chat, parent, content = row["id"], row["chat_id"], row["parent_id"], row["content"]
        if (
            row["role"] not in ("user", "assistant")
            or not isinstance(chat, int)
            or not isinstance(content, str)
        ):
            return None
        if chat not in self.there["chats"]:
            moment = now()
            self._insert(
                "chats",
                "id",
                {
                    "id": chat,
                    "title": f"Recovered chat {chat}",
                    "system": "",
                    "created_at": moment,
                    "updated_at": moment,
                },
            )
        self.homes[number], self.roles[number] = chat, row["role"]
        return row | {
            "parent_id": parent if self._is_in(parent, chat) else None,
            "position": row["position"] if isinstance(row["position"], int) else number,
            "indexed": without_nul(content),
            "created_at": _time(row["created_at"]) or now(),
            "trashed_at": _time(row["trashed_at"]),
            "shape_id": _known(row["shape_id"], self.there["shapes"]),
        }

    def _attachment(self, row: Row) -> Row | None:
        chat, message = row["chat_id"], row["message_id"]
        belongs = chat in self.there["chats"] if message is None else self._is_in(message, chat)
        texts = isinstance(row["name"], str) and isinstance(row["content"], str)
        return row if belongs and texts else None

    def _is_in(self, message: int, chat: int) -> bool:
        return message in self.there["messages"] and self.homes[message] == chat

    def _reply(self, row: Row) -> Row | None:
        number = row["message_id"]
        if number not in self.there["messages"] or self.roles[number] != "assistant":
            return None
        done = row["state"] != "generating"
        finish = row["finish"] if row["finish"] in get_args(Finish) else "error"
        return {
            "message_id": number,
            "state": "done" if done else "generating",
            "writer": row["writer"] if isinstance(row["writer"], str) else None,
            "finish": finish if done else None,
            "error": row["error"] if isinstance(row["error"], str) else None,
            "reasoning": row["reasoning"] if isinstance(row["reasoning"], str) else None,
            "valid": row["valid"] if row["valid"] in (0, 1) else None,
            "seed": row["seed"] if isinstance(row["seed"], int) else None,
            "sampling": _json_of(rows.SAMPLING, row["sampling"]) or _LOST_REPLY["sampling"],
            "options": _object(row["options"]),
            "model_id": _known(row["model_id"], self.there["models"]),
            "stats": _json_of(rows.STATS, row["stats"]),
            "finished_at": _time(row["finished_at"]),
            "continued_from": _known(row["continued_from"], self.there["messages"]),
        }

    def _tokens(self, row: Row) -> Row | None:
        codec.unpack_ids(row["ids"])
        codec.unpack_trace(row["trace"])
        return row if row["message_id"] in self.there["replies"] else None

    def _chunk(self, row: Row) -> Row | None:
        if row["message_id"] not in self.there["replies"]:
            return None
        try:
            codec.unpack_trace(row["trace"])
        except (ValueError, TypeError):
            row["trace"] = codec.pack_trace(())
        return row | {"text": _text(row["text"]), "reasoning": _text(row["reasoning"])}


_LOST_REPLY: Row = {
    "state": "done",
    "finish": "error",
    "error": _DAMAGED,
    "sampling": rows.SAMPLING.dump_json(Sampling()).decode(),
}


def readable_rows(connection: sqlite3.Connection, table: str, key: str) -> Iterator[Row]:
    """Yield each row of a table that can be reached, in the order of `key`, around what is damaged."""
    query = f"SELECT * FROM {table} WHERE {key} >= ? ORDER BY {key}"
    place = 0
    while place is not None:
        try:
            for row in connection.execute(query, (place,)):
                if row[key] < place:  # a page that leads back; it would be read for ever
                    place = _beyond(connection, query, place)
                    break
                place = row[key] + 1
                yield dict(row)
            else:
                return
        except files.SQLITE_ERRORS:
            place = _beyond(connection, query, place)


def _beyond(connection: sqlite3.Connection, query: str, place: int) -> int | None:
    """Return the first place behind one that leads to something readable again, None if there is none.

    A damaged page makes a stretch of places unreadable: its end is looked for in growing steps, then by halving.
    """

    def is_readable(place: int) -> bool:
        try:
            connection.execute(query, (place,)).fetchone()
        except files.SQLITE_ERRORS:
            return False
        return True

    step = 1
    while not is_readable(place + step):
        place, step = place + step, 2 * step
        if place + step > _LARGEST:
            return None
    readable = place + step
    while readable - place > 1:
        middle = (place + readable) // 2
        place, readable = (place, middle) if is_readable(middle) else (middle, readable)
    return readable


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _known(number: object, there: set[int]) -> int | None:
    return number if isinstance(number, int) and number in there else None


def _object(text: object) -> str:
    with suppress(ValueError, TypeError, RecursionError):
        if isinstance(text, str) and isinstance(json.loads(text), dict):
            return text
    return "{}"


def _json_of(adapter: Any, text: object) -> str | None:
    with suppress(ValueError):
        if isinstance(text, str):
            adapter.validate_json(text)
            return text
    return None
