"""Tiny random models around real vocabularies: real files, meaningless weights.

The package gguf reads and writes string by string, a second for a small vocabulary; here the tokenizer's
metadata is copied as bytes.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, TokenType
from gguf.quants import quantize
from numpy.typing import NDArray

_ALIGNMENT = 32
_CONTEXT_LENGTH = 8192
_SSM_KERNEL, _SSM_STATE, _SSM_RANK = 4, 16, 32
_KEPT = ("ssm_conv1d.weight", "ssm_a")  # llama.cpp wants these as F32
_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_SCORES = "tokenizer.ggml.scores"
_SIZES = {
    0: 1,
    1: 1,
    2: 2,
    3: 2,
    4: 4,
    5: 4,
    6: 4,
    7: 1,
    10: 8,
    11: 8,
    12: 8,
}  # bytes of the scalar value types


def write_tiny_model(
    path: Path,
    vocab_gguf: Path,
    *,
    seed: int = 0,
    padded_to: int | None = None,
    template: str | None = None,
    layers: int = 1,
    width: int = 64,
    quantization: GGMLQuantizationType = GGMLQuantizationType.Q8_0,
    added: Mapping[str, TokenType] | None = None,
    eos: int | None = None,
    rules: Mapping[str, int | bool] | None = None,
) -> Path:
    """Write a model with the tokenizer of a vocabulary GGUF and weights drawn from `seed`; return its path.

    `added` are tokens put behind the vocabulary's, with their types. `padded_to` adds unused tokens up to
    that many rows, as models with rounded-up matrices have them. `eos` is the id that ends a
    text, if not the vocabulary's own. `rules` replace other numbers and switches of the tokenizer, such as
    `add_bos_token`. Widths are multiples of 64.
    """
    tokenizer = dict(_tokenizer_entries(vocab_gguf.read_bytes()))
    tokens = dict(added or {})
    count = _array_length(tokenizer[_TOKENS]) + len(tokens)
    rows = padded_to or count
    if rows < count:
        raise ValueError(f"{vocab_gguf.name} has {count} tokens, more than {rows}")
    tokens |= {f"[PAD{number}]": TokenType.UNUSED for number in range(count, rows)}
    _append(tokenizer, tokens)
    if eos is not None:
        tokenizer["tokenizer.ggml.eos_token_id"] = _int_value(eos)
    for key, value in (rules or {}).items():
        tokenizer[f"tokenizer.ggml.{key}"] = (
            struct.pack("<I?", GGUFValueType.BOOL, value) if isinstance(value, bool) else _int_value(value)
        )
    if template is not None:
        tokenizer["tokenizer.chat_template"] = _text_value(template)
    entries = {
        "general.architecture": _text_value("llama"),
        "general.name": _text_value(f"tiny {vocab_gguf.stem}"),
        "llama.context_length": _int_value(_CONTEXT_LENGTH),
        "llama.embedding_length": _int_value(width),
        "llama.block_count": _int_value(layers),
        "llama.feed_forward_length": _int_value(2 * width),
        "llama.attention.head_count": _int_value(2),
        "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", GGUFValueType.FLOAT32, 1e-5),
        "llama.rope.dimension_count": _int_value(width // 2),
        "llama.vocab_size": _int_value(rows),
    }
    _write(path, entries | tokenizer, _weights(rows, layers, width, seed), quantization)
    return path


def write_tiny_recurrent_model(
    path: Path, vocab_gguf: Path, *, seed: int = 0, hybrid: bool = False, width: int = 64
) -> Path:
    """Write a model whose memory is a state and not one entry a token; return its path.

    It has two Mamba layers; `hybrid` puts an attention layer between them (the architecture is then Jamba).
    """
    tokenizer = dict(_tokenizer_entries(vocab_gguf.read_bytes()))
    rows = _array_length(tokenizer[_TOKENS])
    heads = (0, 1, 0) if hybrid else (0, 0)
    name = "jamba" if hybrid else "mamba"
    entries = {
        "general.architecture": _text_value(name),
        "general.name": _text_value(f"tiny {name} {vocab_gguf.stem}"),
        f"{name}.context_length": _int_value(_CONTEXT_LENGTH),
        f"{name}.embedding_length": _int_value(width),
        f"{name}.block_count": _int_value(len(heads)),
        f"{name}.feed_forward_length": _int_value(2 * width if hybrid else 0),
        f"{name}.attention.head_count": _int_value(1 if hybrid else 0),
        f"{name}.attention.head_count_kv": _int_array_value(heads),
        f"{name}.attention.layer_norm_rms_epsilon": struct.pack("<If", GGUFValueType.FLOAT32, 1e-5),
        f"{name}.ssm.conv_kernel": _int_value(_SSM_KERNEL),
        f"{name}.ssm.inner_size": _int_value(2 * width),
        f"{name}.ssm.state_size": _int_value(_SSM_STATE),
        f"{name}.ssm.time_step_rank": _int_value(_SSM_RANK),
        f"{name}.vocab_size": _int_value(rows),
    }
    weights = _recurrent_weights(rows, heads, width, seed, hybrid=hybrid)
    _write(path, entries | tokenizer, weights, GGMLQuantizationType.Q8_0)
    return path


def _tokenizer_entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the tokenizer's metadata except the chat template, values as bytes with their type in front."""
    at = 24
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        end = _text_end(data, at)
        key = data[at + 8 : end].decode()
        at = _value_end(data, end)
        if key.startswith("tokenizer.") and key != "tokenizer.chat_template":
            yield key, data[end:at]


def _value_end(data: bytes, at: int) -> int:
    kind = struct.unpack_from("<I", data, at)[0]
    if kind == GGUFValueType.STRING:
        return _text_end(data, at + 4)
    if kind != GGUFValueType.ARRAY:
        return at + 4 + _SIZES[kind]
    kind, count = struct.unpack_from("<IQ", data, at + 4)
    at += 16
    if kind != GGUFValueType.STRING:
        return at + count * _SIZES[kind]
    for _ in range(count):
        at = _text_end(data, at)
    return at


def _text_end(data: bytes, at: int) -> int:
    return at + 8 + struct.unpack_from("<Q", data, at)[0]


def _array_length(value: bytes) -> int:
    return struct.unpack_from("<Q", value, 8)[0]


def _append(tokenizer: dict[str, bytes], tokens: Mapping[str, TokenType]) -> None:
    added = {
        _TOKENS: b"".join(map(_text, tokens)),
        _TYPES: struct.pack(f"<{len(tokens)}i", *tokens.values()),
        _SCORES: struct.pack("<f", -1e9) * len(tokens),
    }
    for key, more in added.items():
        if key in tokenizer:
            value = tokenizer[key]
            count = _array_length(value) + len(tokens)
            tokenizer[key] = value[:8] + struct.pack("<Q", count) + value[16:] + more


def _weights(rows: int, layers: int, width: int, seed: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    matrix = _Matrices(seed)
    yield from _outer(rows, width, matrix)
    for layer in range(layers):
        block = f"blk.{layer}."
        yield f"{block}attn_norm.weight", np.ones(width, np.float32)
        yield from _attention(block, width, matrix)
        yield from _feed_forward(block, width, matrix)


def _recurrent_weights(
    rows: int, heads: Sequence[int], width: int, seed: int, *, hybrid: bool
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    matrix = _Matrices(seed)
    yield from _outer(rows, width, matrix)
    for layer, attends in enumerate(heads):
        block = f"blk.{layer}."
        yield f"{block}attn_norm.weight", np.ones(width, np.float32)
        yield from (_attention if attends else _state_space)(block, width, matrix)
        if hybrid:
            for name, size in (("dt", _SSM_RANK), ("b", _SSM_STATE), ("c", _SSM_STATE)):
                if not attends:
                    yield f"{block}ssm_{name}_norm.weight", np.ones(size, np.float32)
            yield from _feed_forward(block, width, matrix)


class _Matrices:
    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, outputs: int, inputs: int) -> NDArray[np.float32]:
        return self._random.standard_normal((outputs, inputs), dtype=np.float32) / np.float32(np.sqrt(inputs))


def _outer(rows: int, width: int, matrix: _Matrices) -> Iterator[tuple[str, NDArray[np.float32]]]:
    yield "token_embd.weight", matrix(rows, width)
    yield "output_norm.weight", np.full(width, 3, np.float32)  # spreads the logits, so that choices differ
    yield "output.weight", matrix(rows, width)


def _attention(block: str, width: int, matrix: _Matrices) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        yield f"{block}{name}.weight", matrix(width, width)


def _feed_forward(block: str, width: int, matrix: _Matrices) -> Iterator[tuple[str, NDArray[np.float32]]]:
    yield f"{block}ffn_norm.weight", np.ones(width, np.float32)
    yield f"{block}ffn_gate.weight", matrix(2 * width, width)
    yield f"{block}ffn_up.weight", matrix(2 * width, width)
    yield f"{block}ffn_down.weight", matrix(width, 2 * width)


def _state_space(block: str, width: int, matrix: _Matrices) -> Iterator[tuple[str, NDArray[np.float32]]]:
    inner = 2 * width
    yield f"{block}ssm_in.weight", matrix(2 * inner, width)
    yield f"{block}ssm_conv1d.weight", matrix(inner, _SSM_KERNEL)
    yield f"{block}ssm_conv1d.bias", np.zeros(inner, np.float32)
    yield f"{block}ssm_x.weight", matrix(_SSM_RANK + 2 * _SSM_STATE, inner)
    yield f"{block}ssm_dt.weight", matrix(inner, _SSM_RANK)
    yield f"{block}ssm_dt.bias", np.zeros(inner, np.float32)
    yield f"{block}ssm_a", -np.tile(np.arange(1, _SSM_STATE + 1, dtype=np.float32) / _SSM_STATE, (inner, 1))
    yield f"{block}ssm_d", np.ones(inner, np.float32)
    yield f"{block}ssm_out.weight", matrix(width, inner)


def _write(
    path: Path,
    entries: Mapping[str, bytes],
    weights: Iterator[tuple[str, NDArray[np.float32]]],
    quantization: GGMLQuantizationType,
) -> None:
    infos: list[bytes] = []
    blocks: list[bytes] = []
    offset = 0
    for name, weight in weights:
        kind = quantization if weight.ndim == 2 and not name.endswith(_KEPT) else GGMLQuantizationType.F32
        shape = weight.shape[::-1]
        infos.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        block = quantize(weight, kind).tobytes()
        blocks.append(block + bytes(-len(block) % _ALIGNMENT))
        offset += len(blocks[-1])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries))
    head += b"".join(_text(key) + value for key, value in entries.items()) + b"".join(infos)
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + b"".join(blocks))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _text_value(text: str) -> bytes:
    return struct.pack("<I", GGUFValueType.STRING) + _text(text)


def _int_value(number: int) -> bytes:
    return struct.pack("<II", GGUFValueType.UINT32, number)


def _int_array_value(numbers: Sequence[int]) -> bytes:
    head = struct.pack("<IIQ", GGUFValueType.ARRAY, GGUFValueType.UINT32, len(numbers))
    return head + struct.pack(f"<{len(numbers)}I", *numbers)
