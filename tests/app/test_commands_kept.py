"""The commands over the store: data on standard output, sentences on standard error."""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path

import pytest
import scripted_worker
import typer
from chatting import rich_chat
from typer.testing import CliRunner, Result

from app import paths
from app.commands import backup, chats, export, import_, presets, restore
from app.keeping import Keeping
from app.session import Session
from app.shapes import add_shape
from app.store import Store, migrate
from app.supervisor import Supervisor
from engine.protocol import Load

app = typer.Typer()
app.command("export")(export.export)
app.command("import")(import_.import_)
app.command("backup")(backup.backup)
app.command("restore")(restore.restore)
app.add_typer(chats.app, name="chats")
app.add_typer(presets.app, name="presets")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def chats_named(*titles: str) -> None:
    with Store(paths.store_path()) as store:
        for title in titles:
            store.create_chat(title=title)


def test_chats_are_listed_one_a_line(home: Path) -> None:
    with Store(paths.store_path()) as store:
        rich_chat(store)
        store.create_chat(title="two\nlines")
        store.trash_chat(store.create_chat(title="gone"))
    result = run("chats", "list")
    assert result.exit_code == 0
    new, old = result.stdout.splitlines()
    assert new.split()[0] == "2" and new.endswith("two␊lines")
    assert old.split()[0] == "1" and old.endswith("Rome ␛[31m\\u202e")
    assert run("chats", "list", "--trash").stdout.endswith("gone\n")


def test_an_empty_store_lists_nothing_and_says_so() -> None:
    result = run("chats", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no saved chats" in result.stderr


@pytest.mark.parametrize("name", ["2", "second", "SEC", "Second one"])
def test_a_chat_is_found_by_number_or_the_beginning_of_its_title(name: str) -> None:
    chats_named("first", "Second one", "third")
    result = run("export", name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["chat"]["title"] == "Second one"


def test_a_whole_title_wins_over_the_beginning_of_another() -> None:
    chats_named("Rome", "Rome again", "1984")
    assert json.loads(run("export", "Rome").stdout)["chat"]["title"] == "Rome"
    assert json.loads(run("export", "1984").stdout)["chat"]["title"] == "1984"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("9", "no chat '9'"),
        ("", "no chat ''"),
        ("9" * 5000, "no chat"),
        ("x\x1b", "no chat 'x␛'"),
        ("rome", "2 chats begin with 'rome': 2 (Rome b), 1 (Rome a)"),
    ],
)
def test_a_chat_that_cannot_be_told_is_a_sentence(name: str, why: str) -> None:
    chats_named("Rome a", "Rome b")
    result = run("export", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


def test_an_export_goes_into_a_private_file_that_is_not_replaced_unasked(tmp_path: Path) -> None:
    with Store(paths.store_path()) as store:
        rich_chat(store)
    file = tmp_path / "chat.json"
    result = run("export", "1", "-o", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["chat"]["messages"][1]["trace"] is None
    again = run("export", "1", "-o", str(file), "--trace")
    assert again.exit_code == 2 and "--force" in again.stderr
    assert json.loads(file.read_text())["chat"]["messages"][1]["trace"] is None
    assert run("export", "1", "-o", str(file), "--trace", "--force").exit_code == 0
    assert json.loads(file.read_text())["chat"]["messages"][1]["trace"]


def test_an_export_into_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    chats_named("Rome")
    result = run("export", "1", "-o", str(tmp_path / "no" / "chat.json"))
    assert result.exit_code == 2 and "cannot be written" in result.stderr


def test_what_is_printed_is_harmless_and_exact() -> None:
    with Store(paths.store_path()) as store:
        rich_chat(store)
    text = run("export", "1").stdout
    assert not set(text) & {"\x1b", "\u202e", "\0"}
    assert json.loads(text)["chat"]["title"] == "Rome \x1b[31m\u202e"


@pytest.mark.parametrize("command", [("chats", "list"), ("export", "1")])
def test_a_store_that_is_none_is_a_sentence(command: tuple[str, ...], home: Path) -> None:
    home.mkdir()
    (home / "stampo.sqlite3").write_text("a letter, and no database at all")
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "stampo.sqlite3" in result.stderr and "Traceback" not in result.stderr


def test_a_home_that_cannot_be_made_is_a_sentence(home: Path) -> None:
    home.write_text("a file")
    result = run("chats", "list")
    assert result.exit_code == 2 and str(home) in result.stderr


@pytest.mark.parametrize("command", [("chats", "list"), ("export", "1"), ("backup", "b")])
def test_a_home_that_no_folder_can_have_is_a_sentence(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAMPO_HOME", f"/{'n' * 300}")
    result = run(*command)
    assert result.exit_code == 2 and "nnn" in result.stderr and "name too long" in result.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("chats", "list"), 0),
        (("chats", "list", "--trash"), 0),
        (("chats", "trash", "1"), 2),
        (("chats", "rename", "1", "x"), 2),
        (("export", "1"), 2),
        (("export", "--all"), 2),
        (("backup", "b"), 2),
        (("presets", "show", "nope"), 2),
        (("presets", "history", "city"), 2),
    ],
)
def test_looking_makes_no_store_and_no_folder(command: tuple[str, ...], code: int, home: Path) -> None:
    result = run(*command)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr
    assert run("presets", "list").exit_code == 0
    assert not home.exists()


def test_a_chat_is_trashed_restored_renamed_and_pinned(home: Path) -> None:
    chats_named("first", "second")
    assert run("chats", "pin", "first").exit_code == 0
    assert run("chats", "list").stdout.splitlines()[0].endswith("first")
    assert run("chats", "pin", "first", "--off").exit_code == 0
    assert run("chats", "rename", "first", "1st \x1b[2J").exit_code == 0
    assert "1st ␛[2J" in run("chats", "list").stdout
    assert run("chats", "rename", "1", "  1st\n title ").exit_code == 0
    assert run("chats", "list").stdout.endswith("  1st title\n")
    result = run("chats", "trash", "1")
    assert result.exit_code == 0 and "stampo chats restore 1" in result.stderr
    assert "1st" not in run("chats", "list").stdout
    assert "no chat '1'" in run("chats", "trash", "1").stderr
    assert "no chat '2' in the trash" in run("chats", "restore", "2").stderr
    assert run("chats", "restore", "1st").exit_code == 0
    assert "1st" in run("chats", "list").stdout


def test_all_chats_go_out_and_come_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(paths.store_path()) as store:
        rich_chat(store)
        store.create_chat(title="second")
    file = tmp_path / "all.json"
    assert run("export", "--all", "-o", str(file)).exit_code == 0
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "elsewhere"))
    result = run("import", str(file))
    assert (result.exit_code, result.stdout) == (0, "1\n2\n")
    assert "2 chat(s) with 5 message(s)" in result.stderr
    assert len(run("chats", "list").stdout.splitlines()) == 2
    piped = CliRunner().invoke(app, ["import", "-"], input=file.read_bytes())
    assert (piped.exit_code, piped.stdout) == (0, "3\n4\n")


def test_one_chat_or_all_must_be_named() -> None:
    for arguments in ((), ("1", "--all")):
        result = run("export", *arguments)
        assert result.exit_code == 2 and "--all" in result.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe", "no UTF-8 text (byte 0)"),
        (b"{}", "no chat that Stampo exported. Nothing was added."),
        (b'{"format": "stampo-chat", "version": 9}', "version 9"),
    ],
)
def test_an_import_that_is_refused_is_a_sentence(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    result = run("import", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
    assert "cannot be read" in run("import", str(tmp_path / "missing")).stderr
    assert "cannot be read" in run("import", str(tmp_path)).stderr


def test_an_import_that_is_longer_than_the_settings_allow_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(b" " * 1_100_000)
    assert "is no JSON" in run("import", str(file)).stderr
    paths.config_path().write_text("[limits]\nimport_mb = 1\n", encoding="utf-8")
    assert "longer than 1 MB" in run("import", str(file)).stderr


def test_a_backup_is_made_and_restored(tmp_path: Path, home: Path) -> None:
    chats_named("before")
    file = tmp_path / "b"
    assert "1 chat(s), 0 shape(s)" in run("backup", str(file)).stderr
    assert run("backup", str(file)).exit_code == 2
    chats_named("since")
    result = run("restore", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    [kept] = home.glob("stampo.sqlite3.replaced-*")
    assert f"kept as {kept}" in result.stderr
    assert run("chats", "list").stdout.endswith("before\n")
    refused = run("restore", str(tmp_path / "missing"))
    assert refused.exit_code == 2 and "missing cannot be restored" in refused.stderr


def test_a_pipe_is_no_backup_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = run("restore", str(tmp_path / "pipe"))
    assert (result.exit_code, "is not a regular file" in result.stderr) == (2, True)


def test_a_damaged_store_is_said_and_the_command_goes_on(home: Path) -> None:
    chats_named("kept")
    (home / "stampo.sqlite3.mend").touch()
    result = run("chats", "list")
    assert result.exit_code == 0 and "kept" in result.stdout
    assert "1 chat with 0 messages could be read" in result.stderr


def test_every_file_of_a_whole_session_is_private(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def modes() -> set[str]:
        return {f"{stat.S_IMODE(place.stat().st_mode):o}" for place in (home, *home.rglob("*"))}

    monkeypatch.chdir(tmp_path)
    chats_named("of the older version")
    scripts = [*migrate.migrations(), "CREATE TABLE more (a);\n"]
    monkeypatch.setattr(migrate, "migrations", lambda: scripts)
    add_shape("mood", '{"title": "Mood", "choices": ["calm", "tense"]}')
    add_shape("mood", '{"title": "Mood", "choices": ["calm", "wild"]}', replace=True)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [[{"say": "Half of it"}, {"hold": True}]]}), encoding="utf-8")

    async def talk() -> None:
        with Store(paths.store_path()) as store:
            session = Session(
                store,
                lambda on_event: Supervisor(
                    Load(model="m.gguf"),
                    on_event,
                    command=[sys.executable, scripted_worker.__file__, str(script)],
                    log=paths.log_path(),
                ),
            )
            session.engine.start()
            while session.engine.state != "ready":
                await asyncio.sleep(0.005)
            session.send("hello")
            while not (session.live and session.live.text):
                await asyncio.sleep(0.005)
            assert modes() == {"600", "700"}
            Keeping(session).export()
            await session.close()

    asyncio.run(talk())
    (home / "stampo.sqlite3.mend").touch()
    for command in (
        ("backup", "b"),
        ("restore", "b"),
        ("export", "--all", "-o", "e.json"),
        ("import", "e.json"),
    ):
        assert run(*command).exit_code == 0
    assert modes() == {"600", "700"}
    for pattern in ("*.before-*", "*.damaged-*", "*.replaced-*", "log/*", "shapes/*.json"):
        assert list(home.glob(pattern)), pattern
    written = [tmp_path / "b", tmp_path / "e.json", *tmp_path.glob("of-the-older*.json")]
    assert {f"{stat.S_IMODE(file.stat().st_mode):o}" for file in written} == {"600"} and len(written) == 3


def test_shapes_are_backed_up_without_a_chat(tmp_path):
    assert run("backup", str(tmp_path / "none.zip")).exit_code == 2
    add_shape("yes", '{"name": "yes", "title": "Yes", "regex": "yes"}')
    result = run("backup", str(tmp_path / "shapes.zip"))
    assert result.exit_code == 0
    assert "0 chat(s), 1 shape(s)" in result.stderr
