"""A chat that is not named by a person is named by its first message."""

import pytest

from app.conversation import TITLE_LENGTH, title


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which city?", "Which city?"),
        ("\n  \t\n  Which \t city?  \nand why", "Which city?"),
        ("", ""),
        (" \n ", ""),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
    ],
)
def test_the_title_is_the_first_line_with_words(text: str, expected: str) -> None:
    assert title(text) == expected
    assert len(title(text)) <= TITLE_LENGTH
