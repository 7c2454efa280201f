"""Everything a person does with whole chats from the main screen: names, pins, trash, search, files in and out.

Knows what keeps the chats and the screens it opens, no widgets of the main screen.
"""

from collections.abc import Callable
from typing import Any

from textual.app import App

from app.keeping import Keeping
from app.session import RefusedError, Session
from app.store.values import Hit, StoreError
from app.tui.screens.attach import PathDialog
from app.tui.screens.search import SearchScreen
from app.tui.screens.shape_dialogs import NameDialog
from app.tui.screens.trash import TrashScreen


class ChatDesk:
    """`say` shows a sentence, `reveal` goes to a chat, and there to a message, `opened` hears of another open chat that
    the person goes on with.

    Whoever put the open chat into the trash stays in the list, where the key is that takes it out again.
    `import_bytes` is the length of the longest file to import.
    """

    def __init__(
        self,
        app: App[Any],
        session: Session,
        *,
        say: Callable[[str], None],
        reveal: Callable[[int, int | None], None],
        opened: Callable[[], None],
        import_bytes: Callable[[], int],
    ) -> None:
        self.keeping = Keeping(session)
        self._app = app
        self._session = session
        self._say = say
        self._reveal = reveal
        self._opened = opened
        self._import_bytes = import_bytes

    def do(self, what: str, chat: int) -> None:
        """Do something with a chat of the list: the last part of a binding's id."""
        if what == "rename":
            self.rename(chat)
        elif what == "undo":
            self._try(self._session.undo, "Taken out of the trash.")
        elif what == "trash":
            self._try(
                lambda: self.keeping.trash(chat), "Put into the trash; U takes it out again, /trash shows it."
            )
        elif what == "export":
            self.export(lambda: self.keeping.export(chat_id=chat))
        elif what == "pin":
            self._try(lambda: self._pin(chat))

    def _pin(self, chat: int) -> None:
        self.keeping.pin(chat)
        pinned = self._session.store.chat(chat).pinned
        self._say("Pinned: it stays at the top." if pinned else "No longer pinned.")

    def rename(self, chat: int) -> None:
        """Ask for another title."""
        self._try(
            lambda: self._app.push_screen(
                NameDialog(
                    "Title of the chat",
                    self.keeping.chat_title(chat),
                    lambda name: self._try(lambda: self.keeping.rename(chat, name)),
                )
            )
        )

    def search(self, text: str = "") -> None:
        """Find a text in all chats."""
        self._app.push_screen(SearchScreen(self.keeping.search, text), self._found)

    def trash(self) -> None:
        """Look at the trash."""
        before = self._session.chat.id
        self._app.push_screen(
            TrashScreen(self.keeping), lambda _: self._opened() if self._session.chat.id != before else None
        )

    def export(self, write: Callable[[], object]) -> None:
        """Write chats to a file and say where it is."""
        try:
            self._say(f"Written to {write()}")
        except (RefusedError, StoreError) as error:
            self._say(str(error))
        except OSError as error:
            self._say(f"The file could not be written: {error}")

    def import_(self, path: str = "") -> None:
        """Add the chats of a file; without a path it is asked for."""
        self._app.push_screen(PathDialog("Import the chats of an export file", self._import, path))

    async def _import(self, path: str) -> None:
        imported = await self.keeping.import_file(path, self._import_bytes())
        count = len(imported.chats)
        words = f"Imported {count} chat{'' if count == 1 else 's'} with {imported.messages} message"
        self._say(" ".join([f"{words}{'' if imported.messages == 1 else 's'}.", *imported.notices]))

    def _found(self, hit: Hit | None) -> None:
        if hit is not None:
            self._reveal(hit.chat_id, hit.message_id)

    def _try(self, act: Callable[[], object], done: str = "") -> bool:
        try:
            act()
        except (RefusedError, StoreError) as error:
            self._say(str(error))
            return False
        if done:
            self._say(done)
        return True
