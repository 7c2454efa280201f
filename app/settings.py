"""What a person can set: how replies are asked for, the engine, the interface; and what one chat wants otherwise.

Knows no file (settings_file.py), no screen and no engine at work. The names are those of llama.cpp's samplers; a chat
keeps only what differs from the defaults.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from engine.protocol import Numerics, Sampling

_SAMPLING = tuple(
    field.name for field in dataclasses.fields(Sampling) if field.name not in ("logit_bias", "banned")
)
_DEFAULT = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ReplySettings:
    """How replies are asked for; ranges are those of `Sampling` and `Generate`, which say what each means.

    `seed` None means a new one for each reply. `remember` lets earlier replies of the same shape help to guess ahead.
    """

    temperature: float = _DEFAULT.temperature
    top_k: int = _DEFAULT.top_k
    top_p: float = _DEFAULT.top_p
    min_p: float = _DEFAULT.min_p
    typical_p: float = _DEFAULT.typical_p
    top_n_sigma: float = _DEFAULT.top_n_sigma
    repeat_penalty: float = _DEFAULT.repeat_penalty
    frequency_penalty: float = _DEFAULT.frequency_penalty
    presence_penalty: float = _DEFAULT.presence_penalty
    penalty_last_n: int = _DEFAULT.penalty_last_n
    dry_multiplier: float = _DEFAULT.dry_multiplier
    dry_base: float = _DEFAULT.dry_base
    dry_allowed_length: int = _DEFAULT.dry_allowed_length
    dry_last_n: int = _DEFAULT.dry_last_n
    dry_breakers: str = _DEFAULT.dry_breakers
    seed: int | None = None
    max_tokens: int = Field(default=1024, ge=1)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    think: bool | None = None
    think_tokens: int = Field(default=1024, ge=0)
    land: bool = True
    stop_loops: bool = True
    speculate: bool = True
    remember: bool = True

    def __post_init__(self) -> None:
        """Refuse what `Sampling` refuses. Raises `ValidationError`."""
        self.sampling()

    def sampling(self, **changes: Any) -> Sampling:
        """Return the part that decides how a token is chosen."""
        return Sampling(**({name: getattr(self, name) for name in _SAMPLING} | changes))

    def options(self) -> dict[str, Any]:
        """Return the rest as JSON values, as they are kept with a reply."""
        return {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value
            for field in dataclasses.fields(self)
            if field.name not in _SAMPLING
        }


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class EngineSettings:
    """Which model is loaded when none is named, and how; ranges are those of `Load`.

    `model_folders` are searched for models, beside the cache of Hugging Face.
    """

    model: str | None = Field(default=None, min_length=1)
    draft_model: str | None = Field(default=None, min_length=1)
    context: int | None = Field(default=None, ge=16, lt=2**31)
    threads: int | None = Field(default=None, ge=1, le=512)
    gpu_layers: int = Field(default=0, ge=-1, lt=2**31)
    numerics: Numerics = "auto"
    model_folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class LimitsSettings:
    """What is refused because it would take too long or too much; `shape_effort` is that of `Load`.

    What guards against hostile files, such as the time of a chat template, is no matter of taste and not in here.
    """

    shape_effort: int = Field(default=1, ge=1, le=100)
    import_mb: int = Field(default=128, ge=1, le=65_536)


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class InterfaceSettings:
    """How the interface looks and feels. `enter` says what Enter does in the field for messages."""

    theme: str = "stampo"
    reduced_motion: bool = False
    enter: Literal["send", "newline"] = "send"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a person has set.

    `system` is the system prompt of new chats, `keys` holds the keys of an action by the action's id.
    """

    reply: ReplySettings = Field(default_factory=ReplySettings)
    system: str = ""
    engine: EngineSettings = Field(default_factory=EngineSettings)
    interface: InterfaceSettings = Field(default_factory=InterfaceSettings)
    limits: LimitsSettings = Field(default_factory=LimitsSettings)
    keys: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)


REPLY_SETTINGS: TypeAdapter[ReplySettings] = TypeAdapter(ReplySettings)
NAMES = tuple(field.name for field in dataclasses.fields(ReplySettings))


def overlaid(base: ReplySettings, changes: Mapping[str, Any]) -> tuple[ReplySettings, list[str]]:
    """Return `base` with a chat's own values, and the names of those that cannot be used and are left out."""
    settings, faulty = base, []
    for name, value in changes.items():
        try:
            settings = REPLY_SETTINGS.validate_python(as_mapping(settings) | {name: value})
        except ValidationError:
            faulty.append(name)
    return settings, faulty


def as_mapping(settings: ReplySettings) -> dict[str, Any]:
    """Return all values by name."""
    return {name: getattr(settings, name) for name in NAMES}
