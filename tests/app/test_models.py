"""What models there are: files are found, told apart and described from their headers, whatever they hold."""

from pathlib import Path

import pytest
from data import vocabulary
from gguf import GGUFWriter
from tiny import write_tiny_model

from app import models
from app.models import describe, model_places, survey
from app.paths import hugging_face_cache


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf", vocabulary("qwen2"))


def other(path: Path, architecture: str, **texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, architecture)
    for key, text in texts.items():
        writer.add_string(key.replace("__", "."), text)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_a_model_is_described_by_its_header(tiny: Path) -> None:
    model = describe(tiny, available=10**12)
    assert model is not None
    assert model.usable
    assert model.architecture in ("qwen2", "llama")
    assert model.quantization
    assert model.size == tiny.stat().st_size
    assert model.context > 0
    assert model.fits.startswith("fits: about ")


def test_a_model_that_memory_cannot_hold_says_so_and_how_much_it_takes(tiny: Path) -> None:
    model = describe(tiny, available=1000)
    assert model is not None
    assert not model.usable
    assert "does not fit into memory" in model.fault


def test_models_are_found_once_and_other_files_left_out(tiny: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--a--b" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "a.gguf").symlink_to(tiny)
    (snapshot / "again.gguf").symlink_to(tiny)
    (snapshot / "gone.gguf").symlink_to(tmp_path / "nowhere")
    (snapshot / "loop").symlink_to(tmp_path / "hub")
    other(snapshot / "mmproj-a.gguf", "clip")
    other(snapshot / "eyes.gguf", "clip")
    other(snapshot / "lora.gguf", "llama", general__type="adapter")
    (snapshot / "b-00002-of-00003.gguf").write_bytes(b"GGUF")
    (snapshot / "notes.txt").write_text("a")
    (snapshot / "broken.gguf").write_bytes(b"GGUF\x03")
    found = list(survey([tmp_path / "hub", tmp_path / "no such folder"]))
    assert [model.path.name for model in found] == ["a.gguf", "broken.gguf", "gone.gguf"]
    assert [bool(model.fault) for model in found] == [False, True, True]


def test_the_places_are_the_persons_the_cache_and_the_starters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "starter_model", lambda: tmp_path / "starter" / "m.gguf")
    assert model_places(["~/m"], tmp_path) == [Path("~/m").expanduser(), tmp_path, tmp_path / "starter"]


def test_the_cache_is_where_its_own_tools_would_look(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert hugging_face_cache() == Path.home() / ".cache/huggingface/hub"
    monkeypatch.setenv("HF_HOME", "/h")
    assert hugging_face_cache() == Path("/h/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/c")
    assert hugging_face_cache() == Path("/c")
