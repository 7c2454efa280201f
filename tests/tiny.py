"""Tiny random llama-architecture models around real vocabularies: real files, meaningless weights.

The package gguf reads and writes string by string, a second for a small vocabulary; here the tokenizer's
metadata is copied as bytes.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, TokenType
from gguf.quants import quantize
from numpy.typing import NDArray

_ALIGNMENT = 32
_CONTEXT_LENGTH = 8192
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
) -> Path:
    """Write a model with the tokenizer of a vocabulary GGUF and weights drawn from `seed`; return its path.

    `added` are tokens put behind the vocabulary's, with their types. `padded_to` adds unused tokens up to
    that many rows, as models with rounded-up matrices have them. `eos` is the id that ends a
    text, if not the vocabulary's own. Widths are multiples of 64.
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
    random = np.random.default_rng(seed)

    def matrix(outputs: int, inputs: int) -> NDArray[np.float32]:
        return random.standard_normal((outputs, inputs), dtype=np.float32) / np.float32(np.sqrt(inputs))

    yield "token_embd.weight", matrix(rows, width)
    yield "output_norm.weight", np.full(width, 3, np.float32)  # spreads the logits, so that choices differ
    yield "output.weight", matrix(rows, width)
    for layer in range(layers):
        block = f"blk.{layer}."
        yield f"{block}attn_norm.weight", np.ones(width, np.float32)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}{name}.weight", matrix(width, width)
        yield f"{block}ffn_norm.weight", np.ones(width, np.float32)
        yield f"{block}ffn_gate.weight", matrix(2 * width, width)
        yield f"{block}ffn_up.weight", matrix(2 * width, width)
        yield f"{block}ffn_down.weight", matrix(width, 2 * width)


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
        kind = quantization if weight.ndim == 2 else GGMLQuantizationType.F32
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
