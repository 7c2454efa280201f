"""Driving the interface by keys, and waiting for what it shows."""

import asyncio
from collections.abc import Callable

from textual.widgets import Input

from app.shapes import SavedShape, saved_shapes
from app.tui.screens.chat import ChatScreen
from app.tui.screens.shape_library import ShapeLibrary
from app.tui.screens.shape_picker import ShapePicker
from app.tui.widgets.composer import Composer
from app.tui.widgets.message_view import MessageView
from grammars.presets import Preset

CITY = Preset(name="city", title="City", json_schema={"type": "object"})
MOOD = Preset(name="mood", title="Mood", choices=["positive", "negative"], example_prompt="Good?")
DATE = Preset(name="date", title="Date a [/x] b", description="a [/x] b", regex=r"\d{4}-\d\d-\d\d")
SHAPES = [SavedShape(name=preset.name, origin="own", preset=preset) for preset in (CITY, MOOD, DATE)]
BROKEN = SavedShape(name="broken", origin="own", preset=None, fault="a [/x] b: not JSON")


async def until(pilot, true: Callable[[], object]) -> None:
    """Let the interface run until something is true."""
    async with asyncio.timeout(60):
        while not true():
            await pilot.pause(0.01)


async def sees(pilot, text: str) -> None:
    """Wait until a text is on the screen."""
    await until(pilot, lambda: text in screen(pilot))


async def on(pilot, kind: type) -> None:
    """Wait until a screen of a kind is in front."""
    await until(pilot, lambda: isinstance(pilot.app.screen, kind) and pilot.app.screen.is_mounted)
    await pilot.pause()


async def library(pilot) -> ShapeLibrary:
    """Open the library over the shapes that are saved."""
    pilot.app.screen._shelf._shapes = saved_shapes
    await pilot.press("ctrl+l")
    await on(pilot, ShapeLibrary)
    return pilot.app.screen


def screen(pilot) -> str:
    """Return what the screen shows."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


async def write(pilot, text: str) -> None:
    """Type a message and send it."""
    pilot.app.screen.query_one(Composer).insert(text)
    await pilot.press("enter")


async def pick(pilot, words: str) -> None:
    """Pick a shape through the list."""
    await pilot.press("ctrl+t")
    await until(pilot, lambda: isinstance(pilot.app.screen, ShapePicker))
    pilot.app.screen.query_one(Input).value = words
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


def session(pilot):
    return pilot.app.session


async def loaded(pilot) -> None:
    await until(pilot, lambda: session(pilot).engine.state == "ready")


async def answered(pilot, count: int) -> None:
    """Wait until so many messages stand in the transcript and nothing is being written."""
    await until(pilot, lambda: not session(pilot).busy and len(pilot.app.screen.query(MessageView)) == count)
