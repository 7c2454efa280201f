"""Keys and pastes, handed on one after the other, however fast they come.

Textual gives each key to the widget that has the focus when the key arrives, which may be before the key in front of it
has moved the focus or opened a screen; what was typed behind such a key would go to the wrong place. And it runs a key
with priority at once, before the field has taken what was typed in front of it. Here a key that is not simply typed
into a field waits for what was typed, and is then followed through the queues of everything that may act on it, from
the widget with the focus up to the program, until nothing moves any more; what comes behind waits. Invariants: the
order stays; nothing waits longer than `LONGEST_S` for a screen that takes its time, such as for the clipboard.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, TextArea

from app.tui.widgets.plain_fields import writes

LONGEST_S = 0.5
_PASSES = range(2, 7)
"""How often a key is followed: what it makes a widget ask for comes up behind it, and may open screens."""


class KeyOrder:
    """Keeps what is typed in its order; `hand_on` is how the program treats a key whose turn it is."""

    def __init__(self, app: App[Any], hand_on: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._hand_on = hand_on
        self._waiting: deque[events.Event] = deque()
        self._held = 0  # the number of the key that is being followed, 0 for none
        self._count = 0
        self._typed = False  # whether a field may still have to take something
        self._timer: Timer | None = None

    async def take(self, event: events.Key | events.Paste) -> None:
        """Hand a key or a paste on, now or when those in front of it have done what they do."""
        self._waiting.append(event)
        if not self._held:
            await self._go_on()
        self._bound()

    def _bound(self) -> None:
        """Set a bound to how long what waits is held up by the key that is being followed."""
        if self._waiting and self._timer is None:
            number = self._held
            self._timer = self._app.set_timer(LONGEST_S, lambda: self._release(number))

    async def _go_on(self) -> None:
        while self._waiting and not self._held:
            focused = self._app.focused
            typed = _is_typed(self._waiting[0], focused)
            if typed or not self._typed:
                await self._hand_on(self._waiting.popleft())
            self._typed = typed
            if not typed:
                self._count += 1
                self._held = self._count
                self._follow(self._count, focused or self._app.screen, 1)

    def _follow(self, number: int, start: DOMNode, passed: int) -> None:
        """Go through the queues from a widget up to the program."""
        before = self._focus
        path = list(start.ancestors_with_self)

        async def step() -> None:
            while path:
                if path.pop(0).call_later(step):  # False for one that is gone
                    return
            if not self._app.screen_stack:
                return  # the program ends
            if passed < _PASSES.start or (self._focus != before and passed + 1 in _PASSES):
                self._follow(number, self._focus[1] or self._focus[0], passed + 1)
            else:
                await self._release(number)

        self._app.call_next(step)

    @property
    def _focus(self) -> tuple[Screen[Any], Widget | None]:
        return self._app.screen, self._app.focused

    async def _release(self, number: int) -> None:
        if number != self._held:
            return
        self._held = 0
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        await self._go_on()
        self._bound()


def _is_typed(event: events.Event, focused: DOMNode | None) -> bool:
    """Tell whether all that something does is to write text into a field."""
    if not isinstance(focused, Input | TextArea):
        return False
    return isinstance(event, events.Paste) or (isinstance(event, events.Key) and writes(event))
