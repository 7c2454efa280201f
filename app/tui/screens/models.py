"""The models on this machine, to load another one and to choose a draft model beside it.

Knows folders and headers through app/models.py, which a thread reads; nothing of the engine: the choice goes out. Names
and what files say of themselves are shown as text.
"""

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.models import ModelFile
from app.terminal import one_line
from app.text_files import TextFileError, named_path
from app.tui.screens.closing import Dialog
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList
from engine.memory import amount


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model to load and what drafts for it; `remember` makes them those that are loaded at the start."""

    model: str
    draft_model: str | None
    remember: bool


class ModelsScreen(Dialog[ModelChoice | None]):
    """Returns the choice, or None when nothing is to change. `survey` is called in a thread."""

    CSS_PATH: ClassVar[list[str]] = ["dialog.tcss", "preferences.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "draft", "Draft", id="models.draft", priority=True, tooltip="Let it draft, or not"),
        Binding(
            "ctrl+s",
            "remember",
            "Default",
            id="models.default",
            priority=True,
            tooltip="Load it at each start",
        ),
        Binding("escape", "cancel", "Cancel", id="models.cancel", tooltip="Change nothing"),
        Binding("up", "move(-1)", "Up", id="models.up", show=False, priority=True),
        Binding("down", "move(1)", "Down", id="models.down", show=False, priority=True),
    ]

    class Found(Message):
        """A model was read, or with None the last one was."""

        def __init__(self, model: ModelFile | None) -> None:
            super().__init__()
            self.model = model

    def __init__(
        self, survey: Callable[[], Iterable[ModelFile]], *, current: str, draft_model: str | None
    ) -> None:
        super().__init__()
        self._survey = survey
        self._current = current
        self._draft = draft_model
        self._models: list[ModelFile] = []
        self._listed: list[ModelFile] = []
        self._complete = False
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        """A filter over the list, and what the highlighted file says."""
        with Vertical(classes="dialog"):
            yield Static("Models", markup=False, classes="heading")
            yield PlainInput(placeholder="Type to filter, or the path of a GGUF file", compact=True)
            with Horizontal(classes="panes"):
                yield PlainList()
                with VerticalScroll(classes="preview", can_focus=False):
                    yield Static(markup=False)
            yield Line(classes="about")
            yield Line(classes="problem")
            yield Static(
                "Enter loads it, Ctrl+S also at each start, Ctrl+D lets it draft, Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(PlainList).can_focus = False
        self.query_one(Input).focus()
        self._list()
        self.run_worker(self._read, thread=True, group="models", exit_on_error=True)

    def on_unmount(self) -> None:
        """Read no further."""
        self._left.set()

    def _read(self) -> None:
        for model in self._survey():
            if self._left.is_set():
                return
            self.post_message(self.Found(model))
        self.post_message(self.Found(None))

    def on_models_screen_found(self, message: Found) -> None:
        """List one more."""
        if message.model is None:
            self._complete = True
        else:
            self._models.append(message.model)
            if os.path.realpath(message.model.path) == os.path.realpath(self._current):
                self._current = str(message.model.path)  # as the list names it
        self._list()

    @on(Input.Changed)
    def _filter(self) -> None:
        self.query_one(".problem", Line).put("")
        self._list()

    @on(Input.Submitted)
    def _enter(self) -> None:
        self._choose(remember=False)

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self._choose(remember=False)

    @on(OptionList.OptionHighlighted)
    def _look(self) -> None:
        self._show()

    def action_remember(self) -> None:
        """Load the highlighted model, now and at each start."""
        self._choose(remember=True)

    def action_draft(self) -> None:
        """Let the highlighted model draft for the one that is loaded or chosen, or no longer."""
        if (path := self._path()) is not None:
            self._draft = None if self._draft == path else path
            self._list()

    def action_move(self, step: int) -> None:
        """Move in the list while the filter keeps the focus."""
        self.query_one(PlainList).move(step)

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    def _choose(self, *, remember: bool) -> None:
        path = self._path()
        if path is None:
            return
        model = self._highlighted
        if model is not None and model.fault:
            self.query_one(".problem", Line).put(f"It cannot be loaded: {one_line(model.fault)}")
            return
        draft = self._draft if self._draft != path else None
        self.dismiss(ModelChoice(model=path, draft_model=draft, remember=remember))

    def _path(self) -> str | None:
        """Return the path that was typed, if it is one, else the highlighted file's; no file, no path, and it says so.

        The model that is loaded goes when another is asked for, so a slip of the keys is told before.
        """
        typed = self.query_one(Input).value.strip()
        if typed.lower().endswith(".gguf") and ("/" in typed or not self._listed):
            try:
                path = named_path(typed).absolute()
                if not path.is_file():
                    raise TextFileError(f"There is no file {path}.")
            except (TextFileError, OSError) as error:
                self.query_one(".problem", Line).put(one_line(str(error)))
                return None
            return str(path)
        return str(self._highlighted.path) if self._highlighted is not None else None

    @property
    def _highlighted(self) -> ModelFile | None:
        place = self.query_one(PlainList).highlighted
        return self._listed[place] if place is not None and place < len(self._listed) else None

    def _list(self) -> None:
        words = self.query_one(Input).value.lower().split()
        options, before = self.query_one(PlainList), self._highlighted
        self._listed = [
            model
            for model in self._models
            if all(word in f"{model.path} {model.name}".lower() for word in words)
        ]
        options.set_options([Option(self._line(model)) for model in self._listed])
        paths = [str(model.path) for model in self._listed]
        wanted = str(before.path) if before is not None else self._current
        if self._listed:
            options.highlighted = paths.index(wanted) if wanted in paths else 0
        count = f"{len(self._models)} model{'' if len(self._models) == 1 else 's'}"
        state = f"{count} found." if self._complete else f"{count} so far, looking for more."
        drafts = f" Draft model: {one_line(Path(self._draft).name)}." if self._draft else ""
        self.query_one(".about", Line).put(f"{state}{drafts}")
        self._show()

    def _line(self, model: ModelFile) -> Content:
        path = str(model.path)
        mark = "› " if path == self._current else "d " if path == self._draft else "  "
        if model.fault:
            return Content.assemble(mark, (one_line(model.path.name), "bold"), ("  cannot be loaded", "dim"))
        facts = f"  {amount(model.size)}  {one_line(model.quantization)}  {one_line(model.architecture)}"
        return Content.assemble(mark, (one_line(model.path.name), "bold"), (facts, "dim"))

    def _show(self) -> None:
        model = self._highlighted
        if model is None:
            text = Content("No model is found here." if self._complete else "Looking…")
        else:
            lines = [("name", model.name), ("file", str(model.path))]
            if model.architecture:
                lines += [
                    ("architecture", model.architecture),
                    ("weights", f"{model.quantization}, {amount(model.size)}"),
                    ("context", f"{model.context:,} tokens" if model.context else "not said"),
                ]
            lines.append(("problem", model.fault) if model.fault else ("memory", model.fits))
            if str(model.path) == self._current:
                lines.append(("loaded", "now"))
            text = Content("\n").join(
                Content.assemble((f"{name}  ", "dim"), one_line(value)) for name, value in lines
            )
        self.query_one(".preview Static", Static).update(text)
