"""The token lane's layout and the words of the X-ray, without a screen."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from app.tui.widgets.token_lane import ORIGINS, LaneRows, quoted, visible
from app.tui.xray_words import alternative_row, mask_words, origin_words, thought_words
from engine.events import Alternative, Inspected, Origin, Token


def token(text: str, origin: str = "sampled", part: str = "reply", number: int = 1) -> Token:
    return Token(id=number, text=text, origin=origin, part=part)  # type: ignore[arg-type]


def lines(rows: LaneRows) -> list[str]:
    return ["".join(piece.text for piece in row) for row in rows.rows]


HOSTILE = st.text(
    alphabet=st.sampled_from(
        [*'aé {"}\n\t\r', "漢", "😀", "\u200d", "\u0301", "\x1b", "\u202e", "\xa0", "\ufe0f"]
    ),
    max_size=9,
)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a b", "a·b"),
        ("\n\t", "⏎⇥"),
        ("", "∅"),
        ("\x1b[31m", "␛[31m"),
        ("\u202e", "\\u202e"),
        ("\u200d", "◌"),
        ("e\u0301", "e◌"),
        ("a [/x] b", "a·[/x]·b"),
        ("\xa0", "·"),
    ],
)
def test_every_character_of_a_token_is_seen(text: str, seen: str) -> None:
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a b\n", '"a b\\n"'),
        ("\x1b", '"\\u001b"'),
        ("\u200d", '"\\u200d"'),
        ("é漢", '"é漢"'),
        ("\u202e", '"\\u202e"'),
    ],
)
def test_a_quoted_text_hides_nothing(text: str, seen: str) -> None:
    assert quoted(text) == seen


def test_rows_end_behind_newlines_and_parts_have_headings() -> None:
    rows = LaneRows(20)
    rows.append(
        [token("hm", part="reasoning"), token("\n\n", part="reasoning"), token('{"a":'), token(" 1\n}")]
    )
    assert lines(rows) == ["Reasoning", "hm⏎", "⏎", "Reply", '{"a":·1⏎', "}"]
    assert rows.places == [(1, 0), (1, 2), (4, 0), (4, 5)]
    assert rows.at(1, 2) == 1
    assert rows.at(4, 99) == 3
    assert rows.at(0, 0) is None


@given(texts=st.lists(HOSTILE, max_size=20), width=st.integers(2, 12), cut=st.integers(0, 20))
def test_a_lane_that_grew_is_the_lane_laid_out_at_once(texts: list[str], width: int, cut: int) -> None:
    tokens = [token(text) for text in texts]
    whole, grown = LaneRows(width), LaneRows(width)
    whole.append(tokens)
    grown.append(tokens[:cut])
    grown.append(tokens[cut:])
    assert (whole.rows, whole.places) == (grown.rows, grown.places)
    assert len(whole.places) == len(tokens)
    for row in whole.rows:
        cells = [cell_len(piece.text) for piece in row]
        assert cells == [piece.cells for piece in row]
        assert sum(cells) <= width
        assert all(cells)
    for number, (row, cell) in enumerate(whole.places):
        assert whole.at(row, cell) == number
    said = "".join(piece.text for row in whole.rows for piece in row)
    assert said == "".join(map(visible, texts))


def option(number: int, text: str, probability: float, *, legal: bool, share: float = 0.0) -> Alternative:
    return Alternative(
        id=number, text=text, probability=probability, rank=number, legal=legal, share=share, ends=not text
    )


def test_what_the_model_wanted_and_the_shape_forbade_is_said() -> None:
    answer = Inspected(
        turn=-1,
        alternatives=(
            option(1, " \x1b", 0.9, legal=False),
            option(2, "x", 0.00001, legal=True, share=0.99999),
        ),
        forced=False,
        allowed=4,
        masked=96,
        entropy=1.5,
    )
    assert thought_words(answer, token("x", number=2)) == [
        "Model: <0.01%, rank 2; 99.99% of legal",
        'Wanted, but forbidden: " \\u001b" 90.00%',
        "Entropy: 1.50 bits",
    ]
    assert mask_words(4, 100) == "4 legal, 96 masked (96.00%)"
    assert mask_words(None, 100) == "All 100 tokens legal"


def test_rows_of_alternatives_fit_and_say_what_is_forbidden() -> None:
    row = alternative_row(option(1, "漢" * 40, 0.5, legal=False), 1, 40).plain
    assert cell_len(row) <= 40
    assert row.startswith("▸ ███░░░")
    assert "50.00% forbidden" in row
    assert alternative_row(option(2, "", 0.5, legal=True, share=1.0), 1, 60).plain.endswith(
        "(end of the reply)"
    )


def test_every_origin_has_words_and_a_letter_of_its_own() -> None:
    assert len({origin_words(origin) for origin in ORIGINS}) == len(get_args(Origin)) == len(ORIGINS)
    assert len({origin[0] for origin in ORIGINS}) == len(ORIGINS)
