"""The list of shapes to pour the next reply into, with a filter and a look at each.

Knows nothing of files or of the store: shapes come in, the choice goes out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.shapes import SavedShape
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.shape_words import preview, searched
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList, is_listed
from grammars.spec import GrammarSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A choice; `shape` None means free text. `example` is a message that suits it."""

    shape: GrammarSpec | None
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The person wants the library of shapes instead; `name` is the shape that was highlighted, if any."""

    name: str = ""


class ShapePicker(Dialog[Picked | Library | None]):
    """Returns the choice, or None when nothing is to change."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="picker.cancel"),
        Binding("ctrl+l", "library", "Library", id="picker.library", priority=True),
        Binding("up", "move(-1)", "Up", id="picker.up", show=False, priority=True),
        Binding("down", "move(1)", "Down", id="picker.down", show=False, priority=True),
        Binding("pageup", "page(-1)", "Look up", id="picker.page_up", show=False, priority=True),
        Binding("pagedown", "page(1)", "Look down", id="picker.page_down", show=False, priority=True),
    ]

    def __init__(self, shapes: Sequence[SavedShape], current: GrammarSpec | None) -> None:
        super().__init__()
        self._shapes = shapes
        self._current = current
        self._listed: list[SavedShape | None] = []

    def compose(self) -> ComposeResult:
        """A filter over the list, and what the highlighted shape says."""
        with Vertical(classes="dialog"):
            yield Static("Shape of the next reply", markup=False, classes="heading")
            yield PlainInput(placeholder="Type to filter", compact=True)
            with Horizontal(classes="panes"):
                yield PlainList()
                with VerticalScroll(classes="preview", can_focus=False):
                    yield Static(markup=False)
            yield Static(
                "Enter takes it, Ctrl+L opens the library, Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """List everything and highlight what is in force."""
        self.query_one(OptionList).can_focus = False
        self._list("")
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._list(event.value)

    @on(Input.Submitted)
    def _take_highlighted(self) -> None:
        place = self.query_one(OptionList).highlighted
        if place is not None:
            self._take(self._listed[place])

    @on(OptionList.OptionSelected)
    def _take_clicked(self, event: OptionList.OptionSelected) -> None:
        if is_listed(event):
            self._take(self._listed[event.option_index])

    def _take(self, saved: SavedShape | None) -> None:
        if saved is None:
            self.dismiss(Picked(shape=None))
        elif saved.preset is not None:
            self.dismiss(Picked(shape=saved.preset.spec(), example=saved.preset.example_prompt))

    @on(OptionList.OptionHighlighted)
    def _look(self, event: OptionList.OptionHighlighted) -> None:
        if is_listed(event):
            self._show(preview(self._listed[event.option_index]))

    def _show(self, content: Content) -> None:
        self.query_one(".preview Static", Static).update(content)

    def action_move(self, step: int) -> None:
        """Move in the list while the filter keeps the focus."""
        self.query_one(PlainList).move(step)

    def action_page(self, step: int) -> None:
        """Scroll the look at the highlighted shape."""
        preview = self.query_one(VerticalScroll)
        if step < 0:
            preview.scroll_page_up(animate=False)
        else:
            preview.scroll_page_down(animate=False)

    def action_library(self) -> None:
        """Go to the library, to write or change shapes."""
        place = self.query_one(OptionList).highlighted
        saved = None if place is None else self._listed[place]
        self.dismiss(Library(name=saved.name if saved else ""))

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    def _list(self, words: str) -> None:
        needles = words.lower().split()
        everything = [None, *self._shapes]
        self._listed = [
            saved for saved in everything if all(needle in _searched(saved) for needle in needles)
        ]
        if needles:  # names first
            self._listed.sort(key=lambda saved: not any(needle in _name(saved) for needle in needles))
        places = [place for place, saved in enumerate(self._listed) if self._is_current(saved)]
        options = self.query_one(OptionList)
        options.set_options([_option(saved, self._is_current(saved)) for saved in self._listed])
        if self._listed:
            options.highlighted = places[0] if places else 0
        else:
            self._show(Content("No shape has these words."))

    def _is_current(self, saved: SavedShape | None) -> bool:
        if saved is None or saved.preset is None:
            return saved is None and self._current is None
        return saved.preset.spec() == self._current


def _name(saved: SavedShape | None) -> str:
    return "none" if saved is None else saved.name


def _searched(saved: SavedShape | None) -> str:
    return "none  no shape  free text" if saved is None else searched(saved)


def _option(saved: SavedShape | None, current: bool) -> Option:
    mark = "› " if current else "  "
    if saved is None:
        return Option(Content.assemble(mark, ("none", "bold"), ("  free text", "dim")))
    note = "cannot be used" if saved.preset is None else one_line(saved.preset.title)
    return Option(Content.assemble(mark, (one_line(saved.name), "bold"), (f"  {note}", "dim")))
