"""What the commands over the store share: opening it, and finding a chat by what a person types."""

from collections.abc import Iterator
from contextlib import contextmanager

from app import paths
from app.store import Store, StoreError
from app.terminal import one_line, refuse


@contextmanager
def open_store() -> Iterator[Store]:
    """Open the person's store; what goes wrong with it inside ends the command with a sentence."""
    try:
        with Store(paths.store_path()) as store:
            yield store
    except (StoreError, paths.PathError) as error:
        refuse(str(error))


def find_chat(store: Store, text: str) -> int:
    """Return the chat with this number, or the only one whose title begins so; ends the command otherwise."""
    chats = store.chats()
    found = [chat for chat in chats if str(chat.id) == text]
    found = found or [chat for chat in chats if chat.title == text]
    found = found or [chat for chat in chats if chat.title.casefold().startswith(text.casefold())]
    if not found or not text:
        refuse(f"There is no chat {one_line(text)!r}. `stampo chats list` shows what there is.")
    if len(found) > 1:
        some = ", ".join(f"{chat.id} ({one_line(chat.title)})" for chat in found[:5])
        refuse(f"{len(found)} chats begin with {one_line(text)!r}: {some}. Give the number.")
    return found[0].id
