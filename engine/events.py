"""What the engine says while it works: frozen values in one discriminated union.

Knows nothing of pipes or screens. Additive only: readers ignore fields they do not know.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

Origin = Literal["forced", "sampled", "accepted", "landed", "given"]
Part = Literal["reply", "reasoning"]
Finish = Literal["stop", "stop_text", "length", "landed", "cancelled", "loop", "context_full", "error"]
Exactness = Literal["exact", "fast", "unverified"]
FailureKind = Literal["usage", "shape", "model", "cancelled", "internal"]

_OPEN = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class ModelInfo:
    """What is known of the loaded model.

    `size_bytes` counts the weights, `context_length` is what it was trained for, `vocabulary` is its fingerprint.
    """

    name: str
    path: str
    architecture: str
    parameters: int
    quantization: str
    vocab_size: int
    context_length: int
    size_bytes: int
    fingerprint: str
    vocabulary: str
    template_hash: str
    has_template: bool


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Token:
    """One committed token.

    `text` is its own text, broken characters replaced; `allowed` counts the ids that were legal at a free choice,
    None where all were or where there was no choice. `part` is the reply, or the reasoning before it with its markers.
    The origin `landed` means that the shape had to end: from the token that took the chosen one's place on; `given`
    ones are those of the request's `prefix`.
    """

    id: int
    text: str
    origin: Origin
    allowed: int | None = None
    part: Part = "reply"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Stats:
    """Figures of one turn. Seconds are wall time; `forwards` leaves prompt reading out.

    `reply_tokens` and `reasoning_tokens`, which counts markers too, are together the forced, sampled, accepted and
    landed ones, and what `tokens_per_s` counts; those the request gave as its `prefix` are in none of them. `rebuilt`
    counts how often the constraint refused a token it had allowed and went on without forced spans.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    reply_tokens: int = 0
    reasoning_tokens: int = 0
    forced_tokens: int = 0
    sampled_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    landed_tokens: int = 0
    rebuilt: int = 0
    forwards: int = 0
    masked_mean: float | None = None
    prefill_s: float = 0.0
    decode_s: float = 0.0
    tokens_per_s: float = 0.0
    tokens_per_forward: float = 0.0
    exact: Exactness = "unverified"
    sources: dict[str, dict[str, float]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Verification:
    """What a replay through the naive loop said: `compared` of `total` tokens, and the first difference if any.

    `at` is the place in the reply; at the end of one of the two, its token is None. `margin` is the distance of the
    two largest legal logits there, in the replay; None if only one was legal. `exact` are the numerics in force.
    `error` says why a replay ended early.
    """

    equal: bool
    compared: int
    total: int
    exact: Exactness
    at: int | None = None
    replied: Token | None = None
    replayed: Token | None = None
    margin: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Probed:
    """Single rows were compared with batches while nothing else was to do. `detail` is a sentence on what was seen."""

    exact: Exactness
    detail: str
    type: Literal["probed"] = "probed"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Hello:
    """The worker's first message."""

    protocol: int
    version: str
    pid: int
    type: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Heartbeat:
    """Sent about once a second by a thread of its own; silence means a hang."""

    type: Literal["heartbeat"] = "heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Loading:
    """Progress of loading, `fraction` from 0 to 1."""

    fraction: float
    type: Literal["loading"] = "loading"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Ready:
    """The model is loaded. `context` is the number of positions in use; `notices` are sentences for the person.

    `draft` is the model that guesses ahead, if there is one in use.
    """

    model: ModelInfo
    draft: ModelInfo | None = None
    context: int
    threads: int
    exact: Exactness
    numerics_reason: str
    notices: tuple[str, ...] = ()
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Started:
    """A turn begins: the prompt is rendered and counted."""

    turn: int
    prompt_tokens: int
    reused_tokens: int
    seed: int
    notices: tuple[str, ...] = ()
    stream: int = 0
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class PromptRead:
    """Progress of prompt reading, in tokens, reused ones included."""

    turn: int
    done: int
    total: int
    stream: int = 0
    type: Literal["prompt_read"] = "prompt_read"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Tokens:
    """What one round committed.

    `text` holds whole characters only: one cut between tokens arrives with its last byte. `reasoning` is what the
    model thought before the reply, without the markers around it. `forwards` and `elapsed_s` (seconds of decoding) are
    totals of the turn so far, prompt reading left out. `sources`, about once a second, are what guessed in this turn
    so far, as in `Stats`.
    """

    turn: int
    tokens: tuple[Token, ...]
    text: str
    forwards: int
    elapsed_s: float
    reasoning: str = ""
    sources: dict[str, dict[str, float]] = Field(default_factory=dict)
    stream: int = 0
    type: Literal["tokens"] = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Notice:
    """A sentence for the person about this turn, such as a rebuilt constraint."""

    turn: int
    message: str
    stream: int = 0
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Finished:
    """A reply ended. `tokens` are its ids, empty when a stop text cut it; the ids of the reasoning are not among them.
    `reasoning` is None where there was none.

    A turn of several streams has one `Finished` for each; `stream` counts from 0 here and in the other events of
    a turn. `verification` is there if it was asked for.
    """

    turn: int
    finish: Finish
    text: str
    tokens: tuple[int, ...]
    seed: int
    stats: Stats
    reasoning: str | None = None
    error: str | None = None
    stream: int = 0
    verification: Verification | None = None
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Alternative:
    """A token that might stand at a place.

    `probability` is the model's own, before bias and shape, `rank` counts from 1 by it; `share` is what of the legal
    tokens' probability is its. `text` is empty for control tokens, of which those that end a reply have `ends`.
    """

    id: int
    text: str
    probability: float
    rank: int
    legal: bool
    share: float
    ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Inspected:
    """What the model thinks of one place of a reply, the likeliest alternatives first.

    `forced` says that the shape leaves no choice. `allowed` and `masked` count the ids that may and may not stand
    there. `entropy`, in bits, is that of the model's own distribution.
    """

    turn: int
    alternatives: tuple[Alternative, ...]
    forced: bool
    allowed: int
    masked: int
    entropy: float
    type: Literal["inspected"] = "inspected"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Counted:
    """The tokens of each text, and of the prompt with the opening of the reply; None if there were no messages."""

    turn: int
    prompt: int | None
    texts: tuple[int, ...]
    type: Literal["counted"] = "counted"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Failed:
    """A command could not be carried out. `turn` is None while loading; `message` is written for the person."""

    kind: FailureKind
    message: str
    turn: int | None = None
    type: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, config=_OPEN)
class Exited:
    """Made by the client, never sent: the worker is gone. `message` says how and what to do."""

    message: str
    code: int | None
    type: Literal["exited"] = "exited"


Event = Annotated[
    Hello
    | Heartbeat
    | Loading
    | Ready
    | Probed
    | Started
    | PromptRead
    | Tokens
    | Notice
    | Finished
    | Inspected
    | Counted
    | Failed
    | Exited,
    Field(discriminator="type"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)
