"""The footer: the keys of the main screen, fewer of them where there is little room.

Knows no actions but the names of those that a narrow screen keeps.
"""

from textual.app import ComposeResult
from textual.widgets import Footer

_KEPT = ("pick_shape", "stop", "help", "app.quit")


class KeysLine(Footer):
    """Keys and what they do; the style sheet hides those of class `more` on a narrow screen."""

    def __init__(self, **options: str) -> None:
        super().__init__(compact=True, show_command_palette=False, **options)

    def compose(self) -> ComposeResult:
        """Mark the keys that can be left out."""
        for part in super().compose():
            if getattr(part, "action", None) not in _KEPT:
                part.add_class("more")
            yield part
