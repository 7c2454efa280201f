"""The columns of the main screen: a side left, a side right, and the middle that is always there or makes way.

Knows widths and which sides are shown, not what they show. What the person shows or hides is meant for the width it was
done at; at another width the style sheet decides again.
"""

from textual.containers import Horizontal

SIDES = ("chats", "panel")


class Columns(Horizontal):
    """Shows and hides sides by classes on the screen, which the style sheet reads."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._width = ""

    def show_side(self, name: str) -> None:
        """Show a side; the other gives way where there is no room for both."""
        self._set(name, True)
        if not self.screen.has_class("-wide"):
            for other in SIDES:
                if other != name:
                    self._set(other, False)

    def hide_side(self, name: str) -> None:
        """Hide a side."""
        self._set(name, False)

    def fold(self) -> None:
        """Give the whole width back to the middle where there is little of it."""
        if not self.screen.has_class("-wide"):
            self._set("chats", False)
            if self.screen.has_class("-narrow"):
                self._set("panel", False)

    def uncover(self) -> None:
        """Show the middle where a side stands in its place."""
        if self.screen.has_class("-narrow"):
            for name in SIDES:
                self._set(name, False)

    def fit(self) -> bool:
        """Let go of what was shown or hidden at another width; tell whether there was another one."""
        names = (name for _, name in self.app.HORIZONTAL_BREAKPOINTS)
        width = next((name for name in names if self.screen.has_class(name)), "")
        if width == self._width:
            return False
        first, self._width = not self._width, width
        if first:
            return False
        for name in SIDES:
            self.screen.remove_class(f"-with-{name}", f"-without-{name}")
        return True

    def _set(self, name: str, show: bool) -> None:
        self.screen.set_class(show, f"-with-{name}")
        self.screen.set_class(not show, f"-without-{name}")
