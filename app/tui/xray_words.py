"""How the X-ray says things: a token, its place, and what the model thought of it, in words.

Pure functions from values to text for the screen; what comes from a model is quoted.
"""

from collections.abc import Mapping

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from app.tui.widgets.token_lane import NAMES, ORIGINS, quoted
from app.tui.words import bar, share_words
from engine.events import Alternative, Inspected, Origin, Token

_ORIGINS: dict[Origin, str] = {
    "forced": "Forced: nothing else was allowed.",
    "accepted": "Accepted: guessed ahead, and then the model's choice.",
    "sampled": "Sampled: the model's choice.",
    "landed": "Landed: put here so that the reply ends within its budget.",
    "given": "Given: the reply goes on from it.",
}
_BAR = 6
TABLE_HEAD = f"{'':<{_BAR + 3}}{'model':>7} {'of legal':>9}  token"


def origin_words(origin: Origin) -> str:
    """Say where a token comes from."""
    return _ORIGINS[origin]


def place_words(token: Token, place: int, total: int) -> str:
    """Say which token this is."""
    return f"Token {place + 1:,} of {total:,}, {NAMES[token.part].lower()}"


def mask_words(allowed: int | None, vocab_size: int) -> str:
    """Say how many ids were legal and how many masked."""
    if allowed is None or allowed >= vocab_size:
        return f"All {vocab_size:,} tokens legal"
    masked = vocab_size - allowed
    return f"{allowed:,} legal, {masked:,} masked ({share_words(masked / vocab_size, 2)})"


def percent(share: float) -> str:
    """Return a probability in seven cells or less."""
    return "<0.01%" if 0 < share < 0.0001 else share_words(share, 2)


def named(alternative: Alternative) -> str:
    """Return an alternative's text, or what a token without text is."""
    if alternative.text:
        return quoted(alternative.text)
    return "(end of the reply)" if alternative.ends else "(control token)"


def thought_words(answer: Inspected, token: Token) -> list[str]:
    """Say what the model thought of the token that stands at a place, and what it wanted there, a line each."""
    own = next((each for each in answer.alternatives if each.id == token.id), None)
    lines = []
    if own is not None:
        share = "" if answer.forced else f"; {percent(own.share)} of legal"
        lines.append(f"Model: {percent(own.probability)}, rank {own.rank:,}{share}")
    best = answer.alternatives[0]
    if not best.legal:
        lines.append(f"Wanted, but forbidden: {named(best)} {percent(best.probability)}")
    elif best.id != token.id:
        lines.append(f"First choice: {named(best)} {percent(best.probability)}")
    lines.append(f"Entropy: {answer.entropy:.2f} bits")
    return lines


def alternative_row(alternative: Alternative, chosen: int, width: int) -> Content:
    """Return a row of the table: whether it stands there, bar, probability, share, whether it is legal, text."""
    legal = percent(alternative.share) if alternative.legal else "forbidden"
    figures = f"{percent(alternative.probability):>7} {legal:>9}  "
    room = max(4, width - 2 - _BAR - 1 - cell_len(figures))
    text = named(alternative)
    if cell_len(text) > room:
        text = f"{set_cell_size(text, room - 1).rstrip()}…"
    return Content.assemble(
        ("▸ " if alternative.id == chosen else "  ", "bold"),
        (bar(alternative.probability, _BAR), "$accent"),
        " ",
        figures,
        (text, "" if alternative.legal else "dim"),
    )


def legend(counts: Mapping[Origin, int], styles: Mapping[Origin, str]) -> Content:
    """Return the origins with their letters, in their styles, and how many tokens each has."""
    total = sum(counts.values())
    return Content("   ").join(
        Content.assemble(
            f"{origin[0].upper()} ", (origin, styles[origin]), f" {count:,} ({count / total:.0%})"
        )
        for origin in ORIGINS
        if (count := counts.get(origin, 0))
    )
