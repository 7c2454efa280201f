"""The fuzz targets: hostile inputs of one kind each, and what must hold for every one of them.

`fuzz(name, examples)` runs one; tests run it briefly, proofs with 2,000 inputs, tests/bench/fuzz.py with as many as it
is told. Every target holds the processor for less than a second an input, and the only exception it lets through is
the one that carries a sentence for the person.
"""

import importlib.util
import json
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gguf_parts as gp
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app import client
from app.terminal import json_text, one_line, printable, well_formed
from engine.events import EVENT, Event, Exited, Failed, Finished, Hello, Stats, Token, Tokens
from engine.gguf import ModelFileError, read_header
from engine.hyperparameters import refuse_unusable
from engine.memory import choose_context, need
from engine.protocol import (
    COMMAND,
    Cancel,
    Command,
    Generate,
    Load,
    Message,
    ProtocolError,
    Sampling,
    decode_command,
    decode_event,
    encode_command,
    encode_event,
)
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec, ShapeError

HANG_S = 10.0
LONGEST_SENTENCE = 2_000

ACTS = {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x1B]}
ACTS |= {chr(code) for code in [*range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]}
"""What a terminal acts on or reorders by, and what has no bytes."""


class Target(NamedTuple):
    """Inputs, what is done with each, and the exceptions that are answers."""

    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    answers: tuple[type[Exception], ...]


def fuzz(name: str, examples: int, longest_s: float = HANG_S) -> None:
    """Run a target over so many inputs; raise what goes wrong, with the smallest input that shows it.

    `longest_s` is of the processor's time, which a busy machine stretches, too: the script that measures asks for 1.
    """
    target = TARGETS[name]

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def run(value: Any) -> None:
        started = time.process_time()
        try:
            target.check(value)
        except target.answers as answer:
            assert 0 < len(str(answer)) <= LONGEST_SENTENCE, "an answer is a sentence"
            assert "Traceback" not in str(answer)
            assert "\n" not in str(answer), "an answer is one line"
        assert time.process_time() - started < longest_s, "a hang"

    run()


# --- model files

_NAMES = st.sampled_from(
    ["general.architecture", "general.alignment", "general.name", "llama.block_count", "llama.context_length",
     "llama.embedding_length", "llama.attention.head_count", "llama.attention.head_count_kv", "llama.expert_count",
     "llama.expert_used_count", "llama.rope.scaling.type", "llama.attention.layer_norm_rms_epsilon", "split.count",
     "split.no", "tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
     "tokenizer.ggml.token_type", "tokenizer.chat_template"]
) | st.text(max_size=8)  # fmt: skip
_EDGES = st.sampled_from([0, 1, 2, 3, 8, 9, 31, 32, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1])
_SIZES = _EDGES | st.sampled_from([2**40, 2**61, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
_BYTES_OF = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_WORDS = st.lists(st.binary(max_size=6), max_size=5)


def _words(words: list[bytes]) -> bytes:
    body = b"".join(struct.pack("<Q", len(word)) + word for word in words)
    return struct.pack("<IIQ", 9, 8, len(words)) + body


def _numbers(kind: int, count: int) -> bytes:
    return struct.pack("<IIQ", 9, kind, count) + bytes(range(1, 1 + count * _BYTES_OF[kind]))


_VALUES = st.one_of(
    st.builds(gp.uint32, _EDGES | st.integers(0, 2**32 - 1)),
    st.builds(gp.float32, st.floats(width=32)),
    st.builds(gp.text_value, st.sampled_from(["llama", "gpt2", "none", ""]) | st.text(max_size=9)),
    st.builds(_words, _WORDS),
    st.builds(_numbers, st.sampled_from(sorted(_BYTES_OF)), st.integers(0, 9)),
    st.builds(gp.boolean, st.booleans()),
    st.binary(min_size=4, max_size=24),
)
_TENSORS = st.builds(
    gp.Info,
    st.sampled_from(["token_embd.weight", "blk.0.attn_q.weight", "blk.900.x", "output.weight"]) | st.text(max_size=70),
    st.lists(_SIZES, max_size=6).map(tuple),
    st.sampled_from([0, 1, 2, 8, 12, 24, 26, 30, 39]) | _EDGES,
    st.sampled_from([0, 32, 64]) | _SIZES,
)  # fmt: skip
_SOUND = {
    "general.architecture": gp.text_value("llama"),
    "llama.block_count": gp.uint32(1),
    "llama.context_length": gp.uint32(64),
    "llama.embedding_length": gp.uint32(32),
    "llama.attention.head_count": gp.uint32(2),
    "tokenizer.ggml.model": gp.text_value("llama"),
    "tokenizer.ggml.tokens": _words([b"a", b"b"]),
}


@st.composite
def _model_files(draw: st.DrawFn) -> bytes:
    """Files that are nearly right: a sound header with some entries changed, then some bytes, then an end cut off."""
    entries = dict(_SOUND) if draw(st.booleans()) else {}
    for key in draw(st.lists(st.sampled_from(sorted(_SOUND)), max_size=2)):
        entries.pop(key, None)
    entries |= draw(st.dictionaries(_NAMES, _VALUES, max_size=4))
    tensors = draw(st.lists(_TENSORS, max_size=3))
    keys, count = (
        draw(st.tuples(_SIZES, _SIZES)) if draw(st.integers(0, 9)) == 0 else (len(entries), len(tensors))
    )
    head = b"GGUF" + struct.pack("<IQQ", draw(st.sampled_from([3, 3, 3, 2, 1, 4])), count, keys)
    head += b"".join(gp.text(key) + value for key, value in entries.items())
    for info in tensors:
        head += gp.text(info.name) + struct.pack(f"<I{len(info.shape)}Q", len(info.shape), *info.shape)
        head += struct.pack("<IQ", info.kind, info.offset)
    content = bytearray(head + bytes(draw(st.sampled_from([0, 64, 4096]))))
    for place, value in draw(st.lists(st.tuples(st.integers(4, 999), st.integers(0, 255)), max_size=3)):
        content[place % len(content)] = value
    return bytes(content[: draw(st.sampled_from([len(content)] * 3 + [draw(st.integers(0, len(content)))]))])


def _check_model_file(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(content)
        file.flush()
        header = read_header(Path(file.name))
        refuse_unusable(header)
        assert need(header).total(64) > 0
        choose_context(header, None, available=1 << 30)


# --- protocol lines

_ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
_SPECS = st.builds(
    GrammarSpec, kind=st.sampled_from(["regex", "lark", "choice", "json_schema"]), text=_ANY_TEXT
)
_MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant"]),
    content=_ANY_TEXT,
    shape=st.none() | _SPECS,
    tokens=st.lists(st.integers(0, 2**31), max_size=4).map(tuple),
)
_COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(Load, model=_ANY_TEXT, context=st.none() | st.integers(16, 2**31 - 1)),
    st.builds(
        Generate,
        turn=st.integers(),
        messages=st.lists(_MESSAGES, max_size=3).map(tuple),
        shape=st.none() | _SPECS,
        sampling=st.builds(Sampling, temperature=st.floats(0, 100), seed=st.integers(0, 2**63 - 1)),
        stop=st.lists(_ANY_TEXT, max_size=2).map(tuple),
    ),
    st.just(Cancel()),
)
_TOKEN = st.builds(
    Token, id=st.integers(0, 2**31), text=_ANY_TEXT, origin=st.sampled_from(["forced", "sampled"])
)
_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Hello, protocol=st.integers(), version=_ANY_TEXT, pid=st.integers(0, 2**31)),
    st.builds(
        Failed, kind=st.sampled_from(["usage", "model"]), message=_ANY_TEXT, turn=st.none() | st.integers()
    ),
    st.builds(Exited, message=_ANY_TEXT, code=st.none() | st.integers()),
    st.builds(
        Tokens,
        turn=st.integers(),
        tokens=st.lists(_TOKEN, max_size=3).map(tuple),
        text=_ANY_TEXT,
        forwards=st.integers(0),
        elapsed_s=st.floats(0, 1e9),
    ),
    st.builds(
        Finished,
        turn=st.integers(),
        finish=st.sampled_from(["stop", "length", "error"]),
        text=_ANY_TEXT,
        tokens=st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
        seed=st.integers(0),
        stats=st.just(Stats()),
    ),
)


@st.composite
def _lines(draw: st.DrawFn) -> bytes:
    """Lines that are nearly messages: a field changed, a byte changed, or nothing of a message at all."""
    way = draw(st.integers(0, 4))
    if way == 0:
        return draw(st.binary(max_size=80))
    if way == 1:
        return json.dumps(draw(_JSON)).encode()
    if way == 2:
        opening, depth = draw(st.sampled_from(["[", '{"type":', '{"a":['])), draw(st.integers(1, 30_000))
        return (opening * depth).encode()
    message = draw(_COMMANDS | _EVENTS)
    adapter = COMMAND if isinstance(message, Load | Generate | Cancel) else EVENT
    value = json.loads(adapter.dump_json(message))  # type: ignore[arg-type]
    if way == 3:
        value[draw(st.sampled_from(sorted(value)) | _ANY_TEXT)] = draw(_JSON)
        return json.dumps(value).encode()
    line = bytearray(json.dumps(value).encode())
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=3)):
        line[place % len(line)] = byte
    return bytes(line)


def _check_line(value: bytes | Command | Event) -> None:
    if isinstance(value, bytes):
        for decode in (decode_command, decode_event, client._decode):
            try:
                decode(value + b"\n")
            except ProtocolError as error:
                assert 0 < len(str(error)) <= LONGEST_SENTENCE
        return
    if isinstance(value, Load | Generate | Cancel):
        line = encode_command(value)
        assert decode_command(line) == value
    else:
        line = encode_event(value)
        assert decode_event(line) == value
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


# --- shapes

_KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "items", "enum", "const", "anyOf", "allOf", "oneOf", "not", "$ref", "$defs",
     "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf", "minItems", "maxItems", "prefixItems",
     "additionalProperties", "patternProperties", "format", "minProperties", "uniqueItems", "title", "if", "then"]
)  # fmt: skip
_NAMES_OF_TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
_LEAVES = st.one_of(
    _NAMES_OF_TYPES,
    st.sampled_from(["#", "#/$defs/a", "#/properties/a", "http://a/b", "date", "a", "b"]),
    st.sampled_from([0, 1, 2, 3, 100, -1, 10**6, 10**18, 10**400, 0.5, 1e300]),
    st.booleans() | st.none(),
    st.sampled_from(["(a|b)*c", "(a{1,100}){1,100}", "(?=x)", "[", "\\d+$", "^.*x.*y.*z.*$", "(x+x+)+y"]),
)
_SCHEMAS = st.recursive(
    st.dictionaries(_KEYWORDS, _LEAVES, max_size=3) | _LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(_KEYWORDS, inner, max_size=4),
        st.lists(inner, max_size=3),
        st.builds(lambda value: {"type": "object", "properties": {"a": value}, "required": ["a"]}, inner),
        st.builds(lambda value: {"$defs": {"a": value}, "$ref": "#/$defs/a"}, inner),
        st.builds(lambda value: {"type": "array", "items": value}, inner),
        st.builds(lambda values: {"anyOf": values}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=12,
)
_PATTERN_PARTS = st.sampled_from(
    ["a", "b", ".", "\\d", "\\w", "\\s", "[a-z]", "[^x]", "(", ")", "(?:", "|", "*", "+", "?", "{2}", "{1,99}",
     "{0,100000}", "{99999999999}", "^", "$", "\\b", "(?=", "(?i)", "\\p{L}", "\\x00", "é", "😀", "\\", "[", "]", "{"]
)  # fmt: skip
_PATTERNS = st.lists(_PATTERN_PARTS, max_size=14).map("".join)
_LARK_PARTS = st.sampled_from(
    ["start:", "a:", "B:", " a", " B", ' "x"', " /[0-9]+/", " /(a|b){1,9999}/", "\n", " |", " (", " )", "*", "+", "?",
     "~3..9", "~99999999", " start", " %json", ' {"type":"integer"}', "%ignore", "%import common.INT", "[max_tokens=3]",
     "[capture]", " %regex", ' {"substring_chars":"abc"}', "<|end|>", "//", '"', "->", ".."]
)  # fmt: skip
_LARKS = st.lists(_LARK_PARTS, max_size=14).map(lambda parts: "start: " + "".join(parts))
_SHAPES = st.one_of(
    st.builds(lambda value: GrammarSpec(kind="json_schema", text=json.dumps(value)), _SCHEMAS),
    st.builds(lambda text: GrammarSpec(kind="regex", text=text), _PATTERNS),
    st.builds(lambda text: GrammarSpec(kind="lark", text=text), _LARKS),
    st.builds(
        lambda values: GrammarSpec(kind="choice", text=json.dumps(values)),
        st.lists(_ANY_TEXT | _LEAVES, max_size=5),
    ),
    st.builds(GrammarSpec, kind=st.sampled_from(["json_schema", "choice"]), text=_ANY_TEXT | _PATTERNS),
)


def _check_shape(spec: GrammarSpec) -> None:
    if _lint is not None:
        _lint(spec)
    compile_grammar(spec)


def _find_lint() -> Callable[[GrammarSpec], object] | None:
    """Return the linter where there is one: it may meet every shape that the compiler meets, and more."""
    if importlib.util.find_spec("grammars.lint") is None:
        return None
    return getattr(importlib.import_module("grammars.lint"), "lint", None)


_lint = _find_lint()


# --- terminal

_SEQUENCES = st.sampled_from(
    ["\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x1b]8;;http://a\x1b\\x\x1b]8;;\x1b\\", "\x1b[2J", "\x9b31m", "\x90q",
     "\x9d0;t\x9c", "\x1b(0", "\x1bc", "\u202e", "\u2066", "\u200f", "\u061c", "\r", "\r\n", "\x00", "\x7f", "\x08",
     "\ud800", "\udc80", "\u2028", "\x85", "[/x]", "[@click=app.quit]", "👩‍👩‍👧", "é", "\n", "\t"]
)  # fmt: skip
_TEXTS = st.lists(_SEQUENCES | st.text(st.characters(exclude_categories=[]), max_size=12), max_size=8).map(
    "".join
)


def _check_text(text: str) -> None:
    shown, line = printable(text), one_line(text)
    assert not set(shown) & (ACTS - {"\n", "\t"})
    assert not set(line) & ACTS
    shown.encode()
    assert printable(shown) == shown, "what is harmless stays"
    written = json_text({"text": well_formed(text)})
    assert not set(written) & (ACTS - {"\n"})
    assert json.loads(written) == {"text": well_formed(text)}


TARGETS = {
    "model files": Target(_model_files(), _check_model_file, (ModelFileError,)),
    "protocol lines": Target(_lines() | _COMMANDS | _EVENTS, _check_line, ()),
    "shapes": Target(_SHAPES, _check_shape, (ShapeError,)),
    "terminal output": Target(_TEXTS, _check_text, ()),
}
