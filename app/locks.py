"""Locks on files, which the operating system frees when their holder ends, however it ends.

Knows nothing of what they protect. Invariant: a lock belongs to one open file, so two in one process exclude each
other, too.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int, *, wait: bool = False) -> None:
        """Lock an open file. Raises `OSError` if another holds it, at once or after some seconds of waiting."""
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def lock(descriptor: int, *, wait: bool = False) -> None:
        """Lock an open file. Raises `OSError` if another holds it, or waits for that."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a private file, made if missing, once nobody else does. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)
