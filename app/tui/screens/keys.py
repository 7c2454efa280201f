"""All keys of the interface, and other ones for them.

Knows the catalogue of keymap.py, no file: what was changed goes out. What would clash is said at the action and cannot
be taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.terminal import one_line
from app.tui.keymap import Action, clashes, in_force
from app.tui.screens.closing import Dialog
from app.tui.widgets.line import Line
from app.tui.widgets.plain_list import PlainList
from app.tui.words import key_words

Keys = dict[str, tuple[str, ...]]


class KeyCatcher(Dialog[str | None]):
    """Returns the next key that is pressed; None for Escape."""

    CSS_PATH: ClassVar[list[str]] = ["dialog.tcss", "preferences.tcss"]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        """What is waited for."""
        with Vertical(classes="dialog"):
            yield Static(f"Press the new key for: {self._what}\nEscape keeps the old one.", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Take the key, whatever it would do elsewhere."""
        event.stop()
        event.prevent_default()
        self.dismiss(None if event.key == "escape" else event.key)


class KeysScreen(Dialog[Keys | None]):
    """Returns the keys of every action that has others than it came with, or None when nothing is to change."""

    CSS_PATH: ClassVar[list[str]] = ["dialog.tcss", "preferences.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="keys.save", priority=True, tooltip="Take what was changed"),
        Binding("a", "catch(True)", "Add", id="keys.add", tooltip="Give the action one more key"),
        Binding(
            "delete,backspace", "reset", "Reset", id="keys.reset", tooltip="Give the action its own key back"
        ),
        Binding("escape", "cancel", "Cancel", id="keys.cancel", tooltip="Change nothing"),
    ]

    def __init__(self, actions: Sequence[Action], keys: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self._actions = actions
        self._keys: Keys = {name: tuple(given) for name, given in keys.items()}
        self._begun = dict(self._keys)
        self._rows: list[Action | None] = []

    def compose(self) -> ComposeResult:
        """The list, what is wrong, the ways out."""
        with Vertical(classes="dialog"):
            yield Static("Keys", markup=False, classes="heading")
            yield PlainList()
            yield Line(classes="about")
            yield Line(classes="problem")
            yield Static(
                "Enter waits for another key, A adds one, Delete resets, Ctrl+S takes all, Escape changes nothing",
                markup=False,
                classes="hint",
            )

    def on_mount(self) -> None:
        """List every action under the part of the interface it belongs to."""
        part = ""
        for action in self._actions:
            if action.part != part:
                part = action.part
                self._rows.append(None)
            self._rows.append(action)
        self._draw(1)
        self.query_one(PlainList).focus()

    def keep_all(self) -> list[str]:
        """Name what was changed."""
        return [] if self._keys == self._begun else ["the changed keys"]

    @on(OptionList.OptionHighlighted)
    def _explain(self, event: OptionList.OptionHighlighted) -> None:
        self._tell(self._rows[event.option_index])

    @on(OptionList.OptionSelected)
    def _change(self) -> None:
        self.action_catch(False)

    def action_catch(self, add: bool) -> None:
        """Wait for a key for the selected action."""
        action = self._selected
        if action is None:
            return

        def take(key: str | None) -> None:
            if key is not None:
                before = in_force(self._actions, self._keys)[action.id] if add else ()
                self._put(action, tuple(dict.fromkeys((*before, key))))

        self.app.push_screen(KeyCatcher(action.what), take)

    def action_reset(self) -> None:
        """Give the selected action the keys it came with."""
        if (action := self._selected) is not None:
            self._put(action, action.keys)

    def action_save(self) -> None:
        """Return the keys, unless some would clash."""
        faults = clashes(self._actions, self._keys)
        if faults:
            name, fault = next(iter(faults.items()))
            self.query_one(".problem", Line).put(f"Not saved. {name}: {fault}")
        else:
            self.dismiss(self._keys)

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    @property
    def _selected(self) -> Action | None:
        place = self.query_one(PlainList).highlighted
        return None if place is None else self._rows[place]

    def _put(self, action: Action, keys: tuple[str, ...]) -> None:
        if keys == action.keys:
            self._keys.pop(action.id, None)
        else:
            self._keys[action.id] = keys
        self._draw()
        self._tell(action)

    def _tell(self, action: Action | None) -> None:
        fault = "" if action is None else clashes(self._actions, self._keys).get(action.id, "")
        came = "" if action is None else f"{action.id}; it came with {_shown(action.keys)}."
        self.query_one(".about", Line).put(came)
        self.query_one(".problem", Line).put(f"Clash: {fault}" if fault else "")

    def _draw(self, place: int | None = None) -> None:
        options = self.query_one(PlainList)
        place = options.highlighted if place is None else place
        now, faults = in_force(self._actions, self._keys), clashes(self._actions, self._keys)
        listed: list[Option] = []
        for number, action in enumerate(self._rows):
            if action is None:
                following: Any = self._rows[number + 1]
                listed.append(Option(Content.styled(following.part, "bold underline"), disabled=True))
                continue
            mark = "! " if action.id in faults else "* " if action.id in self._keys else "  "
            listed.append(
                Option(Content.assemble(mark, (f"{_shown(now[action.id]):<20} ", "bold"), action.what))
            )
        options.set_options(listed)
        options.highlighted = place


def _shown(keys: Sequence[str]) -> str:
    return one_line(", ".join(map(key_words, keys)))
