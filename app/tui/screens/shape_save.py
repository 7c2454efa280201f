"""Saving a shape under a name, with what a list shows of it. A shape of the same name is replaced only if asked twice.

Knows the files of shapes. What is refused is said in the dialog, which then stays.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from app.deep_thread import deeply
from app.paths import PathError
from app.shape_draft import ShapeDraft, file_text
from app.shapes import add_shape
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.until_closed import until_closed
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from grammars.spec import ShapeError

_FIELDS = (
    ("name", "small letters, digits, - and _"),
    ("title", "one line for lists"),
    ("description", "what it is for"),
    ("tags", "apart by commas"),
    ("example", "a message that suits it"),
)


class SaveShape(Dialog[str | None]):
    """Returns the name under which the shape was saved, or None; `typed` keeps what was typed, by field."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="save.save", priority=True),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("up", "app.focus_previous", "Before", show=False),
        Binding("escape", "dismiss(None)", "Cancel", id="save.cancel"),
    ]

    def __init__(self, draft: ShapeDraft, typed: MutableMapping[str, str]) -> None:
        super().__init__()
        self._draft = draft
        self._typed = typed
        self._asked = ""

    def compose(self) -> ComposeResult:
        """A row for each thing that is saved with the shape."""
        values = _values(self._draft)
        with Vertical(classes="dialog"):
            yield Static("Save the shape", markup=False, classes="heading")
            for name, hint in _FIELDS:
                with Horizontal(classes="field"):
                    yield Static(name, markup=False)
                    value = self._typed.get(name, one_line(values[name]))
                    yield PlainInput(value, placeholder=hint, compact=True, id=f"save-{name}")
            yield Line(classes="problem")
            yield Static(
                "Enter or Ctrl+S saves, Up and Down move, Escape goes back to the editor",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """Begin with the name."""
        self.query_one("#save-name").focus()

    @on(Input.Changed)
    def _keep(self, event: Input.Changed) -> None:
        self._typed[(event.input.id or "").removeprefix("save-")] = event.value

    @on(Input.Submitted)
    @until_closed
    async def action_save(self) -> None:
        """Save under the name; a second time where there is a shape of this name."""
        draft = self._filled()
        problem = self.query_one(Line)
        try:
            text = file_text(draft)
            await deeply(partial(add_shape, draft.name, text, replace=self._asked == draft.name))
        except FileExistsError:
            self._asked = draft.name
            problem.put(
                f"You have a shape named {draft.name}. The same key again replaces it; "
                "what it was is kept as a version."
            )
        except (ShapeError, PathError) as error:
            problem.put(f"Not saved: {one_line(str(error))}")
        else:
            self.dismiss(draft.name)

    def _filled(self) -> ShapeDraft:
        """Return the draft with what was changed here: a field shows one line, what was not touched keeps its own."""
        changes = {
            name: value.strip()
            for name in _values(self._draft)
            if (value := self.query_one(f"#save-{name}", PlainInput).value)
            != one_line(_values(self._draft)[name])
        }
        draft = self._draft
        name = changes.get("name", draft.name)
        tags = changes.get("tags")
        return replace(
            draft,
            name=name,
            title=changes.get("title", "" if draft.title == draft.name else draft.title) or name,
            description=changes.get("description", draft.description),
            tags=draft.tags
            if tags is None
            else tuple(tag for part in tags.split(",") if (tag := part.strip())),
            example_prompt=changes.get("example", draft.example_prompt),
        )


def _values(draft: ShapeDraft) -> dict[str, str]:
    """Return what stands in the fields at first."""
    return {
        "name": draft.name,
        "title": "" if draft.title == draft.name else draft.title,
        "description": draft.description,
        "tags": ", ".join(draft.tags),
        "example": draft.example_prompt,
    }
