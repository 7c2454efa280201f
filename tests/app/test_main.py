"""The command line as a whole: what it says of itself, and how it ends when something is wrong with what was typed."""

import sys
from importlib import metadata

import pytest

from app import main as command_line
from app.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["somewhere/__main__.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_version_is_told_also_where_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", lambda name: f"{name}'s 1.2")
    assert run(monkeypatch, "--version") == 0
    monkeypatch.setattr(metadata, "version", missing)
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr() == ("stampo stampo's 1.2\nstampo unknown\n", "")


@pytest.mark.parametrize("group", ["chats", "presets"])
def test_a_group_alone_shows_its_commands_and_nothing_else(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, group) == 2
    shown = capsys.readouterr()
    assert f"Usage: stampo {group}" in shown.out + shown.err
    assert "Try --help" not in shown.out + shown.err


def test_what_the_system_refuses_is_told_with_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise OSError(5, "Input/output error", "/mnt/chats")

    monkeypatch.setattr(command_line, "app", refused)
    assert run(monkeypatch) == 2
    assert capsys.readouterr().err == "/mnt/chats: input/output error.\n"
