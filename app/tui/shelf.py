"""Everything a person does with shapes from the main screen: picking one, the library, guards, and what comes of it.

Knows the session and the screens it opens, no widgets of the main screen but through the functions it is given. What
was written and not saved is kept here, until Stampo ends. The larger screens are imported when they are first opened,
so that the main screen appears sooner.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.app import App

from app.session import RefusedError, Session
from app.shapes import SavedShape
from app.store.values import StoreError
from app.terminal import one_line
from app.tui.screens.shape_picker import Library, Picked, ShapePicker
from grammars.spec import Guards, Whitespace

if TYPE_CHECKING:
    from app.shape_draft import Unsaved
    from app.tui.screens.results import Reveal


class Shelf:
    """Opens the screens of shapes. `say` shows a sentence, `suggest` an example message, `reveal` goes to a message."""

    def __init__(
        self,
        app: App[Any],
        session: Session,
        shapes: Callable[[], Sequence[SavedShape]],
        *,
        say: Callable[[str], None],
        suggest: Callable[[str], None],
        reveal: Callable[[int, int], None],
    ) -> None:
        self._app = app
        self._session = session
        self._shapes = shapes
        self._say = say
        self._suggest = suggest
        self._reveal = reveal
        self._drafts: dict[str, Unsaved] = {}
        self._typed: dict[str, str] = {}

    @property
    def unsaved(self) -> list[str]:
        """The shapes that were changed and not saved, in words."""
        return [f"changes of the shape {one_line(name)}" if name else "a new shape" for name in self._drafts]

    def pick(self) -> None:
        """Choose the shape of the next reply."""
        self._app.push_screen(ShapePicker(self._shapes(), self._session.chat.shape), self._take)

    def library(self, name: str = "") -> None:
        """Open the library at a shape, by default at that of the next reply."""
        from app.tui.screens.shape_library import ShapeLibrary

        shape = self._session.chat.shape
        name = name or (shape.name if shape and shape.name else "")
        library = ShapeLibrary(self._shapes, self._session.store, self._drafts, self._typed, name)
        self._app.push_screen(library, self._take)

    def replies(self) -> None:
        """Show all replies under the shape of the next reply."""
        from app.tui.screens.results import ResultsScreen

        shape = self._session.chat.shape
        if shape is None:
            self._say("There is no shape yet. Ctrl+T picks one.")
        else:
            self._app.push_screen(ResultsScreen(shape, self._session.store), self._take)

    def guards(self) -> None:
        """Change the guards and the white space of the next reply's shape; the saved shape stays as it is."""
        from app.tui.screens.shape_dialogs import GuardsDialog

        shape = self._session.chat.shape
        if shape is None:
            self._say("There is no shape yet. Ctrl+T picks one.")
        elif shape.kind in ("regex", "choice"):
            self._say("Guards and white space are for JSON; this shape needs none.")
        else:
            self._app.push_screen(GuardsDialog(shape.whitespace, shape.guards), self._take_guards)

    def _take_guards(self, chosen: tuple[Whitespace, Guards] | None) -> None:
        shape = self._session.chat.shape
        if chosen is not None and shape is not None:
            self._try(lambda: self._session.set_shape(replace(shape, whitespace=chosen[0], guards=chosen[1])))

    def _take(self, chosen: "Picked | Library | Reveal | None") -> None:
        if isinstance(chosen, Library):
            self.library(chosen.name)
        elif isinstance(chosen, Picked):
            self._try(lambda: self._session.set_shape(chosen.shape))
            self._suggest(chosen.example)
        elif chosen is not None:
            self._reveal(chosen.chat, chosen.message)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (RefusedError, StoreError) as error:
            self._say(str(error))
