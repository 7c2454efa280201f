"""`stampo export`: chats as a document of the export format, on standard output or in a file."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.kept import find_chat, open_store
from app.exchange import dumps, export_chat, export_chats
from app.paths import PathError, write_private
from app.terminal import emit, narrate, refuse


def export(
    chat: Annotated[
        str | None, typer.Argument(metavar="CHAT", help="Its number, or how its title begins.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Write all chats into one document.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Add each reply's tokens.")] = False,
) -> None:
    """Write a chat, or all of them, as JSON; the trash and unsent text stay here."""
    if (chat is None) != every:
        refuse("Name one chat, or give --all.")
    with open_store() as store:
        if chat is None:
            document = export_chats(store, sorted(summary.id for summary in store.chats()), trace=trace)
        else:
            document = export_chat(store, find_chat(store, chat), trace=trace)
    text = dumps(document)
    if output is None:
        emit(text)
        return
    try:
        write_private(output, text.encode(), replace=force)
    except FileExistsError:
        refuse(f"{output} exists; --force replaces it.")
    except PathError as error:
        refuse(str(error))
    narrate(f"Wrote {output}.")
