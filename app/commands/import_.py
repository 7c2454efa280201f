"""`stampo import`: chats from a document of the export format into the store, each as a new chat."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.kept import open_store
from app.commands.person import person_settings
from app.commands.texts import read_text
from app.exchange import ImportRefusedError, import_chats
from app.terminal import emit, narrate, refuse


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of `stampo export`; - reads standard input.")
    ],
) -> None:
    """Add the chats of an export to the saved ones; print their numbers."""
    most = person_settings().limits.import_mb * 2**20
    text = read_text(str(file), most=most)
    with open_store(make=True) as store:
        try:
            imported = import_chats(store, text, most)
        except ImportRefusedError as error:
            refuse(f"{file} cannot be imported: {error}. Nothing was added.")
    for notice in imported.notices:
        narrate(notice)
    emit("".join(f"{chat}\n" for chat in imported.chats))
    narrate(f"Imported {len(imported.chats)} chat(s) with {imported.messages} message(s).")
