"""A backup is everything in one file; restoring it keeps what was there before, and believes nothing."""

import os
import random
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from chatting import rich_chat

from app import paths
from app.backup import MAX_SHAPE_BYTES, back_up, restore_backup
from app.store import Store, StoreError

SHAPE = '{"name": "mood", "title": "Mood", "choices": ["calm", "tense"]}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def backup(home: Path, tmp_path: Path) -> Path:
    """Return a backup of one chat in use, one in the trash, unsent text, a shape and an earlier version of it."""
    versions = paths.shapes_dir() / "versions" / "mood"
    versions.mkdir(parents=True)
    (versions / f"{'a' * 64}.json").write_text(SHAPE)
    os.utime(versions / f"{'a' * 64}.json", (1_000_000_000, 1_000_000_000))
    (paths.shapes_dir() / "mood.json").write_text(SHAPE)
    (paths.shapes_dir() / "letter.txt").write_text("no shape")
    with Store(paths.store_path()) as store:
        rich_chat(store)
        store.trash_chat(store.create_chat(title="gone"))
        saved = back_up(store, tmp_path / "b")
    assert (saved.chats, saved.shapes) == (2, 1)
    return tmp_path / "b"


def chats() -> list[str]:
    with Store(paths.store_path()) as store:
        return sorted(chat.title for chat in store.chats() + store.chats(trashed=True))


def test_a_backup_is_one_private_file_that_anyone_can_look_into(backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with zipfile.ZipFile(backup) as archive:
        assert archive.namelist() == [
            "stampo.sqlite3",
            "shapes/mood.json",
            f"shapes/versions/mood/{'a' * 64}.json",
        ]
        assert archive.testzip() is None


def test_what_was_backed_up_comes_back_and_what_was_there_is_kept(backup: Path, home: Path) -> None:
    with Store(paths.store_path()) as store:
        before = store.tree(1)
        store.create_chat(title="made since")
        store.trash_chat(1)
    (paths.shapes_dir() / "mood.json").write_text("changed since")
    restored = restore_backup(backup)
    assert (restored.chats, restored.shapes) == (2, 1)
    assert chats() == ["Rome \x1b[31m\u202e", "gone"]
    with Store(paths.store_path()) as store:
        assert store.tree(1) == before
        assert store.chat(1).draft == "not yet sent"
    assert (paths.shapes_dir() / "mood.json").read_text() == SHAPE
    [version] = paths.versions_dir("mood").iterdir()
    assert version.stat().st_mtime == 1_000_000_000
    kept_store, kept_shapes = restored.kept
    assert (kept_shapes / "mood.json").read_text() == "changed since"
    restore_backup(kept_store)
    assert "made since" in chats()
    assert {stat.S_IMODE(file.stat().st_mode) for file in home.rglob("*.json")} <= {0o600, 0o644}


def test_a_backup_comes_back_onto_an_empty_machine(backup: Path, home: Path, tmp_path: Path) -> None:
    home.rename(tmp_path / "lost")
    restored = restore_backup(backup)
    assert restored.kept == ()
    assert chats() == ["Rome \x1b[31m\u202e", "gone"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in home.rglob("*")} == {0o600, 0o700}


def test_a_backup_replaces_no_file(backup: Path) -> None:
    before = backup.read_bytes()
    with Store(paths.store_path()) as store:
        with pytest.raises(StoreError, match="replaces nothing"):
            back_up(store, backup)
        with pytest.raises(StoreError, match="replaces nothing"):
            store.backup(backup)
    assert backup.read_bytes() == before


def test_a_backup_that_cannot_be_written_leaves_nothing(backup: Path, tmp_path: Path) -> None:
    with Store(paths.store_path()) as store, pytest.raises(StoreError, match="cannot be written"):
        back_up(store, tmp_path / "no" / "b")
    assert not (tmp_path / "no").exists()


def test_a_store_that_is_in_use_can_be_backed_up(backup: Path, tmp_path: Path) -> None:
    with Store(paths.store_path()) as one, Store(paths.store_path()) as other:
        one.create_chat(title="in the log of one")
        back_up(other, tmp_path / "second")
    restore_backup(tmp_path / "second")
    assert "in the log of one" in chats()


def rewritten(backup: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with zipfile.ZipFile(backup) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    target = backup.with_name("changed")
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def with_sql(members: dict[str, bytes], statement: str, folder: Path) -> None:
    file = folder / "edited"
    file.write_bytes(members["stampo.sqlite3"])
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(f"PRAGMA journal_mode=DELETE; {statement}")
    members["stampo.sqlite3"] = file.read_bytes()


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON chats BEGIN DELETE FROM messages; END;", "layout"),
        ("DROP TRIGGER message_index_delete;", "layout"),
        ("CREATE VIEW v AS SELECT load_extension('x');", "layout"),
        ("PRAGMA user_version=999;", "newer version"),
        ("PRAGMA user_version=0;", "layout"),
        ("PRAGMA application_id=1;", "another program"),
        ("DELETE FROM chats;", "damaged"),
        (
            "INSERT INTO message_index (message_index) VALUES ('delete-all'); DELETE FROM message_index_data;",
            "damaged",
        ),
    ],
)
def test_a_store_that_is_not_what_it_should_be_is_refused(
    backup: Path, tmp_path: Path, statement: str, why: str
) -> None:
    before = chats()
    file = rewritten(backup, lambda members: with_sql(members, statement, tmp_path))
    with pytest.raises(StoreError, match=why):
        restore_backup(file)
    assert chats() == before
    assert not list(paths.data_dir().glob("*replaced*"))


@pytest.mark.parametrize(
    "change",
    [
        lambda members: members.pop("stampo.sqlite3"),
        lambda members: members.update({"../evil.json": b"{}"}),
        lambda members: members.update({"shapes/../../evil.json": b"{}"}),
        lambda members: members.update({"shapes/.hidden.json": b"{}"}),
        lambda members: members.update({"shapes/versions/../x.json": b"{}"}),
        lambda members: members.update({"/etc/passwd": b""}),
        lambda members: members.update({"shapes/big.json": bytes(MAX_SHAPE_BYTES + 1)}),
    ],
)
def test_an_archive_that_holds_anything_else_is_refused(
    backup: Path, change: Callable[[dict[str, bytes]], None], home: Path
) -> None:
    with pytest.raises(StoreError, match=r"no backup of Stampo|too large"):
        restore_backup(rewritten(backup, change))
    assert not list(home.parent.rglob("evil.json"))
    assert not list(home.glob("*replaced*"))


def test_noise_is_refused_with_a_sentence(backup: Path, tmp_path: Path, home: Path) -> None:
    before = chats()
    chance = random.Random(0)
    content = backup.read_bytes()
    file = tmp_path / "noise"
    for _ in range(40):
        changed = bytearray(content)
        for _ in range(20):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        file.write_bytes(bytes(changed[: chance.choice([len(changed), chance.randrange(len(changed))])]))
        with pytest.raises(StoreError):
            restore_backup(file)
    assert chats() == before
    assert not [file for file in home.iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize("content", [b"", b"a letter", b"PK\3\4 and no more"])
def test_a_file_that_is_none_is_refused(backup: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(StoreError, match="x "):
        restore_backup(file)
    with pytest.raises(StoreError, match="cannot be restored"):
        restore_backup(tmp_path / "missing")
