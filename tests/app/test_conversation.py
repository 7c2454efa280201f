"""What a chat is called, and what of it the model reads."""

import pytest
from sessions import done, ready

from app.conversation import LEFT_OUT, TITLE_LENGTH, left_out, prompt, title, user_message


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


async def test_the_oldest_turns_are_left_out_of_a_longer_path_only(begin) -> None:
    session = await ready(begin({"turns": [[{"say": "yes"}, {"end": "stop"}]]}))
    session.set_system("Be brief.")
    for text in ("one", "two", "three"):
        session.send(text)
        await done(session)
    session.leave_out(2)
    assert [m.content for m in prompt(session.chat, session.path)] == [
        "Be brief.",
        "two",
        "yes",
        "three",
        "yes",
    ]
    new = user_message("new", (), None)
    session.leave_out(6)
    assert [m.content for m in prompt(session.chat, session.path, new)] == ["Be brief.", "new"]
    for count in (0, -2, 3, 7, "2", None):  # of no use, or of another branch
        assert left_out({LEFT_OUT: count}, session.path, more=True) == 0
    assert left_out({LEFT_OUT: True}, session.path) == 0
    session.edit(session.path[0].id, "one again")  # a branch that is too short
    await done(session)
    assert LEFT_OUT not in session.chat.settings
    assert [m.content for m in session.path] == ["one again", "yes"]
