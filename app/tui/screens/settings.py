"""The settings as one form: those of the open chat, and those of everything.

Knows the settings and their words, no file and no session: what was changed goes out, and only when it is taken. A
value that cannot be used is said under the list and changes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, get_args

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.setting_words import WORDS
from app.settings import NAMES, Settings, overlaid
from app.settings_file import check_value
from app.terminal import one_line
from app.tui.screens.closing import Dialog
from app.tui.screens.text_dialog import TextDialog
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList
from engine.protocol import Numerics

RESET = object()
"""In place of a value: what the chat wants otherwise is forgotten."""
CHAT = "chat"
_HEADINGS = {
    CHAT: "This chat",
    "reply": "All chats: replies",
    "engine": "Engine, from the next time a model is loaded",
    "interface": "Interface",
    "limits": "Limits",
}
_OPTIONAL = ("seed", "think", "model", "draft_model", "context", "threads")
_NO_VALUE = {"seed": "random", "think": "as the model"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a person changed.

    `chat` holds new values, or `RESET`, by name; `everywhere` new values by table and name, None for the built-in one.
    """

    chat: dict[str, Any] = field(default_factory=dict)
    everywhere: dict[tuple[str, str], Any] = field(default_factory=dict)


class SettingsScreen(Dialog[Changes | None]):
    """Returns what was changed, or None when nothing is to change. `own` is what the chat wants otherwise."""

    CSS_PATH: ClassVar[list[str]] = ["dialog.tcss", "preferences.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="settings.save", priority=True, tooltip="Take what was changed"),
        Binding(
            "delete,backspace", "reset", "Reset", id="settings.reset", tooltip="Take the value's default"
        ),
        Binding("escape", "cancel", "Cancel", id="settings.cancel", tooltip="Change nothing"),
    ]

    def __init__(self, settings: Settings, own: Mapping[str, Any], themes: Sequence[str]) -> None:
        super().__init__()
        self._settings = settings
        self._own = {name: value for name, value in own.items() if name in NAMES}
        self._choices = {
            ("interface", "theme"): tuple(themes),
            ("interface", "enter"): ("send", "newline"),
            ("engine", "numerics"): get_args(Numerics),
        }
        self._chat: dict[str, Any] = {}
        self._everywhere: dict[tuple[str, str], Any] = {}
        self._rows: list[tuple[str, str] | None] = []
        self._editing: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        """The list, what the selected setting means, a field, the ways out."""
        with Vertical(classes="dialog"):
            yield Static("Settings", markup=False, classes="heading")
            yield PlainList()
            yield Line(classes="about")
            yield PlainInput(compact=True, classes="-hidden")
            yield Line(classes="problem")
            yield Static(
                "Enter changes a value, Delete resets it, Ctrl+S takes all, Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """List everything."""
        names = {CHAT: NAMES}
        for table in ("reply", "engine", "interface", "limits"):
            values = getattr(self._settings, table)
            names[table] = tuple(field.name for field in fields(values))
        names["reply"] = ("system", *names["reply"])
        for table, found in names.items():
            self._rows += [None, *((table, name) for name in found)]
        self._draw(1)
        self.query_one(PlainList).focus()

    def keep_all(self) -> list[str]:
        """Name what was changed."""
        changed = self._chat or self._everywhere or self._editing is not None
        return ["the changed settings"] if changed else []

    @on(OptionList.OptionHighlighted)
    def _explain(self, event: OptionList.OptionHighlighted) -> None:
        row = self._rows[event.option_index]
        self.query_one(".problem", Line).put("")
        if row is not None:
            words = WORDS[row[1]]
            self.query_one(".about", Line).put(f"{words.what}. It takes {words.takes}.")

    @on(OptionList.OptionSelected)
    def _change(self, event: OptionList.OptionSelected) -> None:
        row = self._rows[event.option_index]
        if row is None or not self._field_taken():
            return
        value = self._value(row)
        values: tuple[Any, ...] = self._choices.get(row, ())
        if WORDS[row[1]].takes == WORDS["land"].takes:
            values = (None, True, False) if row[1] in _OPTIONAL else (True, False)
        if values:
            place = values.index(value) + 1 if value in values else 0
            self._set(row, values[place % len(values)])
        elif row[1] == "system":
            self.app.push_screen(
                TextDialog("System prompt of new chats", value), lambda text: self._take(row, text)
            )
        elif isinstance(value, tuple):
            dialog = TextDialog(f"{row[1]}: {WORDS[row[1]].what}", "\n".join(value), note="One a line.")
            self.app.push_screen(dialog, lambda text: self._take_lines(row, text))
        else:
            self._editing = row
            field = self.query_one(PlainInput)
            field.value = "" if value is None else one_line(str(value))
            field.remove_class("-hidden")
            field.focus()

    def _take(self, row: tuple[str, str], text: str | None) -> None:
        if text is not None:
            self._set(row, text.strip())

    def _take_lines(self, row: tuple[str, str], text: str | None) -> None:
        if text is not None:
            self._set(row, [line for line in text.split("\n") if line.strip()])

    @on(Input.Submitted)
    def _take_typed(self, event: Input.Submitted) -> None:
        if self._editing is None:
            return
        text, row = event.value.strip(), self._editing
        if self._set(row, None if not text and row[1] in _OPTIONAL else _read(text, row[1])):
            self._close_field()

    def _set(self, row: tuple[str, str], value: Any) -> bool:
        table, name = row
        try:
            good = None if value is None else check_value("reply" if table == CHAT else table, name, value)
        except ValueError as error:
            shown = one_line(value if isinstance(value, str) else json.dumps(value))
            self.query_one(".problem", Line).put(f"{name} cannot be {shown or 'empty'}: it takes {error}.")
            return False
        if table == CHAT:
            self._chat[name] = good
        else:
            self._everywhere[row] = good
        self._draw()
        return True

    def action_reset(self) -> None:
        """Let the selected setting have its default again."""
        place = self.query_one(PlainList).highlighted
        row = None if place is None else self._rows[place]
        if row is None:
            return
        if row[0] == CHAT:
            self._chat[row[1]] = RESET
        else:
            self._everywhere[row] = None
        self._draw()

    def action_save(self) -> None:
        """Return what was changed."""
        if self._field_taken():
            self.dismiss(Changes(chat=self._chat, everywhere=self._everywhere))

    def _field_taken(self) -> bool:
        """Take what stands in an open field; False, and said, if it cannot be a value."""
        if self._editing is not None:
            field = self.query_one(PlainInput)
            self._take_typed(Input.Submitted(field, field.value))
        return self._editing is None

    def action_cancel(self) -> None:
        """Leave the field, or return nothing."""
        if self._editing is not None:
            self._close_field()
        else:
            self.dismiss(None)

    def _close_field(self) -> None:
        self._editing = None
        self.query_one(PlainInput).add_class("-hidden")
        self.query_one(".problem", Line).put("")
        self.query_one(PlainList).focus()

    def _value(self, row: tuple[str, str]) -> Any:
        """Return a setting as it would be after what was changed here."""
        table, name = row
        if table == CHAT:
            if name in self._chat:
                return self._value(("reply", name)) if self._chat[name] is RESET else self._chat[name]
            own, faulty = overlaid(self._settings.reply, self._own)
            return (
                getattr(own, name)
                if self._is_own(name) and name not in faulty
                else self._value(("reply", name))
            )
        if row in self._everywhere:
            value = self._everywhere[row]
            return _built_in(row) if value is None else value
        return self._settings.system if name == "system" else getattr(getattr(self._settings, table), name)

    def _is_own(self, name: str) -> bool:
        return self._chat[name] is not RESET if name in self._chat else name in self._own

    def _draw(self, place: int | None = None) -> None:
        options = self.query_one(PlainList)
        place = options.highlighted if place is None else place
        listed: list[Option] = []
        for number, row in enumerate(self._rows):
            if row is None:
                heading = _HEADINGS[self._rows[number + 1][0]]  # type: ignore[index] (a row follows each heading)
                listed.append(Option(Content.styled(heading, "bold underline"), disabled=True))
            else:
                listed.append(Option(self._line(row)))
        options.set_options(listed)
        options.highlighted = place

    def _line(self, row: tuple[str, str]) -> Content:
        table, name = row
        value = self._value(row)
        if table == CHAT:
            own = "this chat's own" if self._is_own(name) else ""
        else:
            own = "" if value == _built_in(row) else "set"
        changed = "* " if (name in self._chat if table == CHAT else row in self._everywhere) else "  "
        shown = _NO_VALUE.get(name, "not set") if value is None else _words(value)
        words = WORDS[name]
        return Content.assemble(
            changed,
            f"{name:<18}",
            (f" {shown:<12}", "bold"),
            f" {own:<15}",
            (f" {words.what}: {words.takes}", "dim"),
        )


def _built_in(row: tuple[str, str]) -> Any:
    table, name = row
    nothing_set = Settings()
    return nothing_set.system if name == "system" else getattr(getattr(nothing_set, table), name)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    text = one_line(text)
    return (text if len(text) <= 40 else f"{text[:39]}…") or "none"


def _read(text: str, name: str) -> Any:
    """Return what was typed: a number where the setting is one."""
    if "number" not in WORDS[name].takes:
        return text
    try:
        return int(text)
    except ValueError:
        try:
            return float(text.replace(",", "."))
        except ValueError:
            return text
