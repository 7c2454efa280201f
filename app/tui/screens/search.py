"""Search in all chats: a field over the places where its words are found.

Knows no store: a function finds, the place that is chosen goes out.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.store.values import Hit, StoreError
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList, is_listed
from app.tui.words import when

PAUSE_S = 0.15
"""How long nothing must be typed before the search begins."""
MOST_HITS = 100


class SearchScreen(Dialog[Hit | None]):
    """Returns the place to open, or None."""

    CSS_PATH = "chats.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Close", id="search.close"),
        Binding("up", "move(-1)", "Up", id="search.up", show=False, priority=True),
        Binding("down", "move(1)", "Down", id="search.down", show=False, priority=True),
        Binding("pageup", "page(-1)", "Page up", id="search.page_up", show=False, priority=True),
        Binding("pagedown", "page(1)", "Page down", id="search.page_down", show=False, priority=True),
    ]

    def __init__(self, search: Callable[[str], Sequence[Hit]], text: str = "") -> None:
        super().__init__()
        self._search = search
        self._text = text
        self._hits: Sequence[Hit] = ()
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """The field, what was found, the ways out."""
        with Vertical(classes="dialog"):
            yield Static("Search in all chats", markup=False, classes="heading")
            yield PlainInput(placeholder="Words that must all be there", compact=True)
            yield PlainList()
            yield Line(classes="state")
            yield Static("Enter opens it, Escape closes", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Begin with the text that was given."""
        self.query_one(OptionList).can_focus = False
        field = self.query_one(Input)
        field.value = one_line(self._text)
        field.focus()

    @on(Input.Changed)
    def _changed(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PAUSE_S, self._find)

    def _find(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        words = self.query_one(Input).value
        state = self.query_one(Line)
        try:
            self._hits = self._search(words)
        except StoreError as error:
            self._hits = ()
            state.put(one_line(str(error)))
        else:
            state.put(_count(len(self._hits)) if words.strip() else "")
        now = datetime.now(UTC)
        options = self.query_one(OptionList)
        options.set_options([Option(_row(hit, now)) for hit in self._hits])
        options.highlighted = 0 if self._hits else None

    @on(Input.Submitted)
    def _take_highlighted(self) -> None:
        if self._timer is not None:
            self._find()  # the last words were not looked for yet
        place = self.query_one(OptionList).highlighted
        if place is not None:
            self.dismiss(self._hits[place])

    @on(OptionList.OptionSelected)
    def _take_clicked(self, event: OptionList.OptionSelected) -> None:
        if is_listed(event):
            self.dismiss(self._hits[event.option_index])

    def action_move(self, step: int) -> None:
        """Move in the list while the field keeps the focus."""
        self.query_one(PlainList).move(step)

    def action_page(self, step: int) -> None:
        """Move in the list by a page."""
        options = self.query_one(OptionList)
        if step < 0:
            options.action_page_up()
        else:
            options.action_page_down()

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)


def _count(hits: int) -> str:
    if hits >= MOST_HITS:
        return f"The latest {hits} places; more words find fewer."
    return f"{hits} place{'' if hits == 1 else 's'}" if hits else "Nothing has these words."


def _row(hit: Hit, now: datetime) -> Content:
    whose = {None: "title", "user": "you", "assistant": "reply"}[hit.role]
    return Content.assemble(
        (one_line(hit.chat_title) or "New chat", "bold"),
        (f"  {whose}, {when(hit.created_at, now)}\n", "dim"),
        f"  {_squeezed(hit.before)}",
        (_squeezed(hit.match), "bold underline"),
        _squeezed(hit.after),
    )


def _squeezed(text: str) -> str:
    """Return a stretch of text on one line, its ends as they are."""
    return one_line(text.replace("\n", " ").replace("\t", " "))
