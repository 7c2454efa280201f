"""The interface, driven by keys over a scripted engine: what a person does, sees and finds again."""

import asyncio
import json
import os

import pytest
import scripted_worker
import typer
from pilots import MOOD, answered, loaded, pick, screen, sees, session, until, write
from textual.events import Key, Paste
from textual.widgets import Input

from app.store.values import StoreError
from app.tui.app import run
from app.tui.screens.chat import ChatScreen
from app.tui.screens.help import HelpScreen
from app.tui.screens.shape_picker import ShapePicker
from app.tui.screens.text_dialog import TextDialog
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Composer
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.live_panel import LivePanel
from app.tui.widgets.message_view import MessageView
from app.tui.widgets.plain_fields import PlainArea
from app.tui.widgets.transcript import PAGE, Transcript
from engine.events import Finished, Stats
from engine.protocol import Load, Sampling

SMALL = (40, 15)
SIZES = [(160, 50), (80, 24), (40, 15)]
STOP = {"end": "stop"}
HELD = [{"say": "Half of it"}, {"hold": True}]


@pytest.mark.parametrize("size", SIZES)
async def test_three_turns_with_three_shapes_each_keep_the_name_of_their_shape(open_app, size):
    script = {
        "turns": [
            [{"say": '{"name":"Paris","area":1.50}', "origin": "forced"}, STOP],
            [{"say": "positive", "size": 8}, STOP],
            [{"say": "free as air"}, STOP],
        ]
    }
    async with open_app(script, size) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "one")
        await answered(pilot, 2)
        await pick(pilot, "mood")
        await write(pilot, "two")
        await answered(pilot, 4)
        await pilot.press("ctrl+o")
        await write(pilot, "three")
        await answered(pilot, 6)
        texts = [str(view.content) for view in pilot.app.screen.query(MessageView)]
        assert "city" in texts[1]
        assert "complete" in texts[1]
        assert '"area": 1.50' in texts[1]
        assert "mood" in texts[3]
        assert "fits" in texts[3]
        assert "free text" in texts[5]
        await sees(pilot, "free as air")
        await sees(pilot, "switched off")


async def test_the_screen_appears_at_once_and_shows_how_far_loading_is(open_app):
    script = {"load": [{"send": {"type": "loading", "fraction": 0.25}}, {"hold": True}]}
    async with open_app(script, SMALL) as pilot:
        await sees(pilot, "Loading")
        await sees(pilot, "25%")
        await sees(pilot, "Stampo")
        await pilot.press("escape")
        await sees(pilot, "Loading was stopped")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: session(pilot).engine.state == "loading")


async def test_escape_stops_the_reading_of_a_prompt(open_app):
    reading = [
        {"send": {"type": "started", "turn": "$turn", "prompt_tokens": 6000, "reused_tokens": 0, "seed": 1}},
        {"send": {"type": "prompt_read", "turn": "$turn", "done": 512, "total": 6000}},
        {"hold": True},
    ]
    async with open_app({"turns": [reading, [{"say": "after"}, STOP]]}) as pilot:
        await loaded(pilot)
        await write(pilot, "long")
        await sees(pilot, "512 of 6,000")
        await pilot.press("escape")
        await sees(pilot, "stopped by you")
        await write(pilot, "next")
        await sees(pilot, "after")


async def test_escape_stops_writing_and_keeps_what_there_is(open_app):
    async with open_app({"turns": [HELD]}, SMALL) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await sees(pilot, "Half of it")
        await sees(pilot, "(Escape stops)")
        await pilot.press("escape")
        await sees(pilot, "stopped by you")
        await sees(pilot, "Half of it")


async def test_a_crash_is_told_and_one_key_brings_the_engine_back(open_app):
    async with open_app({"turns": [[{"say": "Half of it"}, {"die": -11}]]}) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await sees(pilot, "Problem: The engine crashed with a segmentation fault")
        await sees(pilot, "Problem: The engine is not running; Ctrl+R starts it.")
        assert screen(pilot).count("segmentation fault") == 1
        await sees(pilot, "Half of it")
        await write(pilot, "more")
        await sees(pilot, "\n The engine is not running; Ctrl+R starts it.")
        assert "not loaded yet" not in screen(pilot)
        await pilot.press("ctrl+r")
        await loaded(pilot)
        await sees(pilot, "Ready")
        assert "not running" not in screen(pilot)


async def test_a_crash_between_replies_is_told_with_the_key_that_helps(open_app):
    async with open_app({"load": [*scripted_worker.LOADED, {"die": -11}]}) as pilot:
        await sees(pilot, "Problem: Ctrl+R starts the engine: The engine crashed with a segmentation fault")


@pytest.mark.parametrize("size", SIZES)
async def test_markup_and_control_sequences_are_shown_as_text(open_app, store, size):
    hostile = "a [/x] b [bold]c[/] \x1b]0;title\x07 \x9b31m \u202e [@click=app.quit]x[/]"
    script = {
        "load": [
            {
                "send": scripted_worker.READY
                | {"model": scripted_worker.MODEL | {"name": hostile}, "notices": [hostile]}
            }
        ],
        "turns": [
            [{"say": hostile, "size": 7}, STOP],
            [{"send": {"type": "failed", "kind": "internal", "message": hostile, "turn": "$turn"}}],
        ],
    }
    async with open_app(script, size) as pilot:
        await loaded(pilot)
        session(pilot).set_system(hostile)
        await pick(pilot, "date")
        await write(pilot, hostile)
        await answered(pilot, 2)
        await sees(pilot, "a [/x] b")
        await write(pilot, "again")
        await answered(pilot, 4)
        for key, back in (("f2", "f2"), ("f3", "f3"), ("f4", "escape")):
            await pilot.press(key)
            assert not set(screen(pilot)) & set("\x1b\x07\x9b\u202e")
            await pilot.press(back)
        await pilot.press("ctrl+t")
        await sees(pilot, "Date a [/x] b")
        await sees(pilot, "broken")
        assert store.path(session(pilot).chat.id)[0].content == hostile


async def test_an_emoji_that_comes_late_is_shown_whole(open_app):
    tokens = [
        {"id": 1, "text": "\ufffd", "origin": "sampled"},
        {"id": 2, "text": "\ufffd", "origin": "sampled"},
    ]
    common = {"type": "tokens", "turn": "$turn", "forwards": 1, "elapsed_s": 0.1}
    script = {
        "turns": [
            [
                {"send": common | {"tokens": tokens[:1], "text": "city "}},
                {"send": common | {"tokens": tokens[1:], "text": "\N{CITYSCAPE} done"}},
                {"hold": True},
            ]
        ]
    }
    async with open_app(script) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await sees(pilot, "city \N{CITYSCAPE} done")


async def test_a_chat_is_found_again_after_a_restart_of_the_program(open_app, store):
    async with open_app({"turns": [[{"say": "positive", "size": 8}, STOP]]}, (160, 50)) as pilot:
        await loaded(pilot)
        await pick(pilot, "mood")
        await write(pilot, "How was it?")
        await answered(pilot, 2)
    async with open_app({}, (160, 50)) as pilot:
        await sees(pilot, "How was it?")
        assert len(pilot.app.screen.query(MessageView)) == 0
        pilot.app.screen.query_one(ChatList).focus()
        await pilot.press("down", "enter")
        await answered(pilot, 2)
        await sees(pilot, "positive")
        assert session(pilot).chat.shape == MOOD.spec()
        assert isinstance(pilot.app.screen.focused, Composer)


async def test_an_export_says_where_it_went(open_app, tmp_path):
    async with open_app({"turns": [[{"say": "yes"}, STOP]]}, SMALL) as pilot:
        await loaded(pilot)
        await write(pilot, "Is it?")
        await answered(pilot, 2)
        await pilot.press("f5")
        await sees(pilot, "Written to")
        await pilot.press("ctrl+n", "f5")
        await sees(pilot, "There is nothing to export yet.")
        (file,) = (tmp_path / "here").iterdir()
        assert json.loads(file.read_text())["chat"]["messages"][1]["content"] == "yes"


async def test_unsent_text_is_there_after_a_restart_and_stays_with_its_chat(open_app):
    async with open_app({}) as pilot:
        pilot.app.screen.query_one(Composer).insert("half a thought")
        await pilot.press("ctrl+q")
    async with open_app({}) as pilot:
        composer = pilot.app.screen.query_one(Composer)
        assert composer.text == "half a thought"
        await pilot.press("ctrl+n")
        assert composer.text == ""


async def test_enter_sends_and_the_newline_keys_do_not(open_app):
    async with open_app({"turns": [[{"say": "ok"}, STOP]]}) as pilot:
        await loaded(pilot)
        await pilot.press("a", "ctrl+j", "b", "shift+enter", "c")
        assert pilot.app.screen.query_one(Composer).text == "a\nb\nc"
        await pilot.press("enter")
        await answered(pilot, 2)
        assert session(pilot).path[0].content == "a\nb\nc"
        assert pilot.app.screen.query_one(Composer).text == ""


async def test_text_that_cannot_be_sent_stays_in_the_composer(open_app):
    async with open_app({"load": [{"hold": True}]}) as pilot:
        await write(pilot, "too early")
        await sees(pilot, "not loaded yet")
        assert pilot.app.screen.query_one(Composer).text == "too early"


@pytest.mark.parametrize("key", ["", "f4"])
async def test_what_is_pasted_brings_its_lines_and_no_control_characters(open_app, key):
    # tmux and many terminals send the line breaks of a paste as carriage returns.
    async with open_app({}) as pilot:
        await pilot.press(*filter(None, [key]))
        await until(pilot, lambda: isinstance(pilot.app.focused, PlainArea))
        area = pilot.app.focused
        pilot.app.post_message(Paste("one\x1b[31m\r\ntwo\rthree\nfour\r\rfive\u202e"))
        await until(pilot, lambda: area.text)
        assert area.text == "one␛[31m\ntwo\nthree\nfour\n\nfive\\u202e"


async def test_lines_pasted_into_the_filter_become_words(open_app):
    async with open_app({}) as pilot:
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(pilot.app.focused, Input))
        pilot.app.post_message(Paste("mo\x07od\r positive \n\nx"))
        await until(pilot, lambda: pilot.app.focused.value)
        assert pilot.app.focused.value == "mo␇od positive x"


async def test_what_is_typed_right_after_a_key_that_empties_the_field_stands_in_the_empty_field(open_app):
    async with open_app({"turns": [HELD]}) as pilot:
        await loaded(pilot)
        composer = pilot.app.screen.query_one(Composer)
        for key in ("o", "l", "d", "ctrl+n", "n", "e", "w"):  # one burst: nothing else runs in between
            pilot.app.post_message(Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: composer.text == "new")
        assert [chat.draft for chat in session(pilot).chats() if chat.id != session(pilot).chat.id] == ["old"]
        for key in ("enter", "t", "o", "o"):
            pilot.app.post_message(Key(key, key if len(key) == 1 else "\r"))
        await until(pilot, lambda: composer.text == "too")
        assert session(pilot).path[0].content == "new"


async def test_a_message_the_engine_refuses_is_back_in_the_field_with_the_reason(open_app):
    refusal = "The prompt has 9000 tokens and the context holds 2048; shorten it or ask for a larger context."
    failure = {"type": "failed", "kind": "usage", "message": refusal, "turn": "$turn"}
    turns = [[{"say": "yes"}, STOP], [{"send": failure}], [{"say": "fine"}, STOP]]
    async with open_app({"turns": turns}, (160, 50)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        composer = pilot.app.screen.query_one(Composer)
        await write(pilot, "too\nlong")
        await sees(pilot, "shorten it or start Stampo with --context N.")
        await until(pilot, lambda: composer.text == "too\nlong")
        await answered(pilot, 2)
        composer.set_text("")
        await write(pilot, "short")
        await answered(pilot, 4)
        await sees(pilot, "fine")
        assert "--context" not in screen(pilot)


async def test_a_stop_that_is_slow_names_the_key_that_helps(open_app):
    async with open_app({"turns": [[{"say": "x"}, {"deaf": True}]]}, SMALL) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await until(pilot, lambda: session(pilot).live.text)
        await pilot.press("escape")
        await sees(pilot, "Stopping  (Ctrl+R restarts the engine)")
        await pilot.press("ctrl+r")
        await loaded(pilot)


async def test_a_problem_is_told_in_its_own_chat_only(open_app):
    failure = {"type": "failed", "kind": "usage", "message": "Too long.", "turn": "$turn"}
    async with open_app({"turns": [[{"send": failure}]]}) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await sees(pilot, "Problem: Too long.")
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "Too long." not in screen(pilot))


async def test_a_reply_of_another_chat_is_named_where_it_is_spoken_of(open_app):
    async with open_app({"turns": [HELD]}, (160, 50)) as pilot:
        await loaded(pilot)
        await write(pilot, "first question")
        await sees(pilot, "Half of it")
        assert "of another chat" not in screen(pilot)
        await pilot.press("ctrl+n")
        await sees(pilot, "of another chat: first question")
        await sees(pilot, "(Escape stops)  in “first question”")
        await write(pilot, "second")
        await sees(pilot, "A reply is being written in the chat “first question”. Escape stops it.")
        await pilot.press("escape")
        assert "Escape stops it." not in screen(pilot)


async def test_a_chat_that_was_never_sent_is_listed_by_its_draft(open_app):
    async with open_app({}, (160, 50)) as pilot:
        await pilot.press(*"half", "ctrl+n", *"other", "ctrl+n")
        await sees(pilot, "draft: half")
        await sees(pilot, "draft: other")
        await until(pilot, lambda: screen(pilot).count("New chat") == 2)  # in the title and in the list


async def test_the_system_prompt_is_edited_saved_and_shown(open_app):
    async with open_app({"turns": [[{"say": "ok"}, STOP]]}) as pilot:
        await loaded(pilot)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        await pilot.press(*"Be brief.", "ctrl+s")
        await until(pilot, lambda: session(pilot).chat.system == "Be brief.")
        await write(pilot, "hi")
        await answered(pilot, 2)
        await sees(pilot, "System prompt  Be brief.")
        await sees(pilot, "+ system prompt")
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "+ system prompt" not in screen(pilot))
        pilot.app.screen.post_message(ChatList.Chosen(1))
        await sees(pilot, "+ system prompt")
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        await pilot.press("x", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert session(pilot).chat.system == "Be brief."


async def test_help_lists_every_key_and_closes(open_app):
    async with open_app({}, SMALL) as pilot:
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await sees(pilot, "Send the message")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


async def test_the_picker_filters_and_escape_changes_nothing(open_app):
    async with open_app({}) as pilot:
        await pick(pilot, "mood")
        assert session(pilot).chat.shape == MOOD.spec()
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(pilot.app.screen, ShapePicker))
        pilot.app.screen.query_one(Input).value = "date"
        await sees(pilot, r"\d{4}")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert session(pilot).chat.shape == MOOD.spec()
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(pilot.app.screen, ShapePicker))
        await pilot.press("z", "z", "enter")
        assert isinstance(pilot.app.screen, ShapePicker)
        await pilot.press("backspace", "backspace", "up", "up", "up", "up", "enter")  # the first is the end
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert session(pilot).chat.shape is None


@pytest.mark.parametrize("words", ["free", "none", "no shape", "free text"])
async def test_no_shape_is_found_by_its_words(open_app, words):
    async with open_app({}) as pilot:
        await pick(pilot, "mood")
        assert session(pilot).chat.shape is not None
        await pick(pilot, words)
        assert session(pilot).chat.shape is None


async def test_the_bar_tells_whether_the_model_reads_the_shape(open_app):
    async with open_app({}) as pilot:
        await pick(pilot, "mood")
        await sees(pilot, "shown to the model")
        await pilot.press("ctrl+g")
        await sees(pilot, "hidden from the model")


async def test_the_panel_shows_what_the_shape_does(open_app):
    token = {"id": 9, "text": "l", "origin": "sampled", "allowed": 1}
    one = {"type": "tokens", "turn": "$turn", "tokens": [token], "text": "l", "forwards": 9, "elapsed_s": 0.1}
    script = {
        "turns": [
            [
                {"say": "positive", "size": 1, "origin": "forced"},
                {"send": one},
                {"say": "y", "size": 1},
                {"hold": True},
            ]
        ]
    }
    async with open_app(script, (160, 50)) as pilot:
        await loaded(pilot)
        await pick(pilot, "mood")
        await write(pilot, "go")
        await sees(pilot, "positively")

        def panel() -> str:
            return "\n".join(map(str, pilot.app.screen.query_one(LivePanel).lines))

        await until(pilot, lambda: "forced    8" in panel())
        assert "80%" in panel()
        assert "masked now  960  96.00% of all" in panel()
        assert "Q4_1" in panel()
        assert "exact" in panel()
        await pilot.press("escape")
        await sees(pilot, "masked mean 979  97.95% of all")
        assert "numerics" not in screen(pilot).splitlines()[-2]


@pytest.mark.parametrize(
    ("size", "chats", "panel"), [((160, 50), True, True), ((80, 24), False, False), ((40, 15), False, False)]
)
async def test_the_sides_show_by_width_and_by_key(open_app, size, chats, panel):
    async with open_app({}, size) as pilot:
        listed = pilot.app.screen.query_one(ChatList)
        await until(pilot, lambda: listed.display == chats)
        assert pilot.app.screen.query_one(LivePanel).display == panel
        for _ in range(2):  # one key goes to the list, whether it was hidden or not; the next hides it
            await pilot.press("f2")
            await until(pilot, lambda: listed.display and listed.has_focus)
            await pilot.press("f2")
            await until(pilot, lambda: not listed.display and isinstance(pilot.app.focused, Composer))
        await pilot.press("f3")
        await until(pilot, lambda: pilot.app.screen.query_one(LivePanel).display != panel)


@pytest.mark.parametrize("key", ["f2", "f3"])
async def test_a_side_opened_wide_does_not_hide_the_field_when_the_screen_gets_narrow(open_app, key):
    async with open_app({}, (160, 50)) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(LivePanel).display)
        await pilot.press("f2", "f2", key)
        if key == "f3":
            await pilot.press("f3")
        for width in (80, 40):
            await pilot.resize_terminal(width, 24)
            for side in (ChatList, LivePanel):
                await until(pilot, lambda side=side: not pilot.app.screen.query_one(side).display)
            await sees(pilot, "Write a message")
        await pilot.press("x")
        assert pilot.app.screen.query_one(Composer).text == "x"


@pytest.mark.parametrize(("width", "last"), [(160, "f3 Figures"), (80, "f3 Figures"), (40, "^q Quit")])
async def test_the_last_row_shows_whole_keys_only_and_takes_clicks(open_app, width, last):
    async with open_app({}, (width, 24)) as pilot:
        await until(pilot, lambda: screen(pilot).rstrip().endswith(last))
        line = pilot.app.screen.query_one(KeysLine)
        await pilot.click(
            line, offset=(line.content_region.x + str(line.content).index("f1") - line.region.x, 0)
        )
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))


async def test_ctrl_c_is_answered_in_a_few_words(open_app):
    async with open_app({}) as pilot:
        await pilot.press("ctrl+c")
        await sees(pilot, "Ctrl+Q quits.")


async def test_any_size_can_be_drawn_and_left_again(open_app):
    async with open_app({"turns": [[{"say": '{"a":1}'}, STOP]]}, (160, 50)) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "go")
        await answered(pilot, 2)
        for width, height in ((40, 15), (20, 8), (4, 2), (1, 1), (100, 10), (10, 60), (160, 50)):
            await pilot.resize_terminal(width, height)
            await pilot.pause(0.05)
        await sees(pilot, '"a": 1')


async def test_a_long_chat_mounts_its_end_and_loads_the_rest_on_the_way_up(open_app, store):
    chat = store.create_chat(title="long")
    parent = None
    for number in range(40):
        parent = store.add_user(chat, parent, f"question {number}")
        parent = store.begin_reply(chat, parent, shape=None, sampling=Sampling())
        finished = Finished(turn=1, finish="stop", text=f"answer {number}", tokens=(), seed=1, stats=Stats())
        store.finish_reply(parent, finished, valid=None, trace=())
    store.set_draft(chat, "open me")
    async with open_app({}) as pilot:
        await sees(pilot, "answer 39")
        assert len(pilot.app.screen.query(MessageView)) == PAGE
        transcript = pilot.app.screen.query_one(Transcript)
        for page in (2, 3):
            transcript.scroll_home(animate=False)
            await until(
                pilot, lambda page=page: len(pilot.app.screen.query(MessageView)) == min(80, page * PAGE)
            )
            await until(pilot, lambda: transcript.scroll_y > 0)
        transcript.scroll_home(animate=False)
        await sees(pilot, "question 0")


async def test_a_reply_in_another_chat_goes_on_and_is_seen_on_return(open_app):
    async with open_app({"turns": [HELD]}, (160, 50)) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await sees(pilot, "Half of it")
        first = session(pilot).chat.id
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "Half of it" not in screen(pilot))
        pilot.app.screen.post_message(ChatList.Chosen(first))
        await sees(pilot, "Half of it")
        await pilot.press("escape")
        await sees(pilot, "stopped by you")


@pytest.mark.parametrize(
    "script",
    [{"load": [{"deaf": True}]}, {"turns": [HELD]}, {"turns": [[{"say": "x"}, {"deaf": True}]]}],
    ids=["loading", "writing", "hung"],
)
async def test_quitting_leaves_within_two_seconds_and_no_process_behind(open_app, script):
    async with open_app(script) as pilot:
        if "turns" in script:
            await loaded(pilot)
            await write(pilot, "go")
            await until(pilot, lambda: session(pilot).live.text)
        await until(pilot, lambda: session(pilot).engine.pid)
        pid = session(pilot).engine.pid
        loop = asyncio.get_running_loop()
        began = loop.time()
        await pilot.press("ctrl+q")
    assert loop.time() - began < 2.0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_notice_of_the_turn_is_told(open_app):
    notice = {"type": "notice", "turn": "$turn", "message": "The constraint [/x] was rebuilt."}
    async with open_app({"turns": [[{"say": "x"}, {"send": notice}, {"hold": True}]]}) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await sees(pilot, "The constraint [/x] was rebuilt.")


async def test_every_action_is_in_the_palette_and_every_theme_can_show_a_reply(open_app):
    async with open_app({"turns": [[{"say": '{"a":1}'}, STOP]]}) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "go")
        await answered(pilot, 2)
        commands = [command.title for command in pilot.app.get_system_commands(pilot.app.screen)]
        for binding in pilot.app.screen.commands():
            assert binding.tooltip in commands
        for theme in ("ansi-dark", "textual-light", "stampo"):
            pilot.app.theme = theme
            await pilot.pause()
            await sees(pilot, '"a": 1')


async def test_a_burst_of_tokens_is_drawn_in_few_frames(open_app):
    script = {"turns": [[{"say": "word " * 1500, "size": 5}, STOP]]}
    async with open_app(script) as pilot:
        await loaded(pilot)
        drawn = 0
        original = pilot.app.screen._frame

        async def counted() -> None:
            nonlocal drawn
            drawn += 1
            await original()

        pilot.app.screen._frame = counted
        await write(pilot, "go")
        await answered(pilot, 2)
        assert session(pilot).path[1].content == "word " * 1500
        assert drawn < 300


def test_a_store_that_cannot_be_opened_is_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path))
    (tmp_path / "stampo.sqlite3").write_text("this is no database " * 100)
    with pytest.raises(typer.Exit) as ended:
        run(Load(model="m.gguf"))
    assert ended.value.exit_code != 0
    assert "stampo.sqlite3" in capsys.readouterr().err


async def test_a_fault_of_the_store_while_drawing_is_told(open_app, store, monkeypatch):
    async with open_app({}) as pilot:

        def broken() -> list:
            raise StoreError("chats.sqlite3 could not be read: the disk reports an error.")

        monkeypatch.setattr(store, "chats", broken)
        await pick(pilot, "mood")
        await sees(pilot, "the disk reports an error")
