"""`stampo chats`: what is in the store, and putting it in order. Standard output is data, one chat a line."""

from typing import Annotated

import typer

from app.commands.kept import find_chat, open_store, store_is_there
from app.commands.texts import text_of
from app.paths import PathError
from app.terminal import emit, narrate, one_line, refuse

app = typer.Typer(help="Look at saved chats and put them in order.", no_args_is_help=True)

ChatArgument = Annotated[str, typer.Argument(metavar="CHAT", help="Its number, or how its title begins.")]


@app.callback()
def chats() -> None:
    """Look at saved chats and put them in order."""


@app.command("list")
def list_chats(
    trash: Annotated[bool, typer.Option("--trash", help="List the chats in the trash instead.")] = False,
) -> None:
    """Print number, last change, number of messages and title of every chat."""
    found = []
    try:
        there = store_is_there()
    except PathError as error:
        refuse(str(error))
    if there:
        with open_store() as store:
            found = store.chats(trashed=trash)
    if not found:
        narrate("The trash is empty." if trash else "There are no saved chats.")
    for chat in found:
        changed = chat.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
        emit(f"{chat.id:>5}  {changed}  {chat.messages:>5}  {one_line(chat.title) or '(no title)'}\n")


@app.command("trash")
def trash_chat(chat: ChatArgument) -> None:
    """Put a chat into the trash."""
    with open_store() as store:
        number = find_chat(store, chat)
        store.trash_chat(number)
    narrate(f"Chat {number} is in the trash; `stampo chats restore {number}` takes it out.")


@app.command("restore")
def restore_chat(chat: ChatArgument) -> None:
    """Take a chat out of the trash."""
    with open_store() as store:
        number = find_chat(store, chat, trashed=True)
        store.restore_chat(number)
    narrate(f"Chat {number} is out of the trash.")


@app.command("rename")
def rename_chat(chat: ChatArgument, title: Annotated[str, typer.Argument(help="The new title.")]) -> None:
    """Give a chat another title."""
    with open_store() as store:
        number = find_chat(store, chat)
        store.rename_chat(number, " ".join(text_of(title, "TITLE").split()))
    narrate(f"Chat {number} is renamed.")


@app.command("pin")
def pin_chat(
    chat: ChatArgument,
    off: Annotated[bool, typer.Option("--off", help="Let it go again.")] = False,
) -> None:
    """Keep a chat at the top of the list."""
    with open_store() as store:
        number = find_chat(store, chat)
        store.set_pinned(number, not off)
    narrate(f"Chat {number} is no longer pinned." if off else f"Chat {number} is pinned.")
