"""The tokens of a reply in a row that wraps: each in the style of its origin, with the origin's letter below.

Knows tokens, nothing of where they come from. Two layers: `LaneRows` lays tokens out and only grows, so appending costs
the same however long the reply is; `TokenLane` draws the rows that are seen and moves a cursor. Invariant: every token
has at least one visible cell, white space included.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.terminal import one_line
from engine.events import Origin, Part, Token

ORIGINS: tuple[Origin, ...] = ("forced", "accepted", "sampled", "landed", "given")
NAMES: dict[Part, str] = {"reasoning": "Reasoning", "reply": "Reply"}
LINES = 2
"""Screen lines of one row: the text and the letters."""
_SPACES = {" ": "·", "\t": "⇥", "\r": "␍", "\n": "⏎"}


class Piece(NamedTuple):
    """What of a token stands in one row. `token` is -1 in headings; `first` marks where a token begins."""

    token: int
    text: str
    cells: int
    first: bool


def visible(text: str) -> str:
    """Return a token's text with each character in a cell of its own: white space and marks of no width as symbols."""
    if not text:
        return "∅"
    return "".join(map(_seen, text))


def quoted(text: str) -> str:
    """Return a text as a JSON string in which nothing is invisible."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if _drawn(character) else json.dumps(character).strip('"') for character in escaped
    )


def _drawn(character: str) -> bool:
    return one_line(character) == character and get_character_cell_size(character) > 0


def _seen(character: str) -> str:
    if character in _SPACES:
        return _SPACES[character]
    shown = one_line(character)
    if shown == character and get_character_cell_size(character) == 0:
        return "◌"
    return "·" if unicodedata.category(character) == "Zs" else shown


class LaneRows:
    """Tokens laid out at a width; a new row begins behind each newline and with each part of the reply."""

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.rows: list[list[Piece]] = [[]]
        self.places: list[tuple[int, int]] = []
        """Row and first cell of each token."""
        self._cells = 0
        self._part: Part | None = None

    def append(self, tokens: Sequence[Token]) -> None:
        """Add tokens; only the last row is changed."""
        for token in tokens:
            if token.part != self._part:
                self._head(token.part)
            self._add(len(self.places), token.text)

    def at(self, row: int, cell: int) -> int | None:
        """Return the token at a cell, or the nearest one of the row; None in rows without tokens."""
        if not 0 <= row < len(self.rows):
            return None
        end, found = 0, None
        for piece in self.rows[row]:
            if piece.token >= 0:
                found = piece.token
            end += piece.cells
            if end > cell and found is not None:
                break
        return found

    def _head(self, part: Part) -> None:
        if part == "reasoning" or self._part is not None:
            if self.rows[-1]:
                self._break()
            name = NAMES[part][: self.width]
            self.rows[-1].append(Piece(-1, name, len(name), False))
            self._break()
        self._part = part

    def _break(self) -> None:
        self.rows.append([])
        self._cells = 0

    def _add(self, number: int, text: str) -> None:
        lines = text.split("\n")
        first = True
        for place, line in enumerate(lines):
            ends = place < len(lines) - 1
            shown = visible(line) if line or not (ends or place) else ""
            shown += "⏎" if ends else ""
            for run, cells in self._runs(shown):
                if self._cells + cells > self.width:
                    self._break()
                if first:
                    self.places.append((len(self.rows) - 1, self._cells))
                self.rows[-1].append(Piece(number, run, cells, first))
                self._cells += cells
                first = False
            if ends:
                self._break()

    def _runs(self, text: str) -> list[tuple[str, int]]:
        """Return a text in pieces that fit into a row, with their cells; short ones are not cut."""
        sizes = [get_character_cell_size(character) for character in text]
        if sum(sizes) <= self.width:
            return [(text, sum(sizes))] if text else []
        runs: list[tuple[str, int]] = []
        start, cells = 0, 0
        for place, size in enumerate(sizes):
            if cells + size > self.width:
                runs.append((text[start:place], cells))
                start, cells = place, 0
            cells += size
        return [*runs, (text[start:], cells)]


class TokenLane(ScrollView, can_focus=True):
    """Draws tokens and has a cursor on one of them. Follows the end as long as the cursor is on the last token."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"token-lane--{origin}" for origin in ORIGINS),
        "token-lane--cursor",
        "token-lane--letter",
        "token-lane--heading",
    }
    DEFAULT_CSS = """
    TokenLane {
        .token-lane--forced { text-style: dim underline; }
        .token-lane--accepted { text-style: italic; color: $secondary; }
        .token-lane--sampled { text-style: none; }
        .token-lane--landed { text-style: reverse; color: $warning; }
        .token-lane--given { text-style: dim; }
        .token-lane--cursor { text-style: bold; background: $accent; color: $background; }
        .token-lane--letter { text-style: dim; }
        .token-lane--heading { text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Before", id="xray.before", tooltip="The token before", show=False),
        Binding("right", "step(1)", "Next", id="xray.next", tooltip="The next token", show=False),
        Binding("up", "row(-1)", "Up", id="xray.up", tooltip="The row above", show=False),
        Binding("down", "row(1)", "Down", id="xray.down", tooltip="The row below", show=False),
        Binding("pageup", "page(-1)", "Page up", id="xray.page_up", tooltip="A page up", show=False),
        Binding("pagedown", "page(1)", "Page down", id="xray.page_down", tooltip="A page down", show=False),
        Binding("home", "end(-1)", "First", id="xray.first", tooltip="The first token", show=False),
        Binding("end", "end(1)", "Last", id="xray.last", tooltip="The last token", show=False),
        Binding(
            "n", "origin(1, False)", "Choice", id="xray.choice", tooltip="The next token the model chose"
        ),
        Binding(
            "N",
            "origin(-1, False)",
            "Choice before",
            id="xray.choice_before",
            tooltip="The choice before",
            show=False,
        ),
        Binding("f", "origin(1, True)", "Forced", id="xray.forced", tooltip="The next forced token"),
        Binding(
            "F",
            "origin(-1, True)",
            "Forced before",
            id="xray.forced_before",
            tooltip="The forced token before",
            show=False,
        ),
    ]

    class Moved(Message):
        """The cursor is on another token."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self.tokens: list[Token] = []
        self.counts: Counter[Origin] = Counter()
        self.cursor = 0
        self._rows = LaneRows(2)
        self._strips: LRUCache[tuple[int, ...], Strip] = LRUCache(512)

    @property
    def token(self) -> Token | None:
        """The token under the cursor."""
        return self.tokens[self.cursor] if self.cursor < len(self.tokens) else None

    def extend(self, tokens: Sequence[Token]) -> None:
        """Append tokens; the cursor goes along if it is on the last one."""
        if not tokens:
            return
        following = self.cursor >= len(self.tokens) - 1 and bool(self.tokens)
        first = len(self._rows.rows) - 1
        self.tokens.extend(tokens)
        self.counts.update(token.origin for token in tokens)
        self._rows.append(tokens)
        self._fit()
        if following:
            self.go(len(self.tokens) - 1)
        self._refresh_rows(first, len(self._rows.rows) - 1)

    def go(self, place: int) -> None:
        """Put the cursor on a token and show it."""
        place = min(max(place, 0), len(self.tokens) - 1)
        if place < 0 or place == self.cursor:
            return
        before, self.cursor = self.cursor, place
        for token in (before, place):
            self._refresh_rows(*self._span(token))
        self._show_cursor()
        self.post_message(self.Moved())

    def action_step(self, step: int) -> None:
        """Go to the token before or behind."""
        self.go(self.cursor + step)

    def action_row(self, step: int) -> None:
        """Go to the row above or below."""
        self._to_row(step)

    def action_page(self, step: int) -> None:
        """Go up or down by what the widget shows."""
        self._to_row(step * max(1, self.size.height // LINES - 1))

    def action_end(self, direction: int) -> None:
        """Go to the first or the last token."""
        self.go(0 if direction < 0 else len(self.tokens) - 1)

    def action_origin(self, direction: int, forced: bool) -> None:
        """Go to the next token, or the one before, that was forced, or that was not."""
        places = range(self.cursor + direction, len(self.tokens) if direction > 0 else -1, direction)
        wanted = ("forced",) if forced else ("sampled", "accepted", "landed")
        found = next((place for place in places if self.tokens[place].origin in wanted), None)
        if found is not None:
            self.go(found)

    def on_click(self, event: Click) -> None:
        """Put the cursor on the token that was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None:
            place = self._rows.at((offset.y + self.scroll_offset.y) // LINES, offset.x)
            if place is not None:
                self.go(place)

    def on_resize(self, event: Resize) -> None:
        """Lay everything out again at another width."""
        width = self.scrollable_content_region.width
        if width and width != self._rows.width:
            self._rows = LaneRows(width)
            self._strips.clear()
            self._rows.append(self.tokens)
            self._fit()
            self._show_cursor()
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line: of even ones the text of a row, of odd ones the letters below it."""
        row, letters = divmod(y + self.scroll_offset.y, LINES)
        width, base = self.size.width, self.rich_style
        if row >= len(self._rows.rows):
            return Strip.blank(width, base)
        pieces = self._rows.rows[row]
        cursor = self.cursor if any(piece.token == self.cursor for piece in pieces) else -1
        key = (row, letters, len(pieces), cursor, width)
        if (strip := self._strips.get(key)) is None:
            segments = [self._letter(piece) if letters else self._text(piece) for piece in pieces]
            strip = Strip(segments, sum(piece.cells for piece in pieces))
            self._strips[key] = strip = strip.adjust_cell_length(width, base).apply_style(base)
        return strip

    def notify_style_update(self) -> None:
        """Draw everything in the new colours."""
        super().notify_style_update()
        self._strips.clear()

    def _text(self, piece: Piece) -> Segment:
        if piece.token < 0:
            name = "heading"
        elif piece.token == self.cursor:
            name = "cursor"
        else:
            name = self.tokens[piece.token].origin
        return Segment(piece.text, self._style(name))

    def _letter(self, piece: Piece) -> Segment:
        if not piece.first:
            return Segment(" " * piece.cells)
        if piece.token == self.cursor:
            return Segment("▲".ljust(piece.cells), self._style("heading"))
        letter = self.tokens[piece.token].origin[0].upper()
        return Segment(letter.ljust(piece.cells), self._style("letter"))

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"token-lane--{name}", partial=name != "cursor")

    def _to_row(self, step: int) -> None:
        if self.cursor >= len(self._rows.places):
            return
        row, cell = self._rows.places[self.cursor]
        target, one = row + step, 1 if step > 0 else -1
        target = min(max(target, 0), len(self._rows.rows) - 1)
        while 0 <= target < len(self._rows.rows):
            place = self._rows.at(target, cell)
            if place is not None and place != self.cursor:
                self.go(place)
                return
            target += one

    def _fit(self) -> None:
        self.virtual_size = Size(self._rows.width, len(self._rows.rows) * LINES)

    def _span(self, token: int) -> tuple[int, int]:
        """Return the first and the last row that hold a part of a token."""
        places = self._rows.places
        last = places[token + 1][0] if token + 1 < len(places) else len(self._rows.rows) - 1
        return places[token][0], last

    def _refresh_rows(self, first: int, last: int) -> None:
        self.refresh_lines(first * LINES, (last - first + 1) * LINES)

    def _show_cursor(self) -> None:
        if self.cursor < len(self._rows.places):
            row, cell = self._rows.places[self.cursor]
            self.scroll_to_region(Region(cell, row * LINES, 1, LINES), animate=False, force=True)
