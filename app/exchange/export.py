"""From the store to an export document.

Knows the store's values and the format. Invariant: equal chats give equal documents, apart from `exported_at`
and `program`; nothing from the trash and no unsent text is in them.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from app.exchange import format as f
from app.store import Store, StoredMessage
from app.store.rows import MODEL, SAMPLING, STATS
from app.terminal import json_text
from app.version import version
from engine.events import ModelInfo, Token
from grammars.spec import GrammarSpec


def export_chat(store: Store, chat_id: int, *, trace: bool = False) -> dict[str, Any]:
    """Return a chat as a document of the export format; `trace` adds each reply's tokens. Raises
    `StoreError`.
    """
    shapes, models = _Register(), _Register()
    chat = _chat(store, chat_id, shapes, models, trace)
    document = f.Export(
        format=f.FORMAT, version=f.VERSION, **_origin(), chat=chat, shapes=shapes.values, models=models.values
    )
    return document.model_dump(mode="json")


def export_chats(store: Store, chat_ids: Iterable[int], *, trace: bool = False) -> dict[str, Any]:
    """Return several chats as one document, as `export_chat` does for one."""
    shapes, models = _Register(), _Register()
    chats = [_chat(store, chat_id, shapes, models, trace) for chat_id in chat_ids]
    document = f.Collection(
        format=f.COLLECTION,
        version=f.VERSION,
        **_origin(),
        chats=chats,
        shapes=shapes.values,
        models=models.values,
    )
    return document.model_dump(mode="json")


def dumps(document: dict[str, Any]) -> str:
    """Return a document as text, with a newline at its end; harmless to print and exact when read again."""
    return json_text(document) + "\n"


class _Register:
    """Values under the key they ask for, or `key-2`, `key-3` if another value has it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._keys: dict[Hashable, str] = {}

    def put(self, origin: Hashable, make: Callable[[], tuple[str, BaseModel]]) -> str:
        """Return the key of what stands for `origin`; it is made once."""
        if origin not in self._keys:
            key, value = make()
            name, number = key, 1
            while self.values.setdefault(name, value) != value:
                number += 1
                name = f"{key}-{number}"
            self._keys[origin] = name
        return self._keys[origin]


def _origin() -> dict[str, Any]:
    return {
        "exported_at": _time(datetime.now(UTC)),
        "program": f.Program(name="stampo", version=version()),
    }


def _chat(store: Store, chat_id: int, shapes: _Register, models: _Register, trace: bool) -> f.Chat:
    chat = store.chat(chat_id)
    stored = store.tree(chat_id)
    ids = {message.id: number for number, message in enumerate(stored, start=1)}
    messages = [_message(store, message, ids, shapes, models, trace) for message in stored]
    next_shape = None
    if chat.shape:
        next_shape = f.NextShape(shape=_shape(shapes, chat.shape), on=chat.shape_on, shown=chat.shape_shown)
    return f.Chat(
        title=chat.title,
        system=chat.system,
        created=_time(chat.created_at),
        updated=_time(chat.updated_at),
        settings=dict(chat.settings),
        next_shape=next_shape,
        leaf=ids.get(chat.leaf) if chat.leaf else None,
        messages=messages,
    )


def _message(
    store: Store,
    message: StoredMessage,
    ids: dict[int, int],
    shapes: _Register,
    models: _Register,
    trace: bool,
) -> f.UserMessage | f.ReplyMessage:
    common: dict[str, Any] = {
        "id": ids[message.id],
        "parent": ids[message.parent] if message.parent else None,
        "content": message.content,
        "created": _time(message.created_at),
        "shape": _shape(shapes, message.shape) if message.shape else None,
    }
    reply = message.reply
    if reply is None:
        attachments = [f.Attachment(name=a.name, content=a.content) for a in message.attachments]
        return f.UserMessage(**common, role="user", attachments=attachments)
    tokens = store.trace(message.id) if trace else ()
    return f.ReplyMessage(
        **common,
        role="assistant",
        finished=_time(reply.finished_at) if reply.finished_at else None,
        finish=reply.finish,
        error=reply.error,
        reasoning=reply.reasoning,
        valid=reply.valid,
        seed=reply.seed,
        sampling=f.Sampling(**SAMPLING.dump_python(reply.sampling, mode="json", exclude={"seed"})),
        options=dict(reply.options),
        model=_model(models, reply.model) if reply.model else None,
        stats=f.Stats(**STATS.dump_python(reply.stats, mode="json")) if reply.stats else None,
        continued_from=ids.get(reply.continued_from) if reply.continued_from else None,
        tokens=list(reply.tokens) if trace else None,
        trace=[_token(token) for token in tokens] if trace else None,
    )


def _token(token: Token) -> f.TracedToken:
    return f.TracedToken(
        id=token.id, text=token.text, origin=token.origin, allowed=token.allowed, part=token.part
    )


def _shape(shapes: _Register, spec: GrammarSpec) -> str:
    def make() -> tuple[str, BaseModel]:
        key = spec.hash
        return key, f.Shape(
            hash=key,
            kind=spec.kind,
            text=spec.text,
            whitespace=spec.whitespace,
            name=spec.name,
            guards=f.Guards(**asdict(spec.guards)),
        )

    return shapes.put(spec, make)


def _model(models: _Register, info: ModelInfo) -> str:
    def make() -> tuple[str, BaseModel]:
        return info.fingerprint, f.Model(**MODEL.dump_python(info, mode="json", exclude={"path"}))

    return models.put(info, make)


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
