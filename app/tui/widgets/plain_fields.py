"""Text fields that are safe to paste into and take keys in their order.

What is pasted is cleaned at this border, because these fields write their characters to the terminal as they are; where
something has no bytes and so cannot be kept, that is said. Many terminals, tmux among them, send the line breaks of a
paste as carriage returns. Textual writes a typed character at once and runs a key such as Backspace only when the
screen has seen it; here such keys run at once, too, and no screen that is busy holds them up.
"""

from functools import cache

from textual import events
from textual.widget import Widget
from textual.widgets import Input, TextArea

from app.terminal import one_line, printable, well_formed

_JOINERS = ("\u200c", "\u200d")
"""Characters that Textual leaves out when they are typed; Persian and many emoji are written with them."""


@cache
def _editing_keys(base: type[Widget], field: type[Widget]) -> dict[str, str]:
    """Return the actions of Textual's own field by key, without the keys that our field uses otherwise."""
    actions: dict[str, str] = {}
    for kind in reversed(field.__mro__):
        if kind is base or not issubclass(base, kind):
            for binding in vars(kind).get("BINDINGS", ()):
                for key in binding.key.split(","):
                    actions.pop(key.strip(), None)
                    if kind is base:
                        actions[key.strip()] = binding.action
    return actions


async def _runs_at_once(field: Widget, base: type[Widget], event: events.Key) -> bool:
    """Run the action of an editing key now; False for any other key."""
    action = _editing_keys(base, type(field)).get(event.key)
    # An action that does not apply, such as copying without a selection, leaves the key to the screen.
    if action is None or not await field.app.run_action(action, field):
        return False
    event.stop()
    event.prevent_default()
    return True


def writes(event: events.Key) -> bool:
    """Tell whether a key writes a character; with Alt it asks for an action, whatever character comes with it."""
    return event.is_printable and not event.key.startswith("alt+")


class PlainArea(TextArea):
    """A text area without control characters."""

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable and not writes(event):
            event.prevent_default()
        elif event.character in _JOINERS:
            self._replace_via_keyboard(event.character, *self.selection)
            event.stop()
            event.prevent_default()
        elif not await _runs_at_once(self, TextArea, event):
            await super()._on_key(event)

    def on_mount(self) -> None:
        """Keep the cursor still where nothing is to move."""
        self.hold_still(False)

    def hold_still(self, still: bool) -> None:
        """Let the cursor stay as it is, or blink if anything may move."""
        if _hold_still(self, still):
            self.notify_style_update()  # the base class keeps rows, and does not tell those with a cursor apart

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # or the base class would take the event once more, uncleaned
        await super()._on_paste(events.Paste(printable(_with_newlines(kept(self, event.text)))))

    def set_text(self, text: str) -> None:
        """Replace the whole text and put the cursor at its end."""
        self.text = printable(text)
        self.move_cursor(self.document.end)


class PlainInput(Input):
    """A one-line field without control characters."""

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable and not writes(event):
            event.prevent_default()
        elif event.character in _JOINERS:
            self.replace(event.character, *self.selection)
            event.stop()
            event.prevent_default()
        elif not await _runs_at_once(self, Input, event):
            await super()._on_key(event)

    def on_mount(self) -> None:
        """Keep the cursor still where nothing is to move."""
        self.hold_still(False)

    def hold_still(self, still: bool) -> None:
        """Let the cursor stay as it is, or blink if anything may move."""
        _hold_still(self, still)

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        lines = _with_newlines(kept(self, event.text)).split("\n")
        super()._on_paste(events.Paste(one_line(" ".join(filter(None, map(str.strip, lines))))))


def _hold_still(field: TextArea | Input, still: bool) -> bool:
    """Tell whether that changed anything."""
    blinks = not still and field.app.animation_level != "none"
    changed, field.cursor_blink = field.cursor_blink != blinks, blinks
    return changed


def kept(field: Widget, text: str) -> str:
    """Return a pasted text with U+FFFD for lone surrogates; the person is told if there were any."""
    clean = well_formed(text)
    if clean != text:
        count = sum(one != other for one, other in zip(clean, text, strict=True))
        field.app.notify(
            f"{count} broken character{' was' if count == 1 else 's were'} replaced by � in what you pasted.",
            severity="warning",
            markup=False,
        )
    return clean


def _with_newlines(text: str) -> str:
    """Return a pasted text with every line break as a newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
