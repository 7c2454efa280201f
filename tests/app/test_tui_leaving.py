"""What is worked out beside a screen, and comes to its end just when the screen is being taken away."""

import ast
import asyncio
from importlib import import_module
from pathlib import Path

import pytest
from pilots import answered, library, loaded, on, pick, sees, until, write
from textual.widgets import Input

import app.tui
from app.tui.screens.attach import PathDialog
from app.tui.screens.document_check import DocumentCheck
from app.tui.screens.help import HelpScreen
from app.tui.screens.results import ResultsScreen
from app.tui.screens.shape_editor import ShapeEditor
from app.tui.screens.shape_picker import Picked, ShapePicker
from app.tui.screens.shape_source import ShapeSource
from app.tui.widgets.code_area import CodeArea

WIDE = (160, 50)
REPLY = {"turns": [[{"say": '{"n":1}', "size": 9}, {"end": "stop"}]]}


class Held:
    """Makes a coroutine function end only when the screen in front has lost what it is drawn on."""

    def __init__(self, app, patch: pytest.MonkeyPatch) -> None:
        self._app = app
        self.patch = patch
        self._keys: list[asyncio.Task[None]] = []
        self.begun = asyncio.Event()

    def hold(self, owner: object, name: str) -> None:
        real = getattr(owner, name)

        async def held(*given, **named):
            shown = self._app.screen
            try:
                return await real(*given, **named)
            finally:
                self.begun.set()
                while shown.query("Line, PlainList"):
                    await asyncio.sleep(0)

        self.patch.setattr(owner, name, held)

    def press(self, pilot, key: str) -> None:
        """Press a key whose action is held, too."""
        self._keys.append(asyncio.ensure_future(pilot.press(key)))


async def editor(pilot) -> None:
    await library(pilot)
    await pilot.press("e")
    await on(pilot, ShapeEditor)
    await sees(pilot, "sable")


async def source(pilot) -> None:
    await library(pilot)
    await pilot.press("n", "enter")
    await on(pilot, ShapeSource)


async def table(pilot) -> None:
    await loaded(pilot)
    await pick(pilot, "city")
    await write(pilot, "go")
    await answered(pilot, 2)
    pilot.app.screen._shelf.replies()
    await on(pilot, ResultsScreen)


async def look_at_a_shape(pilot, held: Held) -> None:
    held.hold(import_module("app.tui.screens.shape_library"), "deeply")
    await library(pilot)


async def fix(pilot, held: Held) -> None:
    await editor(pilot)
    held.hold(import_module("app.tui.screens.shape_editor"), "deeply")
    held.press(pilot, "f5")


async def check_a_document(pilot, held: Held) -> None:
    await library(pilot)
    await pilot.press("t")
    await on(pilot, DocumentCheck)
    held.hold(import_module("app.tui.screens.document_check"), "deeply")
    pilot.app.screen.query_one(CodeArea).put("1")


async def read_a_source(pilot, held: Held) -> None:
    await source(pilot)
    held.hold(asyncio, "to_thread")
    await pilot.press("a")


async def go_on_from_a_source(pilot, held: Held) -> None:
    held.patch.setattr("app.tui.screens.shape_source.TYPING_S", 600)  # the key is what begins to read
    await source(pilot)
    await pilot.press("a")
    held.hold(asyncio, "to_thread")
    held.press(pilot, "ctrl+s")


async def export_replies(pilot, held: Held) -> None:
    await table(pilot)
    await sees(pilot, "1 of 1")
    held.hold(asyncio, "to_thread")
    held.press(pilot, "j")


async def import_chats(pilot, held: Held) -> None:
    held.hold(asyncio, "to_thread")
    await write(pilot, "/import")
    await on(pilot, PathDialog)
    pilot.app.screen.query_one(Input).value = "/dev/null"
    held.press(pilot, "enter")


SCENES = [
    look_at_a_shape,
    fix,
    check_a_document,
    read_a_source,
    go_on_from_a_source,
    export_replies,
    import_chats,
]


@pytest.mark.parametrize("scene", SCENES)
async def test_what_comes_late_does_not_end_the_program(open_app, monkeypatch, tmp_path, scene):
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    async with open_app(REPLY, WIDE) as pilot:
        held = Held(pilot.app, monkeypatch)
        await scene(pilot, held)
        async with asyncio.timeout(10):
            await held.begun.wait()


async def test_a_screen_closes_once_and_takes_along_only_what_is_in_front_of_it(open_app):
    async with open_app({}) as pilot:
        main = pilot.app.screen
        await pilot.press("ctrl+t")
        await on(pilot, ShapePicker)
        picker = pilot.app.screen
        await pilot.press("f1")
        await on(pilot, HelpScreen)
        picker.dismiss(Picked(shape=None))  # as of work that comes to its end now
        picker.dismiss(None)  # as of a second click
        await until(pilot, lambda: pilot.app.screen is main)
        await pilot.pause()
        assert pilot.app.screen_stack[-1] is main


def test_every_method_that_waits_beside_its_screen_may_find_it_closed():
    """The scenes above are those that ended the program; here none is forgotten."""
    waiting, bare = 0, []
    for file in sorted(Path(app.tui.__file__).parent.rglob("*.py")):
        for kind in (
            node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
        ):
            for method in kind.body:
                if isinstance(method, ast.AsyncFunctionDef) and _waits(method) and _is_shown(kind):
                    waiting += 1
                    if "until_closed" not in [ast.unparse(decorator) for decorator in method.decorator_list]:
                        bare.append(f"{file.name}: {kind.name}.{method.name}")
    assert waiting > 5
    assert not bare


def _waits(method: ast.AsyncFunctionDef) -> bool:
    """True where something is awaited that other threads or programs do."""
    calls = [node.value for node in ast.walk(method) if isinstance(node, ast.Await)]
    names = {ast.unparse(call.func).rpartition(".")[2] for call in calls if isinstance(call, ast.Call)}
    return bool(names & {"deeply", "to_thread", "edit"})


def _is_shown(kind: ast.ClassDef) -> bool:
    """True for screens and widgets."""
    return any(not isinstance(base, ast.Name) or base.id[0].isupper() for base in kind.bases)
