"""What the store hands out: frozen values, no rows and no laziness.

Knows nothing of SQL. Times are aware datetimes in UTC with milliseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from engine.events import Finish, ModelInfo, Stats, Token
from engine.protocol import Sampling
from grammars.spec import GrammarSpec

Role = Literal["user", "assistant"]
State = Literal["generating", "done"]


class StoreError(Exception):
    """The store cannot do what was asked; the text names the file and is written for the person."""


class DamagedError(StoreError):
    """The store's file is damaged, as far as it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A text beside what was typed: a file or a long paste. `id` is its number in the store, once it is there."""

    name: str
    content: str
    id: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSummary:
    """A chat in a list. `messages` counts every branch, trash excluded."""

    id: int
    title: str
    created_at: datetime
    updated_at: datetime
    pinned: bool
    trashed_at: datetime | None
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(ChatSummary):
    """A chat without its messages.

    `leaf` ends the path that is shown. `shape` is that of the next reply; it stays while `shape_on` is false,
    and `shape_shown` says whether the model is to see it. `draft` was typed and not sent.
    """

    system: str
    leaf: int | None
    draft: str
    shape: GrammarSpec | None
    shape_on: bool
    shape_shown: bool
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is known of a reply beyond its text.

    `finish` is None while `state` is generating. `tokens` are its committed ids, empty when the text was cut
    inside a token. `options` is the rest of the request, such as `max_tokens` and `stop`.
    """

    state: State
    finish: Finish | None
    error: str | None
    reasoning: str | None
    valid: bool | None
    seed: int | None
    sampling: Sampling
    options: Mapping[str, Any]
    model: ModelInfo | None
    stats: Stats | None
    finished_at: datetime | None
    continued_from: int | None
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One message of the tree. `reply` is set when the role is assistant.

    `shape` was shown with a user message, or enforced on a reply. `sibling` counts from 1 to `siblings`,
    trash excluded.
    """

    id: int
    chat_id: int
    parent: int | None
    role: Role
    content: str
    created_at: datetime
    trashed_at: datetime | None
    shape: GrammarSpec | None
    sibling: int
    siblings: int
    attachments: tuple[Attachment, ...]
    reply: Reply | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChat:
    """A whole chat from elsewhere. The numbers in it are its own: the store gives others.

    `messages` has parents before children and siblings in order; `traces` has the tokens of replies by number.
    """

    chat: Chat
    messages: Sequence[StoredMessage]
    traces: Mapping[int, Sequence[Token]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A place where a search text was found; `message_id` None means the title. `before`, `match` and `after`
    are a stretch of the text around it."""

    chat_id: int
    chat_title: str
    message_id: int | None
    role: Role | None
    created_at: datetime
    before: str
    match: str
    after: str
