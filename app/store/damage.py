"""A damaged store: set aside as it is, and what can still be read of it taken over into a fresh one.

Knows the layout of the tables. Invariants: the damaged file is only ever read and renamed; a fresh store takes its
place when it is whole; what comes over is checked value by value, so that a mended store can be read; a file that
shows no sign of having been a store is left alone.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from app.store import files
from app.store.database import MEND, Database
from app.store.migrate import APPLICATION_ID, build, check_origin, migrations
from app.store.salvage import Salvaged, salvage
from app.store.values import DamagedError, StoreError

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_PAGE = 4096
_SIGN = b"CREATE TABLE reply_chunks"  # stands in every store, on its first pages
_SIGN_WITHIN = 64 * _PAGE


def mend(path: Path) -> str:
    """Set a damaged store aside and recover what can be read; return what to tell the person, empty if all is well.

    Raises `StoreError` with nothing changed if the file was never a store, is in use, or the disk is full.
    """
    marker = files.beside(path, MEND)
    with files.alone(path) as descriptor, _folder(path) as folder:
        copy = Path(folder) / "damaged"
        _copy(path, descriptor, copy)
        if not _is_ours(copy):
            raise DamagedError(
                f"{path} is no store of Stampo and no SQLite database. Move it away to start a new one."
            )
        if not marker.exists() and _is_sound(copy, path):
            return ""  # another program was quicker
        fresh = Path(folder) / "fresh"
        try:
            salvaged = _recover(copy, fresh)
        except (OSError, *files.SQLITE_ERRORS) as error:
            raise StoreError(f"{path} is damaged and cannot be mended: {error}.") from error
        aside = files.replace_store(path, fresh, "damaged")
        marker.unlink(missing_ok=True)
    return (
        f"The store {path} was damaged. It is kept as {aside.name if aside else path}; "
        f"{_count(salvaged.chats, 'chat')} with {_count(salvaged.messages, 'message')} could be read and were "
        "taken over."
    )


def _folder(path: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-mending-")  # mode 0700
    except OSError as error:
        raise StoreError(
            f"{path} is damaged and cannot be mended: {(error.strerror or str(error)).lower()}."
        ) from error


def _copy(path: Path, descriptor: int, copy: Path) -> None:
    """Copy a store through the descriptor that is open already; closing another one would free the lock on it."""
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        with suppress(FileNotFoundError):
            shutil.copyfile(files.beside(path, "-wal"), files.beside(copy, "-wal"))
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be copied: {error.strerror}.") from error


def _is_ours(copy: Path) -> bool:
    with copy.open("rb") as file:
        head = file.read(_SIGN_WITHIN)
    ours = head.startswith(_MAGIC) and head[68:72] == APPLICATION_ID.to_bytes(4)
    return ours or _SIGN in head or not head[:_PAGE].strip(b"\0")


def _is_sound(copy: Path, path: Path) -> bool:
    try:
        with closing(sqlite3.connect(copy)) as connection:
            check_origin(connection, path)
            return connection.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok"
    except files.SQLITE_ERRORS:
        return False


def _recover(copy: Path, fresh: Path) -> Salvaged:
    """Make a fresh store from what can be read of a copy."""
    with closing(Database(fresh)) as database:
        salvaged = Salvaged(chats=0, messages=0)
        if (source := _open(copy)) is not None:
            with closing(source):
                salvaged = salvage(source, database)
        database.run("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        return salvaged


def _open(copy: Path) -> sqlite3.Connection | None:
    """Open a damaged store, with the beginning of a sound one in place of its own where that is needed.

    The pages that hold the layout are the same in all stores that were made by the same scripts.
    """
    for beginning in _beginnings(copy):
        with copy.open("r+b") as file:
            file.write(beginning)
        connection = sqlite3.connect(copy, isolation_level=None)
        try:
            connection.execute("PRAGMA writable_schema=ON")  # or a file shorter than it says would not open
            connection.execute("SELECT id FROM chats LIMIT 1").fetchall()
            connection.execute("SELECT id FROM messages LIMIT 1").fetchall()
        except files.SQLITE_ERRORS:
            connection.close()
        else:
            return connection
    return None


def _beginnings(copy: Path) -> Iterator[bytes]:
    with copy.open("rb") as file:
        yield (original := file.read(_PAGE))
    sound = _first_page(copy)
    yield sound[:_HEADER] + original[_HEADER:]
    yield sound


def _first_page(copy: Path) -> bytes:
    """Return the first page of an empty store."""
    model = copy.with_name("model")
    with closing(sqlite3.connect(model, isolation_level=None)) as connection:
        build(connection, len(migrations()))
    page = bytearray(model.read_bytes()[:_PAGE])
    page[28:32] = (copy.stat().st_size // _PAGE).to_bytes(4)  # size in pages
    page[32:40] = bytes(8)  # no free pages: what they held is not read
    return bytes(page)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
