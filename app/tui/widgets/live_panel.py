"""The live panel: the model, and what the shape does to the reply while it is written.

Knows nothing of the engine or the store; the screen hands it values. One widget, one update a frame.
"""

from math import log

from textual.content import Content
from textual.widgets import Static

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


class LivePanel(Static):
    """Figures of the reply above, facts of the model below: a small screen cuts the end."""

    def __init__(self, **options: str) -> None:
        super().__init__(markup=False, **options)

    def show(self, ready: Ready | None, live: LiveReply | None, elsewhere: str = "") -> None:
        """Show the loaded model and the reply being written, or the last one.

        `elsewhere` is the title of the reply's chat when another one is open.
        """
        width = max(16, self.content_size.width or 32)
        lines = [*_reply(live, elsewhere, width), Content(""), *_model(ready, live, width)]
        self.update(Content("\n").join(lines), layout=False)


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
    return [
        *lines,
        Content(one_line(model.name)),
        _pair("kind", one_line(model.architecture), f"{_count(model.parameters)} parameters"),
        _pair("weights", one_line(model.quantization), f"{model.size_bytes / 1e6:,.0f} MB"),
        _pair("numerics", numerics_words(ready.exact)),
        _pair("context", f"{used:,} of {ready.context:,}"),
        _bar("", used / ready.context, width),
    ]


def _reply(live: LiveReply | None, elsewhere: str, width: int) -> list[Content]:
    lines = [Content.styled("REPLY", "bold")]
    if live is None:
        return [*lines, Content.styled("Figures appear here while a reply is written.", "dim")]
    if elsewhere:
        lines.append(Content(f"of another chat: {one_line(elsewhere)}").truncate(width, ellipsis=True))
    lines.append(_pair("shape", shape_name(live.shape) if live.shape else "none"))
    lines.append(_pair("state", finish_words(live.finish) if live.phase == "done" else phase_words(live)))
    if live.prompt_tokens:
        reused = f"{live.reused_tokens:,} reused" if live.reused_tokens else ""
        lines.append(_pair("prompt", f"{live.prompt_tokens:,}", reused))
    total = len(live.tokens)
    lines.append(_pair("tokens", f"{total:,}"))
    for label, count in (("forced", live.forced), ("accepted", live.accepted), ("sampled", live.sampled)):
        share = count / total if total else 0.0
        lines.append(_bar(f"  {label}", share, width, f"{count:,}".ljust(6) + f"{share_words(share):>4}  "))
    lines.extend(_masked(live, width))
    if live.forwards:
        lines.append(_pair("speed", f"{live.tokens_per_s:.1f}", "tokens a second"))
        lines.append(_pair("", f"{live.tokens_per_forward:.2f}", "tokens a forward"))
    if live.seed is not None:
        lines.append(_pair("seed", str(live.seed)))
    return lines


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
