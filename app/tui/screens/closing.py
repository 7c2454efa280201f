"""What all screens have in common: each closes once, with what is in front of it, and says what would be lost.

Textual takes away whatever screen is in front, also when one that is closed already is closed again: by a second
click, a key that was pressed twice, or work that came to its end after Escape. That may be the main screen.
"""

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

Result = TypeVar("Result")


class OwnScreen(Screen[Result]):
    """A screen that fills the terminal."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close this screen and what is in front of it, such as the help; nothing if it is closed."""
        if self not in self.app.screen_stack:
            return AwaitComplete.nothing()
        while self.app.screen is not self:
            self.app.pop_screen()
        return super().dismiss(result)

    def keep_all(self) -> list[str]:
        """Keep what can be kept; return what would be lost if the program ended now."""
        return []


class Dialog(ModalScreen[Result], OwnScreen[Result]):
    """A screen over another one, which stays in sight."""
