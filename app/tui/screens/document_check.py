"""Testing a document against a shape: paste a reply and see whether it fits, and where it does not.

Knows the independent validator, no engine. The document is checked a moment after the last key, in a thread.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static, TextArea

from app.deep_thread import deeply
from app.json_places import offset
from app.shape_files import read_text
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.until_closed import until_closed
from app.tui.widgets.code_area import CodeArea
from app.tui.widgets.line import Line
from app.tui.words import shape_name
from app.validation import check
from grammars.spec import GrammarSpec, ShapeError

CHECK_S = 0.3


class DocumentCheck(Dialog[None]):
    """Says of a document whether it fits a shape."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f6", "go", "Go there", id="document.go", priority=True),
        Binding("escape", "dismiss", "Close", id="document.close"),
    ]

    def __init__(self, spec: GrammarSpec) -> None:
        super().__init__()
        self._spec = spec
        self._timer: Timer | None = None
        self._place: int | None = None

    def compose(self) -> ComposeResult:
        """The document, and the verdict below."""
        with Vertical(classes="dialog"):
            yield Static(f"Does it fit {one_line(shape_name(self._spec))}?", markup=False, classes="heading")
            yield CodeArea(
                highlight_cursor_line=False, compact=True, placeholder="Paste a reply, or write @ and a path"
            )
            yield Line(classes="problem")
            yield Static("F6 goes to the first fault, Escape closes", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Begin in the field."""
        area = self.query_one(CodeArea)
        area.json = self._spec.kind == "json_schema"
        area.focus()

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        """Check a moment after the last key."""
        message.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(CHECK_S, self._check)

    def action_go(self) -> None:
        """Go to the first fault."""
        if self._place is not None:
            self.query_one(CodeArea).go_to(self._place)

    def _check(self) -> None:
        self.run_worker(self._judge(self.query_one(CodeArea).text), group="check", exclusive=True)

    @until_closed
    async def _judge(self, text: str) -> None:
        verdict = Content("")
        self._place = None
        if text.strip():
            verdict, self._place = await deeply(_verdict, self._spec, text)
        self.query_one(".problem", Line).put(verdict)


def _verdict(spec: GrammarSpec, text: str) -> tuple[Content, int | None]:
    """Return a sentence, and where in the text the first fault stands."""
    named = text.strip()
    from_file = named.startswith("@") and "\n" not in named
    try:
        reply = read_text(named[1:]) if from_file else text
        verdict = check(spec, reply)
        if not verdict.fits and reply.strip() != reply and check(spec, reply.strip()).fits:
            verdict = check(spec, reply.strip())  # a paste ends with a new line; a reply does not
    except ShapeError as error:
        return Content(one_line(str(error))), None
    if verdict.fits:
        return Content.styled("It fits.", "$text-success"), None
    where = f" at {one_line(verdict.where)}" if verdict.where else ""
    place = offset(reply, verdict.where) if verdict.where and not from_file else None
    return Content(f"It does not fit{where}: {one_line(verdict.problem or '')}"), place
