"""How states are said: in words, never by colour alone.

Pure functions from values to text for the screen. Text from outside goes through `printable` or `one_line`.
"""

from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len
from textual.keys import key_to_character

from app.live import LiveReply
from app.supervisor import Supervisor
from app.terminal import one_line, printable
from engine.events import Exactness, Finish
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

_EXACTNESS: dict[Exactness, str] = {
    "exact": "exact",
    "fast": "fast",
    "unverified": "exact, not yet checked",
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


def numerics_words(exact: Exactness) -> str:
    """Say whether replies written in one or in several steps are the same to the last bit."""
    return _EXACTNESS[exact]


def share_words(share: float, places: int = 0) -> str:
    """Return a share of 0 to 1 as per cent; less than all is never written as 100."""
    digits = 10 ** (places + 2)
    shown_share = share if share >= 1 else min(round(share * digits), digits - 1) / digits
    return f"{shown_share:.{places}%}"


def speed_words(tokens: int, per_s: float) -> str:
    """Return the speed as an addition; nothing for a few tokens, where it means little."""
    return f", {per_s:.0f}/s" if tokens >= FEW_TOKENS else ""


def key_words(key: str) -> str:
    """Return a key's name as people write it: `ctrl+t` is Ctrl+T, `R` is Shift+R beside the R of `r`."""
    if len(key) == 1 and key.isupper():
        key = f"shift+{key}"
    return "+".join(
        (key_to_character(part) if "_" in part else None) or part.capitalize() for part in key.split("+")
    )


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
    if live.stopping:
        return words
    if live.phase == "reading":
        words += f"  {live.read:,} of {tokens_words(live.prompt_tokens)}"
    elif live.phase == "writing":
        words += f"  {tokens_words(len(live.tokens))}{speed_words(len(live.tokens), live.tokens_per_s)}"
    return words


def engine_trouble(engine: Supervisor, *, told: bool) -> str:
    """Say what is wrong with the engine and what to do, the key in front; empty while nothing is.

    `told` says that the reason is on the screen already.
    """
    if engine.silent_s:
        return f"Ctrl+R restarts the engine: it has said nothing for {engine.silent_s:.0f} seconds."
    if engine.state == "failed":
        return f"Ctrl+R tries again: {engine.reason}"
    if engine.state == "gone" and told:
        return "The engine is not running; Ctrl+R starts it."
    return f"Ctrl+R starts the engine: {engine.reason}" if engine.state == "gone" else ""


def engine_words(engine: Supervisor, width: int) -> str:
    """Say how the engine is while nothing is wrong with it; what matters least goes first where it is narrow."""
    if engine.state == "loading":
        head, hint = f"Loading  {share_words(engine.fraction):>4}", "(Escape stops)"
        progress, name = bar(engine.fraction, 10), one_line(engine.model_name)
        return fitting([(head, progress, hint, name), (head, progress, hint), (head, hint)], width)
    if engine.state == "stopped":
        return "Loading was stopped. Ctrl+R loads the model."
    if engine.ready is None:
        return ""
    notices = [one_line(notice) for notice in engine.ready.notices]
    return fitting([("Ready", one_line(engine.ready.model.name), *notices), ("Ready", *notices)], width)


def fitting(choices: Sequence[Sequence[str]], width: int) -> str:
    """Return the first choice that fits into a row, else the last."""
    lines = ["  ".join(choice) for choice in choices]
    return next((line for line in lines if cell_len(line) <= width), lines[-1])
