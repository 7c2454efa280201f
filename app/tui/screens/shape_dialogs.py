"""The small dialogs around shapes: a name, how to begin, white space and guards.

Each returns a value, or None when nothing is to change; the caller acts. What cannot be taken is said in the dialog,
which then stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, get_args

from pydantic import ValidationError
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.paths import PathError
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList
from grammars.spec import Guards, ShapeError, Whitespace

_STYLES: tuple[Whitespace, ...] = get_args(Whitespace)
_STYLE_WORDS = {
    "compact": "no white space between JSON tokens",
    "spaced": "a blank behind commas and colons",
    "flexible": "the model decides, within a bound",
}
_GUARD_WORDS = {
    "digits": "digits in a row",
    "blanks": "blanks in a row",
    "string": "characters of a text",
    "items": "elements of a list",
    "depth": "nested brackets",
}


class NameDialog(Dialog[str | None]):
    """Asks for a name and tries to do something with it; what is refused is said here."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="name.cancel")]

    def __init__(self, heading: str, name: str, attempt: Callable[[str], object]) -> None:
        super().__init__()
        self._heading = heading
        self._name_now = name
        self._attempt = attempt

    def compose(self) -> ComposeResult:
        """The field, what is wrong, the two ways out."""
        with Vertical(classes="dialog"):
            yield Static(one_line(self._heading), markup=False, classes="heading")
            yield PlainInput(self._name_now, compact=True)
            yield Line(classes="problem")
            yield Static("Enter takes it, Escape changes nothing", markup=False, classes="hint")

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        name = event.value.strip()
        try:
            self._attempt(name)
        except FileExistsError:
            self.query_one(Line).put(f"You have a shape named {one_line(name)} already.")
        except (ShapeError, PathError) as error:
            self.query_one(Line).put(one_line(str(error)))
        else:
            self.dismiss(name)

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)


class WaysDialog(Dialog[str | None]):
    """Offers a few ways to go on; returns the key of one."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", id="ways.cancel")]

    def __init__(self, heading: str, ways: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._heading = heading
        self._ways = ways

    def compose(self) -> ComposeResult:
        """One line a way."""
        with Vertical(classes="dialog"):
            yield Static(self._heading, markup=False, classes="heading")
            yield PlainList()
            yield Static("Enter takes it, Escape changes nothing", markup=False, classes="hint")

    def on_mount(self) -> None:
        """List the ways."""
        options = self.query_one(PlainList)
        options.set_options(
            Option(Content.assemble((f"{one_line(name):<20}", "bold"), (one_line(words), "dim")), id=key)
            for key, name, words in self._ways
        )
        options.highlighted = 0
        options.focus()

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


class GuardsDialog(Dialog[tuple[Whitespace, Guards] | None]):
    """Changes how far JSON may go where its schema sets no bound, and its white space."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Take", id="guards.save", priority=True),
        Binding("f3", "style", "White space", id="guards.style", priority=True),
        Binding("f5", "usual", "Usual ones", id="guards.usual", priority=True),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("up", "app.focus_previous", "Before", show=False),
        Binding("escape", "dismiss(None)", "Cancel", id="guards.cancel"),
    ]

    def __init__(self, whitespace: Whitespace, guards: Guards) -> None:
        super().__init__()
        self._whitespace = whitespace
        self._guards = guards

    def compose(self) -> ComposeResult:
        """A row for each."""
        with Vertical(classes="dialog"):
            yield Static("White space and guards of the shape", markup=False, classes="heading")
            yield Line(classes="style")
            for name, value in asdict(self._guards).items():
                with Horizontal(classes="field"):
                    yield Static(name, markup=False)
                    yield PlainInput(
                        _number(value), placeholder=_GUARD_WORDS[name], compact=True, id=f"guard-{name}"
                    )
            yield Line(classes="problem")
            yield Static(
                "At most so many where the schema sets no bound; “off” takes a guard away. "
                "Enter takes them, F3 changes the white space, F5 brings the usual ones, Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """Begin at the first guard."""
        self._show_style()
        self.query_one(PlainInput).focus()

    def action_style(self) -> None:
        """Take the next style of white space."""
        self._whitespace = _STYLES[(_STYLES.index(self._whitespace) + 1) % len(_STYLES)]
        self._show_style()

    def action_usual(self) -> None:
        """Fill in the usual guards."""
        for name, value in asdict(Guards()).items():
            self.query_one(f"#guard-{name}", PlainInput).value = _number(value)

    @on(Input.Submitted)
    def action_save(self) -> None:
        """Return what is filled in, if it can be used."""
        values: dict[str, Any] = {}
        for name in asdict(self._guards):
            text = self.query_one(f"#guard-{name}", PlainInput).value.strip().replace(",", "").lower()
            if text not in ("off", "none", "") and not (text.isascii() and text.isdigit() and len(text) < 10):
                self._refuse(f"{name}: a whole number above 0, or off; not {one_line(text[:40])}")
                return
            values[name] = int(text) if text.isdigit() else None
        try:
            guards = Guards(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            self._refuse(f"{first['loc'][0]}: {first['msg'][0].lower()}{first['msg'][1:]}")
            return
        self.dismiss((self._whitespace, guards))

    def _refuse(self, sentence: str) -> None:
        self.query_one(".problem", Line).put(sentence)

    def _show_style(self) -> None:
        words = _STYLE_WORDS[self._whitespace]
        self.query_one(".style", Line).put(
            Content.assemble("White space   ", (self._whitespace, "bold"), (f"  {words}", "dim"))
        )


def _number(value: int | None) -> str:
    return "off" if value is None else str(value)
