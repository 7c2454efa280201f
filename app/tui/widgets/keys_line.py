"""The last row: keys that act now, as many as fit whole. A click on one presses it.

Knows no actions but the names of those that come first where there is little room. One widget, drawn anew when the keys
in force change: Textual's own footer is a widget a key, which costs a fifth of a second at every change of focus.
"""

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen

from app.tui.widgets.line import Line

_FIRST = ("pick_shape", "stop", "help", "app.quit")
_NARROW = 72  # columns; below, only the first ones of the main screen are shown


class KeysLine(Line):
    """Keys and what they do."""

    DEFAULT_CSS = "KeysLine { dock: bottom; height: 1; text-wrap: nowrap; }"

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._places: list[tuple[int, int, str]] = []  # first column, the one behind the last, key

    def on_mount(self) -> None:
        """Follow the keys that are in force."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)
        self.call_after_refresh(self._draw)

    def on_unmount(self) -> None:
        """Follow no more."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def on_resize(self) -> None:
        """Show as many as fit."""
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        for start, end, key in self._places:
            if start <= event.get_content_offset_capture(self).x < end:
                self.app.simulate_key(key)

    def _follow(self, screen: Screen) -> None:
        if screen is self.screen:
            self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if not self.is_attached:
            return
        width, parts, at = self.content_size.width, [], 0
        self._places = []
        for binding in self._bindings_shown():
            name, words = self.app.get_key_display(binding), binding.description
            size = Content(f"{name} {words}").cell_length
            if at + size > width:
                break
            parts += [(name, "bold $accent"), f" {words}", "  "]
            self._places.append((at, at + size, binding.key))
            at += size + 2
        self.put(Content.assemble(*parts[:-1]))

    def _bindings_shown(self) -> list[Binding]:
        shown: dict[str, Binding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show and active.enabled:
                shown.setdefault(active.binding.action, active.binding)
        first = [shown[action] for action in _FIRST if action in shown]
        if first and self.content_size.width < _NARROW:
            return first
        return list(shown.values())
