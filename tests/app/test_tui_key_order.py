"""What is typed in one burst goes where it would go if it were typed slowly."""

import asyncio

import pytest
import sessions
from pilots import answered, loaded, sees, session, until, write
from textual import events

from app.tui.screens.chat import ChatScreen
from app.tui.screens.document_check import DocumentCheck
from app.tui.screens.text_dialog import TextDialog
from app.tui.sending import Sending
from app.tui.widgets.code_area import CodeArea
from app.tui.widgets.composer import Composer
from app.tui.widgets.plain_fields import PlainArea


def burst(pilot, *keys: str) -> None:
    """Send keys as a terminal does that has them all at once: nothing else runs in between."""
    for key in keys:
        pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))


def composed(pilot) -> str:
    """Return what stands in the composer, whichever screen is in front of it."""
    return next(s for s in pilot.app.screen_stack if isinstance(s, ChatScreen)).query_one(Composer).text


async def test_what_is_typed_behind_a_key_that_opens_a_dialog_is_in_the_dialog(open_app):
    async with open_app({"turns": [[{"say": "ok"}, {"end": "stop"}]]}) as pilot:
        await loaded(pilot)
        burst(pilot, "ctrl+t", *"mood", "enter", *"x")
        await until(pilot, lambda: composed(pilot) == "x")
        assert session(pilot).chat.shape.name == "mood"
        await pilot.press("backspace")
        await write(pilot, "Hi")
        await answered(pilot, 2)
        burst(pilot, "ctrl+up", "up", "e", *"abc")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        await until(pilot, lambda: pilot.app.screen.query_one(PlainArea).text == "Hiabc")
        # Keys with priority, such as Ctrl+S, once ran before the field had what was typed in front of them.
        burst(pilot, "escape", "escape", *"de", "f4", *"sys", "ctrl+s", *"f")
        await until(pilot, lambda: composed(pilot) == "def")
        assert session(pilot).chat.system == "sys"
        assert len(session(pilot).path) == 2
        burst(pilot, "f1", "escape", "ctrl+k", *"ab", "escape", *"gh")
        await until(pilot, lambda: composed(pilot) == "defgh")


async def test_a_letter_with_alt_is_a_key_of_the_screen_and_no_text(open_app):
    async with open_app({}) as pilot:
        await loaded(pilot)
        pilot.app.set_keymap({"chat.system": "alt+t"})
        pilot.app.post_message(events.Key("a", "a"))
        pilot.app.post_message(events.Key("alt+t", "t"))
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        pilot.app.post_message(events.Key("alt+x", "x"))
        await pilot.press("b")
        assert pilot.app.screen.query_one(PlainArea).text == "b"
        assert composed(pilot) == "a"


async def test_what_is_typed_last_is_in_what_a_key_behind_it_takes(open_app):
    async with open_app({}) as pilot:
        await loaded(pilot)
        # Ctrl+S once took the schema of what was typed a fifth of a second before, or said that there was none.
        burst(pilot, "ctrl+l", "n", "enter", *"x a|b", "ctrl+s", "ctrl+t", *'{"x":"c"}')
        await until(pilot, lambda: isinstance(pilot.app.screen, DocumentCheck))
        await sees(pilot, "It does not fit")
        assert '"x"' in pilot.app.screen_stack[-2].query_one(CodeArea).text


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("ab", "ab"),
        # Keys behind the second that had to wait once waited for the screen: only the first wait had a bound.
        (("a", "left", "b", "left", "c"), "cba"),
    ],
)
async def test_keys_do_not_wait_for_long_behind_one_that_takes_its_time(open_app, monkeypatch, keys, text):
    done = asyncio.Event()
    monkeypatch.setattr(Sending, "submit", lambda self, text: done.wait())
    async with open_app({}) as pilot:
        await loaded(pilot)
        burst(pilot, "enter", *keys)
        await sessions.until(lambda: composed(pilot) == text)  # the pilot would wait for the screen
        assert not done.is_set()
        done.set()
