"""What a person does with messages: by keys on the transcript, over a scripted engine."""

import json
from unittest.mock import Mock

import pytest
from pilots import answered, loaded, pick, screen, sees, session, until, write
from textual.widgets import Input, Tree

from app.session import RefusedError
from app.tui.screens.chat import ChatScreen
from app.tui.screens.json_tree import JsonTree
from app.tui.screens.text_dialog import TextDialog
from app.tui.widgets.composer import Composer
from app.tui.widgets.message_view import MessageView
from app.tui.widgets.plain_fields import PlainArea
from app.tui.widgets.stream_markdown import StreamMarkdown
from app.tui.widgets.transcript import PAGE, Transcript
from grammars.spec import GrammarSpec

STOP = {"end": "stop"}
CUT = {"end": "length"}


def turns(*texts: str, end: dict = STOP) -> dict:
    return {"turns": [[{"say": text}, end] for text in texts]}


def contents(pilot) -> list[str]:
    return [message.content for message in session(pilot).path]


async def go_to_messages(pilot) -> None:
    await pilot.press("ctrl+up")
    await until(pilot, lambda: pilot.app.screen.query_one(Transcript).has_focus)


async def test_a_message_is_edited_and_its_siblings_are_walked(open_app):
    async with open_app(turns("first", "second")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        await pilot.press("up", "e")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        await pilot.press("!", "ctrl+s")
        await until(pilot, lambda: contents(pilot) == ["one!", "second"])
        await sees(pilot, "You  2/2")
        await go_to_messages(pilot)
        await pilot.press("up", "up", "left_square_bracket")
        await until(pilot, lambda: contents(pilot) == ["one", "first"])
        await sees(pilot, "You  1/2")


async def test_the_message_that_keys_act_on_is_marked_at_every_moment(open_app):
    async with open_app(turns("first", "second", "third")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        for key, content in (("r", "second"), ("R", "third")):
            # The mark was once gone when a reply had been asked for again, until Up was pressed.
            await pilot.press(key)
            await until(pilot, lambda content=content: contents(pilot) == ["one", content])
            await answered(pilot, 2)
            await until(
                pilot,
                lambda content=content: (
                    [view.message.content for view in pilot.app.screen.query("MessageView.-selected")]
                    == [content]
                ),
            )
        await pilot.press("up")
        assert pilot.app.screen.query_one(Transcript).selected.content == "one"


async def test_a_cancelled_edit_is_there_again(open_app):
    async with open_app(turns("first")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        await pilot.press("up", "e")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        await pilot.press("!", "escape")
        await sees(pilot, "What you typed is there again")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        assert pilot.app.screen.query_one(PlainArea).text == "one!"
        assert contents(pilot) == ["one", "first"]
        await pilot.press("escape", "e")  # cancelled once more, it is still there
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        assert pilot.app.screen.query_one(PlainArea).text == "one!"


async def test_an_edit_that_is_refused_is_there_again_and_quitting_asks_for_it(open_app, monkeypatch):
    async with open_app(turns("first")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        await pilot.press("up", "e")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        monkeypatch.setattr(session(pilot), "edit", Mock(side_effect=RefusedError("Not now.")))
        await pilot.press("!", "ctrl+s")
        await sees(pilot, "Not now. What you typed is there again")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        assert pilot.app.screen.query_one(PlainArea).text == "one!"
        await pilot.press("?", "ctrl+q")
        await sees(pilot, "Not saved: the text in front.")
        assert pilot.app.is_running
        await pilot.press("ctrl+q")
        await until(pilot, lambda: pilot.app._exit)


async def test_a_reply_is_asked_for_again_and_keeps_its_shape(open_app):
    async with open_app(turns("positive", "negative")) as pilot:
        await loaded(pilot)
        await pick(pilot, "mood")
        await write(pilot, "one")
        await answered(pilot, 2)
        await pick(pilot, "none")
        await go_to_messages(pilot)
        await pilot.press("r")
        await until(pilot, lambda: contents(pilot) == ["one", "negative"])
        assert session(pilot).path[1].shape.name == "mood"
        await sees(pilot, "2/2")


async def test_a_cut_reply_goes_on(open_app):
    async with open_app(turns("half", "half and more", end=CUT)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        await pilot.press("c")
        await until(pilot, lambda: contents(pilot) == ["one", "half and more"])
        assert session(pilot).path[1].reply.continued_from is not None


@pytest.mark.parametrize("key", ["d", "delete"])
async def test_what_goes_into_the_trash_comes_back(open_app, key):
    async with open_app(turns("first", "second")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await write(pilot, "two")
        await answered(pilot, 4)
        await go_to_messages(pilot)
        await pilot.press("up", key)
        await until(pilot, lambda: contents(pilot) == ["one", "first"])
        await sees(pilot, "U takes it out again")
        await pilot.press("u")
        await until(pilot, lambda: contents(pilot) == ["one", "first", "two", "second"])


async def test_a_branch_begins_at_a_message(open_app):
    async with open_app(turns("first", "second", "third")) as pilot:
        await loaded(pilot)
        for number, text in enumerate(("one", "two"), start=1):
            await write(pilot, text)
            await answered(pilot, 2 * number)
        await go_to_messages(pilot)
        await pilot.press("up", "up", "b")
        await until(pilot, lambda: contents(pilot) == ["one", "first"])
        await pilot.press("escape")
        await write(pilot, "three")
        await until(pilot, lambda: contents(pilot) == ["one", "first", "three", "third"])


async def test_the_shape_of_an_old_reply_is_used_again(open_app):
    async with open_app(turns("positive")) as pilot:
        await loaded(pilot)
        await pick(pilot, "mood")
        await write(pilot, "one")
        await answered(pilot, 2)
        await pick(pilot, "none")
        await go_to_messages(pilot)
        await pilot.press("s")
        await until(pilot, lambda: session(pilot).chat.shape is not None)
        assert session(pilot).chat.shape.name == "mood"


async def test_a_json_reply_folds_and_opens_as_a_tree_with_paths(open_app):
    value = {
        "name": "a [/x] b",
        "parts": [{"long name of a member": "x" * 40, "n": number} for number in range(3)],
    }
    async with open_app(turns(json.dumps(value))) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        await pilot.press("t")
        await until(pilot, lambda: "[…]" in screen(pilot))
        await pilot.press("t")
        await until(pilot, lambda: "{…}" in screen(pilot))
        await pilot.press("t", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, JsonTree))
        await sees(pilot, "a [/x] b")
        await pilot.press("down", "down", "enter", "down")
        await sees(pilot, "$.parts[0]")
        await pilot.press("a")
        assert sum(1 for _ in pilot.app.screen.query_one(Tree).root.children) == 2
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


async def test_a_reply_that_does_not_fit_says_where(open_app):
    async with open_app(turns('{"name":"x","area":"big"}')) as pilot:
        await loaded(pilot)
        schema = {"type": "object", "properties": {"area": {"type": "number"}}}
        session(pilot).set_shape(GrammarSpec(kind="json_schema", text=json.dumps(schema)))
        await write(pilot, "one")
        await answered(pilot, 2)
        await sees(pilot, "does not fit (at $.area:")


async def test_a_free_reply_is_markdown_while_it_grows_and_after(open_app):
    text = "# Head\n\nSome **bold** <b>text</b> [name](http://example.org/x).\n\n- one\n- two\n"
    async with open_app({"turns": [[{"say": text, "size": 7}, {"hold": True}]]}) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await until(pilot, lambda: pilot.app.screen.query(StreamMarkdown))
        await sees(pilot, "• one")
        assert "**" not in screen(pilot)
        await pilot.press("escape")
        await answered(pilot, 2)
        await sees(pilot, "Some bold <b>text</b> name (http://example.org/x).")


async def test_a_text_is_found_among_messages_that_are_not_mounted(open_app, store):
    chat = store.create_chat(title="old")
    parent = None
    for number in range(PAGE + 20):
        parent = store.add_user(chat, parent, f"message {number} ")
    async with open_app({}) as pilot:
        session(pilot).open(chat)
        await sees(pilot, "message 49")
        await pilot.press("ctrl+f", *"message 3 ")
        await sees(pilot, "1 of 1")
        await until(pilot, lambda: len(pilot.app.screen.query(MessageView)) > PAGE)
        await sees(pilot, "message 3 ")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen.query_one(Transcript).has_focus)
        assert pilot.app.screen.query_one(Transcript).selected.content == "message 3 "
        pilot.app.screen.query_one(Transcript).focus()
        await pilot.press("ctrl+f")
        assert pilot.app.screen.query_one("#find Input", Input).has_focus


@pytest.mark.parametrize("lines", [200, 2000])  # the longer one is drawn row by row
async def test_each_place_of_a_text_in_a_long_message_is_gone_to(open_app, store, lines):
    chat = store.create_chat(title="long")
    store.add_user(chat, None, "\n".join(f"line {number} of {number // 100}#" for number in range(lines)))
    async with open_app({}, (60, 24)) as pilot:
        session(pilot).open(chat)
        await sees(pilot, f"line {lines - 1} of")
        await pilot.press("ctrl+f", *"LINE 50 of")
        await sees(pilot, "1 of 1")
        await sees(pilot, "line 50 of")
        pilot.app.screen.query_one(Input).value = "of 1#"
        await sees(pilot, "100 of 100")
        await sees(pilot, "line 199 of 1#")
        await pilot.press("down")
        await sees(pilot, "line 100 of 1#")


async def test_a_text_is_found_where_a_row_ends_in_it(open_app, store):
    chat = store.create_chat(title="long")
    text = "".join(f"第{number:04d}段文字很长很长很长很长很长很长很长" for number in range(100))
    message = store.add_user(chat, None, f"{text}\n{'theory ' * 90}the end")
    async with open_app({}, (40, 15)) as pilot:
        session(pilot).open(chat)
        await sees(pilot, "the end")
        view = pilot.app.screen.query_one(Transcript).view(message)
        rows = [view.row_of(f"第{number:04d}段", 0) for number in range(100)]
        assert rows == sorted(rows)
        assert rows[0] == 1
        assert view.row_of("the ", 0) == view.size.height - 1


async def test_keys_typed_into_the_composer_are_text(open_app):
    async with open_app(turns("first")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await pilot.press("d", "delete", "e", "r", "u")
        assert pilot.app.screen.query_one(Composer).text == "deru"
        assert contents(pilot) == ["one", "first"]


async def test_a_message_is_copied_and_the_way_is_said(open_app, monkeypatch, tmp_path):
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    async with open_app(turns("```py\nx = 1\n```")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await go_to_messages(pilot)
        with monkeypatch.context() as full:
            full.setattr(
                "app.tui.clipboard.write_private", Mock(side_effect=OSError("No space left on device"))
            )
            await pilot.press("k")
            await sees(pilot, "The code could not be copied: No space left on device")
        await pilot.press("k")
        await sees(pilot, "The code was written to")
        assert next((tmp_path / "home").rglob("clipboard.txt")).read_text() == "x = 1\n"
