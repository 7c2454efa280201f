"""Keys, clicks and sizes in no order at all: nothing ends the program, and no control character is drawn."""

import random
from contextlib import nullcontext, suppress

import pytest
from pilots import loaded, screen
from textual.pilot import OutOfBounds

from app.shapes import saved_shapes

SIZES = [(160, 50), (80, 24), (40, 15), (100, 30), (20, 5)]
EDITING = [
    *("enter", "escape", "tab", "shift+tab", "up", "down", "left", "right", "space", "backspace", "delete"),
    *("pageup", "pagedown", "home", "end"),
]
MODIFIED = [
    *(
        f"ctrl+{key}" for key in "abcdefgjklnoprstuvwxyz"
    ),  # not Q, which quits, nor what terminals send as other keys
    *("ctrl+up", "ctrl+home", "ctrl+end", "ctrl+left", "shift+up", "shift+down", "shift+f2"),
    *("alt+enter", "alt+backspace"),
]
KEYS = [*EDITING, *MODIFIED, *(f"f{number}" for number in range(1, 13)), *'abcdehijlnrstuvwxyRN019/[]{}"@:?']
PATHS = [
    ["escape"] * 3,
    ["ctrl+t", *"city", "enter"],
    ["ctrl+l", "e"],
    ["ctrl+l", "n", "enter"],
    ["ctrl+l", "n", "down", "enter"],
    *(["ctrl+l", key] for key in "cdltuv"),
    ["ctrl+s", "enter"],
    ["ctrl+up", "x", "enter", "enter"],
    *(["ctrl+up", key] for key in "bdeRruy"),
    ["f2", "d"],
    ["shift+f2", "enter"],
    ["f12", "c"],
    [*"/import", "enter"],
    [*"hi", "enter"],
]
TURN = [{"say": '{"n":', "size": 9}, {"say": "1}"}, {"end": "stop"}]
LIKELY = {"id": 8, "text": "no", "probability": 0.25, "rank": 1, "legal": True, "share": 0.5}
INSPECTED = {
    "type": "inspected",
    "turn": "$turn",
    "alternatives": [LIKELY],
    "forced": False,
    "allowed": 2,
    "masked": 998,
    "entropy": 0.8,
}


def stroke(chance: random.Random) -> list[str]:
    kind = chance.random()
    if kind < 0.25:
        return chance.choice(PATHS)
    return chance.choices(KEYS, k=chance.randint(2, 6) if kind < 0.5 else 1)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(3))
async def test_no_keys_end_the_program(open_app, monkeypatch, seed):
    monkeypatch.setenv("VISUAL", "true")
    chance = random.Random(seed)
    script = {"turns": [TURN] * 200, "inspect": [{"send": INSPECTED}]}
    async with open_app(script, SIZES[seed % len(SIZES)]) as pilot:
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        pilot.app.screen._shelf._shapes = saved_shapes
        await loaded(pilot)
        for _ in range(150):
            keys = stroke(chance)
            await pilot.press(*keys)
            if pilot.app._exit:
                return  # the command palette quits, too
            assert not set(screen(pilot)) & set("\x1b\x9b\u202e"), keys
            if chance.random() < 0.03:
                await pilot.resize_terminal(*chance.choice(SIZES))
            if chance.random() < 0.05:
                width, height = pilot.app.size
                with suppress(OutOfBounds):  # the size changes as we click
                    await pilot.click(offset=(chance.randrange(width), chance.randrange(height)))
