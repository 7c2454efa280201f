"""The live panel: the model, and what the shape does to the reply while it is written.

Knows nothing of the engine or the store; it is handed values when they are worth showing. Invariant: no row is drawn
that is drawn already.
"""

from collections.abc import Mapping
from itertools import zip_longest
from math import log

from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from app.live import LiveReply
from app.terminal import one_line
from app.tui.words import (
    bar,
    finish_words,
    numerics_words,
    phase_words,
    shape_name,
    share_words,
    sparkline,
)
from engine.events import Ready

_LABEL = 12
_SOURCES = {"memory": "memory", "suffix": "suffix", "recycling": "recycling", "draft-model": "draft model"}
"""What of the figures on drafts are sources; the gate's are not."""


class LivePanel(Widget):
    """Figures of the reply above, facts of the model below: a small screen cuts the end."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self.lines: list[Content] = []
        """What is shown, a row each."""
        self._strips: dict[int, Strip] = {}
        self._now: tuple[Ready | None, LiveReply | None, str] = (None, None, "")

    def show(self, ready: Ready | None, live: LiveReply | None, elsewhere: str = "") -> None:
        """Show the loaded model and the reply being written, or the last one.

        `elsewhere` is the title of the reply's chat when another one is open.
        """
        self._now = (ready, live, elsewhere)
        self._draw()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self._draw()

    def notify_style_update(self) -> None:
        """Draw everything in the new colours."""
        super().notify_style_update()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        style, width = self.visual_style, self.size.width
        if y >= len(self.lines):
            return Strip.blank(width, style.rich_style)
        if (strip := self._strips.get(y)) is None:
            strips = Visual.to_strips(self, self.lines[y], width, 1, style)
            strip = strips[0] if strips else Strip.blank(width)
            self._strips[y] = strip = strip.adjust_cell_length(width, style.rich_style)
        return strip

    def _draw(self) -> None:
        """Make the rows, and draw those that are others than before."""
        ready, live, elsewhere = self._now
        width = max(16, self.content_size.width or 32)
        lines = [
            line.truncate(width, ellipsis=True)
            for line in (*_reply(live, elsewhere, width), Content(""), *_model(ready, live, width))
        ]
        before, self.lines = self.lines, lines
        for row, (old, new) in enumerate(zip_longest(before, lines)):
            if old is None or new is None or not new.is_same(old):
                self._strips.pop(row, None)
                self.refresh(Region(0, row, width, 1))


def _pair(label: str, value: str, note: str = "") -> Content:
    return Content.assemble((f"{label:<{_LABEL}}", "dim"), value, (f"  {note}" if note else "", "dim"))


def _bar(label: str, share: float, width: int, figures: str = "") -> Content:
    room = width - _LABEL - len(figures)
    return Content.assemble(_pair(label, figures), (bar(share, room), "$primary"))


def _model(ready: Ready | None, live: LiveReply | None, width: int) -> list[Content]:
    lines = [Content.styled("MODEL", "bold")]
    if ready is None:
        return [*lines, Content.styled("not loaded", "dim")]
    model = ready.model
    used = live.positions if live else 0
    lines += [
        Content(one_line(model.name)),
        _pair("kind", one_line(model.architecture), f"{_count(model.parameters)} parameters"),
        _pair("weights", one_line(model.quantization), f"{model.size_bytes / 1e6:,.0f} MB"),
    ]
    if ready.draft is not None:
        lines.append(_pair("drafts from", one_line(ready.draft.name)))
    return [
        *lines,
        _pair("numerics", numerics_words(ready.exact)),
        _pair("context", f"{used:,} of {ready.context:,}"),
        _bar("", used / ready.context, width),
    ]


def _reply(live: LiveReply | None, elsewhere: str, width: int) -> list[Content]:
    lines = [Content.styled("REPLY", "bold")]
    if live is None:
        return [*lines, Content.styled("Figures appear here while a reply is written.", "dim")]
    if elsewhere:
        lines.append(Content(f"of another chat: {one_line(elsewhere)}"))
    lines.append(_pair("shape", shape_name(live.shape) if live.shape else "none"))
    if live.filling:
        lines.append(_pair("filling", _end(one_line(live.filling), width - _LABEL)))
    lines.append(_pair("state", finish_words(live.finish) if live.phase == "done" else phase_words(live)))
    if live.prompt_tokens:
        reused = f"{live.reused_tokens:,} reused" if live.reused_tokens else ""
        lines.append(_pair("prompt", f"{live.prompt_tokens:,}", reused))
    total = len(live.tokens)
    lines.append(
        _pair("tokens", f"{total:,}", f"{live.thought_tokens:,} thinking" if live.thought_tokens else "")
    )
    origins = [("forced", live.forced), ("accepted", live.accepted), ("sampled", live.sampled)]
    if live.landed:
        origins.append(("landed", live.landed))
    if live.given:
        origins.append(("given", live.given))
    for label, count in origins:
        share = count / total if total else 0.0
        lines.append(_bar(f"  {label}", share, width, f"{count:,}".ljust(6) + f"{share_words(share):>4}  "))
    lines.extend(_masked(live, width))
    lines.extend(_guessed(live.sources))
    if live.forwards:
        lines.append(_pair("speed", f"{live.tokens_per_s:.1f}", "tokens a second"))
        lines.append(_pair("", f"{live.tokens_per_forward:.2f}", "tokens a forward"))
    if live.seed is not None:
        lines.append(_pair("seed", str(live.seed)))
    return lines


def _guessed(sources: Mapping[str, Mapping[str, float]]) -> list[Content]:
    """Say of each source that guessed how many of its guesses were right."""
    lines = []
    for name, label in _SOURCES.items():
        figures = sources.get(name, {})
        if submitted := int(figures.get("submitted", 0)):
            accepted = int(figures.get("accepted", 0))
            value = f"{accepted:,} of {submitted:,}"
            lines.append(
                _pair("" if lines else "guessed", value, f"{share_words(accepted / submitted)} {label}")
            )
    return lines


def _end(path: str, room: int) -> str:
    """Return the end of a path, which says most."""
    return path if len(path) <= room else f"…{path[max(0, len(path) - room + 1) :]}"


def _masked(live: LiveReply, width: int) -> list[Content]:
    """Masked tokens at the last free choice, of a finished reply their mean, and the run of them."""
    if not live.masked:
        return [_pair("masked", "none" if live.shape is None or live.phase == "done" else "")]
    done = live.phase == "done"
    masked = sum(live.masked) / len(live.masked) if done else live.masked[-1]
    heights = [_height(count, live.vocab_size) for count in live.masked[-width:]]
    share = f"{share_words(masked / live.vocab_size, 2)} of all"
    return [
        _pair("masked mean" if done else "masked now", f"{int(masked):,}", share),
        Content.styled(sparkline(heights, width), "$accent"),
    ]


def _height(masked: int, vocab_size: int) -> float:
    """Map masked ids to 0..1 by the order of magnitude of what is left, else nearly all would look alike."""
    return 1.0 - log(max(1, vocab_size - masked)) / log(max(2, vocab_size))


def _count(number: int) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)
