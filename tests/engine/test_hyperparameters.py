"""Settings of model files under which llama.cpp ends the process are refused before it sees them."""

import struct
from collections.abc import Callable
from copy import copy
from pathlib import Path

import gguf_parts as gp
import pytest
from data import vocabulary
from gguf import GGMLQuantizationType as Type
from gguf_parts import Parts
from tiny import write_tiny_model, write_tiny_recurrent_model

from engine.gguf import ModelFileError, read_header
from engine.hyperparameters import refuse_unusable
from engine.loading import load_engine
from engine.protocol import Load

Change = Callable[[Parts], None]


@pytest.fixture(scope="module")
def parts(sound: Path) -> Parts:
    """The parts of a sound file; to be copied before they are changed."""
    return gp.take_apart(sound)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("sound") / "tiny.gguf", vocabulary("llama-spm"))


def put(key: str, value: bytes) -> Change:
    return lambda parts: parts.entries.__setitem__(key, value)


def drop(key: str) -> Change:
    return lambda parts: parts.entries.pop(key) and None


def resize(key: str, count: int) -> Change:
    return lambda parts: parts.entries.__setitem__(key, gp.resized(parts.entries[key], count))


def repeat_a_token(parts: Parts) -> None:
    """The last token gets the text of the one before it, which has as many bytes."""
    key = "tokenizer.ggml.tokens"
    head = parts.entries[key][:8] + struct.pack("<Q", 2)
    parts.entries[key] = head + gp.text("same") * 2
    for name in ("scores", "token_type"):
        parts.entries[f"tokenizer.ggml.{name}"] = gp.resized(parts.entries[f"tokenizer.ggml.{name}"], 2)


def retype(name: str, kind: Type) -> Change:
    def change(parts: Parts) -> None:
        next(info for info in parts.tensors if info.name == name).kind = kind
        parts.data += bytes(1 << 23)  # so that the tensor does not reach beyond the file

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (drop("general.architecture"), "of which architecture"),
        (put("general.architecture", gp.uint32(1)), "of which architecture"),
        (put("general.architecture", gp.text_value("../llama\n")), "of which architecture"),
        (drop("llama.block_count"), "llama.block_count is missing"),
        (put("llama.block_count", gp.uint32(0)), "llama.block_count (0)"),
        (put("llama.block_count", gp.uint32(513)), "from 1 to 512"),
        (put("llama.block_count", gp.text_value("x" * 500)), "no whole number"),
        (put("llama.nextn_predict_layers", gp.uint32(7)), "nextn_predict_layers (7)"),
        (put("llama.context_length", gp.uint32(0)), "context_length (0)"),
        (put("llama.context_length", gp.uint32(2**32 - 1)), "context_length"),
        (put("llama.embedding_length", gp.float32(64)), "embedding_length"),
        (put("llama.attention.head_count", gp.uint32_array([])), "says nothing of some"),
        (put("llama.attention.head_count_kv", gp.text_value("2")), "nor a list"),
        (put("llama.expert_count", gp.uint32(4)), "expert_used_count is missing"),
        (put("llama.expert_count", gp.uint32(5000)), "from 0 to 1,024"),
        (put("llama.expert_used_count", gp.uint32(2)), "does not go with 0 experts"),
        (put("llama.expert_group_count", gp.uint32(2)), "does not go with 0 experts"),
        (put("llama.rope.scaling.type", gp.text_value("spiral")), "none of none, linear"),
        (put("llama.attention.layer_norm_rms_epsilon", gp.float32(float("nan"))), "(nan)"),
        (put("llama.attention.layer_norm_rms_epsilon", gp.float32(-1)), "(-1.0)"),
        (drop("tokenizer.ggml.model"), "tokenizer.ggml.model is missing"),
        (put("tokenizer.ggml.model", gp.text_value("no_vocab")), "no vocabulary"),
        (drop("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens is missing"),
        (put("tokenizer.ggml.tokens", gp.uint32_array([1, 2])), "no list of texts"),
        (repeat_a_token, "holds a token twice"),
        (resize("tokenizer.ggml.scores", 100), "(a list of 100) is too short for 32,000 tokens"),
        (resize("tokenizer.ggml.token_type", 31_999), "too short"),
        (put("tokenizer.ggml.token_type", gp.text_value("all")), "no list of int32"),
        (put("tokenizer.ggml.scores", gp.uint32_array([1])), "no list of float32 or int32"),
        (retype("blk.0.attn_q.weight", Type.I8), "of type I8"),
        (retype("output.weight", Type.I32), "of type I32"),
        (retype("output_norm.weight", Type.F16), "of type F16"),
        (retype("blk.0.attn_norm.weight", Type.I32), "of type I32"),
    ],
)
def test_what_would_end_the_process_is_refused_with_its_name(
    parts: Parts, tmp_path: Path, change: Change, says: str
) -> None:
    parts = Parts(dict(parts.entries), [copy(info) for info in parts.tensors], parts.data)
    change(parts)
    path = parts.write(tmp_path / "odd.gguf")
    with pytest.raises(ModelFileError) as refusal:
        load_engine(Load(model=str(path), context=256, threads=1))
    assert says in str(refusal.value)
    assert str(refusal.value).startswith("odd.gguf")
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("hybrid", [False, True])
def test_models_of_other_kinds_pass(tmp_path: Path, hybrid: bool) -> None:
    path = write_tiny_recurrent_model(tmp_path / "state.gguf", vocabulary("llama-spm"), hybrid=hybrid)
    refuse_unusable(read_header(path))


def test_a_sound_file_taken_apart_and_put_together_passes(sound: Path, tmp_path: Path, smollm2: Path) -> None:
    written = gp.take_apart(sound).write(tmp_path / "copy.gguf")
    assert written.read_bytes() == sound.read_bytes()
    refuse_unusable(read_header(written))
    refuse_unusable(read_header(smollm2))
