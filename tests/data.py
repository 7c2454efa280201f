"""Files of pinned distributions: llama.cpp's vocabularies and templates, the JSON Schema suite, real schemas.

The one place where tests use the network: pip is asked for a distribution once, what is needed is
kept in the user's cache directory, and everything later reads from there. Nothing is compiled or installed.
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
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

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


def official_suite(draft: str) -> Path:
    """Return the folder of the official JSON Schema suite for a draft, such as "draft2020-12"."""
    folder = source_files(
        "jsonschema",
        importlib.metadata.version("jsonschema"),
        backend="hatchling.build",
        patterns=("json/tests/draft7/*.json", "json/tests/draft2020-12/*.json"),
    )
    return folder / "json" / "tests" / draft


@functools.cache
def source_files(name: str, version: str, *, backend: str, patterns: tuple[str, ...]) -> Path:
    """Return a folder with the files of a source distribution that match; paths are relative to its root.

    `backend` is the module named as build-backend in the distribution's pyproject.toml. Raises `RuntimeError`
    with a sentence when pip cannot get it.
    """
    return _kept(f"{name}-{version}", patterns, functools.partial(_download_source, name, version, backend))


@functools.cache
def wheel_files(name: str, version: str, *, patterns: tuple[str, ...]) -> Path:
    """Return a folder with the files of a pure-Python wheel that match. Raises `RuntimeError` with a sentence."""
    return _kept(f"{name}-{version}-wheel", patterns, functools.partial(_download_wheel, name, version))


def _kept(label: str, patterns: tuple[str, ...], download: Callable[[Path], Path]) -> Path:
    """Return the cached folder of this label, filled from the archive that `download` puts into a folder."""
    home = Path(user_cache_dir("stampo-tests"))
    folder = home / label
    if _complete(folder, patterns):
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as temporary:
        fresh = Path(temporary, "files")
        for path, content in _members(download(Path(temporary))):
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                target = fresh / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as out:
                    shutil.copyfileobj(content, out)
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


def _download_source(name: str, version: str, backend: str, folder: Path) -> Path:
    module = folder.joinpath("backend", *backend.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text(_BACKEND, encoding="utf-8")
    options = ("--no-binary", ":all:", "--no-build-isolation")
    return _download(name, version, folder, options, {"PYTHONPATH": str(folder / "backend")})


def _download_wheel(name: str, version: str, folder: Path) -> Path:
    return _download(name, version, folder, ("--only-binary", ":all:"), {})


def _download(
    name: str, version: str, folder: Path, options: tuple[str, ...], environment: dict[str, str]
) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--no-deps", *options, "--dest", str(folder), f"{name}=={version}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    archives = [*folder.glob("*.tar.gz"), *folder.glob("*.whl")]
    if done.returncode or not archives:
        reason = (done.stderr.strip() or "pip left no archive").splitlines()[-1]
        raise RuntimeError(
            f"These tests read files from the distribution of {name} {version}. "
            f"pip could not get it (is this machine offline?): {reason}"
        )
    return archives[0]


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of the files of an archive; the top folder of a source distribution is left out."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as content:
                    yield name, content
        return
    with tarfile.open(archive, "r|gz") as source:
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            if content:
                yield member.name.partition("/")[2], content
