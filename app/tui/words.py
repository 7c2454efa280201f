"""How states are said: in words, never by colour alone.

Pure functions from values to text for the screen. Text from outside goes through `printable` or `one_line`.
"""

from datetime import datetime

from app.live import LiveReply
from app.supervisor import Supervisor
from app.terminal import one_line, printable
from engine.events import Finish
from grammars.spec import GrammarSpec

KINDS = {
    "json_schema": "JSON Schema",
    "regex": "regular expression",
    "lark": "Lark grammar",
    "choice": "choice",
}

_FINISHES: dict[Finish, str] = {
    "stop": "complete",
    "stop_text": "ended at a stop text",
    "length": "cut at the token limit",
    "landed": "cut short and closed",
    "cancelled": "stopped by you",
    "loop": "stopped in a loop",
    "context_full": "cut, the context is full",
    "error": "failed",
}

FEW_TOKENS = 8

_STEPS = "▁▂▃▄▅▆▇█"


def shown(text: str) -> str:
    """Return a text as the screen may show it, tabs as blanks."""
    return printable(text).expandtabs(4)


def shape_name(shape: GrammarSpec) -> str:
    """Return the shape's label, or its kind when it has none."""
    return one_line(shape.name) if shape.name else KINDS[shape.kind]


def finish_words(finish: Finish | None) -> str:
    """Say how a reply ended; None stands for one that was never finished."""
    return "interrupted" if finish is None else _FINISHES[finish]


def validity_words(valid: bool) -> str:
    """Say whether a shaped reply fits its shape."""
    return "fits" if valid else "does not fit"


def tokens_words(count: int) -> str:
    """Return a number of tokens in words."""
    return f"{count:,} token{'' if count == 1 else 's'}"


def speed_words(tokens: int, per_s: float) -> str:
    """Return the speed as an addition; nothing for a few tokens, where it means little."""
    return f", {per_s:.0f}/s" if tokens >= FEW_TOKENS else ""


def key_words(key: str) -> str:
    """Return a key's name as people write it: `ctrl+t` is Ctrl+T."""
    return "+".join(part.capitalize() for part in key.split("+"))


def when(moment: datetime, now: datetime) -> str:
    """Return the time of day for today, else the date."""
    local = moment.astimezone()
    return local.strftime("%H:%M") if local.date() == now.astimezone().date() else local.strftime("%Y-%m-%d")


def bar(fraction: float, width: int) -> str:
    """Return a bar of blocks, filled from the left; `fraction` is clipped to 0..1."""
    filled = round(min(1.0, max(0.0, fraction)) * width)
    return "█" * filled + "░" * (width - filled)


def sparkline(values: list[float], width: int) -> str:
    """Return the last `width` values, each 0 to 1, as blocks."""
    last = values[-width:] if width > 0 else []
    return "".join(_STEPS[round(min(1.0, max(0.0, value)) * (len(_STEPS) - 1))] for value in last)


def phase_words(live: LiveReply) -> str:
    """Say in a word what the turn is doing."""
    if live.stopping:
        return "stopping"
    return {"waiting": "waiting", "reading": "reading the prompt", "writing": "writing", "done": "done"}[
        live.phase
    ]


def progress_words(live: LiveReply) -> str:
    """Say in a few words what the turn is doing and how far it is."""
    words = phase_words(live).capitalize()
    if live.phase == "reading":
        words += f"  {live.read:,} of {tokens_words(live.prompt_tokens)}"
    elif live.phase == "writing":
        words += f"  {tokens_words(len(live.tokens))}{speed_words(len(live.tokens), live.tokens_per_s)}"
    return words


def engine_trouble(engine: Supervisor) -> tuple[str, str] | None:
    """Say what is wrong with the engine and what to do; None while nothing is."""
    if engine.silent_s:
        return f"The engine has said nothing for {engine.silent_s:.0f} seconds.", "Ctrl+R restarts"
    if engine.state == "failed":
        return engine.reason, "Ctrl+R tries again"
    if engine.state == "gone":
        return engine.reason, "Ctrl+R restarts"
    return None


def engine_words(engine: Supervisor) -> str:
    """Say how the engine is while nothing is wrong with it."""
    if engine.state == "loading":
        progress = f"{engine.fraction:4.0%}  {bar(engine.fraction, 10)}"
        return f"Loading  {progress}  (Escape stops)  {one_line(engine.model_name)}"
    if engine.state == "stopped":
        return "Loading was stopped. Ctrl+R loads the model."
    if engine.ready is None:
        return ""
    ready = engine.ready
    return "  ".join((f"Ready  {one_line(ready.model.name)}  {ready.exact} numerics", *ready.notices))
