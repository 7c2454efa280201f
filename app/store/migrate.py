"""Bringing a store's layout up to date: numbered scripts, each once, with a copy of the database before each.

Knows no table but `sqlite_master`. Invariants: a script and its number come to disk together or not at all; a copy is
whole before its script begins, and where it cannot be made nothing is changed; a file of another program or of a newer
version is never changed. Several programs may do this at once: each step looks again behind the lock.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

from app.store import files
from app.store.values import StoreError

APPLICATION_ID = 0x5354_4D50  # "STMP", in the header of every store
COPIES_KEPT = 3

_COPY = ".before-"


def migrations() -> list[str]:
    """Return the scripts; the first makes version 1."""
    folder = resources.files("app.store.migrations")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [script.read_text(encoding="utf-8") for script in scripts]


def check_origin(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreError` if a database is of another program or of a newer version of this one."""
    version, newest = _pragma(connection, "user_version"), len(migrations())
    tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if tables and _pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program; Stampo leaves it alone.")
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer version of Stampo (store version {version}; this one "
            f"knows {newest}). Install that version to open it; nothing was changed."
        )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Run what is missing. Raises `StoreError`, or the errors of SQLite."""
    scripts = migrations()
    version = _pragma(connection, "user_version")
    if version == len(scripts):
        return
    while _step(
        connection, path, scripts, copies=version > 0
    ):  # a store that is just being made holds nothing
        pass
    _forget_old_copies(path)


def check_layout(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreError` if a database is no store, or its tables and triggers are not those of its version."""
    check_origin(connection, path)
    version = _pragma(connection, "user_version")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        build(model, version)
        layout = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
        if not version or connection.execute(layout).fetchall() != model.execute(layout).fetchall():
            raise StoreError(f"{path} does not have the layout of a store of Stampo.")


def build(connection: sqlite3.Connection, version: int) -> None:
    """Lay out an empty database as a version had it."""
    connection.execute("BEGIN IMMEDIATE")
    for number, script in enumerate(migrations()[:version], start=1):
        _run(connection, script, number)
    connection.execute("COMMIT")


def _step(connection: sqlite3.Connection, path: Path, scripts: list[str], *, copies: bool) -> bool:
    """Run the next script, if there is any."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        check_origin(connection, path)
        version = _pragma(connection, "user_version")
        if version == len(scripts):
            return False
        if copies:
            _copy(path, version + 1)
        _run(connection, scripts[version], version + 1)
        connection.execute("COMMIT")
        return True
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _run(connection: sqlite3.Connection, script: str, number: int) -> None:
    for statement in _statements(script):
        connection.execute(statement)
    if broken := connection.execute("PRAGMA foreign_key_check").fetchone():
        raise StoreError(
            f"Step {number} of the store's layout would leave {broken[0]} without what it refers to."
        )
    connection.execute(f"PRAGMA user_version={number}")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")


def _copy(path: Path, number: int) -> None:
    """Copy the database; an older copy for the same step came before an older state and gives way."""
    written = files.beside(path, f"{_COPY}{number:04}.writing-{os.getpid()}")
    # The connection that holds the lock cannot be read from by a copy, another one can.
    with closing(sqlite3.connect(path)) as source:
        files.copy_database(source, written)
    try:
        written.replace(files.beside(path, f"{_COPY}{number:04}"))
    except OSError as error:
        written.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be copied before it is changed: {error.strerror}.") from error


def _forget_old_copies(path: Path) -> None:
    name = re.compile(re.escape(path.name + _COPY) + r"[0-9]{4}")
    copies = sorted(file for file in path.parent.iterdir() if name.fullmatch(file.name))
    for copy in copies[:-COPIES_KEPT]:
        copy.unlink(missing_ok=True)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):  # knows comments, strings and the bodies of triggers
            yield statement
            statement = ""
