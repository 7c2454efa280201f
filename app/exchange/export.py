"""From the store to an export document.

Knows the store's values and the format. Invariant: equal chats give equal documents, apart from `exported_at`
and `program`; nothing from the trash and no unsent text is in them.
"""

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel

from app.exchange import format as f
from app.store import Store, StoredMessage
from app.store.rows import MODEL, SAMPLING, STATS
from app.terminal import json_text
from engine.events import ModelInfo
from grammars.spec import GrammarSpec


def export_chat(store: Store, chat_id: int, *, trace: bool = False) -> dict[str, Any]:
    """Return a chat as a document of the export format; `trace` adds each reply's tokens. Raises
    `StoreError`.
    """
    chat = store.chat(chat_id)
    stored = store.tree(chat_id)
    ids = {message.id: number for number, message in enumerate(stored, start=1)}
    shapes, models = _Register(), _Register()
    messages = [_message(store, message, ids, shapes, models, trace) for message in stored]
    next_shape = None
    if chat.shape:
        next_shape = f.NextShape(shape=_shape(shapes, chat.shape), on=chat.shape_on, shown=chat.shape_shown)
    document = f.Export(
        format=f.FORMAT,
        version=f.VERSION,
        exported_at=_time(datetime.now(UTC)),
        program=f.Program(name="stampo", version=_version()),
        chat=f.Chat(
            title=chat.title,
            system=chat.system,
            created=_time(chat.created_at),
            updated=_time(chat.updated_at),
            settings=dict(chat.settings),
            next_shape=next_shape,
            leaf=ids.get(chat.leaf) if chat.leaf else None,
            messages=messages,
        ),
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

    def put(self, key: str, value: BaseModel) -> str:
        name, number = key, 1
        while self.values.setdefault(name, value) != value:
            number += 1
            name = f"{key}-{number}"
        return name


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
        trace=[f.TracedToken(id=t.id, text=t.text, origin=t.origin, allowed=t.allowed) for t in tokens]
        if trace
        else None,
    )


def _shape(shapes: _Register, spec: GrammarSpec) -> str:
    shape = f.Shape(
        hash=spec.hash, kind=spec.kind, text=spec.text, whitespace=spec.whitespace, name=spec.name
    )
    return shapes.put(spec.hash, shape)


def _model(models: _Register, info: ModelInfo) -> str:
    return models.put(info.fingerprint, f.Model(**MODEL.dump_python(info, mode="json", exclude={"path"})))


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _version() -> str:
    try:
        return version("stampo")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"
