"""Whatever a text holds, nothing of it acts on the terminal: the functions, and the commands that print."""

import pytest
from fuzz_targets import ACTS, fuzz

from app.terminal import one_line, printable


def test_no_text_acts_on_the_terminal() -> None:
    fuzz("terminal output", 200)


@pytest.mark.proof
def test_nor_do_two_thousand() -> None:
    fuzz("terminal output", 2_000)


def test_every_single_character_is_harmless_once_shown() -> None:
    for code in range(0x110000):
        shown = one_line(chr(code))
        assert not ACTS.intersection(shown), hex(code)
    assert printable("\n\t") == "\n\t"
