"""The screens of shapes, driven by keys: library, editor, ways in, results, guards."""

import json
import threading
from contextlib import nullcontext

import pytest
import sessions
from pilots import answered, library, loaded, on, pick, screen, sees, session, until, write

from app.results import Table, table
from app.shapes import add_shape, remove_shape, saved_shape, versions
from app.tui.screens.chat import ChatScreen
from app.tui.screens.document_check import DocumentCheck
from app.tui.screens.results import ResultsScreen
from app.tui.screens.shape_dialogs import GuardsDialog
from app.tui.screens.shape_editor import ShapeEditor
from app.tui.screens.shape_library import ShapeLibrary
from app.tui.screens.shape_save import SaveShape
from app.tui.screens.shape_source import ShapeSource
from app.tui.screens.shape_versions import ShapeVersions
from app.tui.widgets.code_area import CodeArea
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList
from app.tui.widgets.transcript import Transcript
from grammars.spec import Guards, ShapeError

STOP = {"end": "stop"}
WIDE = (160, 50)
HOSTILE = "a [/x] b \x1b[31m \u202e [@click=app.quit]x[/] 漢字 👩‍👩‍👧"
PET = json.dumps({"title": HOSTILE, "type": "object", "properties": {"age": {"type": "integer"}}})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Shapes are files here: the library's own functions are at work."""
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))


def highlight(pilot, name: str) -> None:
    shown = pilot.app.screen
    shown._read(name)
    assert shown._highlighted_name == name


async def replace_text(pilot, text: str) -> None:
    area = pilot.app.screen.query_one(CodeArea)
    area.put(text)
    await pilot.pause()


async def shorthand(pilot) -> None:
    """Begin a shape in the first of the ways that are offered."""
    await pilot.press("n")
    await sees(pilot, "Pydantic class")
    await pilot.press("enter")
    await on(pilot, ShapeSource)


async def test_the_example_of_the_shorthand_gives_way_to_what_is_typed_each_time(open_app):
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        await shorthand(pilot)
        await sees(pilot, "calm|tense")
        await pilot.press("escape")
        await on(pilot, ShapeLibrary)
        await shorthand(pilot)
        await sees(pilot, "calm|tense")
        await pilot.press("a")
        await until(pilot, lambda: pilot.app.screen.query_one(CodeArea).text == "a")


async def test_a_shape_from_shorthand_is_written_saved_and_used(open_app):
    async with open_app({"turns": [[{"say": '{"name":"Ann","age":3}', "size": 30}, STOP]]}, WIDE) as pilot:
        await loaded(pilot)
        await library(pilot)
        await shorthand(pilot)
        await replace_text(pilot, "name, age intt")
        await sees(pilot, "Line 1, column 11")
        await replace_text(pilot, "name, age int 0..9")
        await sees(pilot, '"maximum": 9')
        await pilot.press("ctrl+s")
        await on(pilot, ShapeEditor)
        await sees(pilot, "Usable")
        await sees(pilot, '{"name":"‹text›","age":‹whole number›}')
        await pilot.press("ctrl+s")
        await on(pilot, SaveShape)
        await pilot.press(*"pet", "enter")
        await on(pilot, ShapeLibrary)
        await sees(pilot, "Saved pet")
        await pilot.press("enter")
        await on(pilot, ChatScreen)
        assert session(pilot).chat.shape == saved_shape("pet").preset.spec()
        await write(pilot, "go")
        await answered(pilot, 2)


async def test_the_editor_says_what_is_wrong_and_where_and_fixes_what_it_offers(open_app):
    add_shape("pet", PET)
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        highlight(pilot, "pet")
        await pilot.press("e")
        await on(pilot, ShapeEditor)
        await replace_text(
            pilot, '{"type": "object",\n "properties": {"a": {"type": "string", "minLenght": 3}}}'
        )
        await sees(pilot, "minLenght")
        await sees(pilot, "Warning")
        await pilot.press("f6", "enter")
        assert pilot.app.screen.query_one(CodeArea).cursor_location[0] == 1
        await pilot.press("f5")
        await sees(pilot, "Fixed")
        assert '"minLength"' in pilot.app.screen.query_one(CodeArea).text
        await replace_text(pilot, '{"type": "strin"}')
        await sees(pilot, "Not usable")
        await sees(pilot, "did you mean string?")
        await pilot.press("ctrl+t")
        await sees(pilot, "cannot be used yet")
        await pilot.press("ctrl+s")
        await on(pilot, SaveShape)
        await pilot.press("enter")
        await sees(pilot, "Not saved")
        assert saved_shape("pet").preset.json_schema == json.loads(PET)


async def test_unsaved_changes_are_kept_and_said_and_replacing_asks_twice(open_app):
    add_shape("pet", PET)
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        highlight(pilot, "pet")
        await pilot.press("e")
        await on(pilot, ShapeEditor)
        await replace_text(pilot, '{"type": "integer"}')
        await pilot.press("escape")
        await on(pilot, ShapeLibrary)
        await sees(pilot, "Unsaved changes are kept until Stampo ends; E goes on with them.")
        await pilot.press("escape")
        await on(pilot, ChatScreen)
        await library(pilot)
        highlight(pilot, "pet")
        await pilot.press("e")
        await on(pilot, ShapeEditor)
        assert pilot.app.screen.query_one(CodeArea).text == '{"type": "integer"}'
        await pilot.press("ctrl+s")
        await on(pilot, SaveShape)
        await pilot.press("enter")
        await sees(pilot, "You have a shape named pet.")
        assert saved_shape("pet").preset.json_schema == json.loads(PET)
        await pilot.press("enter")
        await on(pilot, ShapeLibrary)
        assert saved_shape("pet").preset.json_schema == {"type": "integer"}
        assert len(versions("pet")) == 2
        await pilot.press("v")
        await on(pilot, ShapeVersions)
        await pilot.press("down", "enter")
        await on(pilot, ShapeLibrary)
        assert saved_shape("pet").preset.json_schema == json.loads(PET)


async def test_shapes_are_copied_renamed_removed_and_brought_back(open_app):
    add_shape("pet", PET)
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        highlight(pilot, "pet")
        await pilot.press("c", "enter")
        await on(pilot, ShapeLibrary)
        assert saved_shape("pet-2").preset.json_schema == json.loads(PET)
        await pilot.press("r")
        await pilot.pause()
        pilot.app.screen.query_one(PlainInput).value = "pet"
        await pilot.press("enter")
        await sees(pilot, "You have a shape named pet already.")
        pilot.app.screen.query_one(PlainInput).value = "dog"
        await pilot.press("enter")
        await on(pilot, ShapeLibrary)
        await pilot.press("d")
        await sees(pilot, "Removed dog; U brings it back.")
        with pytest.raises(ShapeError):
            saved_shape("dog")
        await pilot.press("u")
        await sees(pilot, "dog is back.")
        assert saved_shape("dog").preset
        highlight(pilot, "city")
        await pilot.press("delete")
        await sees(pilot, "comes with Stampo and stays")


async def test_what_was_removed_in_an_earlier_session_can_be_brought_back(open_app):
    add_shape("pet", PET)
    remove_shape("pet")
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        await pilot.press("u")
        await sees(pilot, "Removed shapes")
        await pilot.press("enter")
        await on(pilot, ShapeVersions)
        await pilot.press("enter")
        await on(pilot, ShapeLibrary)
        assert saved_shape("pet").preset


async def test_search_finds_by_tag_and_kind_and_a_broken_file_is_listed_and_opened(open_app, tmp_path):
    add_shape("pet", json.dumps({"name": "pet", "title": "Pet", "tags": ["zoo"], "regex": "[a-z]+"}))
    (tmp_path / "home" / "shapes" / "bad.json").write_text('{"name": "bad", "title": "Bad", "regex": "[a"')
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        await pilot.press("slash", *"zoo regular")
        await sees(pilot, "1 of ")
        assert pilot.app.screen._highlighted_name == "pet"
        await pilot.press("escape")
        highlight(pilot, "bad")
        await sees(pilot, "Cannot be used")
        await pilot.press("enter")
        await sees(pilot, "bad cannot be used; E opens it in the editor.")
        await pilot.press("e")
        await on(pilot, ShapeEditor)
        assert "[a" in pilot.app.screen.query_one(CodeArea).text


async def test_a_document_is_tested_and_the_first_fault_is_found(open_app, tmp_path):
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        highlight(pilot, "yes-no")
        await pilot.press("t")
        await on(pilot, DocumentCheck)
        await replace_text(pilot, "yes\n")
        await sees(pilot, "It fits.")
        await pilot.press("escape")
        highlight(pilot, "rating")
        await pilot.press("t")
        await on(pilot, DocumentCheck)
        await replace_text(pilot, '{"reason": "x",\n "stars": 99}')
        await sees(pilot, "It does not fit at $.stars")
        await pilot.press("f6")
        assert pilot.app.screen.query_one(CodeArea).cursor_location == (1, 1)
        (tmp_path / "reply.json").write_text('{"reason": "because", "stars": 3}')
        await replace_text(pilot, f"@{tmp_path / 'reply.json'}")
        await sees(pilot, "It fits.")
        await replace_text(pilot, "@/nowhere")
        await sees(pilot, "/nowhere does not exist")


async def test_an_example_a_class_and_a_file_become_schemas(open_app, tmp_path):
    (tmp_path / "here" / "pets.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Pet:\n    legs: int\n"
    )
    (tmp_path / "here" / "g.lark").write_text('start: "hi"')
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        await pilot.press("n", "down", "enter")
        await on(pilot, ShapeSource)
        await replace_text(pilot, '{"legs": 4, "names": []}')
        await sees(pilot, "The example shows nothing inside $.names")
        await sees(pilot, '"legs"')
        await pilot.press("escape", "n", "down", "down", "enter")
        await on(pilot, ShapeSource)
        await pilot.press(*"pets.py:Pet")
        await pilot.press("ctrl+s")
        await sees(pilot, "Press Enter on the name first.")
        await pilot.press("enter")
        await sees(pilot, '"legs"')
        await pilot.press("escape", "n", "down", "down", "down", "enter")
        await on(pilot, ShapeSource)
        await pilot.press(*"g.lark", "enter")
        await sees(pilot, "Ctrl+S goes on")
        await pilot.press("ctrl+s")
        await on(pilot, ShapeEditor)
        await sees(pilot, "Lark grammar")
        await sees(pilot, "Usable")


async def test_the_persons_own_editor_brings_its_text_back(open_app, tmp_path, monkeypatch):
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\nprintf \'{"type": "null"}\' > "$1"\n')
    script.chmod(0o700)
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        highlight(pilot, "city")
        await pilot.press("e")
        await on(pilot, ShapeEditor)
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        monkeypatch.setenv("VISUAL", str(script))
        await pilot.press("ctrl+e")
        await until(pilot, lambda: pilot.app.screen.query_one(CodeArea).text == '{"type": "null"}')
        monkeypatch.setenv("VISUAL", "false")
        await pilot.press("ctrl+e")
        await sees(pilot, "false ended with exit code 1")
        monkeypatch.setenv("VISUAL", "/no/such/editor")
        await pilot.press("ctrl+e")
        await sees(pilot, "no such file")


async def test_guards_are_changed_shown_in_the_bar_and_refused_with_a_sentence(open_app):
    async with open_app({}, WIDE) as pilot:
        await pick(pilot, "city")
        await pilot.press("f10")
        await on(pilot, GuardsDialog)
        field = pilot.app.screen.query_one("#guard-digits", PlainInput)
        field.value = "many"
        await pilot.press("enter")
        await sees(pilot, "digits: a whole number above 0, or off; not many")
        field.value = "5"
        pilot.app.screen.query_one("#guard-depth", PlainInput).value = "off"
        await pilot.press("f3", "enter")
        await on(pilot, ChatScreen)
        await sees(pilot, "guards: digits 5, depth off")
        shape = session(pilot).chat.shape
        assert shape.guards == Guards(digits=5, depth=None)
        assert shape.whitespace == "spaced"
        await pilot.press("f10")
        await on(pilot, GuardsDialog)
        await pilot.press("f5", "escape")
        await on(pilot, ChatScreen)
        assert session(pilot).chat.shape == shape


async def test_replies_of_all_chats_are_a_table_that_filters_exports_and_opens(open_app, tmp_path):
    turns = [[{"say": f'{{"n":{number}}}', "size": 9}, STOP] for number in (10, 9)]
    async with open_app({"turns": [*turns, [{"say": HOSTILE}, STOP]]}, WIDE) as pilot:
        await loaded(pilot)
        for number in range(3):
            await pick(pilot, "city")
            await write(pilot, f"chat {number} {HOSTILE}")
            await answered(pilot, 2)
            if number < 2:
                await pilot.press("ctrl+n")
        first = session(pilot).chats()[-1]
        pilot.app.screen._shelf.replies()
        await on(pilot, ResultsScreen)
        await sees(pilot, "3 of 3")
        await sees(pilot, "漢字")
        assert not set(screen(pilot)) & set("\x1b\u202e")
        await pilot.press("s")
        await sees(pilot, "n ▲")
        assert [row.words("n") for row in pilot.app.screen._rows] == ["9", "10", ""]
        await pilot.press("slash", *"n:1", "enter")
        await sees(pilot, "1 of 3")
        await pilot.press("c")
        await sees(pilot, "city-replies.csv")
        assert (tmp_path / "here" / "city-replies.csv").read_text().splitlines()[1].startswith("10,")
        await pilot.press("j", "l")
        await sees(pilot, "city-replies.jsonl")
        assert json.loads((tmp_path / "here" / "city-replies.json").read_text())[0]["reply"] == {"n": 10}
        chosen = pilot.app.screen._rows[0].message
        here = session(pilot).path
        session(pilot).store.trash_message(here[-1].id)  # as another window would
        await sees(pilot, "1 of 2")
        assert pilot.app.screen._rows[0].message == chosen
        await pilot.press("enter")
        await on(pilot, ChatScreen)
        assert session(pilot).chat.id == first.id
        await until(pilot, lambda: pilot.app.screen.query_one(Transcript).selected.content == '{"n":10}')


async def test_replies_that_take_long_to_read_are_read_once(open_app, monkeypatch):
    # Each second another reading began and ended the one before, so that none came to its end.
    go, begun = threading.Event(), []

    def slow(*given) -> Table:
        begun.append(given)
        go.wait(10)
        return table(*given)

    async with open_app({"turns": [[{"say": '{"n":1}', "size": 9}, STOP]]}, WIDE) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "go")
        await answered(pilot, 2)
        pilot.app.screen._shelf.replies()
        await on(pilot, ResultsScreen)
        await sees(pilot, "1 of 1")
        monkeypatch.setattr("app.tui.screens.results.table", slow)
        session(pilot).store.trash_message(session(pilot).path[-1].id)
        await sessions.until(lambda: begun)
        pilot.app.screen._follow()
        go.set()
        await sees(pilot, "0 of 0")
        assert len(begun) == 1


async def test_a_reply_on_another_branch_is_shown_on_its_branch(open_app):
    turns = [[{"say": f'{{"n":{number}}}', "size": 9}, STOP] for number in (1, 2)]
    async with open_app({"turns": turns}, WIDE) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "go")
        await answered(pilot, 2)
        session(pilot).regenerate(session(pilot).path[1].id)
        await until(pilot, lambda: not session(pilot).busy and session(pilot).path[1].content == '{"n":2}')
        pilot.app.screen._shelf.replies()
        await on(pilot, ResultsScreen)
        await sees(pilot, "2 of 2")
        await pilot.press("down", "enter")
        await on(pilot, ChatScreen)
        await until(pilot, lambda: session(pilot).path[1].content == '{"n":1}')


@pytest.mark.parametrize("size", [(160, 50), (40, 15)])
async def test_hostile_names_titles_and_texts_are_shown_as_text(open_app, size):
    add_shape(
        "pet",
        json.dumps(
            {
                "name": "pet",
                "title": HOSTILE,
                "tags": [HOSTILE],
                "description": HOSTILE,
                "example_prompt": HOSTILE,
                "json_schema": {"title": HOSTILE, "enum": [HOSTILE, HOSTILE + "2"]},
            }
        ),
    )
    async with open_app({}, size) as pilot:
        await library(pilot)
        highlight(pilot, "pet")
        for key, kind in (
            ("", ShapeLibrary),
            ("v", ShapeVersions),
            ("t", DocumentCheck),
            ("l", ResultsScreen),
            ("e", ShapeEditor),
        ):
            if key:
                await pilot.press(key)
                await on(pilot, kind)
            if kind is DocumentCheck:
                await replace_text(pilot, json.dumps(HOSTILE))
                await sees(pilot, "It fits.")
            if kind is ShapeEditor:
                await sees(pilot, "sable")
            await pilot.pause()
            assert not set(screen(pilot)) & set("\x1b\x9b\u202e")
            if kind is not ShapeLibrary and kind is not ShapeEditor:
                await pilot.press("escape")
                await on(pilot, ShapeLibrary)
        await pilot.press("ctrl+s")
        await on(pilot, SaveShape)
        assert not set(screen(pilot)) & set("\x1b\x9b\u202e")
        await pilot.press("enter", "enter")
        await on(pilot, ShapeLibrary)
        assert saved_shape("pet").preset.title == HOSTILE
        assert saved_shape("pet").preset.json_schema["enum"] == [HOSTILE, HOSTILE + "2"]


async def test_the_picker_leads_to_the_library(open_app):
    async with open_app({}, WIDE) as pilot:
        await pilot.press("ctrl+t", "ctrl+l")
        await on(pilot, ShapeLibrary)
        assert pilot.app.screen.query_one(PlainList).has_focus
        await pilot.press("escape")
        await on(pilot, ChatScreen)
        assert session(pilot).chat.shape is None


async def test_what_was_typed_to_begin_a_shape_is_there_again(open_app):
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        await pilot.press("n", "enter")
        await on(pilot, ShapeSource)
        await replace_text(pilot, "colour red|green")
        await pilot.press("escape", "escape")
        await on(pilot, ChatScreen)
        await library(pilot)
        await pilot.press("n", "enter")
        await on(pilot, ShapeSource)
        assert pilot.app.screen.query_one(CodeArea).text == "colour red|green"
        await sees(pilot, '"enum": ["red", "green"]')
        await pilot.press("ctrl+s")
        await on(pilot, ShapeEditor)
        await pilot.press("ctrl+q")  # nothing was changed in the editor, and the shape is saved nowhere
        await sees(pilot, "Not saved: a new shape.")
        assert not pilot.app._exit


async def test_kinds_go_round_and_a_new_shape_goes_back_to_its_beginning(open_app):
    async with open_app({}, WIDE) as pilot:
        await library(pilot)
        await pilot.press("n", "end", "enter")
        await on(pilot, ShapeEditor)
        await sees(pilot, "‹no | yes›")
        await pilot.press("f2")
        await sees(pilot, "JSON Schema")
        await sees(pilot, '{"name":"‹text›"}')
        await replace_text(pilot, '{"type": "null"}')
        await pilot.press("escape")
        await on(pilot, ShapeLibrary)
        await pilot.press("n")
        await on(pilot, ShapeEditor)
        assert pilot.app.screen.query_one(CodeArea).text == '{"type": "null"}'
        await pilot.press("f8")
        await sees(pilot, "A new shape, as at its beginning; Ctrl+Z brings the text back.")
        assert pilot.app.screen.query_one(CodeArea).text == "yes\nno\n"
        await pilot.press("escape")
        await on(pilot, ShapeLibrary)
        await sees(pilot, "Enter pours the next reply into the shape")
        await pilot.press("n")
        await sees(pilot, "A new shape from")
        await pilot.press("enter")
        await on(pilot, ShapeSource)
        await replace_text(pilot, "colour red|green")
        await sees(pilot, "Ctrl+S goes on to the editor")
        await pilot.press("ctrl+s")
        await on(pilot, ShapeEditor)
        made = pilot.app.screen.query_one(CodeArea).text
        assert '"red"' in made
        # F8 once brought the example of a new shape, and what the shorthand had become was gone.
        await replace_text(pilot, '{"type": "null"}')
        await pilot.press("escape")
        await on(pilot, ShapeLibrary)
        await pilot.press("n")
        await on(pilot, ShapeEditor)
        await pilot.press("f2", "f8")
        await until(pilot, lambda: pilot.app.screen.query_one(CodeArea).text == made)
        await sees(pilot, "JSON Schema")
