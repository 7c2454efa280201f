"""One SQLite connection: opening, migrations, transactions, and errors as sentences.

Knows no table but `sqlite_master`. Invariants: a file that is not a store, or was written by a newer version,
is never changed; every transaction is on disk when it returns (`synchronous=FULL`: in WAL mode `NORMAL` would
lose the last commits at a power cut, and the prompt must be on disk before its first token is asked for; the
price is one fsync a commit, a few milliseconds about once a second). Not for use from several threads.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from app.paths import PathError, create_private
from app.store.values import StoreError
from app.terminal import well_formed

APPLICATION_ID = 0x5354_4D50  # "STMP", in the header of every store
_BUSY_SECONDS = 5.0


class Database:
    """A store's file, open for reading and writing. Raises `StoreError` from every method."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            create_private(
                path
            )  # SQLite would make it readable by others; its side files take this file's mode
        except PathError as error:
            raise StoreError(str(error)) from error
        with self._sentences():
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            self._connection.row_factory = sqlite3.Row
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        self._connection.close()

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._sentences():
            return self._execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        with self._sentences():
            return self._execute(sql, values).fetchone()

    def each(self, sql: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Yield the rows of a query one by one, for queries that may be left early."""
        with self._sentences():
            yield from self._execute(sql, values)

    def run(self, sql: str, *values: Any) -> int:
        """Carry out a change within a transaction; return the number of rows it touched."""
        with self._sentences():
            return self._execute(sql, values).rowcount

    def insert(self, table: str, **columns: Any) -> int:
        """Add a row within a transaction; return its id."""
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        with self._sentences():
            cursor = self._execute(
                f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(columns.values())
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what happens inside one change, on disk at the end; an inner transaction joins the outer
        one.
        """
        if self._connection.in_transaction:
            yield
            return
        with self._sentences():
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._sentences():
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk ends it by itself
                self._connection.execute("ROLLBACK")
            raise

    def _open(self) -> None:
        migrations = _migrations()
        self._check(len(migrations))
        with self._sentences():
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute("PRAGMA foreign_keys=ON")
        if self._pragma("user_version") == len(migrations):
            return
        with self.transaction():
            self._check(len(migrations))  # again, behind the lock: another process may have been quicker
            for number in range(self._pragma("user_version"), len(migrations)):
                for statement in _statements(migrations[number]):
                    self.run(statement)
                self.run(f"PRAGMA user_version={number + 1}")
            self.run(f"PRAGMA application_id={APPLICATION_ID}")

    def _check(self, newest: int) -> None:
        version = self._pragma("user_version")
        tables = self.rows("SELECT 1 FROM sqlite_master LIMIT 1")
        if tables and self._pragma("application_id") != APPLICATION_ID:
            raise StoreError(f"{self.path} is a database of another program; Stampo leaves it alone.")
        if version > newest:
            raise StoreError(
                f"{self.path} was written by a newer version of Stampo (store version {version}; this one "
                f"knows {newest}). Install that version to open it; nothing was changed."
            )

    def _pragma(self, name: str) -> int:
        row = self.row(f"PRAGMA {name}")
        assert row is not None
        return row[0]

    def _execute(self, sql: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except (
            UnicodeEncodeError
        ):  # a lone surrogate got past the border; losing half a character beats losing all
            return self._connection.execute(
                sql, [well_formed(v) if isinstance(v, str) else v for v in values]
            )

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None:  # a mistake of the caller, not of the file
                raise
            reason = _REASONS.get(code & 0xFF, f"cannot be used: {error}.")
            raise StoreError(f"{self.path} {reason}") from error


_REASONS = {
    sqlite3.SQLITE_NOTADB: "is no SQLite database, so no store of Stampo. Move it away to start a new one.",
    sqlite3.SQLITE_CORRUPT: "is damaged. Make a copy before anything else; nothing was overwritten.",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only.",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that its folder exists and can be written.",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full. The last change was not saved.",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error.",
    sqlite3.SQLITE_BUSY: "is in use by another program; try again.",
    sqlite3.SQLITE_LOCKED: "is in use by another program; try again.",
    sqlite3.SQLITE_TOOBIG: "cannot hold a text that long.",
}


def _migrations() -> list[str]:
    folder = resources.files("app.store.migrations")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [file.read_text(encoding="utf-8") for file in files]


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):  # knows comments, strings and the bodies of triggers
            yield statement
            statement = ""
