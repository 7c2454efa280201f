"""When the main screen is drawn: what an engine writes a few times a second, what the person does at once."""

import re

from pilots import loaded, screen, sees, session, until, write

from app.tui.drawing import FIGURES_S, TEXT_S
from app.tui.widgets.stream_markdown import StreamMarkdown
from engine.events import Finished, Started, Stats, Token, Tokens


class Stage:
    """A reply that grows by what the test says, on a screen whose clock the test moves."""

    def __init__(self, pilot) -> None:
        self.pilot = pilot
        self.time = 1e9  # later than anything was drawn
        self.drawing = pilot.app.screen._drawing
        self.drawing._clock = lambda: self.time

    def hear(self, event) -> None:
        session(self.pilot)._on_event(event)

    def token(self, text: str) -> None:
        token = Token(id=1, text=text, origin="sampled")
        self.hear(Tokens(turn=1, tokens=(token,), text=text, forwards=1, elapsed_s=1.0))

    async def drawn(self) -> tuple[str, int]:
        """Return the text that is on the screen after a frame, and the count beside it."""
        await self.drawing.frame()
        await self.pilot.pause()
        counted = re.search(r"tokens +(\d+)", screen(self.pilot))
        return self.pilot.app.screen.query_one(StreamMarkdown).text, int(counted[1]) if counted else 0


async def begun(pilot) -> Stage:
    await loaded(pilot)
    await write(pilot, "go")
    await until(pilot, lambda: pilot.app.screen.query(StreamMarkdown))
    stage = Stage(pilot)
    stage.hear(Started(turn=1, prompt_tokens=20, reused_tokens=0, seed=5))
    stage.token("a")
    assert await stage.drawn() == ("a", 1)
    return stage


async def test_a_growing_reply_is_drawn_a_few_times_a_second_and_its_figures_more_rarely(open_app):
    async with open_app({"turns": [[{"hold": True}]]}, (160, 50)) as pilot:
        stage = await begun(pilot)
        for _ in range(20):
            stage.token("b")
        assert await stage.drawn() == ("a", 1)  # the clock stands still
        stage.time += TEXT_S
        assert await stage.drawn() == ("a" + "b" * 20, 1)
        stage.time += FIGURES_S - TEXT_S
        assert await stage.drawn() == ("a" + "b" * 20, 21)


async def test_the_end_of_a_reply_is_drawn_at_once(open_app):
    async with open_app({"turns": [[{"hold": True}]]}, (160, 50)) as pilot:
        stage = await begun(pilot)
        stage.token("the end")
        stage.hear(Finished(turn=1, finish="stop", text="athe end", tokens=(1, 1), seed=5, stats=Stats()))
        await stage.drawing.frame()
        await sees(pilot, "athe end")
        await until(pilot, lambda: re.search(r"tokens +2", screen(pilot)))


async def test_what_the_person_does_while_a_reply_grows_is_drawn_at_once(open_app):
    async with open_app({"turns": [[{"hold": True}]]}, (160, 50)) as pilot:
        stage = await begun(pilot)
        session(pilot).new_chat()
        await stage.drawing.frame()
        await sees(pilot, "replies poured into a shape")
