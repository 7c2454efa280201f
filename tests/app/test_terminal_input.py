"""Pastes arrive whole, whatever is in them and however they are cut; Alt stays with its key; bytes end nothing."""

import pytest
from textual.drivers import linux_driver
from textual.events import Key, Paste

from app.tui.terminal_input import TerminalParser, install

START, END = "\x1b[200~", "\x1b[201~"


def events(*chunks: str) -> list[str]:
    parser = TerminalParser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return [
        f"paste {event.text}" if isinstance(event, Paste) else event.key
        for event in found
        if isinstance(event, Key | Paste)
    ]


def test_escape_characters_in_a_paste_lose_nothing() -> None:
    assert events(f"a{START}one\x1b[31mtwo\x1bthree{END}b") == ["a", "paste one\x1b[31mtwo\x1bthree", "b"]


@pytest.mark.parametrize("size", range(1, 9))
def test_a_paste_may_be_cut_anywhere_behind_its_opening(size: int) -> None:
    data = f"one\x1b[20two{END}x{START}again{END}"
    head, rest = data[:14], data[14:]
    chunks = [START + head[:size], *(head[i : i + size] for i in range(size, len(head), size)), rest]
    assert events(*chunks) == ["paste one\x1b[20two", "x", "paste again"]


def test_keys_go_through_as_before() -> None:
    assert events("x\x1b[A", "\r") == ["x", "up", "enter"]
    assert events(f"{START}{END}") == ["paste "]


@pytest.mark.parametrize(
    ("sequence", "key"), [("\r", "alt+enter"), ("\x7f", "alt+backspace"), ("\x08", "alt+backspace")]
)
def test_alt_is_said_by_an_escape_in_front(sequence: str, key: str) -> None:
    assert events(f"a\x1b{sequence}b") == ["a", key, "b"]
    assert events(f"\x1b{sequence}\x1b{sequence}\x1b[A") == [key, key, "up"]


def test_an_escape_in_front_of_another_key_does_not_change_what_that_does() -> None:
    assert events("\x1b\x11", "") == ["ctrl+q"]


def test_a_long_paste_is_one_event() -> None:
    text = "0123456789" * 100_000
    chunks = [text[i : i + 4096] for i in range(0, len(text), 4096)]
    assert events(START, *chunks, END) == [f"paste {text}"]


def test_the_terminal_is_read_with_this_parser_and_bytes_that_are_no_text_end_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("XTermParser", "getincrementaldecoder"):
        monkeypatch.setattr(linux_driver, name, getattr(linux_driver, name))
    install()
    assert linux_driver.XTermParser is TerminalParser
    decode = linux_driver.getincrementaldecoder("utf-8")().decode
    read = "".join(decode(part) for part in (b"\xe9a\xed\xa0\x80\xc3", b"\xa9"))
    assert read == "\udce9a\udced\udca0\udc80é"
    assert events(read) == events("\ufffda\ufffd\ufffd\ufffdé")
    assert events(f"{START}{read}{END}") == [f"paste {read}"]
