"""The live panel: what it says of a reply, and what of it is drawn."""

from contextlib import asynccontextmanager
from dataclasses import replace

from pilots import screen, sees
from textual.app import App, ComposeResult

from app.live import LiveReply
from app.tui.app import THEME
from app.tui.widgets.live_panel import LivePanel
from engine.events import Finished, ModelInfo, Ready, Started, Stats, Token, Tokens
from grammars.spec import GrammarSpec

MODEL = ModelInfo(
    name="Big [/x]",
    path="m.gguf",
    architecture="llama",
    parameters=135_000_000,
    quantization="Q4_1",
    vocab_size=1000,
    context_length=8192,
    size_bytes=98_000_000,
    fingerprint="f",
    vocabulary="v",
    template_hash="t",
    has_template=True,
)
READY = Ready(model=MODEL, context=1000, threads=1, exact="fast", numerics_reason="")


class Panel(App[None]):
    """Nothing but the panel."""

    CSS = "LivePanel { width: 40; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(THEME)
        self.theme = THEME.name

    def compose(self) -> ComposeResult:
        yield LivePanel()


@asynccontextmanager
async def opened():
    app = Panel()
    async with app.run_test(size=(40, 40), notifications=True) as pilot:
        yield pilot, app.query_one(LivePanel)


def writing(shape: GrammarSpec | None = None) -> LiveReply:
    live = LiveReply(turn=1, chat=1, reply=1, shape=shape, vocab_size=1000)
    live.apply(Started(turn=1, prompt_tokens=20, reused_tokens=0, seed=5))
    return live


def tokens(text: str, forwards: int, **options) -> Tokens:
    token = Token(id=1, text=text, origin="sampled", allowed=30, part=options.pop("part", "reply"))
    return Tokens(turn=1, tokens=(token,), text=text, forwards=forwards, elapsed_s=1.0, **options)


async def test_the_field_the_thoughts_and_the_sources_are_said():
    shape = GrammarSpec(kind="json_schema", text="{}", name="a [/x] b")
    live = writing(shape)
    live.apply(tokens("", 1, part="reasoning"))
    live.apply(tokens('{"a": {"tags": ["x", "', 2))
    live.apply(tokens("y", 3, sources={"suffix": {"submitted": 8, "accepted": 6}, "gate": {"rounds": 3}}))
    async with opened() as (pilot, panel):
        panel.show(replace(READY, draft=MODEL), live)
        await sees(pilot, "drafts from Big [/x]")
        shown = screen(pilot)
        assert "shape       a [/x] b" in shown
        assert "filling     $.a.tags[1]" in shown
        assert "tokens      3  1 thinking" in shown
        assert "guessed     6 of 8  75% suffix" in shown
        assert "drafts from Big [/x]" in shown
        assert "numerics    fast" in shown
        assert "landed" not in shown
        landed = Stats(sources={"draft-model": {"submitted": 4, "accepted": 1}, "suffix": {"submitted": 0}})
        live.landed = 2
        live.apply(Finished(turn=1, finish="landed", text="", tokens=(), seed=5, stats=landed))
        panel.show(READY, live)
        await sees(pilot, "  landed")
        shown = screen(pilot)
        assert "filling" not in shown
        assert "guessed     1 of 4  25% draft model" in shown
        assert "  landed" in shown


async def test_only_rows_that_changed_are_drawn_again():
    live = writing()
    async with opened() as (pilot, panel):
        live.apply(tokens("a", 1))
        panel.show(READY, live)
        await pilot.pause()
        drawn = []
        panel.refresh = lambda *regions, **_: drawn.extend(region.y for region in regions)
        live.apply(tokens("a", 2))
        panel.show(READY, live)
        rows = [str(panel.lines[row]).split()[0] for row in drawn]
        assert {"tokens", "sampled", "context"} <= set(rows)
        assert {"REPLY", "MODEL", "weights", "seed"}.isdisjoint(rows)
