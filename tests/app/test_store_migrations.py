"""A store's layout is brought up to date step by step, with a copy before each, or is left alone."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from chatting import rich_chat

from app.store import Store, StoreError, migrate

STEP = "ALTER TABLE chats ADD COLUMN colour{0} TEXT NOT NULL DEFAULT 'red';\nUPDATE chats SET title = title || '+';\n"
RELEASED = migrate.migrations()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the program one with more steps than it has."""

    def become(*scripts: str) -> None:
        monkeypatch.setattr(migrate, "migrations", lambda: [*RELEASED, *scripts])

    return become


def numbered(count: int) -> list[str]:
    return [STEP.format(number) for number in range(count)]


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def next_copy(path: Path, step: int = 0) -> Path:
    return path.with_name(f"{path.name}.before-{len(RELEASED) + 1 + step:04}")


def test_a_step_runs_once_behind_a_private_copy_of_what_was_there(tmp_path: Path, steps) -> None:
    path = tmp_path / "chats.db"
    with Store(path) as store:
        chat = rich_chat(store)
        before = store.tree(chat)
    steps(*numbered(1))
    for _ in range(2):
        with Store(path) as store:
            assert store.tree(chat) == before
            assert store.chat(chat).title.endswith("\u202e+")
    assert version(path) == len(RELEASED) + 1
    copy = next_copy(path)
    assert version(copy) == len(RELEASED)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT title FROM chats").fetchall() == [("Rome \x1b[31m\u202e",)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {file.name for file in tmp_path.iterdir()} >= {path.name, copy.name}


def test_a_copy_is_a_store_that_the_older_program_opens(tmp_path: Path, steps) -> None:
    path = tmp_path / "chats.db"
    with Store(path) as store:
        rich_chat(store)
    steps(*numbered(1))
    Store(path).close()
    steps()
    with pytest.raises(StoreError, match="newer version"):
        Store(path)
    with Store(next_copy(path)) as store:
        assert len(store.chats()) == 1


def test_changes_that_are_still_in_the_log_are_in_the_copy(tmp_path: Path, steps) -> None:
    path = tmp_path / "chats.db"
    with Store(path) as store:
        store.create_chat(title="in the log")
        steps(*numbered(1))
        Store(path).close()
    with closing(sqlite3.connect(next_copy(path))) as connection:
        assert connection.execute("SELECT title FROM chats").fetchall() == [("in the log",)]


def test_a_new_store_needs_no_copies(tmp_path: Path, steps) -> None:
    steps(*numbered(2))
    Store(tmp_path / "chats.db").close()
    assert [file.name for file in tmp_path.iterdir()] == ["chats.db"]


def test_each_step_has_its_copy_and_only_the_last_few_are_kept(tmp_path: Path, steps) -> None:
    path = tmp_path / "chats.db"
    Store(path).close()
    steps(*numbered(5))
    Store(path).close()
    copies = sorted(tmp_path.glob("*.before-*"))
    assert [version(copy) + 1 for copy in copies] == [len(RELEASED) + n for n in (3, 4, 5)]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("CREATE TABLE a (b);\nSELECT no_such_function();", "no_such_function"),
        ("PRAGMA defer_foreign_keys=ON;\nDELETE FROM shapes;", "without what it refers to"),
    ],
)
def test_a_step_that_fails_changes_nothing(tmp_path: Path, steps, script: str, why: str) -> None:
    path = tmp_path / "chats.db"
    with Store(path) as store:
        chat = rich_chat(store)
        before = store.tree(chat)
    steps(script)
    with pytest.raises(StoreError, match=why):
        Store(path)
    steps()
    with Store(path) as store:
        assert store.tree(chat) == before
    assert version(path) == len(RELEASED)


def test_without_room_for_the_copy_nothing_is_changed(tmp_path: Path, steps) -> None:
    path = tmp_path / "chats.db"
    Store(path).close()
    before = path.read_bytes()
    steps(*numbered(1))
    next_copy(path).mkdir()
    with pytest.raises(StoreError, match="cannot be copied before it is changed"):
        Store(path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, next_copy(path).name]


def test_a_store_of_a_newer_program_is_refused_untouched(tmp_path: Path, steps) -> None:
    path = tmp_path / "chats.db"
    steps(*numbered(1))
    Store(path).close()
    before = path.read_bytes()
    steps()
    with pytest.raises(
        StoreError, match=f"store version {len(RELEASED) + 1}; this one knows {len(RELEASED)}"
    ):
        Store(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
