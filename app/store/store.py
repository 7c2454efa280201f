"""The store: chats (chats.py), replies while they are written, what a crash left of them, and search.

Knows no engine at work and no screen. Invariants: those of chats.py; a reply's bytes are written twice at
most, once by a checkpoint and once at its end. One store belongs to one thread; several stores, also in
several processes, may be open on one file, and each sees the changes of the others when it next reads.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from app.store import codec, files, rows, search, writers
from app.store.adoption import Adoption
from app.store.chats import Chats, now, without_nul
from app.store.damage import mend
from app.store.database import Database
from app.store.values import DamagedError, Hit, NewChat, StoredMessage, StoreError
from engine.events import Finish, Finished, ModelInfo, Token
from engine.protocol import Sampling
from grammars.spec import GrammarSpec

_INTERRUPTED = "interrupted"

EARLIER_BYTES = 256 * 1024
"""How much of earlier replies goes with a request; a record has some hundred bytes."""


class Store(Chats):
    """The chats in one file, made if missing. Every method raises `StoreError` with a sentence naming the
    file.

    A damaged file is set aside and what can be read of it is recovered; `notice` is then a sentence for the person.
    """

    def __init__(self, path: Path) -> None:
        self.notice = ""
        self._writer: writers.Writer | None = None
        self._written: dict[int, tuple[int, int, int]] = {}  # reply -> characters, reasoning, tokens on disk
        files.finish_replacing(path)
        try:
            self._open(path)
        except DamagedError:
            self.notice = mend(path)
            self._open(path)

    def _open(self, path: Path) -> None:
        super().__init__(Database(path))
        try:
            self.recover()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; a reply still being written is then taken for interrupted."""
        if self._writer:
            self._writer.close()
            self._writer = None
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make what is changed inside one change, which comes to disk whole at the end or not at all."""
        with self._database.transaction():
            yield

    def begin_reply(
        self,
        chat_id: int,
        parent: int,
        *,
        shape: GrammarSpec | None,
        sampling: Sampling,
        seed: int | None = None,
        model: ModelInfo | None = None,
        options: Mapping[str, Any] | None = None,
        continued_from: int | None = None,
    ) -> int:
        """Add an empty reply in state generating and make it the leaf; `shape` is what it is held to.

        `options` is the rest of the request as JSON values, such as `max_tokens` and `stop`.
        """
        if self._writer is None:
            try:
                self._writer = writers.Writer(self._database.path)
            except OSError as error:
                raise StoreError(
                    f"{self._database.path} cannot be locked for writing: {error.strerror}."
                ) from error
        with self._database.transaction():
            reply = self._add(chat_id, parent, "assistant", "", shape)
            self._database.insert(
                "replies",
                message_id=reply,
                state="generating",
                writer=self._writer.name,
                seed=seed,
                sampling=rows.SAMPLING.dump_json(sampling).decode(),
                options=json.dumps(dict(options or {}), allow_nan=False),
                model_id=self.model_id(model),
                continued_from=continued_from,
            )
        self._written[reply] = (0, 0, 0)
        return reply

    def checkpoint(self, reply_id: int, text: str, tokens: Sequence[Token], *, reasoning: str = "") -> None:
        """Append what is new of a reply being written; the arguments hold all of it so far."""
        characters, thoughts, count = self._progress(reply_id)
        if (len(text), len(reasoning), len(tokens)) == (characters, thoughts, count):
            return
        with self._database.transaction():
            self._database.insert(
                "reply_chunks",
                message_id=reply_id,
                text=text[characters:],
                reasoning=reasoning[thoughts:],
                trace=codec.pack_trace(tokens[count:]),
            )
        self._written[reply_id] = (len(text), len(reasoning), len(tokens))

    def finish_reply(
        self, reply_id: int, finished: Finished, *, valid: bool | None, trace: Sequence[Token]
    ) -> None:
        """Write a reply as the engine ended it; the checkpoints fold into it."""
        self._progress(reply_id)
        with self._database.transaction():
            self._fold(
                reply_id,
                finished.text,
                finished.tokens,
                trace,
                finish=finished.finish,
                error=finished.error,
                reasoning=finished.reasoning,
                valid=valid,
                seed=finished.seed,
                stats=rows.STATS.dump_json(finished.stats).decode(),
            )
        del self._written[reply_id]

    def abandon_reply(self, reply_id: int, *, finish: Finish, error: str, seed: int | None = None) -> None:
        """End a reply whose engine is gone: what was checkpointed of it is what there is."""
        self._progress(reply_id)
        with self._database.transaction():
            if seed is not None:
                self._database.run("UPDATE replies SET seed = ? WHERE message_id = ?", seed, reply_id)
            self._fold_chunks(reply_id, finish, error)
        del self._written[reply_id]

    def trace(self, reply_id: int) -> tuple[Token, ...]:
        """Return the tokens of a reply by origin; of one being written, those on disk."""
        row = self._database.row("SELECT trace FROM reply_tokens WHERE message_id = ?", reply_id)
        blobs = [row] if row else rows.read_chunks(self._database, reply_id)
        try:
            return tuple(token for blob in blobs for token in codec.unpack_trace(blob["trace"]))
        except ValueError as error:
            raise self._database.damaged(f"holds the trace of reply {reply_id}, which is damaged.") from error

    def recover(self) -> int:
        """End the replies that a crash left in state generating; return how many.

        They keep what was checkpointed and end as cancelled, with the error `interrupted`. Replies whose
        writer still runs, this store or another, are left alone.
        """
        left = "SELECT message_id, writer FROM replies WHERE state = 'generating'"
        if not self._database.row(left):
            return 0
        path = self._database.path
        with self._database.transaction():  # a writer that ends now ended its replies before, or waits for us
            replies = self._database.rows(left)
            dead = {name for row in replies if not writers.is_alive(path, name := row["writer"])}
            recovered = [row["message_id"] for row in replies if row["writer"] in dead]
            for reply_id in recovered:
                self._fold_chunks(reply_id, "cancelled", _INTERRUPTED)
        return len(recovered)

    def earlier_replies(self, shape: GrammarSpec, *, most: int = EARLIER_BYTES) -> tuple[str, ...]:
        """Return the latest finished replies under a shape, of all chats, the oldest first; trash excluded.

        Together they have at most `most` bytes in UTF-8.
        """
        found = self._database.each(
            """SELECT m.content FROM messages m
            JOIN replies r ON r.message_id = m.id JOIN shapes s ON s.id = m.shape_id
            JOIN chats c ON c.id = m.chat_id
            WHERE s.hash = ? AND r.finish = 'stop' AND m.trashed_at IS NULL AND c.trashed_at IS NULL
            ORDER BY m.id DESC""",
            shape.hash,
        )
        replies: list[str] = []
        for row in found:
            most -= len(row["content"].encode())
            if most < 0:
                break
            replies.append(row["content"])
        return tuple(reversed(replies))

    def replies_under_shape(self, shape_hash: str) -> list[StoredMessage]:
        """Return the ended replies that were held to a shape, of all chats, the newest first; trash excluded."""
        return rows.read_messages(
            self._database,
            """path(id, place) AS (
                SELECT m.id, -m.id FROM shapes s JOIN messages m ON m.shape_id = s.id
                JOIN replies r ON r.message_id = m.id JOIN chats c ON c.id = m.chat_id
                WHERE s.hash = ? AND r.state = 'done' AND m.trashed_at IS NULL AND c.trashed_at IS NULL)""",
            shape_hash,
        )

    def count_under_shape(self, shape_hash: str) -> int:
        """Return how many replies `replies_under_shape` has."""
        row = self._database.row(
            """SELECT count(*) AS number FROM shapes s JOIN messages m ON m.shape_id = s.id
            JOIN replies r ON r.message_id = m.id JOIN chats c ON c.id = m.chat_id
            WHERE s.hash = ? AND r.state = 'done' AND m.trashed_at IS NULL AND c.trashed_at IS NULL""",
            shape_hash,
        )
        assert row is not None  # a count is never without a row
        return row["number"]

    def last_used(self, shape_hash: str) -> datetime | None:
        """Return when a message was last sent or a reply last begun under a shape, trash included."""
        row = self._database.row(
            "SELECT max(m.created_at) AS moment FROM shapes s JOIN messages m ON m.shape_id = s.id WHERE s.hash = ?",
            shape_hash,
        )
        return rows.to_datetime(row["moment"]) if row and row["moment"] is not None else None

    def adopt(self, chats: Iterable[NewChat]) -> list[int]:
        """Add whole chats as they are described, all or none; return the numbers they were given."""
        with self._database.transaction():
            adoption = Adoption(self._database, self.shape_id, self.model_id)
            return [adoption.add(new) for new in chats]

    def backup(self, target: Path) -> None:
        """Write all that is in the store into one new file of the same kind, private to its owner."""
        self._database.copy(target)

    def search(self, text: str, *, limit: int = 100) -> list[Hit]:
        """Find the titles and messages that hold every word of a text, newest first; no trash."""
        return search.find(self._database, text, limit)

    def sent(self, chat_id: int, *, limit: int = 200) -> list[str]:
        """Return what the person sent, of one chat first, then of the others, the newest first; none twice, no trash.

        Very long messages are left out.
        """
        found = self._database.rows(
            """SELECT m.content FROM messages m JOIN chats c ON c.id = m.chat_id
            WHERE m.role = 'user' AND m.trashed_at IS NULL AND c.trashed_at IS NULL
            AND length(m.content) BETWEEN 1 AND 65536
            GROUP BY m.content ORDER BY max(m.chat_id = ?) DESC, max(m.id) DESC LIMIT ?""",
            chat_id,
            limit,
        )
        return [row["content"] for row in found]

    def _fold(
        self, reply_id: int, text: str, ids: Sequence[int], trace: Sequence[Token], **columns: Any
    ) -> None:
        names = ", ".join(f"{name} = ?" for name in columns)
        if not self._database.run(
            f"UPDATE replies SET state = 'done', writer = NULL, finished_at = ?, {names} "
            "WHERE message_id = ? AND state = 'generating'",
            moment := now(),
            *columns.values(),
            reply_id,
        ):
            raise StoreError(f"{self._database.path}: reply {reply_id} has already ended or was deleted.")
        self._database.run(
            "UPDATE messages SET content = ?, indexed = ? WHERE id = ?", text, without_nul(text), reply_id
        )
        self._database.insert(
            "reply_tokens", message_id=reply_id, ids=codec.pack_ids(ids), trace=codec.pack_trace(trace)
        )
        self._database.run("DELETE FROM reply_chunks WHERE message_id = ?", reply_id)
        self._database.run(
            "UPDATE chats SET updated_at = ? WHERE id = (SELECT chat_id FROM messages WHERE id = ?)",
            moment,
            reply_id,
        )

    def _fold_chunks(self, reply_id: int, finish: Finish, error: str) -> None:
        with self._database.transaction():
            chunks = rows.read_chunks(self._database, reply_id)
            text = "".join(chunk["text"] for chunk in chunks)
            trace = self.trace(reply_id)
            # The ids stand for the reply only if they spell it; a character may have been cut between them.
            own = [token for token in trace if token.part == "reply"]
            spelled = "".join(token.text for token in own) == text
            self._fold(
                reply_id,
                text,
                [token.id for token in own] if spelled else (),
                trace,
                finish=finish,
                error=error,
                reasoning="".join(chunk["reasoning"] for chunk in chunks) or None,
            )

    def _progress(self, reply_id: int) -> tuple[int, int, int]:
        if reply_id not in self._written:
            raise StoreError(f"{self._database.path}: reply {reply_id} is not being written by this program.")
        return self._written[reply_id]

    def model_id(self, model: ModelInfo | None) -> int | None:
        """Return the number of a model, which is added if it is new."""
        if model is None:
            return None
        info = rows.MODEL.dump_json(model).decode()
        row = self._database.row(
            "SELECT id FROM models WHERE fingerprint = ? AND info = ?", model.fingerprint, info
        )
        return row["id"] if row else self._database.insert("models", fingerprint=model.fingerprint, info=info)
