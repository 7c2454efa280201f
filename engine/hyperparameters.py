"""The settings in a model file that llama.cpp takes on trust: judged before it sees them.

Knows a header, no weights. llama.cpp answers many impossible settings with an error, and some by ending the process:
what was seen to do so is refused here. The rest is the business of the supervisor, which says of which file an engine
died. Sources: load_hparams in llama-model.cpp and llama_vocab::impl::load in llama-vocab.cpp of the pinned version.
"""

import math
import re

from engine.gguf import ArrayLength, Header, ModelFileError, Tensor, Value, shown

MOST_LAYERS = 512
_MOST_EXPERTS = 1024
_WIDEST = 1 << 20
_LONGEST_CONTEXT = 1 << 31
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_NO_WEIGHTS = frozenset({"I8", "I16", "I64", "F64", "Q8_1", "Q8_K"})
"""Types of intermediate results and of bookkeeping."""
_FLOATS = ("ssm_conv1d.weight", "shortconv.conv.weight", "ssm_a")
"""Matrices that are read as F32 like vectors."""
_IDS = ("tid2eid", "tid2eid.weight")
"""Tables of ids, the only tensors of whole numbers."""

_ARCHITECTURE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_REPEATING = re.compile(r"blk\.(\d{1,9})\.")


def refuse_unusable(header: Header) -> None:
    """Raise `ModelFileError` for settings under which llama.cpp would end the process."""
    settings = Settings(header)
    _check_sizes(settings)
    _check_experts(settings)
    scaling = settings.metadata.get(settings.key("rope.scaling.type"), "linear")
    if scaling not in _ROPE_SCALINGS:
        raise settings.fault("rope.scaling.type", f"is none of {', '.join(_ROPE_SCALINGS)}")
    for name in ("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"):
        epsilon = settings.metadata.get(settings.key(name), 0.0)
        if not isinstance(epsilon, float) or not math.isfinite(epsilon) or epsilon < 0:
            raise settings.fault(name, "is no small positive number")
    _check_vocabulary(settings)
    for tensor in header.tensors:
        _check_tensor(settings, tensor)


class Settings:
    """The metadata of a model, with the architecture's own keys found by their short names."""

    def __init__(self, header: Header) -> None:
        self.name = header.parts[0].name
        self.metadata = header.metadata
        self.architecture = header.metadata.get("general.architecture")
        if not isinstance(self.architecture, str) or not _ARCHITECTURE.fullmatch(self.architecture):
            said = "does not say" if self.architecture is None else "does not say properly"
            raise ModelFileError(f"{self.name} {said} of which architecture it is.")

    def key(self, name: str) -> str:
        """Return the whole key of one of the architecture's settings."""
        return f"{self.architecture}.{name}"

    def number(self, name: str, default: int, *, least: int = 0, most: int = _WIDEST) -> int:
        """Return a whole number. Raises `ModelFileError` for what is none or outside the bounds."""
        value = self.metadata.get(self.key(name), default)
        if type(value) is not int or not least <= value <= most:
            raise self.fault(name, f"is no whole number from {least:,} to {most:,}")
        return value

    def per_layer(self, name: str, default: list[int], *, most: int = _WIDEST) -> list[int]:
        """Return a whole number for each layer: one for all, or a list. Raises `ModelFileError`."""
        value = self.metadata.get(self.key(name))
        if value is None:
            return default
        if isinstance(value, ArrayLength):
            numbers = value.values
            if len(numbers) < len(default):
                raise self.fault(name, f"says nothing of some of the {len(default)} layers")
        else:
            numbers = (value,) * len(default)
        if not all(isinstance(number, int) and 0 <= number <= most for number in numbers):
            raise self.fault(name, f"is no whole number from 0 to {most:,}, nor a list of such")
        return [int(number) for number in numbers[: len(default)]]

    def fault(self, name: str, why: str) -> ModelFileError:
        """Return what to raise over one of the architecture's settings."""
        return self.damaged(self.key(name), why)

    def damaged(self, key: str, why: str) -> ModelFileError:
        """Return what to raise over a metadata entry."""
        value: Value | None = self.metadata.get(key)
        what = "is missing" if value is None else f"({shown(value)}) {why}"
        return ModelFileError(f"{self.name} is damaged: its metadata entry {key} {what}.")


def _check_sizes(settings: Settings) -> None:
    layers = settings.number("block_count", 0, least=1, most=MOST_LAYERS)
    settings.number("context_length", 0, least=1, most=_LONGEST_CONTEXT - 1)
    settings.number("embedding_length", 0, least=1)
    settings.number("nextn_predict_layers", 0, most=layers)
    heads = settings.per_layer("attention.head_count", [0] * layers)
    settings.per_layer("attention.head_count_kv", heads)
    settings.per_layer("feed_forward_length", [0] * layers)
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        settings.number(name, 0)


def _check_experts(settings: Settings) -> None:
    count = settings.number("expert_count", 0, most=_MOST_EXPERTS)
    layers = settings.number("block_count", 0, least=1, most=MOST_LAYERS)
    used = max(settings.per_layer("expert_used_count", [0] * layers))
    groups = settings.number("expert_group_count", 0)
    chosen = settings.number("expert_group_used_count", 0)
    if used > count or (count and not used):
        raise settings.fault("expert_used_count", f"does not go with {count} experts")
    if groups and (groups >= count or count % groups):
        raise settings.fault("expert_group_count", f"does not go with {count} experts")
    if groups > 1 and not 0 < chosen < groups:
        raise settings.fault("expert_group_used_count", f"does not go with {groups} groups of experts")


def _check_vocabulary(settings: Settings) -> None:
    """Refuse lists of the tokenizer that disagree."""
    model = settings.metadata.get("tokenizer.ggml.model")
    if not isinstance(model, str):
        raise settings.damaged("tokenizer.ggml.model", "is no text")
    if model in ("none", "no_vocab"):
        raise ModelFileError(f"{settings.name} has no vocabulary and cannot chat.")
    tokens = settings.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, ArrayLength) or tokens.element != "text" or not tokens.length:
        raise settings.damaged("tokenizer.ggml.tokens", "is no list of texts")
    if tokens.distinct != tokens.length:
        raise settings.damaged("tokenizer.ggml.tokens", "holds a token twice")
    for name, elements in (("scores", ("float32", "int32")), ("token_type", ("int32",))):
        key = f"tokenizer.ggml.{name}"
        value = settings.metadata.get(key)
        if value is None:
            continue
        if not isinstance(value, ArrayLength) or value.element not in elements:
            raise settings.damaged(key, f"is no list of {' or '.join(elements)}")
        if value.length < tokens.length:
            raise settings.damaged(key, f"is too short for {tokens.length:,} tokens")


def _check_tensor(settings: Settings, tensor: Tensor) -> None:
    """Refuse types that llama.cpp has no arithmetic for: it finds out in the first forward, and ends the process."""
    vector = len(tensor.shape) < 2 or tensor.name.endswith(_FLOATS)
    whole = tensor.type_name == "I32" and not tensor.name.endswith(_IDS)
    if whole or tensor.type_name in _NO_WEIGHTS or (vector and tensor.type_name != "F32"):
        raise ModelFileError(
            f"{settings.name} is damaged: its tensor {tensor.name!r} is of type {tensor.type_name}, "
            "with which llama.cpp cannot compute here."
        )
    match = _REPEATING.match(tensor.name)
    if match and int(match[1]) >= MOST_LAYERS:
        raise ModelFileError(f"{settings.name} is damaged: its tensor {tensor.name!r} is of no layer.")
