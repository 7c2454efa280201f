"""How a process tells others that it is alive: a lock file that the operating system frees at death.

Every store that writes a reply locks a file of its own beside the database and puts its name into the reply's
row. A reply whose writer's lock can be taken, or whose file is gone, was left by a crash. Process ids would
not do: they come back. Knows nothing of replies. Invariant: a name is given out only while its lock is held.
"""

import os
import uuid
from contextlib import suppress
from pathlib import Path

from app.locks import lock


class Writer:
    """This process as a writer of one store."""

    def __init__(self, store: Path) -> None:
        self.name = uuid.uuid4().hex
        self._path = _path(store, self.name)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        lock(self._descriptor)

    def close(self) -> None:
        """Free the lock and remove its file."""
        os.close(self._descriptor)
        _remove(self._path)


def is_alive(store: Path, name: str | None) -> bool:
    """Tell whether the process that was given this name still runs; the file of a dead one is removed."""
    try:
        path = _path(store, name or "")
    except ValueError:  # no name that was ever given out
        return False
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:  # the file is there and cannot be asked: taking a reply from its writer would be worse
        return True
    try:
        lock(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    _remove(path)
    return False


def _remove(path: Path) -> None:
    with suppress(OSError):  # a folder that became read-only keeps the file, which nobody locks any more
        path.unlink(missing_ok=True)


def _path(store: Path, name: str) -> Path:
    return store.with_name(f"{store.name}.writer-{uuid.UUID(hex=name).hex}")
