"""All that a person has in Stampo as one file, and back: the store and their own shapes in a ZIP archive.

Knows where these lie, not what is in them. Invariants: a backup is one consistent state and replaces no file; what is
restored was checked before anything changes: it has the layout of a store, no more and no less, so that nothing in it
acts by itself; the present store and shapes are set aside under a dated name and never overwritten.
"""

import os
import re
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from app import paths
from app.locks import locked
from app.paths import PathError
from app.store import Store, StoreError, files
from app.store.database import MEND
from app.store.migrate import check_layout
from grammars.compile import MAX_TEXT

STORE = paths.STORE_NAME
SHAPES = "shapes/"

MAX_SHAPES = 10_000
MAX_SHAPE_BYTES = 4 * MAX_TEXT

# The names that shapes.py gives: a shape, and the earlier versions of one.
_NAME = "[a-z0-9][a-z0-9_-]{0,63}"
_SHAPE = re.compile(rf"{_NAME}\.json")
_VERSION = re.compile(rf"versions/{_NAME}/{_NAME}\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a backup holds."""

    chats: int
    shapes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Saved):
    """What was restored, and under which names the former state is kept."""

    kept: tuple[Path, ...]


def back_up(store: Store, target: Path) -> Saved:
    """Write everything into a new file. Raises `StoreError` or `PathError`, and leaves no file then."""
    with _folder("backup") as private:
        copy = Path(private) / STORE
        store.backup(copy)
        folder = paths.shapes_dir()
        shapes = {
            name: file
            for file in sorted(folder.rglob("*.json"))
            if _is_shape(name := file.relative_to(folder).as_posix())
            and file.is_file()
            and file.stat().st_size <= MAX_SHAPE_BYTES
        }
        try:
            with _new_file(target) as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
                    archive.write(copy, STORE)
                    for name, shape in shapes.items():
                        archive.write(shape, SHAPES + name)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise StoreError(f"{target} exists; a backup replaces nothing.") from None
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {_reason(error)}.") from error
        with closing(sqlite3.connect(copy)) as connection:
            [chats] = connection.execute("SELECT count(*) FROM chats").fetchone()
    return Saved(chats=chats, shapes=_count(shapes))


def restore_backup(file: Path) -> Restored:
    """Put a backup, or the copy of a store, in the place of the present state, which is kept.

    Raises `StoreError` or `PathError` with nothing changed if the file cannot be used or the store is in use.
    """
    path = paths.store_path()
    with _folder("restoring") as name:
        folder = Path(name)
        fresh, shapes = folder / STORE, folder / "shapes"
        try:
            _unpack(file, fresh, shapes)
        except StoreError:
            raise
        except Exception as error:  # of any kind: zipfile lets through what its parts raise at damaged files
            raise StoreError(f"{file} cannot be restored: {_reason(error)}.") from error
        chats = _checked(fresh, file)
        kept = []
        if path.exists():
            with files.alone(path):
                kept.append(files.replace_store(path, fresh, "replaced"))
        else:
            files.replace_store(path, fresh, "replaced")
        files.beside(path, MEND).unlink(missing_ok=True)
        count = 0
        if shapes.exists():
            count = _count(file.relative_to(shapes).as_posix() for file in shapes.rglob("*.json"))
            with locked(paths.shapes_lock()):
                kept.append(_replace_folder(paths.shapes_dir(), shapes))
    return Restored(chats=chats, shapes=count, kept=tuple(place for place in kept if place is not None))


def _unpack(file: Path, store: Path, shapes: Path) -> None:
    """Write the parts of a backup into private files."""
    if file.exists() and not file.is_file():  # a pipe would be waited for
        raise StoreError(f"{file} is not a regular file.")
    if not zipfile.is_zipfile(file):
        for ending in ("", "-wal"):  # a store that was not closed has a part of it in its log
            if not ending or files.beside(file, ending).exists():
                with files.beside(file, ending).open("rb") as source:
                    _write(source, files.beside(store, ending))
        return
    with zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        names = [name for name in members if name != STORE]
        if STORE not in members or len(members) != len(archive.infolist()) or len(names) > MAX_SHAPES:
            raise StoreError(f"{file} is no backup of Stampo.")
        if sum(member.file_size for member in members.values()) > shutil.disk_usage(store.parent).free:
            raise StoreError(f"{file} cannot be restored: there is not enough space for what it holds.")
        for name in names:
            if not (name.startswith(SHAPES) and _is_shape(name.removeprefix(SHAPES))):
                raise StoreError(f"{file} is no backup of Stampo: it holds {name!r}.")
            if members[name].file_size > MAX_SHAPE_BYTES:
                raise StoreError(f"{file} cannot be restored: {name} is too large for a shape.")
        with archive.open(STORE) as source:
            _write(source, store)
        for name in names:
            target = shapes / name.removeprefix(SHAPES)
            for folder in reversed(target.relative_to(store.parent).parents):
                (store.parent / folder).mkdir(mode=0o700, exist_ok=True)
            with archive.open(name) as source:
                _write(source, target)
            with suppress(
                ValueError, OverflowError, OSError
            ):  # a date that is none; only an order hangs on it
                moment = datetime(*members[name].date_time).timestamp()
                os.utime(target, (moment, moment))


def _write(source: IO[bytes], target: Path) -> None:
    with _new_file(target) as file:
        shutil.copyfileobj(source, file)


def _checked(store: Path, file: Path) -> int:
    """Return how many chats a store holds. Raises `StoreError` if it is no sound store of a version that is known."""
    try:
        with closing(sqlite3.connect(store, isolation_level=None)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            check_layout(connection, file)
            [fault] = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if fault != "ok" or connection.execute("PRAGMA foreign_key_check").fetchone():
                raise StoreError(f"{file} is damaged and was not restored.")
            connection.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")
            [chats] = connection.execute("SELECT count(*) FROM chats").fetchone()
            connection.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    except files.SQLITE_ERRORS as error:
        raise StoreError(f"{file} is no backup of Stampo, or it is damaged: {error}.") from error
    return chats


def _replace_folder(present: Path, fresh: Path) -> Path | None:
    """Give a folder the name of another; return under which one that is kept, None if it was empty."""
    try:
        kept = files.free_name(present, "replaced") if any(present.iterdir()) else None
        if kept is None:
            present.rmdir()
        else:
            present.rename(kept)
        fresh.rename(present)
    except OSError as error:
        raise StoreError(
            f"The chats are restored, the shapes in {present} are not: {_reason(error)}."
        ) from error
    return kept


def _folder(what: str) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(dir=paths.data_dir(), prefix=f".{what}-")  # mode 0700
    except OSError as error:
        raise PathError(f"The folder {paths.data_dir()} cannot be written: {_reason(error)}.") from error


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a new file that only its owner may read; it is gone again if that fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _is_shape(name: str) -> bool:
    """Tell whether a path below the folder of shapes is that of a shape or of an earlier version."""
    return bool(_SHAPE.fullmatch(name) or _VERSION.fullmatch(name))


def _count(names: Iterable[str]) -> int:
    return sum(bool(_SHAPE.fullmatch(name)) for name in names)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower().rstrip(".")
