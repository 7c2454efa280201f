"""What a client tells the worker, and the codec: one JSON object a line, UTF-8.

The worker knows no chats: `Generate` carries the whole path. Unknown command fields are refused, unknown event
fields ignored, so the protocol grows by addition.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from engine.events import EVENT, Event
from grammars.spec import GrammarSpec

PROTOCOL_VERSION = 1

Numerics = Literal["auto", "exact", "fast"]

_CLOSED = ConfigDict(extra="forbid")


class ProtocolError(ValueError):
    """A line that is no message of this protocol."""


def _cold_enough(temperature: float) -> float:
    """Take temperatures that would divide logits beyond float32 for what they mean: 0."""
    return 0.0 if temperature < 1e-3 else temperature


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Sampling:
    """How a token is chosen among the legal ones.

    `temperature` 0 takes the likeliest; so does anything below 0.001. `top_k` 0 sets no limit of its own (the chain
    then begins at the 1,000 likeliest). `typical_p` 1 and `top_n_sigma` 0 do nothing. `penalty_last_n` counts tokens of
    history, prompt and forced ones included. `dry_multiplier` 0 switches DRY off: a repetition of L tokens, at least
    `dry_allowed_length` and within the last `dry_last_n`, makes the token that goes on with it less likely by
    `dry_multiplier * dry_base ** (L - dry_allowed_length)`, and no repetition reaches over a line break or one of the
    characters `dry_breakers`; DRY comes before the other penalties. `logit_bias` maps token ids to what is added to
    their logits. `banned` ids are never chosen. `seed` None means a random one, which the turn reports.
    """

    temperature: Annotated[float, Field(ge=0, le=100), AfterValidator(_cold_enough)] = 0.7
    top_k: int = Field(default=0, ge=0, lt=2**31)
    top_p: float = Field(default=0.95, gt=0, le=1)
    min_p: float = Field(default=0.05, ge=0, le=1)
    typical_p: float = Field(default=1.0, gt=0, le=1)
    top_n_sigma: float = Field(default=0.0, ge=0, le=1000)
    repeat_penalty: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    frequency_penalty: float = Field(default=0.0, allow_inf_nan=False)
    presence_penalty: float = Field(default=0.0, allow_inf_nan=False)
    penalty_last_n: int = Field(default=64, ge=0, lt=2**31)
    dry_multiplier: float = Field(default=0.0, ge=0, le=1000)
    dry_base: float = Field(default=1.75, ge=1, le=1000)
    dry_allowed_length: int = Field(default=2, ge=1, lt=2**31)
    dry_last_n: int = Field(default=1024, ge=0, lt=2**31)
    dry_breakers: str = Field(default=':"*', max_length=100)
    logit_bias: dict[int, Annotated[float, Field(gt=-1e30, lt=1e30)]] = Field(default_factory=dict)
    banned: tuple[int, ...] = ()
    seed: int | None = Field(default=None, ge=0, lt=2**63)


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Message:
    """One message of the path.

    `shape` on a user message is shown to the model with it. `tokens` of a reply are its committed ids, taken
    as they are when `vocabulary` is that of the loaded model. `reasoning` of a reply is shown where the model's
    template wants it; most drop it.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    shape: GrammarSpec | None = None
    tokens: tuple[int, ...] = ()
    vocabulary: str | None = None
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Load:
    """Load a model. `context` None takes the smaller of the model's and 8,192; `threads` None the physical cores.

    `draft_model` is a smaller model with the same vocabulary that guesses ahead. A shape may cost `shape_effort` times
    the usual work before it is refused.
    """

    model: str
    draft_model: str | None = None
    context: int | None = Field(default=None, ge=16, lt=2**31)
    threads: int | None = Field(default=None, ge=1, le=512)
    gpu_layers: int = Field(default=0, ge=-1, lt=2**31)
    numerics: Numerics = "auto"
    shape_effort: int = Field(default=1, ge=1, le=100)
    type: Literal["load"] = "load"


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Generate:
    """Continue a path with one reply. `stop` texts end free replies and are refused with a shape.

    `earlier` replies under the same shape are what the schema memory guesses from, the oldest first.
    `streams` replies are written at once, with the seeds `seed`, `seed` + 1 and so on. `verify` replays each through
    the naive loop when it has ended. `think` None leaves it to the template whether the model reasons first;
    `think_tokens` is the budget of reasoning, `max_tokens` that of the reply without it. `land` ends a shaped reply
    properly within its budget, `stop_loops` ends a free one that repeats itself. `prefix` are ids that the reply begins
    with, reasoning included, taken as committed; both budgets count them.
    """

    turn: int
    messages: tuple[Message, ...]
    shape: GrammarSpec | None = None
    sampling: Sampling = Field(default_factory=Sampling)
    max_tokens: int = Field(default=1024, ge=1)
    stop: tuple[str, ...] = ()
    speculate: bool = True
    earlier: tuple[str, ...] = ()
    streams: int = Field(default=1, ge=1, le=64)
    verify: bool = False
    think: bool | None = None
    think_tokens: int = Field(default=1024, ge=0)
    land: bool = True
    stop_loops: bool = True
    prefix: tuple[int, ...] = ()
    type: Literal["generate"] = "generate"


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Inspect:
    """Say what the model thinks of one place of a reply; answered by `Inspected`, or `Failed` with the same turn.

    `generate` is the turn as it was asked for, its `prefix` the reply up to the place, reasoning included.
    `vocabulary` is that of those ids; another model refuses them. The `top` likeliest ids are listed, of all and of the
    legal ones, and `token` whatever becomes of it.
    """

    generate: Generate
    vocabulary: str
    token: int | None = None
    top: int = Field(default=10, ge=1, le=100)
    type: Literal["inspect"] = "inspect"


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Count:
    """Count the tokens of texts, and of the prompt that `messages` make; answered by `Counted`, or `Failed` with the
    same turn. `think` is as in `Generate`."""

    turn: int
    messages: tuple[Message, ...] = ()
    texts: tuple[str, ...] = ()
    think: bool | None = None
    type: Literal["count"] = "count"


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Probe:
    """Compare single rows with batches now; answered by `Probed`. The worker does so by itself when it has time."""

    type: Literal["probe"] = "probe"


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Cancel:
    """Stop what is running, loading included."""

    type: Literal["cancel"] = "cancel"


Command = Annotated[Load | Generate | Inspect | Count | Probe | Cancel, Field(discriminator="type")]

COMMAND: TypeAdapter[Command] = TypeAdapter(Command)


def encode_command(command: Command) -> bytes:
    """Return one line for a command, newline included."""
    return COMMAND.dump_json(command) + b"\n"


def decode_command(line: bytes) -> Command:
    """Read one line from a client. Raises `ProtocolError` naming the field."""
    try:
        return COMMAND.validate_json(line)
    except ValidationError as error:
        raise ProtocolError(_first_fault(error)) from error


def encode_event(event: Event) -> bytes:
    """Return one line for an event, newline included."""
    return EVENT.dump_json(event) + b"\n"


def decode_event(line: bytes) -> Event:
    """Read one line from the worker. Raises `ProtocolError` naming the field."""
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        raise ProtocolError(_first_fault(error)) from error


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else fault["msg"]
