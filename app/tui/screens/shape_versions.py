"""What a shape of the person's own is and was: versions by hash, a look at each, and bringing one back.

Knows the files of shapes, no store and no engine.
"""

from datetime import UTC, datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.paths import PathError
from app.shapes import SavedShape, Version, restore_version, versions
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.shape_words import preview
from app.tui.widgets.line import Line
from app.tui.widgets.plain_list import PlainList
from app.tui.words import when
from grammars.spec import ShapeError


class ShapeVersions(Dialog[str | None]):
    """Returns the hash of the version that was brought back, or None."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close", id="versions.close")]

    def __init__(self, name: str) -> None:
        super().__init__()
        self._shape = name
        self._versions: list[Version] = []

    def compose(self) -> ComposeResult:
        """The versions, the latest first, and a look at the highlighted one."""
        with Vertical(classes="dialog"):
            yield Static(f"Versions of {one_line(self._shape)}", markup=False, classes="heading")
            with Horizontal(classes="panes"):
                yield PlainList()
                with VerticalScroll(classes="preview", can_focus=False):
                    yield Static(markup=False)
            yield Line(classes="problem")
            yield Static(
                "Enter brings a version back; what is current is kept. Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """List what there is."""
        try:
            self._versions = versions(self._shape)
        except (ShapeError, PathError) as error:
            self.query_one(Line).put(one_line(str(error)))
            return
        now = datetime.now(UTC)
        options = self.query_one(PlainList)
        options.set_options([_option(version, now) for version in self._versions])
        options.highlighted = 0
        options.focus()

    @on(OptionList.OptionHighlighted)
    def _look(self, event: OptionList.OptionHighlighted) -> None:
        version = self._versions[event.option_index]
        saved = SavedShape(name=self._shape, origin="own", preset=version.preset, fault=version.fault)
        self.query_one(".preview Static", Static).update(preview(saved, [f"Version {version.hash}"]))

    @on(OptionList.OptionSelected)
    def _restore(self, event: OptionList.OptionSelected) -> None:
        version = self._versions[event.option_index]
        if version.current:
            self.query_one(Line).put("This is the current version.")
            return
        try:
            restore_version(self._shape, version.hash)
        except (ShapeError, PathError) as error:
            self.query_one(Line).put(one_line(str(error)))
        else:
            self.dismiss(version.hash)


def _option(version: Version, now: datetime) -> Option:
    time = "current" if version.current else f"until {when(version.saved, now)}"
    note = "  cannot be used" if version.preset is None else ""
    return Option(Content.assemble((version.hash, "bold"), f"  {time}", (note, "dim")))
