"""Slash commands as they are read, and what the list above the composer offers."""

import pytest

from app.session import RefusedError
from app.tui.slash import (
    COMMANDS,
    SlashRunner,
    beginning_with,
    is_command,
    message,
    number,
    parsed,
    whole_number,
)


def names(text: str) -> list[str]:
    return [command.name for command in beginning_with(text)]


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/new", "new", ""),
        ("/TITLE  A  b ", "title", "A  b"),
        ("/system one\ntwo", "system", "one\ntwo"),
        ("/shape", "shape", ""),
    ],
)
def test_a_command_is_read_with_what_stands_behind_it(text: str, name: str, argument: str) -> None:
    command, rest = parsed(text)
    assert (command.name, rest) == (name, argument)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/exprt", "did you mean /export"),
        ("/zzzzz", "/help lists all"),
        ("/", "no command /;"),
        ("/new x", "takes nothing"),
        ("/title", "Write /title TEXT"),
        ("/\x1b[31m", "␛"),
    ],
)
def test_what_is_no_command_is_said(text: str, why: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parsed(text)
    assert why in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_two_slashes_send_a_text_that_begins_with_one() -> None:
    assert is_command("/usr/bin")
    assert not is_command("//usr/bin")
    assert message("//usr/bin") == "/usr/bin"
    assert message("a // b") == "a // b"


def test_commands_are_offered_while_their_name_is_typed() -> None:
    assert names("/") == [command.name for command in COMMANDS]
    assert names("/ex") == ["export"]
    assert names("/se") == ["search", "seed"]
    assert names("/export ") == names("//") == names("ex") == names("/zz") == []


def test_every_command_does_something() -> None:
    with pytest.raises(ValueError, match="trash"):
        SlashRunner({command.name: lambda _: None for command in COMMANDS if command.name != "trash"})


def test_numbers_are_read_or_refused_with_their_range() -> None:
    assert whole_number("7", 0, "A seed") == 7
    assert number("0.5", 0, 100, "A temperature") == 0.5
    for text in ("-1", "x", "1.5", str(1 << 63)):
        with pytest.raises(RefusedError, match="whole number from 0"):
            whole_number(text, 0, "A seed")
    for text in ("nan", "-0.1", "101", "x"):
        with pytest.raises(RefusedError, match="from 0 to 100"):
            number(text, 0, 100, "A temperature")
