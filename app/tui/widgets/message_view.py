"""One message of the transcript, finished or being written.

A finished message is one widget. Knows nothing of the store's tree or the engine.
"""

import json
from datetime import UTC, datetime

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.live import LiveReply
from app.store.values import Reply, StoredMessage
from app.terminal import one_line, printable
from app.tui.pretty import pretty_json
from app.tui.widgets.line import Line
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


class MessageView(Static):
    """A finished message: a header in words, the text below."""

    def __init__(self, message: StoredMessage) -> None:
        super().__init__(markup=False, classes=message.role)
        self.message = message

    def on_mount(self) -> None:
        """Set out the text once."""
        message = self.message
        if message.reply is None:
            time = when(message.created_at, datetime.now(UTC))
            header = Content.assemble(("You", "bold"), (f"  {time}", "dim"))
            self.update(Content("\n").join([header, Content(shown(message.content))]))
            return
        parts = [_reply_header(message.reply, message.shape), _body(message.content, message.shape)]
        if message.reply.error and message.reply.finish == "error":
            parts.append(Content.styled(f"Problem: {one_line(message.reply.error)}", "$text-error"))
        self.update(Content("\n").join(parts))


class LiveView(Vertical):
    """The reply being written: text is appended, never set out again."""

    def __init__(self, live: LiveReply) -> None:
        super().__init__(classes="assistant live")
        self._live = live
        self._taken = 0

    def compose(self) -> ComposeResult:
        """A header line and the growing text."""
        yield Line(classes="header")
        yield StreamText()

    def follow(self) -> None:
        """Show what has come since the last call."""
        live = self._live
        self.query_one(Line).put(_header(live.shape, [progress_words(live)]))
        if self._taken < len(live.pieces):
            new = "".join(live.pieces[self._taken :])
            self._taken = len(live.pieces)
            self.query_one(StreamText).append(printable(new).replace("\t", "    "))


def _header(shape: GrammarSpec | None, facts: list[str]) -> Content:
    name = (shape_name(shape), "bold $text-accent") if shape else ("free text", "bold")
    return Content.assemble(("Reply", "bold"), "  ", name, ("  " + ", ".join(facts), "dim"))


def _reply_header(reply: Reply, shape: GrammarSpec | None) -> Content:
    # Only a crash leaves an error beside `cancelled`.
    finish = None if reply.finish == "cancelled" and reply.error else reply.finish
    # That a reply cut in the middle does not fit goes without saying.
    judged = reply.valid or finish in ("stop", "stop_text", "landed")
    facts = [validity_words(reply.valid)] if judged and reply.valid is not None else []
    facts.append(finish_words(finish))
    if reply.stats is not None and reply.stats.reply_tokens:
        stats = reply.stats
        forced = f" ({stats.forced_tokens:,} forced)" if stats.forced_tokens else ""
        facts.append(
            tokens_words(stats.reply_tokens) + forced + speed_words(stats.reply_tokens, stats.tokens_per_s)
        )
    return _header(shape, facts)


def _body(text: str, shape: GrammarSpec | None) -> Content:
    if not text:
        return Content.styled("(no text)", "dim")
    if shape is not None and len(text) <= PRETTY_LIMIT and _is_json_container(text):
        parts = [(shown(part), _PART_STYLES[kind]) for kind, part in pretty_json(text)]
        return Content.assemble(*parts)
    return Content(shown(text))


def _is_json_container(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
