"""The vocabularies of real models: bytes, end markers, and the bridge to the grammar library."""

import json
from pathlib import Path

import data
import numpy as np
import pytest
from gguf import TokenType
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher
from numpy.typing import NDArray
from tiny import write_tiny_model

from engine.llama.library import llama_cpp
from engine.llama.vocabulary import LlamaVocabulary, VocabularyError
from engine.specials import Special, partition
from engine.vocabulary import Vocabulary

TEXTS = (
    "",
    "a",
    " leading and trailing ",
    "  two spaces\n\n\n\tand a tab",
    "Ünïcode 日本語 🎉 👩‍👩‍👧 é",
    "a NUL \x00 and an escape \x1b[31m",
    "</s> <s> <unk> <|im_end|> <|endoftext|> <|eot_id|> [INST] </think> <table>",
    'def f(x):\n    return {"a": [1, 2.5e-3], "b": x}\n',
    "word " * 300,
)

every_vocabulary = pytest.mark.parametrize("name", data.VOCABULARIES)


def load(name: str) -> LlamaVocabulary:
    return data.load_vocabulary(data.vocabulary(name))


def matcher(vocabulary: Vocabulary, schema: dict[str, object]) -> LLMatcher:
    compact = {"whitespace_flexible": False}
    return LLMatcher(vocabulary.tokenizer, LLMatcher.grammar_from_json_schema(schema, overrides=compact))


def legal_bits(walker: LLMatcher) -> NDArray[np.uint8]:
    bits = np.unpackbits(np.frombuffer(walker.compute_bitmask(), np.uint8), bitorder="little")
    assert not walker.is_error(), walker.get_error()
    return bits


def legal(walker: LLMatcher) -> set[int]:
    return set(np.flatnonzero(legal_bits(walker)).tolist())


def walk(vocabulary: LlamaVocabulary, schema: dict[str, object], document: object) -> list[int]:
    """Write a document token by token as a constrained reply would; return its ids."""
    walker = matcher(vocabulary, schema)
    rest = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    named = {vocabulary.piece(token): token for token in range(vocabulary.size)}
    ids: list[int] = []
    while rest:
        forced, bits = walker.compute_ff_tokens(), legal_bits(walker)
        if forced:
            assert np.flatnonzero(bits).tolist() == forced[:1]
            token = forced[0]
        else:
            spellings = [rest[:size] for size in range(min(40, len(rest)), 0, -1)]
            fitting = [named[s] for s in spellings if s in named and bits[named[s]]]
            assert fitting, (rest, ids)
            token = fitting[0]
        spelling = vocabulary.piece(token)
        assert rest.startswith(spelling), (rest, spelling)
        assert walker.consume_token(token), walker.get_error()
        ids.append(token)
        rest = rest[len(spelling) :]
    assert walker.is_accepting()
    assert legal(walker) == vocabulary.end_ids
    return ids


@every_vocabulary
def test_text_survives_tokenizing(name: str) -> None:
    vocabulary = load(name)
    for text in TEXTS:
        ids = vocabulary.tokenize(text)
        assert vocabulary.text(ids) == text
        assert not vocabulary.control_ids.intersection(ids)


@every_vocabulary
def test_no_special_text_becomes_a_control_token(name: str) -> None:
    vocabulary = load(name)
    for special in vocabulary.specials[:400]:
        for text in (special.text, f"a{special.text}b", f"{special.text} {special.text}"):
            assert not vocabulary.control_ids.intersection(vocabulary.tokenize(text))
            assert not vocabulary.control_ids.intersection(vocabulary.tokenize_fragment(text))


@pytest.mark.parametrize("name", ["llama-spm", "qwen2", "deepseek-coder"])
@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_survives_tokenizing(name: str, text: str) -> None:
    vocabulary = load(name)
    # SentencePiece knows no difference between its block character and the space it stands for.
    expected = text.replace("\u2581", " ") if name == "llama-spm" else text
    assert vocabulary.text(vocabulary.tokenize(text)) == expected


def test_half_characters_and_lone_surrogates_become_replacement_characters() -> None:
    vocabulary = load("gpt-2")
    ids = vocabulary.tokenize("🎉")
    assert len(ids) > 1
    assert vocabulary.text(ids[:-1]) == "\ufffd"
    assert vocabulary.text(vocabulary.tokenize("a\ud800b")) == "a\ufffdb"


@every_vocabulary
def test_the_text_of_a_reply_is_its_pieces_joined(name: str) -> None:
    vocabulary = load(name)
    ids = [*vocabulary.tokenize(TEXTS[4]), vocabulary.eos_id or 0]
    joined = b"".join(vocabulary.piece(token) for token in ids)
    assert vocabulary.text(ids) == joined.decode("utf-8", "replace")


def test_a_space_that_a_sentencepiece_model_writes_stays_in_the_reply() -> None:
    vocabulary = load("llama-spm")
    assert vocabulary.text(vocabulary.tokenize_fragment("Hello")) == " Hello"
    assert vocabulary.text(vocabulary.tokenize("Hello")) == "Hello"


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("phi-3", {2, 32000, 32007}),
        ("llama-bpe", {128001, 128009}),
        ("qwen2", {128247, 151643, 151645}),
        ("gemma-4", {1, 50, 106}),
    ],
)
def test_every_end_marker_is_known_and_given_to_the_grammar(name: str, ends: set[int]) -> None:
    vocabulary = load(name)
    assert vocabulary.end_ids == ends
    assert set(vocabulary.tokenizer.eos_tokens) == ends
    assert all(vocabulary.piece(token) == b"" for token in ends)


def test_fingerprints_tell_vocabularies_apart_and_nothing_else(tmp_path: Path) -> None:
    prints = {name: load(name).fingerprint for name in data.VOCABULARIES}
    assert len(set(prints.values())) == len(prints)
    padded = write_tiny_model(tmp_path / "tiny.gguf", data.vocabulary("gpt-2"))
    assert data.load_vocabulary(padded).fingerprint == prints["gpt-2"]


def test_padding_has_no_bytes_and_is_never_legal(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", data.vocabulary("llama-spm"), padded_to=32064)
    inner = data.load_vocabulary(path)
    rows = LlamaVocabulary(inner._pointer, owner=inner, size=32100)
    assert (inner.size, rows.size, rows.tokenizer.vocab_size) == (32064, 32100, 32100)
    assert all(rows.piece(token) == b"" for token in range(32000, 32100))
    assert all(token < 32000 for token in legal(matcher(rows, {"type": "string"})))
    for outside in (-1, 32100):
        with pytest.raises(IndexError):
            rows.piece(outside)


def test_rows_smaller_than_the_vocabulary_are_refused() -> None:
    vocabulary = load("gpt-2")
    with pytest.raises(VocabularyError, match="smaller"):
        LlamaVocabulary(vocabulary._pointer, owner=vocabulary, size=100)


class TestBridge:
    """A JSON document is walked as a reply: legal at each place, forced spans equal to the mask."""

    @every_vocabulary
    def test_a_document_is_walked(self, name: str) -> None:
        vocabulary = load(name)
        user_defined = [s.text for s in vocabulary.specials if not s.control and s.text.isprintable()]
        keys = ["name", "größe", "</think>", "<table>", *user_defined[:3]]
        schema = {
            "type": "object",
            "properties": {
                **{key: {"type": "string"} for key in keys},
                "kind": {"enum": ["<tool_call>", "plain", *user_defined[3:5]]},
                "fixed": {"const": f"a {(user_defined or ['<b>'])[-1]} b"},
                "numbers": {"type": "array", "items": {"type": "integer"}},
            },
            "required": [*keys, "kind", "fixed", "numbers"],
            "additionalProperties": False,
        }
        document = {key: f"Ünï {key} </s> 日本 🎉" for key in keys} | {
            "kind": "<tool_call>",
            "fixed": schema["properties"]["fixed"]["const"],
            "numbers": [1, 20, 300],
        }
        assert vocabulary.text(walk(vocabulary, schema, document)) == json.dumps(
            document, separators=(",", ":"), ensure_ascii=False
        )

    @pytest.mark.parametrize("name", ["gpt-2", "llama-spm", "phi-3", "falcon"])
    def test_keys_constants_and_choices_may_spell_user_defined_tokens(
        self, name: str, tmp_path: Path
    ) -> None:
        added = dict.fromkeys(["</think>", "<table>", "<|tool|>", "  "], TokenType.USER_DEFINED)
        path = write_tiny_model(tmp_path / "tiny.gguf", data.vocabulary(name), added=added)
        vocabulary = data.load_vocabulary(path)
        schema = {
            "type": "object",
            "properties": {
                "</think>": {"const": "x</think>y <table>  z"},
                "a<table>b": {"enum": ["<|tool|> one", "<|tool|> two"]},
                "free": {"type": "string"},
            },
            "required": ["</think>", "a<table>b", "free"],
            "additionalProperties": False,
        }
        document = {"</think>": "x</think>y <table>  z", "a<table>b": "<|tool|> two", "free": "an </think>"}
        ids = walk(vocabulary, schema, document)
        assert vocabulary.tokenize("</think>")[0] in ids
        assert vocabulary.text(vocabulary.tokenize("x</think>y <table> z")) == "x</think>y <table> z"

    def test_no_control_token_is_legal_inside_a_string(self) -> None:
        vocabulary = load("qwen2")
        walker = matcher(vocabulary, {"type": "string"})
        assert walker.consume_tokens(vocabulary.tokenize('"<'))
        allowed = legal(walker)
        assert len(allowed) > 100_000
        assert not allowed & vocabulary.control_ids

    def test_the_byte_0xff_is_never_legal(self) -> None:
        for name in ("llama-spm", "gpt-2"):
            vocabulary = load(name)
            walker = LLMatcher(vocabulary.tokenizer, LLMatcher.grammar_from_regex(r"(?s:.*)"))
            assert not {i for i in legal(walker) if vocabulary.piece(i).startswith(b"\xff")}

    def test_a_user_defined_end_marker_in_text_stays_text(self, tmp_path: Path) -> None:
        vocab = data.vocabulary("gpt-2")
        added = {"<finish>": TokenType.USER_DEFINED}
        path = write_tiny_model(tmp_path / "tiny.gguf", vocab, added=added, eos=50257)
        vocabulary = data.load_vocabulary(path)
        assert not llama_cpp.llama_vocab_is_control(vocabulary._pointer, 50257)
        assert 50257 in vocabulary.end_ids
        assert vocabulary.tokenize_special("<finish>") == [50257]
        assert 50257 not in vocabulary.tokenize("a <finish><finish> b")
        assert vocabulary.text(vocabulary.tokenize("a <finish><finish> b")) == "a <finish><finish> b"
        walk(vocabulary, {"const": "a <finish> b"}, "a <finish> b")


def test_partition_follows_llama_cpp_longest_first_and_strips() -> None:
    outer = Special(id=1, text="<|a|>", control=True, lstrip=True)
    inner = Special(id=2, text="|a", control=True, rstrip=True)
    assert partition("x \n<|a|> y|a \t|a", (outer, inner)) == ["x", 1, " y", 2, 2]
    assert partition("x <|a|> y", (outer, inner), strip=False) == ["x ", 1, " y"]
    assert partition("", (outer,)) == []
