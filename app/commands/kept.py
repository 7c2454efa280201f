"""What the commands over the store share: opening it, and finding a chat by what a person types."""

from collections.abc import Iterator
from contextlib import contextmanager

from app import paths
from app.store import Store, StoreError
from app.store.files import store_exists
from app.terminal import narrate, one_line, refuse


@contextmanager
def open_store(*, make: bool = False) -> Iterator[Store]:
    """Open the person's store; what goes wrong with it inside ends the command with a sentence.

    A store that is not there is made only if `make` is true; otherwise that ends the command, too.
    """
    try:
        if not (make or store_is_there()):
            refuse("There are no saved chats.")
        with Store(paths.store_path()) as store:
            if store.notice:
                narrate(store.notice)
            yield store
    except (StoreError, paths.PathError) as error:
        refuse(str(error))


def store_is_there() -> bool:
    """Tell whether there is a store to open, or something in its place to complain of; makes nothing.

    Raises `PathError`.
    """
    place = paths.store_place()
    try:
        return store_exists(place) or (place.parent.exists() and not place.parent.is_dir())
    except OSError as error:  # a name that is too long
        raise paths.PathError(f"{place} cannot be looked at: {error.strerror}.") from error


def find_chat(store: Store, text: str, *, trashed: bool = False) -> int:
    """Return the chat with this number, or the only one whose title begins so; ends the command otherwise."""
    chats = store.chats(trashed=trashed)
    found = [chat for chat in chats if str(chat.id) == text]
    found = found or [chat for chat in chats if chat.title == text]
    found = found or [chat for chat in chats if chat.title.casefold().startswith(text.casefold())]
    if not found or not text:
        where, option = (" in the trash", " --trash") if trashed else ("", "")
        refuse(
            f"There is no chat {one_line(text)!r}{where}. `stampo chats list{option}` shows what there is."
        )
    if len(found) > 1:
        some = ", ".join(f"{chat.id} ({one_line(chat.title)})" for chat in found[:5])
        refuse(f"{len(found)} chats begin with {one_line(text)!r}: {some}. Give the number.")
    return found[0].id
