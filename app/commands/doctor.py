"""`stampo doctor`: what is installed, what model would run and with which numerics, and where things are kept.

With `--probe` the numerics are verified first, in a worker like any chat's.
"""

import asyncio
import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.client import EngineClient
from app.commands.options import ModelOption, NumericsOption, ThreadsOption
from app.commands.person import Picker, read_person
from app.models import NoModel
from app.settings import Settings
from app.terminal import emit, narrate, one_line
from engine import gguf
from engine.events import Exited, Failed, Probed, Ready
from engine.gguf import ModelFileError
from engine.numerics import matrices, plan
from engine.protocol import Load, Probe

_PROBED_CONTEXT = 256
"""The probe makes a context of its own; the worker's can be small."""
_PACKAGES = ("stampo", "llama-cpp-python", "llguidance", "textual", "pydantic", "numpy", "jsonschema")


def doctor(
    given: typer.Context,
    model: ModelOption = None,
    numerics: NumericsOption = "auto",
    threads: ThreadsOption = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Verify the numerics now: load the model and compare rows.")
    ] = False,
) -> None:
    """Show versions, the model, its numerics and why, where things are kept, and what is wrong with the settings.

    Exit codes: 0 all is well, 2 a directory cannot be used or the settings have faults, 3 there is no usable model.
    """
    _tell(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in _PACKAGES:
        _tell(f"{package} {_version(package)}")
    code = 0
    settings, faults = read_person()
    try:
        load = Picker(given, settings).load()
        if probe:
            asyncio.run(_probe(load))
        _describe(load)
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
            path = place()
            _tell(f"{name}: {one_line(str(path))}{'' if path.exists() else ' (not there yet)'}")
        except (paths.PathError, OSError) as error:
            code = code or 2
            _tell(f"{name}: {one_line(str(error))}")
    for fault in (*faults, *_key_faults(settings)):
        code = code or 2
        _tell(f"settings: {one_line(fault)}")
    raise typer.Exit(code)


def _key_faults(settings: Settings) -> list[str]:
    if not settings.keys:
        return []
    from app.tui.keymap import actions, usable  # the whole interface, which only this question needs

    return usable(actions(), settings.keys)[1]


async def _probe(load: Load) -> None:
    """Have a worker verify the numerics; the verdict is in the cache afterwards. Raises `ModelFileError`."""
    client = EngineClient()
    await client.start(log=paths.log_path())
    client.send(replace(load, draft_model=None, context=_PROBED_CONTEXT))
    try:
        async for event in client.events():
            match event:
                case Ready():
                    narrate("Comparing single rows with batches.")
                    client.send(Probe())
                case Probed():
                    return
                case Failed() | Exited():
                    raise ModelFileError(event.message)
    finally:
        await client.close()


def _describe(load: Load) -> None:
    from engine.cache import Settings
    from engine.llama.library import physical_cores
    from engine.probe import judge, recall

    path = Path(load.model)
    header = gguf.read_header(path)
    metadata = header.metadata
    _tell(f"model: {one_line(str(path))}")
    _tell(f"  name: {one_line(str(metadata.get('general.name', path.stem)))}")
    _tell(f"  architecture: {one_line(str(metadata.get('general.architecture', 'unknown')))}")
    _tell(f"  chat template: {'yes' if 'tokenizer.chat_template' in metadata else 'no, a plain one is used'}")
    chosen = plan(matrices(header), load.numerics, gpu=load.gpu_layers != 0)
    settings = Settings.of(
        chosen, fingerprint=gguf.fingerprint(path), threads=load.threads or physical_cores()
    )
    badge, reason = judge(chosen, recall(paths.cache_dir(), settings))
    unverified = badge == "unverified"
    words = "unverified, meant to be exact and not yet compared on this machine" if unverified else badge
    _tell(f"  numerics: {words}: {one_line(reason)}")
    if unverified:
        _tell("  `stampo doctor --probe` verifies them, and so does the first pause in a chat.")


def _tell(line: str) -> None:
    emit(f"{line}\n")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
