"""One SQLite connection: opening, transactions, and errors as sentences.

Knows no table but `sqlite_master`. Invariants: a file that is not a store, or was written by a newer version,
is never changed; damage that is met is remembered (a `.mend` file beside the store), so that the next start mends it
(damage.py); every transaction is on disk when it returns (`synchronous=FULL`: in WAL mode `NORMAL` would
lose the last commits at a power cut, and the prompt must be on disk before its first token is asked for; the
price is one fsync a commit, a few milliseconds about once a second). Not for use from several threads.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from app.paths import PathError, create_private
from app.store import files
from app.store.migrate import APPLICATION_ID, check_origin, migrate
from app.store.values import DamagedError, StoreError
from app.terminal import well_formed

__all__ = ["APPLICATION_ID", "Database"]

CHECKED_BYTES = 256 * 1024 * 1024
"""A store up to this size is read and checked at every start, at a few milliseconds for each megabyte."""

MEND = ".mend"
"""The ending of the file that remembers damage."""

_BUSY_SECONDS = 5.0


class Database:
    """A store's file, open for reading and writing. Raises `StoreError` from every method."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.is_file():
                self._check()
            else:  # to open and close a file that SQLite has open would free SQLite's locks
                create_private(path)  # SQLite would let others read it; its side files take this file's mode
        except (OSError, PathError) as error:
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

    def copy(self, target: Path) -> None:
        """Write one new file with all that is committed."""
        files.copy_database(self._connection, target)

    def damaged(self, what: str) -> DamagedError:
        """Remember that the file is damaged, and return the sentence to raise."""
        with suppress(PathError):  # a folder that cannot be written: the damage will be met again
            create_private(files.beside(self.path, MEND))
        return DamagedError(
            f"{self.path} {what} Nothing was overwritten; when Stampo is started again, it keeps this file under "
            "another name and recovers what can be read."
        )

    def _check(self) -> None:
        """Raise `StoreError` if the file is no store that this version may open, or is damaged; touch nothing."""
        if files.beside(self.path, MEND).exists():
            raise self.damaged("is damaged.")
        # A connection that may write would, when it is closed, move the log into a file that is not sound. Where
        # there is no log nobody writes, and nothing needs to be made beside the file for reading it.
        reading = f"{self.path.absolute().as_uri()}?mode=ro"
        if not files.beside(self.path, "-wal").exists():
            reading += "&immutable=1"
        with (
            self._sentences(),
            closing(
                sqlite3.connect(reading, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as connection,
        ):
            check_origin(connection, self.path)
            if self.path.stat().st_size <= CHECKED_BYTES:
                [fault] = connection.execute("PRAGMA integrity_check(1)").fetchone()
                if fault != "ok":
                    raise self.damaged("is damaged.")

    def _open(self) -> None:
        with self._sentences():
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            migrate(self._connection, self.path)
            self._connection.execute("PRAGMA foreign_keys=ON")

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
        except UnicodeDecodeError as error:
            raise self.damaged("is damaged.") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None and isinstance(error, sqlite3.OperationalError):  # a text that is no UTF-8
                raise self.damaged("holds a text that is damaged.") from error
            if code is None:  # a mistake of the caller, not of the file
                raise
            if code == sqlite3.SQLITE_NOTADB:  # met at every start, so there is nothing to remember
                raise DamagedError(
                    f"{self.path} is no SQLite database, so no store of Stampo. Move it away to start a new one."
                ) from error
            if code & 0xFF == sqlite3.SQLITE_CORRUPT:
                raise self.damaged("is damaged.") from error
            reason = _REASONS.get(code & 0xFF, f"cannot be used: {error}.")
            raise StoreError(f"{self.path} {reason}") from error


_REASONS = {
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only.",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that its folder exists and can be written.",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full. The last change was not saved.",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error.",
    sqlite3.SQLITE_BUSY: "is in use by another program; try again.",
    sqlite3.SQLITE_LOCKED: "is in use by another program; try again.",
    sqlite3.SQLITE_TOOBIG: "cannot hold a text that long.",
}
