"""Other keys for actions: what may be given, what would clash, and what is put in force."""

from itertools import combinations

import pytest
from textual.binding import Binding

from app.tui.keymap import Action, _meet, actions, clashes, for_textual, in_force, remapped, usable

LISTED = [
    Action(id="pick", owner="ChatScreen", part="Main screen", keys=("ctrl+t",), what="Pick"),
    Action(id="stop", owner="ChatScreen", part="Main screen", keys=("escape",), what="Stop"),
    Action(id="up", owner="Transcript", part="Main screen", keys=("up", "k"), what="Up"),
    Action(id="edit", owner="Transcript", part="Main screen", keys=("e",), what="Edit"),
    Action(id="first", owner="ChatList", part="Main screen", keys=("e",), what="First"),
    Action(id="save", owner="TextDialog", part="Text dialog", keys=("ctrl+s",), what="Save"),
]


def test_no_two_actions_of_one_screen_came_with_the_same_key() -> None:
    """But for Escape in a part of the screen, which leads back from there first."""
    listed = actions()
    assert len(listed) > 50
    shared = {
        (one.id, other.id, key)
        for one, other in combinations(listed, 2)
        for key in set(one.keys) & set(other.keys)
        if _meet(one, other) and key != "escape"
    }
    assert shared == set()


def test_every_action_of_the_interface_has_its_words() -> None:
    assert [action.id for action in actions() if not action.what] == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"pick": ["escape"]}, "escape leads back."),
        ({"pick": ["x"]}, "x is typed into the message."),
        ({"pick": ["["]}, "left_square_bracket is typed into the message."),
        ({"pick": ["ctrl+a"]}, "ctrl+a edits the message."),
        ({"pick": ["f9", "ctrl+p"]}, "ctrl+p opens the palette."),
        ({"edit": ["ctrl+t"]}, "ctrl+t is the key of pick (Pick)."),
        ({"edit": ["k"]}, "k is the key of up (Up)."),
        ({"edit": ["up"]}, "up is the key of up (Up)."),
    ],
)
def test_what_would_clash_is_told(given: dict, fault: str) -> None:
    assert clashes(LISTED, given) == {next(iter(given)): fault}
    kept, told = usable(LISTED, given)
    assert (kept, told) == ({}, [f"The keys of {next(iter(given))} are not used: {fault}"])


@pytest.mark.parametrize(
    "given",
    [
        {"pick": ["f9"]},
        {"pick": ["ctrl+s"]},  # of a dialog, which is not there at the same time
        {"edit": ["x"], "first": ["x"]},  # one part of the screen or the other has the focus
        {"edit": ["k"], "up": ["e"]},  # changed places
        {"stop": ["escape", "f9"]},
    ],
)
def test_what_does_not_clash_is_put_in_force(given: dict) -> None:
    assert usable(LISTED, given) == ({name: tuple(keys) for name, keys in given.items()}, [])


def test_one_clash_does_not_take_the_other_keys_along() -> None:
    kept, told = usable(LISTED, {"pick": ["x"], "edit": ["m"], "edti": ["q"]})
    assert kept == {"edit": ("m",)}
    assert told == [
        "There is no action 'edti' to give keys to; 'edit' is the nearest.",
        "The keys of pick are not used: x is typed into the message.",
    ]


def test_keys_are_named_as_textual_names_them() -> None:
    assert for_textual({"a": ["[", "f9"]}) == {"a": "left_square_bracket,f9"}
    bindings = [Binding("x", "a", id="a"), Binding("y", "b", id="b"), ("z", "c")]
    assert [binding.key for binding in remapped(bindings, {"a": ["[", "f9"]})] == [
        "left_square_bracket,f9",
        "y",
    ]
    assert in_force(LISTED, {"edit": ["["]})["edit"] == ("left_square_bracket",)
