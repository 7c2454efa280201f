"""Which vocabularies a draft model may have, and what is said of the others."""

import struct
from pathlib import Path

import pytest
from data import load_vocabulary, vocabulary
from gguf import TokenType
from tiny import write_tiny_model

from engine.llama.vocabulary import LlamaVocabulary
from engine.llama.weights import Weights


@pytest.fixture
def main() -> LlamaVocabulary:
    return load_vocabulary(vocabulary("llama-spm"))


def variant(path: Path, **changes: object) -> LlamaVocabulary:
    write_tiny_model(path, vocabulary("llama-spm"), width=64, **changes)  # type: ignore[arg-type]
    weights = Weights(path, vocabulary_only=True)
    return LlamaVocabulary(weights.vocabulary_pointer, owner=weights, size=weights.vocab_size)


def test_an_equal_vocabulary_fits(main: LlamaVocabulary, tmp_path: Path) -> None:
    assert main.incompatible_with(main) is None
    assert main.incompatible_with(variant(tmp_path / "same.gguf")) is None


def test_a_vocabulary_with_a_little_padding_fits_both_ways(main: LlamaVocabulary, tmp_path: Path) -> None:
    padded = variant(tmp_path / "padded.gguf", padded_to=main.count + 128)
    assert main.incompatible_with(padded) is None
    assert padded.incompatible_with(main) is None


def test_more_than_128_tokens_apart_is_another_size(main: LlamaVocabulary, tmp_path: Path) -> None:
    padded = variant(tmp_path / "padded.gguf", padded_to=main.count + 129)
    assert main.incompatible_with(padded) == "It has 32129 tokens and not 32000."
    assert padded.incompatible_with(main) == "It has 32000 tokens and not 32129."


def test_another_type_of_tokenizer_is_refused(main: LlamaVocabulary) -> None:
    reason = main.incompatible_with(load_vocabulary(vocabulary("gpt-2")))
    assert reason == "Its tokenizer is of another type."


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"add_bos_token": False}, "begins"),
        ({"bos_token_id": 7}, "begins"),
        ({"add_eos_token": True}, "ends"),
    ],
)
def test_another_rule_for_begin_or_end_is_refused(
    main: LlamaVocabulary, tmp_path: Path, rules: dict[str, int | bool], says: str
) -> None:
    reason = main.incompatible_with(variant(tmp_path / "rules.gguf", rules=rules))
    assert reason == f"It {says} a text by another rule."


def test_an_end_marker_that_no_rule_adds_may_be_another(main: LlamaVocabulary, tmp_path: Path) -> None:
    assert main.incompatible_with(variant(tmp_path / "eos.gguf", rules={"eos_token_id": 7})) is None


def test_one_other_text_is_refused_with_both_texts(tmp_path: Path) -> None:
    left = variant(tmp_path / "left.gguf", added={"<|left|>": TokenType.CONTROL})
    right = variant(tmp_path / "right.gguf", added={"\x1b[2J": TokenType.CONTROL})
    assert left.incompatible_with(right) == "Its token 32000 is '\\x1b[2J' and not '<|left|>'."


@pytest.mark.parametrize(("token", "text", "fits"), [(4, "%", True), (5, "&", False)])
def test_the_first_five_texts_are_not_compared(tmp_path: Path, token: int, text: str, fits: bool) -> None:
    data = vocabulary("gpt-2").read_bytes()
    old = struct.pack("<Q", 1) + text.encode()
    at = data.index(old, data.index(b"tokenizer.ggml.tokens"))
    path = tmp_path / "renamed.gguf"
    path.write_bytes(data[:at] + struct.pack("<Q", 1) + b"\x02" + data[at + len(old) :])
    reason = load_vocabulary(vocabulary("gpt-2")).incompatible_with(load_vocabulary(path))
    assert reason == (None if fits else "Its token 5 is '\\x02' and not '&'.")
