"""`stampo presets`: the shapes that can be picked by name. Standard output is data."""

from typing import Annotated

import typer

from app.commands.texts import read_text
from app.paths import PathError
from app.shapes import SavedShape, add_shape, remove_shape, saved_shape, saved_shapes
from app.terminal import emit, json_text, narrate, one_line, refuse
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
        emit(f"{shape.name:<16}  {kind:<11}  {shape.origin:<7}  {one_line(text)}\n")


@app.command()
def show(name: Name) -> None:
    """Print a shape's file as JSON."""
    shape = _usable(name)
    assert shape.preset is not None
    emit(json_text(shape.preset.model_dump(mode="json", exclude_unset=True)) + "\n")


@app.command()
def add(
    name: Name,
    file: Annotated[str, typer.Argument(metavar="@FILE", help="In the preset format, or a JSON Schema.")],
    force: Annotated[bool, typer.Option("--force", help="Replace your shape of this name.")] = False,
) -> None:
    """Save a shape of your own under a name."""
    shadows = any(shape.name == name and shape.origin == "shipped" for shape in saved_shapes())
    try:
        preset = add_shape(name, read_text(file.removeprefix("@")), replace=force)
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
