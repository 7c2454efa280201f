"""`stampo restore`: the chats and shapes of a backup in place of the present ones, which are kept."""

from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.backup import restore_backup
from app.store import StoreError
from app.terminal import narrate, refuse


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of `stampo backup`, or a copy of a store.")
    ],
) -> None:
    """Put a backup in place of the saved chats; those are kept under another name."""
    try:
        restored = restore_backup(file)
    except (StoreError, paths.PathError) as error:
        refuse(str(error))
    for kept in restored.kept:
        narrate(f"What was there before is kept as {kept}.")
    narrate(f"Restored {restored.chats} chat(s), {restored.shapes} shape(s).")
