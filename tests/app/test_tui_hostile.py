"""Text that looks like markup, control sequences, special tokens or foreign scripts, in every place that shows text.

It is shown, never obeyed: no screen falls over it, nothing of it reaches the terminal as a control code, a link or an
action, and what is stored is what was written.
"""

import re

import pytest
import scripted_worker
from pilots import SHAPES, answered, loaded, screen, sees, session, until, write
from rich.cells import cell_len
from textual.command import CommandPalette

from app.shapes import SavedShape
from app.store.values import Attachment
from app.tui.screens.chat import ChatScreen
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Composer
from app.tui.widgets.transcript import Transcript
from engine.events import Finished, Stats
from engine.protocol import Sampling
from grammars.presets import Preset
from grammars.spec import GrammarSpec

MARKUP = "a [/x] b [bold]c[/] [@click=app.quit]d[/] [link=http://x.invalid]e[/link] $primary [INST] <|im_end|> </s>"
CONTROL = "f\x1b[2J\x1b]0;t\x07\x1b]52;c;eA==\x07\x1bP1$r\x1b\\\x9b31m\x08\x7fg"
BIDI = "h\u202eabc\u2066 עברית \u200fالعربية\u2069 i"
WIDE = "漢字かな 👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301 क्षि j"
HOSTILE = f"{MARKUP} {CONTROL} {BIDI} {WIDE}"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STOP = {"end": "stop"}
SIZES = [(160, 50), (80, 24), (40, 15)]
SCHEMA = {
    "title": HOSTILE,
    "description": HOSTILE,
    "type": "object",
    "properties": {HOSTILE: {"const": HOSTILE}},
}


def is_harmless(pilot) -> None:
    """Assert that what is drawn holds no control code, no link and no action, and keeps to its width."""
    for strip in pilot.app.screen._compositor.render_strips():
        for segment in strip:
            assert not UNSAFE.search(segment.text), repr(segment.text)
            assert not segment.control
            if segment.style is not None:
                assert segment.style.link is None
                assert "quit" not in str(segment.style.meta.get("@click", ""))
        assert cell_len(strip.text) <= pilot.app.size.width


def model() -> list[dict]:
    """Return a load that ends with a model whose every text is hostile."""
    texts = dict.fromkeys(("name", "path", "architecture", "quantization"), HOSTILE)
    ready = scripted_worker.READY | {
        "model": scripted_worker.MODEL | texts,
        "notices": [HOSTILE],
        "numerics_reason": HOSTILE,
    }
    return [{"send": ready}]


@pytest.fixture
def hostile_shape():
    """Put a shape among those on offer whose title, description, tags and schema are hostile."""
    schema = Preset(
        name="hostile", title=HOSTILE[:200], description=HOSTILE, tags=[HOSTILE[:100]], json_schema=SCHEMA
    )
    shapes = [
        SavedShape(name="hostile", origin="own", preset=schema),
        SavedShape(name="damaged", origin="own", preset=None, fault=HOSTILE),
    ]
    SHAPES.extend(shapes)
    yield schema.spec()
    for shape in shapes:
        SHAPES.remove(shape)


def fill(store, shape: GrammarSpec) -> int:
    """Add a chat whose every text is hostile, with a shaped and a free reply; return its number."""
    chat = store.create_chat(title=HOSTILE)
    store.set_system(chat, HOSTILE)
    named = GrammarSpec(kind=shape.kind, text=shape.text, name=HOSTILE)
    store.set_shape(chat, named, on=True, shown=True)
    parent = None
    for held, text in (
        (named, '{"k [/x]": "v \\u202e"}'),
        (None, HOSTILE),
        (None, f"# {HOSTILE}\n\n- `{HOSTILE}`"),
    ):
        parent = store.add_user(
            chat, parent, HOSTILE, shape=held, attachments=[Attachment(name=HOSTILE, content=HOSTILE)]
        )
        parent = store.begin_reply(chat, parent, shape=held, sampling=Sampling())
        valid = None if held is None else False
        end = Finished(
            turn=1,
            finish="stop",
            text=text,
            tokens=(),
            seed=1,
            stats=Stats(reasoning_tokens=2),
            reasoning=HOSTILE,
        )
        store.finish_reply(parent, end, valid=valid, trace=())
    trashed = store.create_chat(title=HOSTILE)
    store.add_user(trashed, None, HOSTILE)
    store.trash_chat(trashed)
    store.set_draft(chat, HOSTILE)
    return chat


@pytest.mark.parametrize("size", SIZES)
async def test_a_chat_of_hostile_texts_is_shown_and_written_on(open_app, store, hostile_shape, size):
    fill(store, hostile_shape)
    failure = {"send": {"type": "failed", "kind": "internal", "message": HOSTILE, "turn": "$turn"}}
    notice = {"send": {"type": "notice", "turn": "$turn", "message": HOSTILE}}
    thought = {"id": 1, "text": HOSTILE, "origin": "sampled", "part": "reasoning"}
    tokens = {"type": "tokens", "turn": "$turn", "tokens": [thought], "text": "", "reasoning": HOSTILE}
    thinks = {"send": tokens | {"forwards": 1, "elapsed_s": 0.1}}
    script = {
        "load": model(),
        "turns": [
            [notice, thinks, {"say": HOSTILE, "size": 3}, STOP],
            [{"say": HOSTILE, "size": 5}, failure],
        ],
    }
    async with open_app(script, size) as pilot:
        await loaded(pilot)
        assert session(pilot).chat.title == HOSTILE
        await sees(pilot, "漢字")
        is_harmless(pilot)
        composer = pilot.app.screen.query_one(Composer)
        composer.set_text("")
        await write(pilot, HOSTILE)
        await answered(pilot, 8)
        is_harmless(pilot)
        assert [message.content for message in session(pilot).path[-2:]] == [HOSTILE, HOSTILE]
        await pilot.press("ctrl+o")
        composer.set_text("")
        await write(pilot, "again")
        await answered(pilot, 10)
        is_harmless(pilot)
        await pilot.press("ctrl+up", "o")
        for _ in range(9):
            await pilot.press("up")
            is_harmless(pilot)
        await pilot.press("t", "o")
        is_harmless(pilot)


async def test_every_screen_that_a_key_opens_shows_hostile_text_harmlessly(open_app, store, hostile_shape):
    chat = fill(store, hostile_shape)
    opened = set()
    async with open_app({"load": model(), "turns": [[{"say": HOSTILE}, STOP]]}, (80, 24)) as pilot:
        await loaded(pilot)
        main = pilot.app.screen
        for binding in main.commands():
            if binding.action == "app.quit":
                continue
            main.query_one(Composer).focus()
            await main.run_action(binding.action)
            await pilot.pause(0.1)
            is_harmless(pilot)
            for _ in range(6):
                if pilot.app.screen is main:
                    break
                opened.add(type(pilot.app.screen).__name__)
                await pilot.press("down")
                is_harmless(pilot)
                await pilot.press("escape")
                await pilot.pause(0.05)
            assert pilot.app.screen is main, f"Escape does not close what {binding.id} opens"
            if session(pilot).chat.id != chat:
                main.post_message(ChatList.Chosen(chat))
                await until(pilot, lambda: session(pilot).chat.id == chat)
        for key in ("e", "x", "enter"):
            await pilot.press("ctrl+up", *["up"] * 2, key)
            await pilot.pause(0.1)
            is_harmless(pilot)
            if pilot.app.screen is not main:
                opened.add(type(pilot.app.screen).__name__)
                await pilot.press("escape")
            await until(pilot, lambda: pilot.app.screen is main)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
        is_harmless(pilot)
    assert len(opened) >= 6, opened
    assert store.path(chat)[0].content == HOSTILE


@pytest.mark.parametrize("text", [MARKUP, CONTROL, BIDI, WIDE], ids=["markup", "control", "bidi", "wide"])
async def test_the_reason_of_an_engine_that_is_gone_is_shown_harmlessly(open_app, text):
    failed = {"send": {"type": "failed", "kind": "model", "message": f"It {text} ends."}}
    async with open_app({"load": [failed]}, (160, 50)) as pilot:
        await sees(pilot, "It ")
        is_harmless(pilot)


@pytest.mark.parametrize("key", ["backspace", "delete", "d", "enter"])
async def test_keys_that_remove_destroy_nothing_that_cannot_be_undone(open_app, store, key):
    chats = [store.create_chat(title=f"chat {number}") for number in range(2)]
    for chat in chats:
        reply = store.begin_reply(chat, store.add_user(chat, None, "one"), shape=None, sampling=Sampling())
        end = Finished(turn=1, finish="stop", text="answer", tokens=(), seed=1, stats=Stats())
        store.finish_reply(reply, end, valid=None, trace=())
    store.set_draft(chats[1], "x")
    async with open_app({"turns": [[{"say": "more"}, STOP]]}, (160, 50)) as pilot:
        await loaded(pilot)
        main = pilot.app.screen
        before = {chat: [message.content for message in store.path(chat)] for chat in chats}
        for pane in [widget for widget in main.query("*") if widget.focusable and widget.display]:
            pane.focus()
            await pilot.press(key)
            await pilot.pause(0.05)
            while pilot.app.screen is not main:
                await pilot.press("escape")
        trash = {chat.id for chat in store.chats(trashed=True)}
        for chat in chats:
            if chat in trash:
                store.restore_chat(chat)
        while session(pilot).can_undo:
            session(pilot).undo()
        for chat, contents in before.items():
            assert [message.content for message in store.path(chat)][: len(contents)] == contents


async def test_the_order_of_keys_survives_edit_and_regenerate(open_app, store):
    schema = '{"type":"object","properties":{"zebra":{"type":"string"},"ant":{"type":"string"}}}'
    chat = store.create_chat()
    store.set_shape(chat, GrammarSpec(kind="json_schema", text=schema), on=True, shown=True)
    store.set_draft(chat, "x")
    reply = '{"zebra":"1","ant":"2"}'
    async with open_app({"turns": [[{"say": reply}, STOP]]}) as pilot:
        await loaded(pilot)
        pilot.app.screen.query_one(Composer).set_text("")
        await write(pilot, "go")
        await answered(pilot, 2)
        await pilot.press("ctrl+up", "r")
        await until(pilot, lambda: not session(pilot).busy and session(pilot).path[-1].siblings == 2)
        pilot.app.screen.query_one(Transcript).select(session(pilot).path[0].id)
        await pilot.press("e")
        await until(pilot, lambda: not isinstance(pilot.app.screen, ChatScreen))
        await pilot.press("!", "ctrl+s")
        await until(pilot, lambda: session(pilot).path[0].siblings == 2)
        await answered(pilot, 2)
        assert session(pilot).path[-1].shape.text == schema
        await sees(pilot, "ant")
        shown = screen(pilot)
        assert shown.index("zebra") < shown.index("ant")
