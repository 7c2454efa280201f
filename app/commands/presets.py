"""`stampo presets`: the shapes that can be picked by name. Standard output is data."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.paths import PathError
from app.shapes import SavedShape, add_shape, remove_shape, saved_shape, saved_shapes
from app.terminal import json_text, narrate, one_line, refuse
from grammars.compile import MAX_TEXT
from grammars.spec import ShapeError

app = typer.Typer(help="Look at saved shapes, add and remove your own.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@app.command("list")
def list_presets() -> None:
    """Print name, kind, origin and title of every shape, one a line."""
    for shape in saved_shapes():
        if shape.preset:
            kind, text = shape.preset.spec().kind, shape.preset.title
        else:
            kind, text = "-", f"cannot be used: {shape.fault}"
        print(f"{shape.name:<16}  {kind:<11}  {shape.origin:<7}  {one_line(text)}")


@app.command()
def show(name: Name) -> None:
    """Print a shape's file as JSON."""
    shape = _usable(name)
    assert shape.preset is not None
    print(json_text(shape.preset.model_dump(mode="json", exclude_unset=True)))


@app.command()
def add(
    name: Name,
    file: Annotated[str, typer.Argument(metavar="@FILE", help="In the preset format, or a JSON Schema.")],
    force: Annotated[bool, typer.Option("--force", help="Replace your shape of this name.")] = False,
) -> None:
    """Save a shape of your own under a name."""
    shadows = any(shape.name == name and shape.origin == "shipped" for shape in saved_shapes())
    try:
        preset = add_shape(name, _read(file), replace=force)
    except ShapeError as error:
        refuse(f"The shape cannot be used: {error}.")
    except FileExistsError:
        refuse(f"You have a shape named {name}; --force replaces it.")
    except PathError as error:
        refuse(str(error))
    narrate(
        f"Saved {preset.name} ({preset.spec().kind}){', in place of the shipped one' if shadows else ''}."
    )


@app.command()
def remove(name: Name) -> None:
    """Remove a shape of your own."""
    try:
        remove_shape(name)
    except (ShapeError, PathError) as error:
        refuse(f"{error}")
    narrate(f"Removed {name}.")


def _usable(name: str) -> SavedShape:
    try:
        shape = saved_shape(name)
    except ShapeError as error:
        refuse(f"{error}")
    if shape.preset is None:
        refuse(f"The file of {name} cannot be used: {shape.fault}")
    return shape


def _read(argument: str) -> str:
    """Return what an argument names: a file, with or without `@`, or `-` for standard input."""
    name = argument.removeprefix("@")
    try:
        if name == "-":
            data = sys.stdin.buffer.read(4 * MAX_TEXT + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(4 * MAX_TEXT + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        refuse(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")
    if len(data) > 4 * MAX_TEXT:
        refuse(f"{name} is too large for a shape.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(f"{name} is not UTF-8 text: byte {error.start} cannot be read.")
