"""From an export document into the store.

Knows the format and the store's values. The document is anyone's: nothing in it is executed, compiled, opened or
fetched. Invariants: all of it comes in or nothing; every chat is a new one, under new numbers; what comes out again
equals what went in, apart from what `Imported.notices` says, and apart from numbers.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from app.exchange import format as f
from app.store import Attachment, NewChat, Reply, Store, StoredMessage
from app.store.values import Chat, ChatSummary
from app.terminal import well_formed
from engine.events import ModelInfo, Stats, Token
from engine.protocol import Sampling
from grammars.spec import GrammarSpec, Guards

MAX_BYTES = 128 * 1024 * 1024
"""The longest document, in UTF-8, where nothing else is asked for."""

MAX_DEPTH = 64
"""How deeply arrays and objects may stand in each other."""

_LONGEST_QUOTE = 200

T = TypeVar("T")


class ImportRefusedError(ValueError):
    """A document that cannot be imported; the text says what is wrong with it and where, for the person."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came in: the numbers of the new chats, and sentences about what is not as it was in the document."""

    chats: tuple[int, ...]
    messages: int
    notices: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """The chats of a document before they are added, and what is not as it was in the document."""

    chats: tuple[NewChat, ...]
    notices: tuple[str, ...]


def import_chats(store: Store, text: str, most: int = MAX_BYTES) -> Imported:
    """Add the chats of an export document of at most `most` bytes to the store.

    Raises `ImportRefusedError` if it is none or too large, `StoreError` if it cannot be kept; nothing is then added.
    """
    return adopt(store, read_chats(text, most))


def adopt(store: Store, incoming: Incoming) -> Imported:
    """Add chats that were read; of one that is here already it makes a copy and says so. Raises `StoreError`."""
    there = store.chats()
    here = [chat.chat.title or "untitled" for chat in incoming.chats if _is_here(store, there, chat)]
    notices = list(incoming.notices)
    if here:
        names = _short(", ".join(f"“{title}”" for title in here))
        was = (
            "was here already and is now here twice"
            if len(here) == 1
            else "were here already and are now here twice"
        )
        notices.append(f"{names} {was}.")
    numbers = store.adopt(incoming.chats)
    return Imported(
        chats=tuple(numbers),
        messages=sum(len(chat.messages) for chat in incoming.chats),
        notices=tuple(notices),
    )


def read_chats(text: str, most: int = MAX_BYTES) -> Incoming:
    """Return the chats of an export document of at most `most` bytes; needs no store. Raises `ImportRefusedError`."""
    if len(text) > most or len(text.encode("utf-8", "surrogatepass")) > most:
        raise ImportRefusedError(f"it is longer than {most // 2**20} MiB")
    value, replaced = _Cleaner().clean(_parse(text))
    document = _document(value)
    shapes = {key: _shape(key, shape) for key, shape in document.shapes.items()}
    models = {key: _model(model) for key, model in document.models.items()}
    chats = [document.chat] if isinstance(document, f.Export) else document.chats
    new = [_chat(chat, shapes, models) for chat in chats]
    notices = []
    if replaced:
        notices.append(f"{_count(replaced, 'lone surrogate')} in the file became the replacement character.")
    if other := sum(shapes[key].hash != shape.hash for key, shape in document.shapes.items()):
        notices.append(f"{_count(other, 'shape')} in the file had another hash than its text has.")
    return Incoming(chats=tuple(new), notices=tuple(notices))


def _is_here(store: Store, there: Sequence[ChatSummary], new: NewChat) -> bool:
    """Tell whether all messages are in a chat of the same moment, whatever it is called and has besides now."""
    return bool(new.messages) and any(
        chat.created_at == new.chat.created_at
        and chat.messages >= len(new.messages)
        and set(map(_told, new.messages)) <= set(map(_told, store.tree(chat.id)))
        for chat in there
    )


def _told(message: StoredMessage) -> tuple[str, str, datetime]:
    return message.role, message.content, message.created_at


def _parse(text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"), parse_float=_finite, parse_constant=_no_number)
    except ImportRefusedError:
        raise
    except json.JSONDecodeError as error:
        raise ImportRefusedError(f"it is no JSON: {error.msg} in line {error.lineno}") from error
    except RecursionError as error:
        raise ImportRefusedError("its values stand too deeply in each other") from error
    except ValueError as error:  # a whole number of thousands of digits
        raise ImportRefusedError("it holds a number that is too long") from error


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits[:20])


def _no_number(name: str) -> NoReturn:
    raise ImportRefusedError(f"it holds {name}, which is no number a document may have")


@dataclasses.dataclass(slots=True)
class _Cleaner:
    """Replaces lone surrogates, which have no bytes."""

    replaced: int = 0

    def clean(self, value: Any) -> tuple[Any, int]:
        """Return a value without them, and how many there were."""
        return self._clean(value, MAX_DEPTH), self.replaced

    def _clean(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, list | dict):
            return value
        if not depth:
            raise ImportRefusedError(f"its values stand more than {MAX_DEPTH} deep in each other")
        if isinstance(value, list):
            return [self._clean(item, depth - 1) for item in value]
        return {self._text(key): self._clean(item, depth - 1) for key, item in value.items()}

    def _text(self, text: str) -> str:
        clean = well_formed(text)
        if clean is not text and clean != text:
            self.replaced += sum(one != other for one, other in zip(clean, text, strict=True))
        return clean


def _document(value: Any) -> f.Export | f.Collection:
    if not isinstance(value, dict) or value.get("format") not in (f.FORMAT, f.COLLECTION):
        raise ImportRefusedError("it is no chat that Stampo exported")
    version = value.get("version")
    if isinstance(version, int) and version > f.VERSION:
        raise ImportRefusedError(
            f"it is written in version {version} of the format, and this version of Stampo reads {f.VERSION}"
        )
    try:
        return f.DOCUMENT.validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in fault["loc"][1:])  # the first names the kind of document
        place, message = _short(place), _short(fault["msg"].removeprefix("Value error, "))
        raise ImportRefusedError(f"{place}: {message}" if place else message) from error


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def _shape(key: str, shape: f.Shape) -> GrammarSpec:
    spec = GrammarSpec(
        kind=shape.kind,
        text=shape.text,
        whitespace=shape.whitespace,
        guards=Guards(**shape.guards.model_dump()),
        name=shape.name,
    )
    try:
        _ = spec.hash
    except ValueError as error:  # a whole number of thousands of digits
        raise ImportRefusedError(f"shapes.{_short(key)}.text: it holds a number that is too long") from error
    return spec


def _model(model: f.Model) -> ModelInfo:
    return _made(ModelInfo, model, path="")


def _chat(chat: f.Chat, shapes: Mapping[str, GrammarSpec], models: Mapping[str, ModelInfo]) -> NewChat:
    following = chat.next_shape
    return NewChat(
        chat=Chat(
            id=0,
            title=chat.title,
            created_at=_time(chat.created),
            updated_at=_time(chat.updated),
            pinned=False,
            trashed_at=None,
            messages=len(chat.messages),
            system=chat.system,
            leaf=chat.leaf,
            draft="",
            shape=shapes[following.shape] if following else None,
            shape_on=following.on if following else False,
            shape_shown=following.shown if following else True,
            settings=chat.settings,
        ),
        messages=[_message(message, shapes, models) for message in chat.messages],
        traces={
            message.id: [
                Token(
                    id=token.id,
                    text=token.text,
                    origin=token.origin,
                    allowed=token.allowed,
                    part=token.part,
                )
                for token in message.trace
            ]
            for message in chat.messages
            if message.role == "assistant" and message.trace
        },
    )


def _message(
    message: f.UserMessage | f.ReplyMessage,
    shapes: Mapping[str, GrammarSpec],
    models: Mapping[str, ModelInfo],
) -> StoredMessage:
    attachments: tuple[Attachment, ...] = ()
    if message.role == "user":
        attachments = tuple(Attachment(name=a.name, content=a.content) for a in message.attachments)
    return StoredMessage(
        id=message.id,
        chat_id=0,
        parent=message.parent,
        role=message.role,
        content=message.content,
        created_at=_time(message.created),
        trashed_at=None,
        shape=shapes[message.shape] if message.shape else None,
        sibling=1,
        siblings=1,
        attachments=attachments,
        reply=_reply(message, models) if message.role == "assistant" else None,
    )


def _reply(message: f.ReplyMessage, models: Mapping[str, ModelInfo]) -> Reply:
    return Reply(
        state="done",
        finish=message.finish,
        error=message.error,
        reasoning=message.reasoning,
        valid=message.valid,
        seed=message.seed,
        sampling=_made(Sampling, message.sampling),
        options=message.options,
        model=models[message.model] if message.model else None,
        stats=_made(Stats, message.stats) if message.stats else None,
        finished_at=_time(message.finished) if message.finished else None,
        continued_from=message.continued_from,
        tokens=tuple(message.tokens or ()),
    )


def _made(kind: type[T], values: f.Model | f.Sampling | f.Stats, **more: Any) -> T:
    """Return an object that grows with the engine, with what this version knows of it.

    Members that the format does not name yet are checked here.
    """
    names = {field.name for field in dataclasses.fields(kind)} - {"path", "seed"}  # type: ignore[arg-type]
    known = {name: value for name, value in values.model_dump().items() if name in names}
    try:
        return kind(**known, **more)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise ImportRefusedError(_short(f"{kind.__name__.lower()}.{place}: {fault['msg']}")) from error


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
