"""What a person does with whole chats: by keys on the list, in the search and in the trash."""

from unittest.mock import Mock

import pytest
from pilots import answered, loaded, pick, screen, sees, session, until, write
from textual.widgets import Input, OptionList

from app.store.values import StoreError
from app.tui.screens.chat import ChatScreen
from app.tui.screens.search import SearchScreen
from app.tui.screens.shape_dialogs import NameDialog
from app.tui.screens.trash import TrashScreen
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Composer
from app.tui.widgets.find_bar import FindBar
from app.tui.widgets.transcript import Transcript

STOP = {"end": "stop"}
TURN = [{"say": "ok"}, STOP]
HOSTILE = "a [/x] b \x1b[31m \u202e 漢字"


async def talk(pilot, text: str) -> int:
    await write(pilot, text)
    await answered(pilot, 2)
    return session(pilot).chat.id


async def go_to_list(pilot) -> ChatList:
    await pilot.press("f2")
    chats = pilot.app.screen.query_one(ChatList)
    await until(pilot, lambda: chats.has_focus)
    return chats


async def test_a_chat_is_renamed_pinned_put_away_and_taken_back(open_app):
    async with open_app({"turns": [[{"say": "yes"}, STOP]]}, (120, 30)) as pilot:
        await loaded(pilot)
        first = await talk(pilot, HOSTILE)
        await pilot.press("ctrl+n")
        second = await talk(pilot, "second")
        chats = await go_to_list(pilot)
        await pilot.press("down", "r")
        await until(pilot, lambda: isinstance(pilot.app.screen, NameDialog))
        pilot.app.screen.query_one(Input).value = "The [/x] first"
        await pilot.press("enter")
        await sees(pilot, "The [/x] first")
        await pilot.press("p")
        await sees(pilot, "↑The [/x]")
        assert session(pilot).store.chats()[0].id == first
        await pilot.press("d")
        await until(pilot, lambda: session(pilot).store.chat(first).trashed_at)
        assert session(pilot).chat.id == second
        await pilot.press("u")
        await until(pilot, lambda: not session(pilot).store.chat(first).trashed_at)
        assert chats.has_focus


@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
async def test_whoever_puts_the_open_chat_away_stays_where_the_key_for_it_is(open_app, size):
    """The sentence names U; the message field had the focus by then and U was typed into it."""
    async with open_app({"turns": [[{"say": "yes"}, STOP]]}, size) as pilot:
        await loaded(pilot)
        chat = await talk(pilot, "first")
        chats = await go_to_list(pilot)
        await pilot.press("d")
        await sees(pilot, "U takes it out again")
        assert session(pilot).store.chat(chat).trashed_at
        assert chats.has_focus and chats.display
        await pilot.press("u")
        await until(pilot, lambda: not session(pilot).store.chat(chat).trashed_at)


async def test_an_untitled_chat_is_told_by_what_it_holds(open_app):
    async with open_app({}, (120, 30)) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await sees(pilot, "shape: city")
        session(pilot).set_system("Be brief")
        await sees(pilot, "system: Be brief")


async def test_a_search_opens_the_chat_at_the_message(open_app):
    async with open_app({"turns": [[{"say": "a needle [/x]"}, STOP], [{"say": "other"}, STOP]]}) as pilot:
        await loaded(pilot)
        first = await talk(pilot, "hay")
        reply = session(pilot).path[1].id
        await pilot.press("ctrl+n")
        await talk(pilot, "else")
        await pilot.press("ctrl+k")
        await until(pilot, lambda: isinstance(pilot.app.screen, SearchScreen))
        await pilot.press(*"needle", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await until(pilot, lambda: session(pilot).chat.id == first)
        transcript = pilot.app.screen.query_one(Transcript)
        await until(pilot, lambda: transcript.has_focus and transcript.selected.id == reply)
        await pilot.press("escape", "ctrl+k", *"absent")
        await sees(pilot, "Nothing has these words")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


async def test_nothing_is_deleted_without_two_questions(open_app):
    async with open_app({"turns": [[{"say": "yes"}, STOP]]}) as pilot:
        await loaded(pilot)
        chat = await talk(pilot, HOSTILE)
        await go_to_list(pilot)
        await pilot.press("d", "shift+f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, TrashScreen))
        await sees(pilot, "a [/x] b ␛[31m")
        for keys in (
            ("delete",),
            ("d",),
            ("backspace",),
            ("X", "y"),
            ("X", "X", "n"),
            ("E", "X", "y"),
            ("X", "E", "y"),
        ):
            await pilot.press(*keys)
            assert session(pilot).store.chat(chat).trashed_at
        await sees(pilot, "Nothing was deleted")
        await pilot.press("enter")
        await sees(pilot, "Taken out")
        assert not session(pilot).store.chat(chat).trashed_at
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        session(pilot).store.trash_chat(chat)
        session(pilot).refresh()
        await pilot.press("shift+f2", "X", "X", "y")
        await sees(pilot, "Deleted for good")
        assert pilot.app.screen.query_one(OptionList).option_count == 0
        assert "a [/x] b" not in screen(pilot)


async def test_a_text_stays_with_its_chat_whatever_opens_another_one(open_app):
    async with open_app({"turns": [TURN, TURN]}, (130, 40)) as pilot:
        await loaded(pilot)
        first = await talk(pilot, "one")
        composer = pilot.app.screen.query_one(Composer)
        composer.insert("of the first")
        await pilot.press("ctrl+up", "d", "ctrl+n")
        second = session(pilot).chat.id
        composer.insert("of the second")
        pilot.app.screen.action_find()
        assert pilot.app.screen.query_one(FindBar).display
        session(pilot).undo()  # opens the chat from which the message was put into the trash
        await until(pilot, lambda: composer.text == "of the first")
        assert session(pilot).chat.id == first
        await until(pilot, lambda: not pilot.app.screen.query_one(FindBar).display)
        await until(pilot, lambda: pilot.app.focused is not None)
        composer.insert("!")
        session(pilot).open(second)
        pilot.app.screen.keep_draft()  # before a frame was drawn, as when the program ends
        drafts = [session(pilot).store.chat(chat).draft for chat in (first, second)]
        assert drafts == ["of the first!", "of the second"]


async def test_a_text_that_cannot_be_kept_stays_in_the_field(open_app, monkeypatch):
    async with open_app({}, (100, 40)) as pilot:
        await loaded(pilot)
        composer = pilot.app.screen.query_one(Composer)
        composer.insert("long thoughts")
        chat = session(pilot).chat.id
        with monkeypatch.context() as full:
            full.setattr(session(pilot).store, "set_draft", Mock(side_effect=StoreError("The disk is full.")))
            await pilot.press("ctrl+n")
            await sees(pilot, "The disk is full.")
            assert (composer.text, session(pilot).chat.id) == ("long thoughts", chat)
            await pilot.press("ctrl+q")
            await sees(pilot, "Not saved: your unsent text.")
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(pilot.app.focused, ChatList))
        await pilot.press("f3")  # takes the place of the list, which had the focus
        await pilot.press("!")
        await until(pilot, lambda: composer.text == "long thoughts!")
