"""Vocabularies and chat templates of llama.cpp, from the pinned source distribution of llama-cpp-python.

The one place where tests use the network: pip is asked for the source distribution once, what is needed is
kept in the user's cache directory, and everything later reads from there. Nothing is compiled.
"""

import fnmatch
import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from platformdirs import user_cache_dir

from engine.llama.vocabulary import LlamaVocabulary
from engine.llama.weights import Weights

VOCABULARIES = (
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "refact",
    "starcoder",
)
"""Names for `vocabulary`; llama-spm and phi-3 are SentencePiece vocabularies, the rest byte-pair ones."""

_MODELS = "vendor/llama.cpp/models"

# pip insists on metadata, for which it calls the distribution's build backend. This one answers in its stead:
# the metadata is in the archive already, and a real backend may want a compiler.
_BACKEND = """
import pathlib

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, "source.dist-info")
    folder.mkdir()
    folder.joinpath("METADATA").write_bytes(pathlib.Path("PKG-INFO").read_bytes())
    return folder.name
"""


def vocabulary(name: str) -> Path:
    """Return the vocabulary-only GGUF of this name."""
    return _llama_cpp() / _MODELS / f"ggml-vocab-{name}.gguf"


@functools.cache
def load_vocabulary(path: Path) -> LlamaVocabulary:
    """Load the vocabulary of a model file, once in a test run."""
    weights = Weights(path, vocabulary_only=True)
    return LlamaVocabulary(weights.vocabulary_pointer, owner=weights, size=weights.vocab_size)


def template(name: str) -> str:
    """Return the source of a chat template, such as "Qwen-Qwen3-0.6B"."""
    return (_llama_cpp() / _MODELS / "templates" / f"{name}.jinja").read_text(encoding="utf-8")


def template_names() -> list[str]:
    """Return the names for `template`, sorted."""
    return sorted(path.stem for path in (_llama_cpp() / _MODELS / "templates").glob("*.jinja"))


@functools.cache
def source_files(name: str, version: str, *, backend: str, patterns: tuple[str, ...]) -> Path:
    """Return a folder with the files of a source distribution that match; paths are relative to its root.

    `backend` is the module named as build-backend in the distribution's pyproject.toml. Raises `RuntimeError`
    with a sentence when pip cannot get it.
    """
    home = Path(user_cache_dir("stampo-tests"))
    folder = home / f"{name}-{version}"
    if _complete(folder, patterns):
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as temporary:
        archive = _download(name, version, backend, Path(temporary))
        fresh = Path(temporary, "files")
        _extract(archive, fresh, patterns)
        (fresh / ".patterns").write_text("\n".join(patterns), encoding="utf-8")
        if not _complete(folder, patterns):  # another run may have been quicker
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    return folder


def _llama_cpp() -> Path:
    vocabularies = tuple(f"{_MODELS}/ggml-vocab-{name}.gguf" for name in VOCABULARIES)
    return source_files(
        "llama-cpp-python",
        importlib.metadata.version("llama-cpp-python"),
        backend="scikit_build_core.build",
        patterns=(*vocabularies, f"{_MODELS}/templates/*.jinja"),
    )


def _complete(folder: Path, patterns: tuple[str, ...]) -> bool:
    note = folder / ".patterns"
    return note.is_file() and note.read_text(encoding="utf-8").split("\n") == list(patterns)


def _download(name: str, version: str, backend: str, folder: Path) -> Path:
    module = folder.joinpath("backend", *backend.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text(_BACKEND, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    done = subprocess.run(
        [*command, f"{name}=={version}"],
        env=os.environ | {"PYTHONPATH": str(folder / "backend")},
        capture_output=True,
        text=True,
        check=False,
    )
    archives = list(folder.glob("*.tar.gz"))
    if done.returncode or not archives:
        reason = (done.stderr.strip() or "pip left no archive").splitlines()[-1]
        raise RuntimeError(
            f"These tests read vocabularies and templates from the source distribution of {name} {version}. "
            f"pip could not get it (is this machine offline?): {reason}"
        )
    return archives[0]


def _extract(archive: Path, folder: Path, patterns: tuple[str, ...]) -> None:
    with tarfile.open(archive, "r|gz") as source:
        for member in source:
            _, _, path = member.name.partition("/")
            content = source.extractfile(member) if member.isfile() else None
            if content and any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as out:
                    shutil.copyfileobj(content, out)
