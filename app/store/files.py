"""The store's file among its neighbours: what SQLite keeps beside it, copies, and putting another in its place.

Knows no tables. Invariants: no store is ever overwritten by another file; at every moment the store is under its name,
or a whole one waits under `.incoming` and takes the name at the next start; copies are private to their owner.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from app.paths import PathError, create_private
from app.store.values import StoreError

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises; the second one where SQLite's own message quotes damaged bytes."""

SIDE_FILES = ("", "-wal", "-shm")
"""What one database consists of, as endings of its name."""

_INCOMING = ".incoming"
# SQLite locks these bytes of a database as long as anyone has it open (`SHARED_FIRST` and `SHARED_SIZE`, described
# under "File Locking" in its documentation of the file format).
_SHARED_FIRST, _SHARED_SIZE = 0x4000_0002, 510


def beside(path: Path, ending: str) -> Path:
    """Return the neighbour of a file whose name has this ending."""
    return path.with_name(path.name + ending)


def free_name(path: Path, kind: str) -> Path:
    """Return a name beside a file that says what became of it and when, and that nothing has yet."""
    stamp = f".{kind}-{datetime.now():%Y-%m-%d-%H%M%S}"
    names = (beside(path, f"{stamp}{f'-{number}' if number else ''}") for number in range(10_000))
    return next(name for name in names if not any(beside(name, end).exists() for end in SIDE_FILES))


@contextmanager
def alone(path: Path) -> Iterator[int]:
    """Keep other programs from opening a store, and yield a descriptor for reading it.

    Raises `StoreError` if another program has it open. In this process nothing else may open the file meanwhile: the
    system frees the lock when any descriptor of the file is closed.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {(error.strerror or str(error)).lower()}.") from error
    try:
        if sys.platform != "win32":  # there an open file cannot be renamed, which serves as well
            import fcntl

            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
            except OSError as error:
                raise StoreError(f"Another program has {path} open; close it and try again.") from error
        yield descriptor
    finally:
        os.close(descriptor)


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Write one new file with all that is committed. Raises `StoreError`, also if `target` exists."""
    if target.exists():
        raise StoreError(f"{target} exists; a copy replaces nothing.")
    try:
        create_private(target)
        with closing(sqlite3.connect(target)) as connection:
            source.backup(connection)
    except (*SQLITE_ERRORS, PathError) as error:
        target.unlink(missing_ok=True)
        raise StoreError(f"{target} cannot be written: {error}.") from error


def replace_store(path: Path, fresh: Path, kind: str) -> Path | None:
    """Give a whole database the store's name; return under which one the present store is kept, None without one.

    `fresh` lies in the same folder, is closed and has no side files. Raises `StoreError`.
    """
    incoming = beside(path, _INCOMING)
    try:
        # One that was left there came to nothing: the store in whose place it was to come is still there.
        fresh.replace(incoming)
        aside = free_name(path, kind) if path.exists() else None
        if aside is not None:
            path.rename(aside)
            _move_log(path, aside)
        incoming.rename(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be replaced: {(error.strerror or str(error)).lower()}.") from error
    return aside


def store_exists(path: Path) -> bool:
    """Tell whether there is a store, or one that an interruption left without its name."""
    return path.exists() or beside(path, _INCOMING).exists()


def finish_replacing(path: Path) -> None:
    """Complete what an interrupted `replace_store` left."""
    incoming = beside(path, _INCOMING)
    if path.exists() or not incoming.exists():
        return
    with suppress(OSError):  # another program was quicker, or opening the store will tell what is wrong
        _move_log(path, free_name(path, "damaged"))
        incoming.rename(path)


def _move_log(path: Path, aside: Path) -> None:
    """Keep the log of a database beside its new place, unless it is empty; the index of the log is made anew."""
    log = beside(path, "-wal")
    if log.exists() and log.stat().st_size:
        log.rename(beside(aside, "-wal"))
    for ending in SIDE_FILES[1:]:
        beside(path, ending).unlink(missing_ok=True)
