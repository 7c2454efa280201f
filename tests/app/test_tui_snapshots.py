"""What the screens look like: text and styles, compared with files in `snapshots/`.

A change of looks that is meant is written down by `STAMPO_SNAPSHOTS=write pytest tests/app/test_tui_snapshots.py`; look
at the difference before it is committed. The engine is scripted and the store's clock stands still in the past, where
times are dates.
"""

import os
import pkgutil
from importlib import import_module
from itertools import groupby
from pathlib import Path

import pytest
from pilots import answered, loaded, pick, sees, session, until, write
from rich.segment import Segment
from textual.events import Key
from textual.screen import Screen

import app.tui.screens
from app.models import ModelFile
from app.paths import data_dir
from app.shapes import add_shape
from app.store.values import Attachment
from app.tui.screens.chat import ChatScreen
from app.tui.screens.closing import Dialog, OwnScreen
from app.tui.screens.context_full import ContextFull
from app.tui.screens.help import HelpScreen
from app.tui.screens.xray import XrayScreen
from app.tui.widgets.composer import Composer
from app.tui.widgets.message_view import MessageView
from app.tui.widgets.transcript import Transcript
from engine.events import Finished, Stats, Token
from engine.protocol import Sampling
from grammars.spec import GrammarSpec

FOLDER = Path(__file__).parent / "snapshots"
WRITE = os.environ.get("STAMPO_SNAPSHOTS") == "write"
NOON = 1_600_000_000_000
"""A day in 2020, in the store's milliseconds; it is the same day in every time zone but two."""
STOP = {"end": "stop"}
SIZES = [(160, 50), (80, 24), (40, 15)]
NAMES = [f"{width}x{height}" for width, height in SIZES]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
RECORD = (
    '{"name":"Haus","area":1.50,"tags":["old","stone"],"open":true,"notes":"by the river, closed since long"}'
)
SHAPE = GrammarSpec(kind="json_schema", text='{"type":"object"}', name="city")
PROSE = "# Banks\n\nBoth **banks** are *old*:\n\n- a `mill`\n- a crane\n\n```python\nx = [1]\n```"


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the store."""
    for module in ("chats", "store"):
        monkeypatch.setattr(f"app.store.{module}.now", lambda: NOON)


def drawn(pilot) -> str:
    """Return the text of the screen, and below it the styles of each row in runs of letters that a legend explains."""
    names: dict[str, str] = {}
    texts, styles = [], []
    for strip in pilot.app.screen._compositor.render_strips():
        texts.append(strip.text.rstrip())
        cells = [(_name(segment), segment.cell_length) for segment in strip]
        runs = [
            (style, sum(cell[1] for cell in run)) for style, run in groupby(cells, key=lambda cell: cell[0])
        ]
        styles.append(
            " ".join(f"{names.setdefault(style, LETTERS[len(names)])}{length}" for style, length in runs)
        )
    legend = [f"{letter} {style}" for style, letter in names.items()]
    return "\n".join([*texts, "=== styles", *styles, "=== legend", *legend, ""])


def _name(segment: Segment) -> str:
    """Return how a segment looks; of one without letters only its background is seen."""
    style = segment.style
    if style is None:
        return "none"
    if segment.text.isspace() and not (
        style.reverse or style.underline or style.underline2 or style.overline or style.strike
    ):
        return f"on {style.bgcolor.name}" if style.bgcolor else "none"
    return str(style.clear_meta_and_links())


async def looks(pilot, name: str) -> None:
    """Wait until the screen looks as it is written down."""
    file = FOLDER / f"{name}.txt"
    if WRITE:
        await pilot.pause(1.5)
        FOLDER.mkdir(exist_ok=True)
        file.write_text(drawn(pilot), encoding="utf-8")
    expected = file.read_text(encoding="utf-8")
    try:
        await until(pilot, lambda: drawn(pilot) == expected)
    except TimeoutError:
        assert drawn(pilot) == expected, f"the screen differs from {file.name}"


def fill(store) -> int:
    """Add a chat with a shaped and a free reply, siblings, an attachment and reasoning; return its number."""
    chat = store.create_chat(title="Haus am Fluss")
    store.set_system(chat, "Be brief.")
    store.set_shape(chat, SHAPE, on=True, shown=True)
    asked = store.add_user(
        chat,
        None,
        "Which house?",
        shape=SHAPE,
        attachments=[Attachment(name="houses.txt", content="x" * 1200)],
    )
    for _ in range(2):
        _reply(store, chat, asked, RECORD, shape=SHAPE, reasoning="Which one is old?")
    leaf = store.path(chat)[-1].id
    _reply(store, chat, store.add_user(chat, leaf, "And around it?"), PROSE)
    store.set_draft(chat, "What next?")
    return chat


def _reply(store, chat: int, asked: int, text: str, *, shape=None, reasoning: str | None = None) -> int:
    reply = store.begin_reply(chat, asked, shape=shape, sampling=Sampling())
    origins = ("forced", "accepted", "sampled", "landed")
    trace = [
        Token(
            id=place,
            text=text[start : start + 4],
            origin=origins[place % 4] if shape else "sampled",
            allowed=40 if shape and place % 4 else None,
        )
        for place, start in enumerate(range(0, len(text), 4))
    ]
    stats = Stats(
        reply_tokens=len(trace), forced_tokens=7 if shape else 0, tokens_per_s=50.0, reasoning_tokens=5
    )
    ids = tuple(token.id for token in trace)
    end = Finished(turn=1, finish="stop", text=text, tokens=ids, seed=7, stats=stats, reasoning=reasoning)
    store.finish_reply(reply, end, valid=True if shape else None, trace=trace)
    return reply


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
async def test_the_first_screen(open_app, size):
    async with open_app({}, size) as pilot:
        await loaded(pilot)
        await looks(pilot, f"first-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
async def test_a_chat(open_app, store, size):
    fill(store)
    async with open_app({}, size) as pilot:
        await loaded(pilot)
        await looks(pilot, f"chat-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
async def test_a_reply_being_written(open_app, size):
    turn = [{"say": RECORD[:40], "size": 5, "origin": "forced"}, {"say": RECORD[40:60]}, {"hold": True}]
    async with open_app({"turns": [turn]}, size) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "Which house?")
        await until(pilot, lambda: session(pilot).live.text == RECORD[:60])
        await looks(pilot, f"writing-{size[0]}x{size[1]}")


async def test_loading(open_app):
    script = {"load": [{"send": {"type": "loading", "fraction": 0.25}}, {"hold": True}]}
    async with open_app(script, (80, 24)) as pilot:
        await sees(pilot, "25%")
        await looks(pilot, "loading")


async def test_a_model_that_could_not_be_loaded(open_app):
    failed = {
        "send": {"type": "failed", "kind": "model", "message": "m.gguf ends in the middle of a tensor."}
    }
    async with open_app({"load": [failed]}, (80, 24)) as pilot:
        await sees(pilot, "Problem: ")
        await looks(pilot, "failed")


async def opened(pilot) -> None:
    """Wait until the model is loaded and the chat is drawn."""
    await loaded(pilot)
    await until(pilot, lambda: pilot.app.screen.query(MessageView))


async def test_a_message_is_selected(open_app, store):
    fill(store)
    async with open_app({}, (80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+up", "up", "up", "o")
        await until(pilot, lambda: pilot.app.screen.query_one(Transcript).has_focus)
        await looks(pilot, "selected")


async def test_a_text_is_looked_for(open_app, store):
    fill(store)
    async with open_app({}, (80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+f", *"old")
        await looks(pilot, "find")


SCREENS = {
    "help": "help",
    "picker": "pick_shape",
    "system": "system_prompt",
    "library": "library",
    "guards": "guards",
    "replies": "replies",
    "search": "search",
    "attach": "attach",
    "trash": "trash",
    "xray": "xray",
    "settings": "app.preferences('settings')",
    "keys": "app.preferences('keys')",
    "themes": "app.preferences('themes')",
}


@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_of_its_own(open_app, store, name):
    chat = fill(store)
    trashed = store.create_chat(title="Old talk")
    store.add_user(trashed, None, "About what?")
    store.trash_chat(trashed)
    async with open_app({}, (80, 24)) as pilot:
        await opened(pilot)
        assert session(pilot).chat.id == chat
        main = pilot.app.screen
        await main.run_action(SCREENS[name])
        await until(pilot, lambda: pilot.app.screen is not main)
        await looks(pilot, name)
        opened_one = pilot.app.screen
        await pilot.press("f1")  # lists the keys, wherever it is pressed
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen) is not (name == "help"))
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen) is (name == "help"))
        assert pilot.app.screen is opened_one or name == "help"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert [message.content for message in session(pilot).path][1] == RECORD


async def test_a_reply_as_a_tree_and_a_message_to_edit(open_app, store):
    fill(store)
    async with open_app({}, (80, 24)) as pilot:
        await opened(pilot)
        for key, place, name in (("enter", 1, "tree"), ("e", 0, "edit")):
            transcript = pilot.app.screen.query_one(Transcript)
            transcript.focus()
            transcript.select(session(pilot).path[place].id)
            await pilot.press(key)
            await until(pilot, lambda: not isinstance(pilot.app.screen, ChatScreen))
            await looks(pilot, name)
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


BEHIND = {
    "shapes-new": ("ctrl+l", "n"),
    "shapes-copy": ("ctrl+l", "c"),
    "shapes-rename-refused": ("ctrl+l", "r", *"!", "enter"),
    "shapes-none": ("ctrl+l", "slash", *"zzz"),
    "shapes-versions": ("ctrl+l", "v"),
    "shapes-versions-none": ("ctrl+l", "down", "v"),
    "shapes-document": ("ctrl+l", "t", *"[]", "ctrl+s"),
    "shapes-cannot-be-used": ("ctrl+l", "end"),
    "editor": ("ctrl+l", "e"),
    "editor-not-usable": ("ctrl+l", "e", *"x"),
    "editor-save": ("ctrl+l", "e", "ctrl+s"),
    "editor-save-refused": ("ctrl+l", "n", "end", "enter", "ctrl+s", "enter"),
    "source-shorthand": ("ctrl+l", "n", "enter"),
    "source-shorthand-fault": ("ctrl+l", "n", "enter", *"x oops"),
    "source-example": ("ctrl+l", "n", "down", "enter", *'{"a": [1]}'),
    "source-class": ("ctrl+l", "n", "down", "down", "enter"),
    "source-file-refused": ("ctrl+l", "n", "down", "down", "down", "enter", *"no.json", "enter"),
    "replies-filtered": ("f12", "slash", *"zzz", "enter"),
    "xray-refused": ("f9", "w"),
    "search-hits": ("ctrl+k", *"house"),
    "search-none": ("ctrl+k", *"zzz"),
    "attach-refused": ("f11", *"no.txt", "enter"),
    "import": (*"/import", "enter"),
    "title": ("f2", "r"),
    "commands": (*"/se",),
    "models": ("f6",),
    "models-refused": ("f6", *"/no/x.gguf", "enter"),
    "settings-value": ("f7", "down", "enter"),
    "settings-refused": ("f7", "down", "enter", *"x", "enter"),
    "keys-catch": ("f8", "enter"),
    "help-in-a-dialog": ("f4", "f1"),
    "trash-empty": ("shift+f2",),
    "edit-cancelled": ("ctrl+up", "up", "up", "up", "e", *"x", "escape"),
}
"""What stands behind some keys of the main screen, all in one burst."""


@pytest.mark.parametrize("name", BEHIND)
async def test_a_screen_behind_others(open_app, store, monkeypatch, name):
    fill(store)
    found = ModelFile(
        path=Path("/m/a.gguf"), name="A", architecture="llama", quantization="Q8_0", fits="It fits."
    )
    monkeypatch.setattr("app.tui.preferences.survey", lambda _places: iter([found]))
    for text in (
        '{"title": "Town", "regex": "[a-z]+"}',
        '{"title": "City", "json_schema": {"type": "object"}}',
    ):
        add_shape("city", text, replace=True)
    for file in data_dir().rglob("*.json"):
        os.utime(file, (NOON / 1000, NOON / 1000))
    async with open_app({}, (80, 24)) as pilot:
        await opened(pilot)
        session(pilot).set_draft("")
        pilot.app.screen.query_one(Composer).fill("")
        for key in BEHIND[name]:
            pilot.app.post_message(Key(key, key if len(key) == 1 else None))
        await looks(pilot, name)


@pytest.mark.parametrize("name", ["xray-growing", "xray-alternatives"])
async def test_a_reply_token_by_token(open_app, name):
    first = [{"say": '{"name":"', "size": 5, "origin": "forced"}, {"say": "Haus"}]
    seen = [
        {"id": 1, "text": "Haus", "probability": 0.25, "rank": 1, "legal": True, "share": 1.0},
        {"id": 9, "text": " [/x] \x1b", "probability": 0.75, "rank": 0, "legal": False, "share": 0.0},
    ]
    answer = {"type": "inspected", "turn": "$turn", "alternatives": seen, "forced": False, "allowed": 2}
    turns = {"xray-growing": [*first, {"hold": True}], "xray-alternatives": [*first, STOP]}
    script = {"turns": [turns[name]], "inspect": [{"send": answer | {"masked": 998, "entropy": 0.81}}]}
    async with open_app(script, (80, 24)) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "Which house?")
        await until(pilot, lambda: len(session(pilot).live.tokens) == 3)
        if name == "xray-alternatives":
            await answered(pilot, 2)
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(pilot.app.screen, XrayScreen))
        await pilot.press("n", "w")
        await looks(pilot, name)


ENDS = {
    "cancelled": [{"say": RECORD[:30]}, {"end": "cancelled"}],
    "landed": [{"say": RECORD[:30]}, {"say": '"}', "origin": "landed"}, {"end": "landed"}],
    "length": [{"say": RECORD[:30]}, {"end": "length"}],
    "loop": [{"say": "on and on and on"}, {"end": "loop"}],
    "context-full-reply": [{"say": RECORD[:30]}, {"end": "context_full"}],
    "error": [
        {"send": {"type": "failed", "kind": "internal", "message": "The decoder broke.", "turn": "$turn"}}
    ],
    "died": [{"say": RECORD[:30]}, {"die": 3}],
}


@pytest.mark.parametrize("name", ENDS)
async def test_how_a_reply_ended(open_app, name):
    async with open_app({"turns": [ENDS[name]]}, (80, 24)) as pilot:
        await loaded(pilot)
        session(pilot).engine._client._log = Path("/data/worker.log")
        await write(pilot, "Which house?")
        await answered(pilot, 2)
        await looks(pilot, f"ended-{name}")


async def test_a_message_that_does_not_fit(open_app, store):
    chat = store.create_chat(title="Long texts")
    long = [Attachment(name="long.txt", content="a" * 3200)]
    _reply(store, chat, store.add_user(chat, None, "Read this.", attachments=long), "yes")
    store.add_attachment(chat, Attachment(name="longer.txt", content="b" * 2000))
    store.set_draft(chat, "And this.")
    async with open_app({}, (80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ContextFull))
        await looks(pilot, "context-full")


async def test_a_store_that_takes_nothing(open_app, store):
    async with open_app({}, (80, 24)) as pilot:
        await loaded(pilot)
        store._database.path = Path("/data/chats.sqlite3")
        store._database.run("PRAGMA query_only = ON")
        await write(pilot, "Which house?")
        await sees(pilot, "Which house?")
        await looks(pilot, "read-only")
        store._database.run("PRAGMA query_only = OFF")


def test_every_screen_has_a_snapshot():
    """The names of the classes stand in the table of what is drawn, so that a new screen is not forgotten."""
    import_module("app.tui.app")
    for module in pkgutil.iter_modules(app.tui.screens.__path__):
        import_module(f"app.tui.screens.{module.name}")
    kinds, waiting = set(), [Screen]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("app.tui.") and kind not in (OwnScreen, Dialog):
            assert issubclass(kind, OwnScreen)  # or else it takes away whatever is in front
            kinds.add(kind.__name__)
    assert kinds == set(DRAWN)
    assert set(DRAWN.values()) <= {file.stem for file in FOLDER.iterdir()}


DRAWN = {
    "ChatScreen": "chat-80x24",
    "ContextFull": "context-full",
    "DocumentCheck": "shapes-document",
    "GuardsDialog": "guards",
    "HelpScreen": "help",
    "JsonTree": "tree",
    "KeyCatcher": "keys-catch",
    "KeysScreen": "keys",
    "ModelsScreen": "models",
    "NameDialog": "title",
    "PathDialog": "attach",
    "ResultsScreen": "replies",
    "SaveShape": "editor-save",
    "SearchScreen": "search-hits",
    "SettingsScreen": "settings",
    "ShapeEditor": "editor",
    "ShapeLibrary": "library",
    "ShapePicker": "picker",
    "ShapeSource": "source-shorthand",
    "ShapeVersions": "shapes-versions",
    "TextDialog": "edit",
    "TrashScreen": "trash",
    "WaysDialog": "shapes-new",
    "XrayScreen": "xray",
}


def test_every_snapshot_belongs_to_a_test():
    sizes = {f"{state}-{size}" for state in ("first", "chat", "writing") for size in NAMES}
    names = sizes | {
        "loading",
        "failed",
        "selected",
        "find",
        "tree",
        "edit",
        "context-full",
        "read-only",
        "xray-growing",
        "xray-alternatives",
    }
    names |= {f"ended-{name}" for name in ENDS} | set(SCREENS) | set(BEHIND)
    assert {file.stem for file in FOLDER.iterdir()} == names
