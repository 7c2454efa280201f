"""`stampo chats`: what is in the store. Standard output is data, one chat a line."""

from typing import Annotated

import typer

from app.commands.kept import open_store
from app.terminal import emit, narrate, one_line

app = typer.Typer(help="Look at saved chats.", no_args_is_help=True)


@app.callback()
def chats() -> None:
    """Look at saved chats."""


@app.command("list")
def list_chats(
    trash: Annotated[bool, typer.Option("--trash", help="List the chats in the trash instead.")] = False,
) -> None:
    """Print number, last change, number of messages and title of every chat."""
    with open_store() as store:
        found = store.chats(trashed=trash)
    if not found:
        narrate("The trash is empty." if trash else "There are no saved chats.")
    for chat in found:
        changed = chat.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
        emit(f"{chat.id:>5}  {changed}  {chat.messages:>5}  {one_line(chat.title) or '(no title)'}\n")
