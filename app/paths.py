"""Where Stampo keeps things, and how it writes them: the only module that reads the environment for places.

`STAMPO_HOME` moves everything below one folder; without it each kind goes where the platform wants it. Knows
nothing of what the files hold. Invariants: folders made here are private to their owner (0700) and so are
files (0600); a file is written whole or not at all.
"""

import os
import tempfile
from pathlib import Path

import platformdirs

APP = "stampo"
STORE_NAME = "stampo.sqlite3"


class PathError(OSError):
    """A place that cannot be used; the text names it and is written for the person."""


def data_dir() -> Path:
    """Return the folder of chats and shapes, made if missing."""
    return _folder(data_place())


def data_place() -> Path:
    """Return the folder of chats and shapes and make nothing."""
    return _home() or platformdirs.user_data_path(APP, appauthor=False)


def store_path() -> Path:
    """Return the file of the store; its folder exists, the file may not."""
    return data_dir() / STORE_NAME


def store_place() -> Path:
    """Return the file of the store and make nothing."""
    return data_place() / STORE_NAME


def shapes_dir() -> Path:
    """Return the folder of the person's own shapes, made if missing."""
    return _folder(data_dir() / "shapes")


def shapes_place() -> Path:
    """Return the folder of the person's own shapes and make nothing."""
    return data_place() / "shapes"


def shapes_lock() -> Path:
    """Return the file that is locked while the person's own shapes are changed; it may be missing."""
    return data_dir() / "shapes.lock"


def versions_dir(name: str) -> Path:
    """Return the folder of the earlier versions of one of the person's shapes and make nothing."""
    return shapes_place() / "versions" / name


def cache_dir() -> Path:
    """Return the folder of what can be computed again, made if missing."""
    home = _home()
    return _folder(home / "cache" if home else platformdirs.user_cache_path(APP, appauthor=False))


def log_path() -> Path:
    """Return the log file; its folder exists, the file may not."""
    home = _home()
    return _folder(home / "log" if home else platformdirs.user_log_path(APP, appauthor=False)) / "stampo.log"


def config_path() -> Path:
    """Return the settings file; its folder exists, the file may not."""
    place = config_place()
    return _folder(place.parent) / place.name


def config_place() -> Path:
    """Return the settings file and make nothing."""
    home = _home()
    folder = home / "config" if home else platformdirs.user_config_path(APP, appauthor=False)
    return folder / "settings.toml"


def hugging_face_cache() -> Path:
    """Return the folder where the tools of Hugging Face keep what they fetched, which may be missing."""
    if hub := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(hub)
    cache = os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HF_HOME") or Path(cache or Path.home() / ".cache", "huggingface")
    return Path(home, "hub")


def create_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless it exists. Raises `PathError`."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise PathError(f"{path} cannot be opened: {_reason(error)}.") from error


def write_private(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file whole or not at all, readable by its owner only.

    Raises `FileExistsError` if it exists and `replace` is false, `PathError` if it cannot be written. A
    symbolic link is followed; devices and pipes are refused, since a file cannot take their place.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            raise PathError(f"{path} is not a regular file.")
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}-")  # mode 0600
    except PathError:
        raise
    except OSError as error:
        raise PathError(f"{path} cannot be written: {_reason(error)}.") from error
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            written.replace(target)
        else:
            _move_to_free_name(written, target)
    except FileExistsError:
        raise
    except OSError as error:
        raise PathError(f"{path} cannot be written: {_reason(error)}.") from error
    finally:
        written.unlink(missing_ok=True)


def make_private(path: Path) -> None:
    """Make a folder that only its owner may enter, unless it exists. Raises `PathError`."""
    _folder(path)


def _move_to_free_name(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)  # fails if the name is taken, without a gap between look and act
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(target) from None
        source.replace(target)


def _home() -> Path | None:
    value = os.environ.get("STAMPO_HOME")
    try:
        return Path(value).expanduser().absolute() if value else None
    except (RuntimeError, OSError) as error:  # no such user; a relative place in a folder that was removed
        raise PathError(f"STAMPO_HOME={value} names no folder: {_reason(error)}.") from error


def _folder(path: Path) -> Path:
    try:
        for folder in reversed(
            (path, *path.parents)
        ):  # `parents=True` would let others enter those in between
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise PathError(f"The folder {path} cannot be made: {_reason(error)}.") from error
    return path


def _reason(error: OSError | RuntimeError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower().rstrip(".")
