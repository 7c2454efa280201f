"""What reaches a terminal is shown, never obeyed."""

import json

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from app.terminal import json_text, narrate, one_line, printable, refuse, well_formed

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
ACTS = {chr(c) for c in [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x61C, 0x200E, 0x200F]}
ACTS |= {chr(c) for c in [*range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]}


@given(ANY_TEXT)
def test_nothing_a_terminal_acts_on_is_left(text: str) -> None:
    assert not set(printable(text)) & (ACTS - {"\n", "\t"})
    assert not set(one_line(text)) & ACTS
    printable(text).encode()


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp"])))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text == well_formed(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x9b31m\x7f\0", "\\x9b31m␡␀"),
        ("abc\u202egpj.exe", "abc\\u202egpj.exe"),
        ("half \ud83d", "half \ufffd"),
        ("👩‍👩‍👧 नमस्ते مرحبا 한국어", "👩‍👩‍👧 नमस्ते مرحبا 한국어"),
        ("[/x] <|im_end|>", "[/x] <|im_end|>"),
    ],
)
def test_control_is_shown_as_what_it_is(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_line_stays_one_line() -> None:
    assert one_line("a\nb\tc") == "a␊b␉c"


@given(st.dictionaries(st.text(), st.text()))
def test_json_loses_nothing_and_is_harmless(value: dict[str, str]) -> None:
    text = json_text(value)
    assert not set(text) & (ACTS - {"\n"})
    assert json.loads(text) == value


def test_narration_goes_to_standard_error_and_refusal_ends_with_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    narrate("\x1bnote")
    with pytest.raises(typer.Exit) as end:
        refuse("wrong \x07")
    assert end.value.exit_code == 2
    assert capsys.readouterr() == ("", "␛note\nwrong ␇\n")
