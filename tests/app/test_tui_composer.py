"""What a person does around the composer: history, commands, attachments, and messages that do not fit."""

import asyncio
import json
from contextlib import nullcontext

import pytest
import sessions
from pilots import answered, loaded, screen, sees, session, until, write
from textual.events import Paste
from textual.widgets import Input, TextArea

from app.store.values import Attachment
from app.tui.editor import EditorError, edit
from app.tui.screens.attach import PathDialog
from app.tui.screens.chat import ChatScreen
from app.tui.screens.context_full import ContextFull
from app.tui.screens.help import HelpScreen
from app.tui.screens.shape_picker import ShapePicker
from app.tui.widgets.attachments_line import AttachmentsLine
from app.tui.widgets.composer import LONG_PASTE, Composer

STOP = {"end": "stop"}
HOSTILE = "a [!x] b \x1b[31m \u202e 漢字.txt"


def replies(*texts: str) -> dict:
    return {"turns": [[{"say": text}, STOP] for text in texts]}


def composer(pilot) -> Composer:
    return pilot.app.screen.query_one(Composer)


async def test_earlier_messages_are_walked_and_the_draft_comes_back(open_app):
    async with open_app(replies("1", "2")) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await write(pilot, "two")
        await answered(pilot, 4)
        await pilot.press("up")
        assert composer(pilot).text == "two"
        await pilot.press("!", "alt+up")
        assert composer(pilot).text == "one"
        await pilot.press("alt+up", "alt+down")
        assert composer(pilot).text == "two!"
        assert composer(pilot).unsent == "two!"
        await pilot.press("alt+down")
        assert composer(pilot).text == ""
        await pilot.press("d", "alt+up")
        pilot.app.screen.keep_draft()
        assert session(pilot).chat.draft == "two!\n\nd"
        await pilot.press("alt+down")
        assert composer(pilot).text == "d"


async def test_a_command_is_completed_run_and_never_sent(open_app):
    async with open_app({}) as pilot:
        await loaded(pilot)
        await pilot.press("slash", "t", "i")
        await sees(pilot, "/title TEXT")
        await pilot.press("tab", *"My", "enter")
        await until(pilot, lambda: session(pilot).chat.title == "My")
        assert composer(pilot).text == ""
        await write(pilot, "/exprt now")
        await sees(pilot, "did you mean /export")
        assert composer(pilot).text == "/exprt now"
        composer(pilot).set_text("")
        await write(pilot, "/seed 7")
        await write(pilot, "/temperature 0")
        await write(pilot, "/think off")
        await until(
            pilot,
            lambda: dict(session(pilot).chat.settings) == {"seed": 7, "temperature": 0.0, "think": False},
        )
        await write(pilot, "/seed random")
        await write(pilot, "/shape mod")
        await sees(pilot, "did you mean mood")
        composer(pilot).set_text("")
        await write(pilot, "/shape mood")
        await until(pilot, lambda: session(pilot).chat.shape.name == "mood")
        await until(pilot, lambda: "did you mean" not in screen(pilot))
        await write(pilot, "/model /no/[/x].gguf")
        await sees(pilot, "There is no file /no/[/x].gguf.")
        assert session(pilot).engine.state == "ready"
        composer(pilot).set_text("")
        await write(pilot, "/system Be brief.")
        await until(pilot, lambda: session(pilot).chat.system == "Be brief.")
        assert "seed" not in session(pilot).chat.settings
        assert session(pilot).path == []
        await write(pilot, "/help")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))


async def test_chats_are_imported_in_a_dialog_that_says_what_was_here_and_what_cannot_be_read(
    open_app, tmp_path
):
    async with open_app(replies("yes")) as pilot:
        await loaded(pilot)
        await write(pilot, "Is it?")
        await answered(pilot, 2)
        await write(pilot, f"/export {tmp_path}/mine.json")
        await sees(pilot, "Written to")
        await write(pilot, f"/import {tmp_path}/no.json")
        await sees(pilot, "no.json does not exist.")
        assert isinstance(pilot.app.screen, PathDialog)
        field = pilot.app.screen.query_one(Input)
        field.value = field.value.replace("no.json", "mine.json")
        await pilot.press("enter")
        await sees(pilot, "Imported 1 chat with 2 messages. “Is it?” was here already and is now here twice.")
        assert len(session(pilot).chats()) == 2


async def test_retry_and_two_slashes(open_app):
    async with open_app(replies("1", "2")) as pilot:
        await loaded(pilot)
        await write(pilot, "//etc/hosts")
        await answered(pilot, 2)
        assert session(pilot).path[0].content == "/etc/hosts"
        await write(pilot, "/retry")
        await until(pilot, lambda: [m.content for m in session(pilot).path] == ["/etc/hosts", "2"])


async def test_files_and_long_pastes_go_with_the_message(open_app, tmp_path):
    log = tmp_path / "commands"
    (tmp_path / HOSTILE).write_text("in the file\n", encoding="utf-8")
    (tmp_path / "b.bin").write_bytes(b"\0\1")
    async with open_app({"turns": [[{"log": str(log)}, {"say": "yes"}, STOP]]}) as pilot:
        await loaded(pilot)
        await write(pilot, f"/attach {tmp_path}/b.bin")
        await sees(pilot, "Only text files")
        composer(pilot).set_text("")
        await pilot.press("f11")
        await until(pilot, lambda: isinstance(pilot.app.screen, PathDialog))
        for key in f"{tmp_path}/a":
            await pilot.press("slash" if key == "/" else key)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await sees(pilot, "12 characters, 3 tokens")
        await sees(pilot, "a [!x] b ␛[31m")
        composer(pilot).post_message(Paste("x" * (LONG_PASTE + 1)))
        await sees(pilot, "paste 1")
        assert composer(pilot).text == ""
        pilot.app.screen.query_one(AttachmentsLine).focus()
        await pilot.press("down", "d")
        await until(pilot, lambda: "paste 1" not in screen(pilot))
        await pilot.press("u")
        await sees(pilot, "paste 1")
        await pilot.press("end", "delete", "escape")
        await write(pilot, "read it")
        await answered(pilot, 2)
        assert not pilot.app.screen.query_one(AttachmentsLine).display
        content = json.loads(log.read_text())["messages"][0]["content"]
        assert content.startswith("read it\n\na [!x] b")
        assert "in the file" in content
        await sees(pilot, "+ a [!x] b")


async def test_a_paste_beyond_the_limit_is_refused_and_said(open_app):
    async with open_app({}) as pilot:
        await loaded(pilot)
        composer(pilot).post_message(Paste("x" * 10_000_000))
        await sees(pilot, "10.0 MB were pasted")
        assert session(pilot).store.draft_attachments(session(pilot).chat.id) == []


async def test_a_message_that_does_not_fit_is_offered_what_helps(open_app, tmp_path):
    log = tmp_path / "commands"
    turn = [{"log": str(log)}, {"say": "yes"}, STOP]
    async with open_app({"turns": [turn]}) as pilot:
        await loaded(pilot)
        await write(pilot, "a" * 3200)
        await answered(pilot, 2)
        await write(pilot, "b" * 2000)  # 800 + 1 + 500 tokens and 1,024 of reply in a context of 2,048
        await until(pilot, lambda: isinstance(pilot.app.screen, ContextFull))
        await sees(pilot, "1,301 tokens")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert composer(pilot).text == "b" * 2000
        assert len(session(pilot).path) == 2
        await pilot.press(
            "enter", "ctrl+t"
        )  # what is in front gets the keys, so no question comes up over it
        await until(pilot, lambda: not pilot.app.screen_stack[1]._sending._checking)
        assert isinstance(pilot.app.screen, ShapePicker | ContextFull)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await pilot.press("enter")
        await sees(pilot, "Leave out the oldest turn")
        await pilot.press("enter")
        await until(pilot, lambda: len(session(pilot).path) == 4)
        await sees(pilot, "The 2 messages above are not shown to the model")
        commands = [json.loads(line) for line in log.read_text().splitlines()]
        assert [message["content"] for message in commands[-1]["messages"]] == ["b" * 2000]
        await write(pilot, "/whole")
        await until(pilot, lambda: "not shown to the model" not in screen(pilot))
        await write(pilot, "c" * 2000)
        await sees(pilot, "A shorter reply")
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(session(pilot).path) == 6)
        commands = [json.loads(line) for line in log.read_text().splitlines()]
        assert len(commands[-1]["messages"]) == 5
        assert commands[-1]["max_tokens"] == 2048 - 800 - 1 - 500 - 1 - 500


async def test_the_persons_editor_takes_the_text_and_gives_it_back(open_app, tmp_path, monkeypatch):
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\ncat "$1" > "$0.was"\nprintf "from outside\\n" > "$1"\n', encoding="utf-8")
    script.chmod(0o700)
    monkeypatch.delenv("VISUAL", raising=False)
    async with open_app({}) as pilot:
        await loaded(pilot)
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        monkeypatch.setenv("EDITOR", str(script))
        await pilot.press(*"abc", "ctrl+e")
        await until(pilot, lambda: composer(pilot).text == "from outside")
        assert (tmp_path / "editor.was").read_text() == "abc"
        monkeypatch.setenv("EDITOR", str(tmp_path / "missing"))
        await pilot.press("ctrl+e")
        await sees(pilot, "could not edit the text")
        monkeypatch.setenv("EDITOR", "false")
        await pilot.press("ctrl+e")
        await sees(pilot, "exit code 1")
        assert composer(pilot).text == "from outside"


async def test_a_reply_is_written_and_kept_while_the_persons_editor_is_open(open_app, tmp_path, monkeypatch):
    script, go, opened = tmp_path / "editor", tmp_path / "go", tmp_path / "opened"
    script.write_text(
        f'#!/bin/sh\n: > "{opened}"\nwhile ! test -e "{go}"; do sleep 0.02; done\nprintf "done" > "$1"\n'
    )
    script.chmod(0o700)
    async with open_app(replies("yes")) as pilot:
        await loaded(pilot)
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        monkeypatch.setenv("VISUAL", str(script))
        await pilot.press("ctrl+e")
        await sessions.until(opened.exists)
        async with asyncio.timeout(10):
            with pytest.raises(EditorError, match="already"):  # of a key that was pressed twice
                await edit(pilot.app, "")
        session(pilot).send("Is it?")
        await sessions.until(lambda: not session(pilot).busy)
        assert [message.content for message in session(pilot).store.path(session(pilot).chat.id)] == [
            "Is it?",
            "yes",
        ]
        assert composer(pilot).text == ""
        go.touch()
        await until(pilot, lambda: composer(pilot).text == "done")
        await answered(pilot, 2)


@pytest.mark.parametrize("key", ["", "f4", "f11"])
async def test_what_has_no_bytes_is_replaced_where_it_is_pasted_and_that_is_said(open_app, key):
    async with open_app({}) as pilot:
        await loaded(pilot)
        if key:
            await pilot.press(key)
            await until(pilot, lambda: not isinstance(pilot.app.screen, ChatScreen))
        await until(pilot, lambda: isinstance(pilot.app.focused, Input | TextArea))
        pilot.app.post_message(Paste("a\ud800b\udc80"))
        await sees(pilot, "2 broken characters were replaced by")
        await sees(pilot, "a\ufffdb\ufffd")
        if not key:
            pilot.app.post_message(Paste("x\ud800" * LONG_PASTE))
            await sees(pilot, f"{LONG_PASTE} broken characters were")


async def test_a_refused_message_brings_its_attachments_back(begin):
    from sessions import done, ready

    refused = {"type": "failed", "kind": "usage", "message": "too long", "turn": "$turn"}
    talk = await ready(begin({"turns": [[{"send": refused}]]}))
    talk.store.add_attachment(talk.chat.id, Attachment(name="a", content="A"))
    talk.send("")
    await done(talk)
    assert talk.path == []
    assert [a.content for a in talk.store.draft_attachments(talk.chat.id)] == ["A"]
