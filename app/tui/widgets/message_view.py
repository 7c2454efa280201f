"""One message of the transcript, finished or being written.

A finished message is one widget. Knows nothing of the store's tree or the engine.
"""

import itertools
import json
import re
from datetime import UTC, datetime

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widgets import Static

from app.deep_thread import deeply
from app.live import LiveReply
from app.store.values import Reply, StoredMessage
from app.terminal import one_line, printable
from app.tui.markdown import rendered
from app.tui.pretty import pretty_json
from app.tui.until_closed import until_closed
from app.tui.widgets.line import Line
from app.tui.widgets.rows import Rows, blank_rows, laid_out_once, wrapped
from app.tui.widgets.stream_markdown import StreamMarkdown
from app.tui.widgets.stream_text import StreamText
from app.tui.words import (
    finish_words,
    progress_words,
    shape_name,
    shown,
    speed_words,
    tokens_words,
    validity_words,
    when,
)
from grammars.spec import GrammarSpec

PRETTY_LIMIT = 50_000
_PART_STYLES = {"key": "bold", "text": "$text-success", "value": "$text-warning", "mark": "dim"}
_FOLDS = (None, 1, 0)
LONG = 10_000
"""Characters from which on a message is drawn row by row: only what is looked at costs anything."""


class MessageView(Static):
    """A finished message: a header in words, the text below.

    `columns` is the width that the text will have, as far as it is known before the layout.
    """

    def __init__(self, message: StoredMessage, columns: int = 80) -> None:
        super().__init__(markup=False, classes=message.role)
        self.message = message
        self._columns = max(20, columns)
        self._fold = 0
        self._reasoning_open = False
        self._fault = ""
        self._above = ""
        self._body: tuple[tuple[int, int], Content] | None = None
        self._body_rows: tuple[Content, int, list[Content | str]] | None = None
        self._parts: list[Content] | None = None
        self._head = Content()
        self._rows = Rows()
        self._rows_width = 0

    def on_mount(self) -> None:
        """Set out the text, and look where a reply leaves its shape."""
        self._set_out()
        reply, shape = self.message.reply, self.message.shape
        if reply is not None and reply.valid is False and shape is not None and _is_judged(reply):
            self.run_worker(self._find_fault(shape, self.message.content), group="fault")

    def on_resize(self, event: events.Resize) -> None:
        """Set out again what depends on the width."""
        width = self.content_size.width
        if width and width != self._columns:
            self._columns = width
            if self.message.reply is not None and self.message.shape is None:
                self._set_out()

    @property
    def foldable(self) -> bool:
        """True for a reply that is set out as JSON."""
        return self.message.shape is not None and _is_pretty(self.message.content)

    def fold(self) -> None:
        """Fold the reply's JSON to its first level, then to one line, then unfold it."""
        if self.foldable:
            self._fold = (self._fold + 1) % len(_FOLDS)
            self._set_out()

    def toggle_reasoning(self) -> None:
        """Show or hide what the model thought before the reply."""
        self._reasoning_open = not self._reasoning_open
        self._set_out()

    def put_above(self, sentence: str) -> None:
        """Show a sentence between this message and the one before it; an empty one takes it away."""
        if sentence != self._above:
            self._above = sentence
            if self.is_mounted:
                self._set_out()

    def mark(self, selected: bool) -> None:
        """Show whether this is the message that keys act on: in words, too."""
        self.set_class(selected, "-selected")
        self._set_out()

    @until_closed
    async def _find_fault(self, shape: GrammarSpec, text: str) -> None:
        self._fault = await deeply(_first_fault, shape, text)
        self._set_out()

    def _set_out(self) -> None:
        message = self.message
        parts = [Content.styled(f"── {self._above}\n", "bold $text-warning")] if self._above else []
        parts.append(self._header())
        if message.reply is not None and message.reply.reasoning:
            parts.append(self._reasoning(message.reply.reasoning))
        self._head = Content("\n").join(parts)
        if message.reply is None:
            if message.content:
                parts.append(self._text())
            parts.extend(
                Content.styled(f"+ {one_line(a.name)}  {len(a.content):,} characters", "dim")
                for a in message.attachments
            )
        else:
            parts.append(self._text())
            if message.reply.error and message.reply.finish == "error":
                parts.append(Content.styled(f"Problem: {one_line(message.reply.error)}", "$text-error"))
        self._parts = parts if sum(map(len, parts)) > LONG else None
        self._rows_width = 0
        self.update(Content("\n").join(parts))

    def row_of(self, text: str, number: int) -> int:
        """Return the row in which a text is shown for the time with this number, from 0; 0 where it is not.

        The number is that in the message's own text, which Markdown shows without its marks.
        """
        drawn = (self.render_line(y).text for y in range(self.size.height))
        rows = list(drawn) if self._parts is None else self._rows.texts
        head = len(wrapped(self._head, self.content_size.width)) if self._head else 0
        below = "\n".join(row.rstrip() for row in rows[head:])
        found = itertools.islice(_across_rows(text).finditer(below), number + 1)
        places = [match.start() for match in found] if text.strip() else []
        return head + below.count("\n", 0, places[-1]) if places else 0

    @property
    def allow_select(self) -> bool:
        """False for a long message, which does not know where the mouse is in it; a key copies it."""
        return self._parts is None and super().allow_select

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows at a width."""
        if self._parts is None or not width:
            return super().get_content_height(container, viewport, width)
        if width != self._rows_width:
            self._rows, self._rows_width = Rows(), width
            for part in self._parts:
                self._rows.add(self._laid_out(part, width))
        return len(self._rows)

    def _laid_out(self, part: Content, width: int) -> list[Content | str]:
        """Return the rows of a part; those of the text are kept."""
        if self._body is None or part is not self._body[1]:
            return wrapped(part, width)
        kept = self._body_rows
        if kept is None or kept[0] is not part or kept[1] != width:
            kept = self._body_rows = (part, width, wrapped(part, width))
        return kept[2]

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        return super().render_line(y) if self._parts is None else self._rows.strip(y, self)

    def _text(self) -> Content:
        """Return the text as it is set out now; it is kept, because marking a message sets it out again."""
        key = (self._columns, self._fold)
        if self._body is None or self._body[0] != key:
            message = self.message
            if message.reply is None:
                body = Content(shown(message.content))
            else:
                body = _body(message.content, message.shape, self._columns, _FOLDS[self._fold])
            self._body = (key, body)
        return self._body[1]

    def _header(self) -> Content:
        message = self.message
        branch = f"  {message.sibling}/{message.siblings}" if message.siblings > 1 else ""
        mark = ("› " if self.has_class("-selected") else "", "bold")
        if message.reply is None:
            time_words = when(message.created_at, datetime.now(UTC))
            return Content.assemble(mark, ("You", "bold"), (branch, "bold"), (f"  {time_words}", "dim"))
        facts = _facts(message.reply, self._fault)
        return Content.assemble(mark, _header(message.shape, facts, branch))

    def _reasoning(self, text: str) -> Content:
        words = tokens_words(self.message.reply.stats.reasoning_tokens) if self.message.reply.stats else ""
        if not self._reasoning_open:
            return Content.styled(f"▸ thought before it wrote{f', {words}' if words else ''}", "dim italic")
        return Content.assemble(("▾ thought\n", "dim italic"), (shown(text.strip()), "dim italic"))


def _across_rows(text: str) -> re.Pattern[str]:
    """Return what finds a text in rows, between any two characters of which it may go on in the next row."""
    parts = (r"\s+" if part.isspace() else re.escape(part) for part in re.findall(r"\s+|\S", text))
    return re.compile("\n?".join(parts), re.IGNORECASE)


class LiveView(Vertical):
    """The reply being written: text is appended, never set out again but for a last block of Markdown."""

    virtual_size = laid_out_once()

    def __init__(self, live: LiveReply) -> None:
        super().__init__(classes="assistant live")
        self._live = live
        self._taken = 0
        # Kept, not looked up: a frame may come while the screen is being taken down.
        self._header = Line(classes="header")
        self._thoughts = Line(classes="reasoning")
        self._thoughts.display = False
        self._text = StreamMarkdown() if live.shape is None else StreamText()

    def compose(self) -> ComposeResult:
        """A header line and the growing text."""
        yield self._header
        yield self._thoughts
        yield self._text

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the ground; what is in it draws the edge, too."""
        return blank_rows(self, crop)

    def follow(self) -> None:
        """Show what was written since the last call."""
        live = self._live
        self._thoughts.display = bool(live.thought_pieces)
        if live.thought_pieces and not live.pieces:
            last = "".join(live.thought_pieces[-300:])[-300:].rstrip().rpartition("\n")[2]
            self._thoughts.put(Content.styled(f"▸ thinks: {one_line(last)}", "dim italic"))
        elif live.thought_pieces:
            self._thoughts.put(Content.styled("▸ thought before it wrote", "dim italic"))
        if self._taken < len(live.pieces):
            new = "".join(live.pieces[self._taken :])
            self._taken = len(live.pieces)
            if isinstance(self._text, StreamMarkdown):
                self._text.append(new)
            else:
                self._text.append(printable(new).replace("\t", "    "))

    def follow_figures(self) -> None:
        """Show how far it is."""
        self._header.put(_header(self._live.shape, [progress_words(self._live)]))


def _header(shape: GrammarSpec | None, facts: list[str], branch: str = "") -> Content:
    name = (shape_name(shape), "bold $text-accent") if shape else ("free text", "bold")
    return Content.assemble(("Reply", "bold"), (branch, "bold"), "  ", name, ("  " + ", ".join(facts), "dim"))


def _is_judged(reply: Reply) -> bool:
    """Tell whether a verdict says something: that a reply cut in the middle does not fit goes without saying."""
    return bool(reply.valid) or reply.finish in ("stop", "stop_text", "landed")


def _facts(reply: Reply, fault: str) -> list[str]:
    # Only a crash leaves an error beside `cancelled`.
    finish = None if reply.finish == "cancelled" and reply.error else reply.finish
    facts = []
    if reply.valid is not None and _is_judged(reply):
        facts.append(validity_words(reply.valid) + (f" {fault}" if fault else ""))
    facts.append(finish_words(finish))
    if reply.stats is not None and reply.stats.reply_tokens:
        stats = reply.stats
        forced = f" ({stats.forced_tokens:,} forced)" if stats.forced_tokens else ""
        facts.append(
            tokens_words(stats.reply_tokens) + forced + speed_words(stats.reply_tokens, stats.tokens_per_s)
        )
    return facts


def _first_fault(shape: GrammarSpec, text: str) -> str:
    from grammars.check import check  # a second of imports, which must not delay the first screen
    from grammars.spec import ShapeError

    try:
        verdict = check(shape, text)
    except ShapeError as error:
        return f"(cannot be checked: {one_line(error.why)})"
    where = f"at {one_line(verdict.where)}: " if verdict.where else ""
    return "" if verdict.problem is None else f"({where}{one_line(verdict.problem)})"


def _body(text: str, shape: GrammarSpec | None, width: int, deepest: int | None) -> Content:
    if not text:
        return Content.styled("(no text)", "dim")
    if shape is None:
        return rendered(text, width)
    if _is_pretty(text):
        parts = [(shown(part), _PART_STYLES[kind]) for kind, part in pretty_json(text, deepest=deepest)]
        return Content.assemble(*parts)
    return Content(shown(text))


def _is_pretty(text: str) -> bool:
    if len(text) > PRETTY_LIMIT or text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
