"""Draws the README's screenshots anew: the real interface over the starter model, without a terminal.

    python tests/bench/screenshots.py [FOLDER]

Replies are greedy and the seed is fixed; only speeds and times differ from one run to the next.
"""

import argparse
import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input

from app.models import starter_model
from app.settings import ReplySettings, Settings
from app.store.store import Store
from app.tui.app import StampoApp
from app.tui.screens.chat import ChatScreen
from app.tui.screens.shape_library import ShapeLibrary
from app.tui.screens.shape_picker import ShapePicker
from app.tui.screens.xray import XrayScreen
from app.tui.widgets.composer import Composer
from app.tui.widgets.message_view import MessageView
from engine.protocol import Load

FOLDER = Path(__file__).parents[2] / "assets" / "screenshots"
FONTS = "ui-monospace, 'Fira Code', 'DejaVu Sans Mono', monospace"
TURNS = [
    ("city", "Describe the city of Paris."),
    ("sentiment", "How does the writer feel? 'The room was clean but the noise kept us up all night.'"),
    ("todo", "Plan a picnic for six people."),
]
GROWN = 62
"""Tokens of the last reply at which it is caught."""


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["STAMPO_HOME"] = home
        asyncio.run(draw(folder))


async def draw(folder: Path) -> None:
    """Draw the main screen at two sizes, and the screens that its keys open."""
    for size, name in (((140, 44), "chat"), ((60, 24), "narrow")):
        async with interface(size) as pilot:
            for shape, text in TURNS[:-1]:
                await send(pilot, shape, text)
                await until(pilot, lambda: not pilot.app.session.busy)
            await send(pilot, *TURNS[-1])
            await until(pilot, lambda: len(pilot.app.session.live.tokens) >= GROWN)
            shoot(pilot, folder / f"{name}.svg")
    async with interface((140, 44)) as pilot:
        await pick(pilot, "city")
        await pilot.pause(1.0)
        shoot(pilot, folder / "shapes.svg")
    async with interface((140, 40)) as pilot:
        await send(pilot, *TURNS[0])
        await until(pilot, lambda: len(pilot.app.screen.query(MessageView)) == 2)
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(pilot.app.screen, XrayScreen))
        await pilot.press("home", "n", "n")
        await pilot.pause(4.0)  # the token that is looked at is asked about
        shoot(pilot, folder / "xray.svg")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ShapeLibrary))
        await pilot.pause(1.5)
        shoot(pilot, folder / "library.svg")


@asynccontextmanager
async def interface(size: tuple[int, int]) -> AsyncIterator[Pilot]:
    """Open the interface on an empty store, with the model loaded."""
    settings = Settings(reply=ReplySettings(temperature=0.0, seed=7))
    with tempfile.TemporaryDirectory() as home, Store(Path(home) / "chats.sqlite3") as store:
        app = StampoApp(store=store, load=Load(model=str(starter_model()), threads=1), settings=settings)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.session.engine.state == "ready")
            yield pilot


async def until(pilot: Pilot, true: Callable[[], object]) -> None:
    """Let the interface run until something is true."""
    async with asyncio.timeout(120):
        while not true():
            await pilot.pause(0.02)


async def pick(pilot: Pilot, words: str) -> None:
    """Open the list of shapes and type."""
    await pilot.press("ctrl+t")
    await until(pilot, lambda: isinstance(pilot.app.screen, ShapePicker))
    pilot.app.screen.query_one(Input).value = words
    await pilot.pause(0.3)


async def send(pilot: Pilot, shape: str, text: str) -> None:
    """Pick a shape, and send a message under it."""
    await pick(pilot, shape)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
    pilot.app.screen.query_one(Composer).insert(text)
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.session.busy)


def shoot(pilot: Pilot, file: Path) -> None:
    """Write what the screen shows as SVG that loads no fonts."""
    svg = re.sub(r"@font-face\s*\{.*?\}", "", pilot.app.export_screenshot(title="Stampo"), flags=re.DOTALL)
    svg = re.sub(r"<style>\s*", "<style>\n\n    ", svg.replace("Fira Code, monospace", FONTS))
    file.write_text("".join(f"{line.rstrip()}\n" for line in svg.splitlines()), encoding="utf-8")


if __name__ == "__main__":
    main()
