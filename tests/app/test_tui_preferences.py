"""Models, settings, keys and colours through the screens: what is taken is in force and in the file."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
import scripted_worker
from pilots import answered, loaded, sees, session, until, write
from textual.widgets import Input, OptionList

from app.models import ModelFile
from app.paths import config_path, config_place
from app.settings import InterfaceSettings, Settings
from app.tui import preferences
from app.tui.app import StampoApp
from app.tui.screens.chat import ChatScreen
from app.tui.screens.keys import KeyCatcher, KeysScreen
from app.tui.screens.models import ModelsScreen
from app.tui.screens.settings import SettingsScreen
from app.tui.widgets.composer import Composer
from app.tui.widgets.plain_list import PlainList
from engine.protocol import Load

HOSTILE = "a [/x] \x1b[31mb\u202e 漢字 👩‍🚀"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def saved() -> dict:
    return tomllib.loads(config_place().read_text(encoding="utf-8")) if config_place().exists() else {}


async def opened(pilot, key: str, kind: type) -> None:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind) and pilot.app.screen.query(OptionList))
    await pilot.pause()


async def back(pilot) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


def choose(pilot, text: str) -> None:
    """Highlight the first row that begins with a text."""
    options = pilot.app.screen.query_one(OptionList)
    rows = [
        str(options.get_option_at_index(place).prompt).lstrip("*! ›") for place in range(options.option_count)
    ]
    options.highlighted = next(place for place, row in enumerate(rows) if row.startswith(text))


async def test_a_setting_of_this_chat_counts_for_its_next_reply_and_no_other(open_app, tmp_path):
    log = tmp_path / "commands"
    async with open_app({"turns": [[{"log": str(log)}, {"say": "yes"}, {"end": "stop"}]]}) as pilot:
        await loaded(pilot)
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "temperature")
        await pilot.press("enter")
        pilot.app.screen.query_one(Input).value = "hot"
        await pilot.press("enter")
        await sees(pilot, "temperature cannot be hot: it takes a number from 0 to 100.")
        pilot.app.screen.query_one(Input).value = "0.25"
        await pilot.press("enter")
        await sees(pilot, "this chat's own")
        await pilot.press("ctrl+s")
        await back(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        assert json.loads(log.read_text())["sampling"]["temperature"] == 0.25
        assert session(pilot).chat.settings == {"temperature": 0.25}
        assert saved() == {}
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "temperature")
        await pilot.press("delete", "ctrl+s")
        await until(pilot, lambda: session(pilot).chat.settings == {})


async def test_settings_of_all_chats_go_into_the_file_and_escape_changes_nothing(open_app, monkeypatch):
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "full")
    async with open_app({}, (80, 24)) as pilot:
        assert pilot.app.animation_level == "full"
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "reduced_motion")
        await pilot.press("enter")
        await pilot.press("escape")
        await back(pilot)
        assert saved() == {}
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "reduced_motion")
        await pilot.press("enter", "ctrl+s")
        await back(pilot)
        assert saved() == {"interface": {"reduced_motion": True}}
        assert pilot.app.animation_level == "none"
        await until(pilot, lambda: not pilot.app.screen.query_one(Composer).cursor_blink)


async def test_a_key_is_given_to_another_action_and_a_clash_is_refused(open_app):
    async with open_app({}) as pilot:
        await opened(pilot, "f8", KeysScreen)
        choose(pilot, "Ctrl+F")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, KeyCatcher))
        await pilot.press("ctrl+t")
        await sees(pilot, "Clash: ctrl+t is the key of shape.pick")
        await pilot.press("ctrl+s")
        await sees(pilot, "Not saved.")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, KeyCatcher))
        await pilot.press("alt+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, KeysScreen))
        await pilot.press("ctrl+s")
        await back(pilot)
        assert saved() == {"keys": {"transcript.find": ["alt+s"]}}
        await pilot.press("alt+s")
        await until(pilot, lambda: pilot.app.screen.query_one("#find").display)
        await pilot.press("escape", "f1")
        await sees(pilot, "Alt+S")


async def test_models_are_listed_as_text_and_another_one_is_loaded(open_app, monkeypatch, tmp_path):
    found = [
        ModelFile(
            path=Path("/m/first.gguf"), name=HOSTILE, architecture=HOSTILE, quantization="Q8_0", fits="fits"
        ),
        ModelFile(path=Path(f"/m/{HOSTILE}.gguf"), name="broken", fault=f"is damaged: {HOSTILE}"),
        ModelFile(path=Path("/m/small.gguf"), name="small", architecture="llama", size=10**8, fits="fits"),
    ]
    monkeypatch.setattr(preferences, "survey", lambda _places: iter(found))
    log = tmp_path / "commands"
    loads = [{"log": str(log)}, {"send": {"type": "loading", "fraction": 0.5}}]
    async with open_app({"load": [*loads, {"send": scripted_worker.READY}]}, (80, 24)) as pilot:
        await loaded(pilot)
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "threads")
        await pilot.press("enter", "3", "enter", "ctrl+s")
        await back(pilot)
        await opened(pilot, "f6", ModelsScreen)
        await sees(pilot, "3 models found.")
        await sees(pilot, "a [/x] ␛[31mb")
        await pilot.press("down", "enter")
        await sees(pilot, "It cannot be loaded")
        field = pilot.app.screen.query_one(Input)
        field.value = "/no/[/x].gguf"
        await pilot.press("enter")
        await sees(pilot, "There is no file /no/[/x].gguf.")
        field.value = f"/{'x' * 300}.gguf"
        await pilot.press("enter")
        await sees(pilot, "File name too long")
        field.value = ""
        await sees(pilot, "3 models found.")
        await pilot.press("home", "down", "down", "ctrl+d", "up", "up", "ctrl+s")
        await back(pilot)
        await loaded(pilot)
        await until(pilot, lambda: len(log.read_text().splitlines()) == 2)
        last = json.loads(log.read_text().splitlines()[-1])
        first, small = "/m/first.gguf", "/m/small.gguf"
        assert (last["model"], last["draft_model"], last["threads"]) == (first, small, 3)
        assert saved() == {"engine": {"threads": 3, "model": first, "draft_model": small}}


async def test_the_theme_is_chosen_from_the_palettes_list_and_kept(open_app):
    async with open_app({}) as pilot:
        pilot.app.action_change_theme()
        await until(pilot, lambda: not isinstance(pilot.app.screen, ChatScreen))
        await pilot.pause()
        choose(pilot, "ansi-dark")
        await pilot.press("enter")
        await back(pilot)
        assert pilot.app.theme == "ansi-dark"
        assert saved() == {"interface": {"theme": "ansi-dark"}}


async def test_without_colour_everything_is_still_said(open_app, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app({"turns": [[{"say": "yes"}, {"end": "length"}]]}) as pilot:
        await loaded(pilot)
        assert pilot.app.no_color
        await write(pilot, "one")
        await answered(pilot, 2)
        await sees(pilot, "cut")
        strips = pilot.app.screen._compositor.render_strips()
        grounds = {segment.style.bgcolor for strip in strips for segment in strip if segment.style}
        colours = [ground.get_truecolor() for ground in grounds if ground]
        assert colours
        assert all(colour.red == colour.green == colour.blue for colour in colours)


async def test_a_fault_of_the_settings_is_shown_first_and_what_can_be_used_is(store, tmp_path):
    settings = Settings(
        interface=InterfaceSettings(theme="no such", reduced_motion=True), keys={"help": ("ctrl+t",)}
    )
    (tmp_path / "script.json").write_text("{}")
    app = StampoApp(
        store=store,
        load=Load(model="m.gguf"),
        settings=settings,
        trouble="settings.toml, line 1: wrong.",
        worker=[sys.executable, scripted_worker.__file__, str(tmp_path / "script.json")],
    )
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await sees(pilot, "settings.toml, line 1: wrong.")
        await sees(pilot, "no theme 'no such'")
        assert pilot.app.theme == "stampo"
        assert pilot.app.animation_level == "none"
        assert not pilot.app.screen.query_one(Composer).cursor_blink
        assert pilot.app.preferences.keys == {}


async def test_a_value_is_typed_over_the_one_that_is_there(open_app):
    async with open_app({}) as pilot:
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "top_p")
        await pilot.press("enter")
        assert pilot.app.screen.query_one(Input).value == "0.95"
        await pilot.press("backspace", "0", ".", "5", "enter", "down", "enter")
        assert pilot.app.screen.query_one(Input).value == "0.05"  # of the next one, min_p
        pilot.app.screen.query_one(Input).value = "0.2"
        choose(pilot, "top_k")  # as a click on another row
        pilot.app.screen.query_one(PlainList).action_select()
        await until(pilot, lambda: pilot.app.screen.query_one(Input).value == "0")
        await pilot.press("escape", "ctrl+s")
        await until(pilot, lambda: session(pilot).chat.settings == {"top_p": 0.5, "min_p": 0.2})


async def test_what_cannot_be_written_is_said_and_not_in_force(open_app, monkeypatch):
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "full")
    config_path().write_text("[reply\n")
    async with open_app({}) as pilot:
        await opened(pilot, "f7", SettingsScreen)
        choose(pilot, "reduced_motion")
        await pilot.press("enter", "ctrl+s")
        await back(pilot)
        await sees(pilot, "mended")
        assert config_path().read_text() == "[reply\n"
        assert pilot.app.animation_level == "full"
