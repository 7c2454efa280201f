"""The keys of the interface: every action that has one, other keys for it, and what would clash.

Knows the classes of the screens and widgets, not what is on the screen. Textual itself puts other keys in force
(`App.set_keymap`), by the ids of bindings. Invariant: what is put in force never leaves an action of a screen without
its key because another one took it.
"""

import difflib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.keys import _character_to_key
from textual.widgets import TextArea

import app.tui.screens
import app.tui.widgets

MAIN = "Main screen"
RESERVED = {
    "ctrl+c": "copies and tells how to quit",
    "ctrl+p": "opens the palette",
    "tab": "goes to the next part of the screen",
    "shift+tab": "goes to the part of the screen before",
    "enter": "takes what is chosen",
    "escape": "leads back",
}
"""Keys that nothing else may be given, and why."""

_MOVES = ("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", *RESERVED)

_EDITING = frozenset(binding.key for binding in Binding.make_bindings(TextArea.BINDINGS))

Keys = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that has a key. `owner` is the class that has it, `part` that class in words.

    With `priority` its keys are looked at before those of the field that has the focus.
    """

    id: str
    owner: str
    part: str
    keys: tuple[str, ...]
    what: str
    priority: bool = False

    @property
    def beside_text(self) -> bool:
        """True if this is to be done while a text field has the focus."""
        return self.owner in ("ChatScreen", "Composer", "FindBar")


def actions() -> list[Action]:
    """Return every action with an id of all screens and widgets, those of the main screen first."""
    found: dict[str, Action] = {}
    for owner in _owners():
        for binding in owner.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id and binding.id not in found:
                found[binding.id] = Action(
                    id=binding.id,
                    owner=owner.__name__,
                    part=part_words(owner),
                    keys=tuple(normal(key) for key in binding.key.split(",")),
                    what=binding.tooltip or binding.description,
                    priority=binding.priority,
                )
    order = {"ChatScreen": 0, "Transcript": 1, "Composer": 2}
    return sorted(found.values(), key=lambda action: (order.get(action.owner, 3), action.part))


def normal(key: str) -> str:
    """Return a key's name as Textual has it: `[` is left_square_bracket."""
    key = key.strip()
    return _character_to_key(key) if len(key) == 1 else key


def in_force(listed: Sequence[Action], keys: Keys) -> dict[str, tuple[str, ...]]:
    """Return the keys of each action by its id."""
    return {action.id: tuple(map(normal, keys.get(action.id, action.keys))) for action in listed}


def clashes(listed: Sequence[Action], keys: Keys) -> dict[str, str]:
    """Return what is wrong with the keys that were given, a sentence by the action's id; empty if nothing is."""
    now = in_force(listed, keys)
    faults: dict[str, str] = {}
    for action in listed:
        if action.id not in keys:
            continue
        for key in now[action.id]:
            if fault := _fault(action, key, listed, now):
                faults[action.id] = fault
                break
    return faults


def usable(listed: Sequence[Action], keys: Keys) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the keys that can be put in force together, and a sentence for each action that keeps its own."""
    known = [action.id for action in listed]
    left = {name: tuple(given) for name, given in keys.items() if name in known}
    told: list[str] = []
    for name in keys:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; {near[0]!r} is the nearest" if near else ""
            told.append(f"There is no action {name!r} to give keys to{hint}.")
    while faults := clashes(listed, left):
        told += [f"The keys of {name} are not used: {fault}" for name, fault in faults.items()]
        left = {name: given for name, given in left.items() if name not in faults}
    return left, told


def remapped(bindings: Iterable[BindingType], keys: Keys) -> list[Binding]:
    """Return the bindings of a class with the keys that are in force."""
    return [
        binding.with_key(",".join(map(normal, keys[binding.id]))) if binding.id in keys else binding
        for binding in bindings
        if isinstance(binding, Binding)
    ]


def for_textual(keys: Keys) -> dict[str, str]:
    """Return keys as `App.set_keymap` takes them."""
    return {name: ",".join(map(normal, given)) for name, given in keys.items()}


def _fault(action: Action, key: str, listed: Sequence[Action], now: Keys) -> str:
    if key in RESERVED and key not in action.keys:
        return f"{key} {RESERVED[key]}."
    if action.beside_text and _is_typed(key) and key not in action.keys:
        return f"{key} is typed into the message."
    if action.owner == "ChatScreen" and not action.priority and key in _EDITING and key not in action.keys:
        return f"{key} edits the message."
    for other in listed:
        if other.id != action.id and key in now[other.id] and _meet(action, other):
            if key in action.keys and key in other.keys:
                continue  # they have always shared it
            return f"{key} is the key of {other.id} ({other.what})."
    return ""


def _meet(one: Action, other: Action) -> bool:
    """Tell whether one key can mean both: in one class, or in the main screen and a part of it."""
    return one.owner == other.owner or (
        one.part == other.part == MAIN and "ChatScreen" in (one.owner, other.owner)
    )


def _is_typed(key: str) -> bool:
    *modifiers, name = key.split("+")
    return not modifiers and not (name.startswith("f") and name[1:].isdecimal()) and name not in _MOVES


def _owners() -> list[type[DOMNode]]:
    for package in (app.tui.screens, app.tui.widgets):
        for module in pkgutil.iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    import_module("app.tui.app")
    found: dict[type[DOMNode], None] = {}
    waiting: list[type[DOMNode]] = [DOMNode]
    while waiting:
        owner = waiting.pop()
        waiting += owner.__subclasses__()
        if owner.__module__.startswith("app.tui."):
            found.setdefault(owner)
    return sorted(found, key=lambda owner: owner.__name__)


def part_words(owner: type[DOMNode]) -> str:
    """Return what a class of widgets or screens is called."""
    if owner.__name__ == "ChatScreen" or owner.__module__.startswith("app.tui.widgets."):
        return MAIN
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in owner.__name__).strip()
    return words.removesuffix(" screen").capitalize()
