"""The export format, version 1: one chat, or several, as one JSON document.

`assets/export.schema.json` is this module's JSON Schema, written out for others. Knows no store. Invariants:
a document that loads here refers to nothing that is not in it; ids are local to their chat; texts are exact, so
a shape's text is a string and keeps its key order; what stands outside `chat` or `chats`, `shapes` and `models`
says where the file comes from and is not compared.
"""

import json
from collections.abc import Container
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from engine.events import Exactness, Finish, Origin, Part
from grammars import spec
from grammars.spec import Kind, Whitespace

FORMAT = "stampo-chat"
COLLECTION = "stampo-chats"
VERSION = 1
SCHEMA_ID = "urn:stampo:export:1"


def _is_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


# Nearer to the ends of the calendar there are times that are no local time somewhere.
_YEAR = "(19[7-9][0-9]|[2-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9])"

Time = Annotated[
    str,
    StringConstraints(
        pattern=rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?Z$"
    ),
    AfterValidator(_is_time),
    Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC, from 1970 to 9989"),
]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0)]
Id = Annotated[int, Field(ge=1)]
TokenId = Annotated[int, Field(ge=0, lt=2**32)]
TokenKey = Annotated[str, StringConstraints(pattern="^(0|-?[1-9][0-9]{0,17})$")]


class _Closed(BaseModel):
    """An object whose members are all named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Open(BaseModel):
    """An object that grows with the engine: readers keep quiet about members they do not know."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


_USUAL = spec.Guards()


def _number(value: Any) -> Any:
    if isinstance(value, bool):  # true is 1 for Python, not for JSON
        raise ValueError("a number is wanted")
    return value


Version = Annotated[Literal[1], BeforeValidator(_number)]


class Program(_Closed):
    """What wrote the file."""

    name: str
    version: str


class Guards(_Closed):
    """How far JSON may go where its schema sets no bound; null takes a guard away."""

    digits: Annotated[int, Field(ge=1, le=200)] | None = _USUAL.digits
    blanks: Annotated[int, Field(ge=1)] | None = _USUAL.blanks
    string: Annotated[int, Field(ge=1)] | None = _USUAL.string
    items: Annotated[int, Field(ge=1)] | None = _USUAL.items
    depth: Annotated[int, Field(ge=1)] | None = _USUAL.depth


class Shape(_Closed):
    """A shape. `text` is exact; `hash` is equal for all spellings of one language."""

    hash: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    kind: Kind
    text: str
    whitespace: Whitespace
    name: str | None
    guards: Guards = Guards()


class Model(_Open):
    """A model that replied. Where its file lay is nobody's business and left out."""

    name: str
    architecture: str
    parameters: Count
    quantization: str
    vocab_size: Count
    context_length: Count
    size_bytes: Count
    fingerprint: str
    vocabulary: Annotated[str, Field(description="fingerprint of the vocabulary")]
    template_hash: str
    has_template: bool


class Sampling(_Open):
    """How tokens were chosen; see `stampo ask --help` for the meaning."""

    temperature: Annotated[float, Field(ge=0, le=100)]
    top_k: Annotated[int, Field(ge=0, lt=2**31)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    min_p: Annotated[float, Field(ge=0, le=1)]
    repeat_penalty: Annotated[float, Field(gt=0)]
    frequency_penalty: float
    presence_penalty: float
    penalty_last_n: Annotated[int, Field(ge=0, lt=2**31)]
    typical_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_n_sigma: Annotated[float, Field(ge=0, le=1000)] = 0.0
    dry_multiplier: Annotated[float, Field(ge=0, le=1000)] = 0.0
    dry_base: Annotated[float, Field(ge=1, le=1000)] = 1.75
    dry_allowed_length: Annotated[int, Field(ge=1, lt=2**31)] = 2
    dry_last_n: Annotated[int, Field(ge=0, lt=2**31)] = 1024
    dry_breakers: Annotated[str, Field(max_length=100)] = ':"*'
    logit_bias: Annotated[
        dict[TokenKey, Annotated[float, Field(gt=-1e30, lt=1e30)]],
        Field(description="by token id", json_schema_extra={"additionalProperties": False}),
    ]
    banned: list[int]


class Stats(_Open):
    """Figures of one turn. Seconds are wall time; `forwards` leaves prompt reading out."""

    prompt_tokens: Count
    reused_tokens: Count
    reply_tokens: Count
    reasoning_tokens: Count = 0
    forced_tokens: Count
    sampled_tokens: Count
    drafted_tokens: Count
    accepted_tokens: Count
    landed_tokens: Count = 0
    rebuilt: Count = 0
    forwards: Count
    masked_mean: float | None
    prefill_s: float
    decode_s: float
    tokens_per_s: float
    tokens_per_forward: float
    exact: Exactness
    sources: dict[str, dict[str, float]]


class Attachment(_Closed):
    """A text beside what was typed."""

    name: str
    content: str


class TracedToken(_Closed):
    """One committed token; `allowed` counts the legal ids at a free choice."""

    id: TokenId
    text: str
    origin: Origin
    allowed: Count | None
    part: Part = "reply"


class UserMessage(_Closed):
    """What a person sent; `shape` was shown to the model with it."""

    id: Id
    parent: Annotated[Id | None, Field(description="the message it follows, which stands before it")]
    role: Literal["user"]
    content: str
    created: Time
    shape: Annotated[Key | None, Field(description="key into `shapes`")]
    attachments: list[Attachment]


class ReplyMessage(_Closed):
    """A reply; `shape` is what it was held to. `tokens` and `trace` are there on request."""

    id: Id
    parent: Annotated[Id | None, Field(description="the message it follows, which stands before it")]
    role: Literal["assistant"]
    content: str
    created: Time
    finished: Time | None
    shape: Annotated[Key | None, Field(description="key into `shapes`")]
    finish: Annotated[Finish | None, Field(description="how it ended; null while it was being written")]
    error: str | None
    reasoning: str | None
    valid: Annotated[bool | None, Field(description="whether it fits its shape; null without a judgement")]
    seed: Annotated[int | None, Field(ge=0, lt=2**63)]
    sampling: Sampling
    options: Annotated[
        dict[str, JsonValue], Field(description="the rest of the request, as max_tokens, stop")
    ]
    model: Annotated[Key | None, Field(description="key into `models`")]
    stats: Stats | None
    continued_from: Annotated[
        Id | None, Field(description="the reply that this one carries on, which stands before it")
    ]
    tokens: Annotated[list[TokenId] | None, Field(description="committed ids of this model's vocabulary")]
    trace: list[TracedToken] | None


class NextShape(_Closed):
    """The shape of the next reply; it stays while switched off."""

    shape: Key
    on: bool
    shown: Annotated[bool, Field(description="shown to the model")]


class Chat(_Closed):
    """A chat with all its branches. `messages` is a tree, parents before children, siblings in order."""

    title: str
    system: str
    created: Time
    updated: Time
    settings: dict[str, JsonValue]
    next_shape: NextShape | None
    leaf: Annotated[Id | None, Field(description="the end of the path that was shown")]
    messages: list[Annotated[UserMessage | ReplyMessage, Field(discriminator="role")]]


class Export(_Closed):
    """A chat exported from Stampo. `exported_at` and `program` are not part of what is compared."""

    model_config = ConfigDict(title="Stampo chat export")

    format: Literal["stampo-chat"]
    version: Version
    exported_at: Time
    program: Program
    chat: Chat
    shapes: Annotated[dict[Key, Shape], Field(description="by hash, with -2, -3 ... for other spellings")]
    models: Annotated[dict[Key, Model], Field(description="by fingerprint, with -2, -3 ... for other states")]

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Self:
        _check_references(self.chat, self)
        return self


class Collection(_Closed):
    """Several chats exported from Stampo, with their shapes and models together."""

    model_config = ConfigDict(title="Stampo chats export")

    format: Literal["stampo-chats"]
    version: Version
    exported_at: Time
    program: Program
    chats: list[Chat]
    shapes: Annotated[dict[Key, Shape], Field(description="as in the export of one chat")]
    models: Annotated[dict[Key, Model], Field(description="as in the export of one chat")]

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Self:
        for number, chat in enumerate(self.chats, start=1):
            _check_references(chat, self, f"chat {number}: ")
        return self


Document = Annotated[Export | Collection, Field(discriminator="format")]

DOCUMENT: TypeAdapter[Export | Collection] = TypeAdapter(Document)


def _check_references(chat: Chat, document: Export | Collection, where: str = "") -> None:
    """Raise `ValueError` if a chat refers to something that is not there, or not there yet."""

    def know(there: Container[int | str], key: int | str | None, whose: str) -> None:
        if key is not None and key not in there:
            raise ValueError(f"{where}{whose} refers to {json.dumps(key)}, which is not there")

    seen: set[int] = set()
    for message in chat.messages:
        whose = f"message {message.id}"
        if message.id in seen:
            raise ValueError(f"{where}two messages have the id {message.id}")
        if message.parent is not None and message.parent not in seen:
            raise ValueError(f"{where}{whose} stands before its parent {message.parent}")
        know(document.shapes, message.shape, whose)
        if message.role == "assistant":
            know(document.models, message.model, whose)
            know(seen, message.continued_from, whose)
        seen.add(message.id)
    know(seen, chat.leaf, "the chat")
    know(document.shapes, chat.next_shape.shape if chat.next_shape else None, "the chat")


class _Generator(GenerateJsonSchema):
    """Leaves out titles that only repeat a member's name, and `discriminator`, which is OpenAPI's."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        return {k: v for k, v in super().tagged_union_schema(schema).items() if k != "discriminator"}


def json_schema() -> dict[str, Any]:
    """Return the format's JSON Schema, as `assets/export.schema.json` holds it."""
    schema = DOCUMENT.json_schema(schema_generator=_Generator)
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": SCHEMA_ID, **schema}
