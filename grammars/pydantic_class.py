"""Take the JSON Schema of a class that a person wrote: a Pydantic model, a dataclass or a TypedDict.

Naming a class asks for its module to be run, which is the person's own code. It runs in a process of its own
that is ended after a time, answers through a pipe with a bound, and whose output goes nowhere; the folder
to import from is on that process's path only. Knows nothing of what the schema is for.

Invariant: the schema is Pydantic's own, members in the order of the class's fields.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from grammars.spec import ShapeError

_SECONDS = 60.0  # some modules import whole frameworks
_MOST = 4_000_000  # bytes of schema

# What the process runs. Its imports come before the person's folder is on the path, so that a `json.py` there
# is not taken for Python's.
_CHILD = r"""
import dataclasses, importlib, importlib.util, json, os, pathlib, sys
answers = os.fdopen(os.dup(1), "w", encoding="ascii")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
import pydantic.json_schema
from typing_extensions import is_typeddict

def answer(**parts):
    json.dump(parts, answers)
    answers.flush()
    os._exit(0)

def told(error, kind=""):
    lines = [line for line in str(error).split("\n") if line.strip()]
    return kind + lines[0].strip() if lines else type(error).__name__

def usable(value):
    kinds = isinstance(value, type) and (
        issubclass(value, pydantic.BaseModel) or dataclasses.is_dataclass(value) or is_typeddict(value)
    )
    return kinds and value.__module__.split(".")[0] != "pydantic"

kind, module, name, folder = sys.argv[1:]
sys.path.insert(0, folder)
try:
    if kind == "file":
        label = pathlib.Path(module).stem
        while label in sys.modules:
            label += "_"
        spec = importlib.util.spec_from_file_location(label, module)
        found = sys.modules[label] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(module)
except BaseException as error:
    missing = isinstance(error, ModuleNotFoundError) and kind == "module" and error.name
    if missing and (module + ".").startswith(missing + "."):
        answer(fault="no module", detail=missing)
    answer(fault="import", detail=told(error, type(error).__name__ + ": "))
for part in name.split("."):
    owner = found
    try:
        found = getattr(owner, part)
    except AttributeError:
        around = getattr(owner, "__dict__", {}).items()
        answer(fault="no class", classes=[key for key, value in around if usable(value)])
    except BaseException as error:
        answer(fault="import", detail=told(error, type(error).__name__ + ": "))
if not usable(found):
    answer(fault="no model")
try:
    schema = json.dumps(pydantic.TypeAdapter(found).json_schema())
except BaseException as error:
    answer(fault="no schema", detail=told(error))
answer(schema=schema)
"""


def from_class(reference: str, folder: Path | None, *, seconds: float = _SECONDS) -> str:
    """Return the JSON Schema (indented) of `module:Class` or `path/to/file.py:Class`; this runs the module.

    Modules are looked for in `folder`, or where Stampo stands, and among what is installed beside Stampo; a
    relative file is looked for there too. Raises ShapeError with a sentence for whatever stands in the way,
    such as a module that takes longer than `seconds` to run.
    """
    module, separator, name = reference.rpartition(":")
    if not (separator and module and all(part.isidentifier() for part in name.split("."))):
        raise ShapeError(f"{reference!r} names no class: write module:Class or path/to/file.py:Class")
    place = (folder or Path()).absolute()
    if module.endswith(".py"):
        file = _file(place, module)
        arguments = ["file", str(file), name, str(file.parent)]
    elif all(part.isidentifier() for part in module.split(".")):
        arguments = ["module", module, name, str(place)]
    else:
        raise ShapeError(f"{module!r} is neither a module nor a file that ends in .py")
    return _schema(_run(arguments, module, seconds), module, name, place)


def _file(place: Path, name: str) -> Path:
    try:
        file = place / Path(name).expanduser()
        if file.is_file():
            return file
    except (OSError, RuntimeError) as error:  # a name that is too long; no such user
        raise ShapeError(f"{name} cannot be read: {error}") from None
    raise ShapeError(f"there is no file {file}")


def _schema(answer: dict[str, Any], module: str, name: str, place: Path) -> str:
    if "schema" in answer:
        return json.dumps(json.loads(answer["schema"]), ensure_ascii=False, indent=2)
    detail = _shortened(str(answer.get("detail")))
    classes = ", ".join(map(str, answer.get("classes") or ()))
    sentences = {
        "no module": f"there is no module {detail}, neither in {place} nor installed beside Stampo",
        "import": f"running {module} ends with {detail}",
        "no class": f"{module} has no {name}" + (f"; it has {_shortened(classes)}" if classes else ""),
        "no model": f"{name} in {module} is no Pydantic model, dataclass or TypedDict",
        "no schema": f"{name} in {module} has no JSON Schema: {detail}",
    }
    hint = ""
    if answer["fault"] == "import" and detail.startswith("ModuleNotFoundError"):
        hint = f"; what it imports must be installed beside Stampo, in {sys.prefix}"
    raise ShapeError(sentences[answer["fault"]] + hint)


def _run(arguments: list[str], module: str, seconds: float) -> dict[str, Any]:
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except OSError as error:
        raise ShapeError(f"Python cannot be started to run {module}: {error.strerror}") from None
    try:
        data = _read(process, module, time.monotonic() + seconds)
    finally:
        # Before it is waited for: until then its id, and so its group's, belongs to nobody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    try:
        return json.loads(data)
    except ValueError:  # it ended the process, or was ended
        raise ShapeError(f"running {module} ended Python (exit code {process.returncode})") from None


def _read(process: subprocess.Popen[bytes], module: str, deadline: float) -> bytes:
    assert process.stdout is not None
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise ShapeError(f"running {module} takes too long; it was ended")
            chunk = os.read(process.stdout.fileno(), 65536)
            data += chunk
            if not chunk:
                return bytes(data)
            if len(data) > _MOST:
                raise ShapeError(f"the schema of {module} is too large")


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"
