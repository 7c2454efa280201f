"""`stampo backup`: all saved chats and the person's shapes in one file."""

from pathlib import Path
from typing import Annotated

import typer

from app.backup import back_up
from app.commands.kept import open_store
from app.shapes import saved_shapes
from app.terminal import narrate


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to make; it must not exist.")],
) -> None:
    """Write all chats, the trash and unsent text included, and your own shapes into one file."""
    with open_store(make=any(saved.origin == "own" for saved in saved_shapes())) as store:
        saved = back_up(store, file)
    narrate(f"Wrote {file}: {saved.chats} chat(s), {saved.shapes} shape(s).")
