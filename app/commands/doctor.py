"""`stampo doctor`: what is installed, what model would run and with which numerics, and where things are kept."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from app import paths
from app.commands.options import ModelOption, NumericsOption
from app.models import NoModel, resolve_model
from app.terminal import emit, one_line
from engine import gguf
from engine.gguf import ModelFileError
from engine.numerics import matrices, plan

_PACKAGES = ("stampo", "llama-cpp-python", "llguidance", "textual", "pydantic", "numpy", "jsonschema")


def doctor(model: ModelOption = None, numerics: NumericsOption = "auto") -> None:
    """Show versions, the model, its numerics and why, and the directories.

    Exit codes: 0 all is well, 2 a directory cannot be used, 3 there is no usable model.
    """
    _tell(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in _PACKAGES:
        _tell(f"{package} {_version(package)}")
    code = 0
    try:
        path = resolve_model(model)
        _describe(path, numerics)
    except (NoModel, ModelFileError) as error:
        code = 3
        _tell(f"model: {one_line(str(error))}")
    for name, place in (
        ("chats", paths.store_path),
        ("shapes", paths.shapes_dir),
        ("settings", paths.config_path),
        ("log", paths.log_path),
        ("cache", paths.cache_dir),
    ):
        try:
            _tell(f"{name}: {one_line(str(place()))}")
        except paths.PathError as error:
            code = code or 2
            _tell(f"{name}: {one_line(str(error))}")
    raise typer.Exit(code)


def _describe(path: Path, numerics: str) -> None:
    header = gguf.read_header(path)
    metadata = header.metadata
    _tell(f"model: {one_line(str(path))}")
    _tell(f"  name: {one_line(str(metadata.get('general.name', path.stem)))}")
    _tell(f"  architecture: {one_line(str(metadata.get('general.architecture', 'unknown')))}")
    _tell(f"  chat template: {'yes' if 'tokenizer.chat_template' in metadata else 'no, a plain one is used'}")
    chosen = plan(matrices(header), numerics)
    _tell(f"  numerics: {chosen.badge}, because {chosen.reason}")


def _tell(line: str) -> None:
    emit(f"{line}\n")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
