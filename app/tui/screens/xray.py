"""A reply token by token: where each comes from, what was legal there, what the model would have said.

Knows the session, which asks the engine about places; the reply may still be growing. Returns the token from which the
reply is to be written anew, or None; the caller acts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.inspection import Place
from app.session import RefusedError, Session
from app.store.values import StoredMessage, StoreError
from app.terminal import one_line, printable
from app.tui.screens.closing import OwnScreen
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.plain_list import PlainList, is_listed
from app.tui.widgets.token_lane import TokenLane, quoted
from app.tui.words import shape_name
from app.tui.xray_words import (
    TABLE_HEAD,
    alternative_row,
    legend,
    mask_words,
    origin_words,
    place_words,
    thought_words,
)
from engine.events import Inspected, Origin, Token
from grammars.progress import field

FRAMES_PER_S = 8
SETTLE_S = 0.3
"""How long the cursor rests on a free choice before the engine is asked about it."""
_LEGEND: dict[Origin, str] = {
    "forced": "dim underline",
    "accepted": "italic $secondary",
    "sampled": "$foreground",
    "landed": "reverse $warning",
    "given": "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The reply is to be written anew: its first `place` tokens, then `token`."""

    reply: int
    place: int
    token: int


class XrayScreen(OwnScreen[Fork | None]):
    """Shows the tokens of a stored reply, or of the one being written."""

    CSS_PATH = "xray.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "alternatives", "Alternatives", id="xray.alternatives"),
        Binding("w", "ask", "What the model wanted", id="xray.ask"),
        Binding("escape", "back", "Back", id="xray.back"),
    ]

    def __init__(self, session: Session, message: StoredMessage) -> None:
        super().__init__()
        self._session = session
        self._message = message
        live = session.live
        self._live = live if live is not None and live.reply == message.id else None
        self._seen: object = None
        self._settling: Timer | None = None
        self._refused = ""
        self._opening: Place | None = None  # where Enter asked for alternatives that are not there yet

    def compose(self) -> ComposeResult:
        """The lane, what is known of the token under the cursor, and the alternatives to it."""
        yield Line(classes="top")
        with Container(classes="panes"):
            yield TokenLane(classes="lane")
            with Vertical(classes="side"):
                yield Line(classes="detail")
                yield Line(classes="caption")
                yield PlainList(classes="alternatives")
        yield Line(classes="legend")
        yield KeysLine()

    def on_mount(self) -> None:
        """Show what there is and follow what comes."""
        shape = self._message.shape
        self.query_one(".top", Line).put(f"X-ray  {shape_name(shape) if shape else 'free reply'}")
        self._lane.focus()
        self.set_interval(1 / FRAMES_PER_S, self._frame)
        self.call_after_refresh(self._begin)

    def on_unmount(self) -> None:
        """Leave no question behind."""
        self._session.inspections.stop()

    # --- drawing

    def _begin(self) -> None:
        try:
            tokens = self._live.tokens if self._live else self._session.store.trace(self._message.id)
        except StoreError as error:
            self._refused, tokens = str(error), ()
        self._grow(tokens[len(self._lane.tokens) :])  # a frame may have come first
        if self._growing:
            self._lane.go(len(tokens) - 1)
        self._settle()
        self._draw()

    def _frame(self) -> None:
        """Take what came since the last frame; draw only what changed."""
        if self._live is not None:
            self._grow(self._live.tokens[len(self._lane.tokens) :])
        place, session = self._place, self._session
        answer = session.inspections.answer(place)
        waiting = session.inspections.waiting == place
        now = (place, answer, waiting, session.busy, session.engine.state, len(self._lane.tokens))
        if now != self._seen:
            self._seen = now
            self._settle()
            self._draw()

    def _grow(self, tokens: Sequence[Token]) -> None:
        if tokens:
            self._lane.extend(tokens)
            self.query_one(".legend", Line).put(legend(self._lane.counts, _LEGEND))

    def _draw(self) -> None:
        token, place = self._lane.token, self._place
        answer = self._session.inspections.answer(place)
        self.query_one(".detail", Line).put(self._detail(token, answer))
        self.query_one(".caption", Line).put(TABLE_HEAD if isinstance(answer, Inspected) else "")
        self._list(token, answer)
        if place == self._opening and isinstance(answer, Inspected):
            self.action_alternatives()
        elif place != self._session.inspections.waiting:
            self._opening = None

    def _detail(self, token: Token | None, answer: Inspected | str | None) -> Content:
        if token is None:
            growing = "No token yet." if self._growing else "The tokens of this reply were not kept."
            return Content(printable(self._refused) or growing)
        lines = [
            Content.assemble(
                (place_words(token, self._lane.cursor, len(self._lane.tokens)), "bold"),
                (f"  id {token.id}", "dim"),
            ),
            Content(quoted(token.text)),
            Content(origin_words(token.origin)),
        ]
        if isinstance(answer, Inspected):
            lines += [Content(line) for line in thought_words(answer, token)]
        else:
            lines.append(Content.styled(self._invitation(token, answer), "dim"))
        lines.append(Content(self._mask(token, answer)))
        lines.append(Content(self._field(token)))
        return Content("\n").join(line for line in lines if line)

    def _mask(self, token: Token, answer: Inspected | str | None) -> str:
        if isinstance(answer, Inspected):
            return mask_words(answer.allowed, answer.allowed + answer.masked)
        size = self._vocab_size
        if size is None or token.origin == "given":
            return ""
        return mask_words(1 if token.origin == "forced" else token.allowed, size)

    def _field(self, token: Token) -> str:
        """Say in which member of a JSON reply a token stands."""
        shape = self._message.shape
        if shape is None or shape.kind != "json_schema" or token.part != "reply":
            return ""
        before = self._lane.tokens[: self._lane.cursor]
        return f"In {one_line(field(''.join(each.text for each in before if each.part == 'reply')))}"

    def _invitation(self, token: Token, answer: str | None) -> str:
        """Say why there are no figures of the model's, or how to get them."""
        if self._session.inspections.waiting == self._place:
            return "Computing what the model thinks here…"
        if self._session.busy:
            return "More when the reply has ended."
        if answer or self._refused:
            return printable(answer or self._refused)
        return "W computes what the model wanted." if token.origin in ("forced", "given") else ""

    def _list(self, token: Token | None, answer: Inspected | str | None) -> None:
        shown = self.query_one(".alternatives", PlainList)
        shown.clear_options()
        if token is None or not isinstance(answer, Inspected):
            if shown.has_focus:
                self._lane.focus()
            return
        width = max(24, shown.scrollable_content_region.width or 40)
        shown.add_options(
            Option(alternative_row(each, token.id, width), id=str(each.id)) for each in answer.alternatives
        )
        legal = (place for place, each in enumerate(answer.alternatives) if each.legal)
        shown.highlighted = next(legal, 0)

    # --- questions

    @on(TokenLane.Moved)
    def _moved(self) -> None:
        """Ask about a free choice once the cursor rests on it."""
        self._settle()

    def _settle(self) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(SETTLE_S, self._rest)

    def _rest(self) -> None:
        token = self._lane.token
        unknown = self._session.inspections.answer(self._place) is None
        if (
            token is not None
            and token.origin not in ("forced", "given")
            and unknown
            and not self._session.busy
        ):
            self._ask()

    def action_ask(self) -> None:
        """Compute what the model thinks at the place, also where it had no choice."""
        if self._lane.token is not None:
            self._ask()

    def _ask(self) -> None:
        try:
            if self._session.engine.state != "ready":
                raise RefusedError("More when a model is loaded.")
            self._session.inspect(*self._place)
            self._refused = ""
        except (RefusedError, StoreError) as error:
            self._refused = str(error)
        self._draw()

    # --- alternatives

    def on_descendant_focus(self) -> None:
        """Give the alternatives the room of the rest where there is little."""
        self.set_class(self.query_one(".alternatives").has_focus, "-choosing")

    def action_alternatives(self) -> None:
        """Go to the alternatives; where they are not known, as soon as they are."""
        if isinstance(self._session.inspections.answer(self._place), Inspected):
            self._opening = None
            self.query_one(".alternatives").focus()
            self.query_one(".caption", Line).put(f"Enter begins anew from a token.\n{TABLE_HEAD}")
        else:
            self._opening = self._place
            self.action_ask()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        """Write the reply anew from an alternative, if it may stand there."""
        answer = self._session.inspections.answer(self._place)
        if not isinstance(answer, Inspected) or not is_listed(event):
            return
        chosen = answer.alternatives[event.option_index]
        if not chosen.legal:
            self._say("This token is forbidden here; the reply cannot go on with it.")
        elif chosen.ends:
            self._say("This token ends the reply; there is nothing to write behind it.")
        elif self._session.busy:
            self._say("A reply is being written; Escape in the chat stops it.")
        else:
            self.dismiss(Fork(reply=self._message.id, place=self._lane.cursor, token=chosen.id))

    def _say(self, sentence: str) -> None:
        self.query_one(".caption", Line).put(Content.styled(sentence, "bold"))

    def action_back(self) -> None:
        """Go from the alternatives to the lane, and from there to the chat."""
        if self.query_one(".alternatives").has_focus:
            self._lane.focus()
            self.query_one(".caption", Line).put(TABLE_HEAD)
        else:
            self.dismiss(None)

    @property
    def _lane(self) -> TokenLane:
        return self.query_one(TokenLane)

    @property
    def _place(self) -> Place:
        return Place(self._message.id, self._lane.cursor)

    @property
    def _growing(self) -> bool:
        return self._live is not None and self._live.phase != "done"

    @property
    def _vocab_size(self) -> int | None:
        model = self._message.reply.model if self._message.reply else None
        return model.vocab_size if model else None
