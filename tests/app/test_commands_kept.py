"""`stampo chats list` and `stampo export`: data on standard output, sentences on standard error."""

import json
import stat
from pathlib import Path

import pytest
import typer
from chatting import rich_chat
from typer.testing import CliRunner, Result

from app import paths
from app.commands import chats, export
from app.store import Store

app = typer.Typer()
app.command("export")(export.export)
app.add_typer(chats.app, name="chats")


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
