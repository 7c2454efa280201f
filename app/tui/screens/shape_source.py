"""Ways to begin a shape: shorthand and an example, turned into a schema while they are typed; a class and a file.

Knows what grammars offers, no store. Nothing of the person's code runs before Enter is pressed on a class.
"""

import asyncio
import re
from collections.abc import Callable, MutableMapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static, TextArea

from app.json_places import offset
from app.shape_draft import ShapeDraft, new_draft
from app.shape_files import read_shape, read_text
from app.terminal import one_line
from app.tui.screens.closing import OwnScreen
from app.tui.shape_words import body
from app.tui.until_closed import until_closed
from app.tui.widgets.code_area import CodeArea
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from grammars.example import empty_places, from_example
from grammars.pydantic_class import from_class
from grammars.shorthand import from_shorthand
from grammars.spec import ShapeError

TYPING_S = 0.2
WAYS = (
    ("shorthand", "Shorthand", "name, age int 0..150, tags [str]"),
    ("example", "Example", "a reply as it should be, or several"),
    ("class", "Pydantic class", "module:Class or file.py:Class"),
    ("file", "File", "a schema, grammar or saved shape"),
    ("json_schema", "JSON Schema", "written by hand"),
    ("regex", "Regular expression", "what the whole reply matches"),
    ("lark", "Lark grammar", "rules"),
    ("choice", "Choices", "one a line"),
)
_HELP = {
    "shorthand": (
        "key type, key type: str int float bool date time datetime email url uuid, [type] a list, {…} an object, "
        "a|b choices, ? optional, 0..9 a range, : and a description"
    ),
    "example": "Paste a JSON document, or several as JSON Lines; or write @ and the path of a file.",
    "class": "Enter imports the module and so runs its code, in a process of its own.",
    "file": "Enter reads the file.",
}
_BEGIN = {"shorthand": "name\nage int 0..150: in years\ntags [str] 1..5\nmood calm|tense\n", "example": ""}


class ShapeSource(OwnScreen[ShapeDraft | None]):
    """Returns a draft for the editor, or None. `typed` keeps by way what was typed, until Stampo ends."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "go_on", "To the editor", id="source.go_on", priority=True),
        Binding("f6", "go", "Go to the fault", id="source.go", priority=True),
        Binding("escape", "dismiss(None)", "Back", id="source.back"),
    ]

    def __init__(self, way: str, typed: MutableMapping[str, str]) -> None:
        super().__init__()
        self._way = way
        self._typed = typed
        self._timer: Timer | None = None
        self._draft: ShapeDraft | None = None
        self._place: int | None = None
        self._late = False  # what was typed last has not been turned into a schema yet
        self._leaving = False  # for the editor, as soon as it has

    def compose(self) -> ComposeResult:
        """What is typed at the left, the schema at the right."""
        title = next(name for key, name, _ in WAYS if key == self._way)
        yield Static(f"A new shape from: {title}", markup=False, classes="top")
        yield Static(_HELP[self._way], markup=False, classes="help")
        yield PlainInput(compact=True, classes="" if self._is_line else "-hidden")
        with Horizontal(classes="panes"):
            yield CodeArea(
                highlight_cursor_line=False, compact=True, classes="-hidden" if self._is_line else ""
            )
            with VerticalScroll(classes="preview"):
                yield Static(markup=False)
        yield Line(classes="state")
        yield KeysLine()

    def on_mount(self) -> None:
        """Begin with an example of the way."""
        area = self.query_one(CodeArea)
        area.json = self._way == "example"
        if self._is_line:
            field = self.query_one(PlainInput)
            field.value = self._typed.get(self._way, "")
            field.focus()
        else:
            text = self._typed.get(self._way) or _BEGIN[self._way]
            area.set_text(text)
            if text == _BEGIN[self._way]:
                area.select_all()  # the first key takes the example away
            area.focus()

    @property
    def _is_line(self) -> bool:
        return self._way in ("class", "file")

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        """Turn what is typed into a schema, a moment after the last key."""
        message.stop()
        self._typed[self._way] = self.query_one(CodeArea).text
        self._late = True
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_S, self._read_area)

    def _read_area(self) -> None:
        self._begin(*self._area_turn)

    @property
    def _area_turn(self) -> tuple[Callable[[], tuple[ShapeDraft, str]], str]:
        text = self.query_one(CodeArea).text
        turn = _from_shorthand if self._way == "shorthand" else _from_example
        return lambda: turn(text), text

    @on(Input.Submitted)
    def _read_line(self, event: Input.Submitted) -> None:
        named = event.value.strip()
        if not named:
            return
        self._say("Running the module…" if self._way == "class" else "Reading…")
        if self._way == "class":
            self._begin(lambda: (new_draft("json_schema", from_class(named, None)), ""), "")
        else:
            self._begin(lambda: (read_shape(named.removeprefix("@")), ""), "")

    @on(Input.Changed)
    def _changed_line(self, event: Input.Changed) -> None:
        self._typed[self._way] = event.value
        self._draft = None
        self._show(Content(""))
        self._say("")

    def _begin(self, turn: Callable[[], tuple[ShapeDraft, str]], text: str) -> None:
        self.run_worker(self._turned(turn, text), group="source", exclusive=True)

    @until_closed
    async def _turned(self, turn: Callable[[], tuple[ShapeDraft, str]], text: str) -> None:
        self._draft, self._place, self._late, self._leaving = None, None, True, False
        if not text.strip() and not self._is_line:
            self._late = False
            self._show(Content(""))
            self._say("")
            return
        try:
            self._draft, note = await asyncio.to_thread(turn)
        except ShapeError as error:
            typed = not text.lstrip().startswith("@") and re.fullmatch(r"\d+:\d+", error.where)
            self._place = offset(text, error.where) if typed else None
            where = f"Line {error.where.replace(':', ', column ')}: " if self._place is not None else ""
            self._say(f"{where}{error.why if where else error}")
            self._show(Content(""))
        else:
            self._show(Content(body(self._draft.spec(), 60)))
            self._say(note or "Ctrl+S goes on to the editor, where it is checked, tested and saved.")
        self._late = False
        if self._leaving and self._draft is not None:
            self.dismiss(self._draft)

    @until_closed
    async def action_go_on(self) -> None:
        """Take the schema to the editor, with what was typed last."""
        if self._late and not self._is_line:
            if self._timer is not None:
                self._timer.stop()
            self.workers.cancel_group(self, "source")
            await self._turned(*self._area_turn)
        if self._late:
            self._leaving = True  # as soon as the module has run
        elif self._draft is not None:
            self.dismiss(self._draft)
        elif self._is_line:
            self._say("Press Enter on the name first.")
        elif not self.query_one(CodeArea).text.strip():
            self._say("There is no shape yet.")

    def action_go(self) -> None:
        """Go to the fault."""
        if self._place is not None:
            area = self.query_one(CodeArea)
            area.go_to(self._place)
            area.focus()

    def _show(self, content: Content) -> None:
        self.query_one(".preview Static", Static).update(content)

    def _say(self, sentence: str) -> None:
        self.query_one(".state", Line).put(one_line(sentence))


def _from_shorthand(text: str) -> tuple[ShapeDraft, str]:
    return new_draft("json_schema", from_shorthand(text)), ""


def _from_example(text: str) -> tuple[ShapeDraft, str]:
    named = text.strip()
    if named.startswith("@") and "\n" not in named:
        text = read_text(named[1:])
    places = empty_places(text)
    note = f"The example shows nothing inside {', '.join(places)}; anything fits there." if places else ""
    return new_draft("json_schema", from_example(text)), note
