"""`stampo presets`: the shapes that can be picked by name, and every way to make one. Standard output is data."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from app.commands.options import ChoiceOption, JsonSchemaOption, LarkOption, RegexOption
from app.commands.texts import read_text, text_of, text_or_file
from app.paths import PathError
from app.shapes import (
    SavedShape,
    Version,
    add_shape,
    copy_shape,
    remove_shape,
    rename_shape,
    restore_version,
    saved_shape,
    saved_shapes,
    shape_text,
    versions,
)
from app.terminal import emit, json_text, narrate, one_line, refuse
from grammars.describe import describe
from grammars.example import empty_places, from_example
from grammars.presets import Preset, parse_preset
from grammars.pydantic_class import from_class
from grammars.shorthand import from_shorthand
from grammars.spec import ShapeError, Whitespace

app = typer.Typer(help="Look at saved shapes; add, change and remove your own.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME")]
NewName = Annotated[str, typer.Argument(metavar="NEW")]


@app.command("list")
def list_presets() -> None:
    """Print name, kind, origin and title of every shape, one a line."""
    for shape in saved_shapes():
        emit(f"{shape.name:<16}  {_kind(shape.preset):<11}  {shape.origin:<7}  {_title(shape)}\n")


@app.command()
def show(name: Name) -> None:
    """Print a shape's file as JSON."""
    with _refusals():
        shape = saved_shape(name)
    if shape.preset is None:
        refuse(f"The file of {name} cannot be used: {shape.fault}")
    emit(json_text(shape.preset.model_dump(mode="json", exclude_unset=True)) + "\n")


@app.command()
def add(
    name: Name,
    file: Annotated[
        str | None, typer.Argument(metavar="@FILE", help="In the preset format, or a JSON Schema.")
    ] = None,
    shorthand: Annotated[
        str | None,
        typer.Option(
            "--shorthand",
            metavar="TEXT|@FILE",
            help="Members of an object, as in: name, age int: in years, tags \\[str], mood calm|tense",
        ),
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(
            "--example",
            metavar="JSON|@FILE",
            help="An example reply, or several as JSON Lines, to infer from.",
        ),
    ] = None,
    pydantic: Annotated[
        str | None,
        typer.Option(
            "--pydantic",
            metavar="MODULE:CLASS",
            help="A Pydantic model, dataclass or TypedDict; also file.py:Class. This runs the module.",
        ),
    ] = None,
    json_schema: JsonSchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    choice: ChoiceOption = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="One line for lists.")] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What the shape is for.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TEXT", help="Repeat for more.")] = None,
    whitespace: Annotated[
        Whitespace | None, typer.Option("--whitespace", help="Between JSON tokens; compact by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace your shape of this name.")] = False,
    show: Annotated[
        bool, typer.Option("--show", "--dry-run", help="Print the shape's file and save nothing.")
    ] = False,
) -> None:
    """Save a shape of your own under a name. Give it in exactly one way."""
    ways = {
        "@FILE": file,
        "--shorthand": shorthand,
        "--example": example,
        "--pydantic": pydantic,
        "--json-schema": json_schema,
        "--regex": regex,
        "--lark": lark,
        "--choice": choice or None,
    }
    given = [(way, value) for way, value in ways.items() if value is not None]
    if len(given) != 1:
        found = f"there are {' and '.join(way for way, _ in given)}" if given else "there is none"
        refuse(f"Give the shape in exactly one way, {', '.join(ways)}; {found}.")
    way, value = given[0]
    for option, text in (
        ("--title", title),
        ("--description", description),
        *(("--tag", text) for text in tag or ()),
    ):
        text_of(text or "", option)
    with _refusals("" if way == "@FILE" else f"{way}: "):
        body = _body(name, way, value)
    with _refusals("The shape cannot be used: "):
        content = shape_text(
            name, body, title=title, description=description, tags=tag or (), whitespace=whitespace
        )
        preset = parse_preset(content, name)
    if show:
        emit(json_text(json.loads(content)) + "\n")
    else:
        instead = _instead(name)
        with _refusals(saving=name):
            add_shape(name, content, replace=force)
        narrate(f"Saved {name} ({_kind(preset)}){instead}.")
    if way in ("--shorthand", "--example", "--pydantic"):
        _tell(preset)


@app.command()
def rename(old: Annotated[str, typer.Argument(metavar="OLD")], new: NewName) -> None:
    """Give a shape of your own another name; its earlier versions go with it."""
    instead = _instead(new)
    with _refusals(saving=new):
        rename_shape(old, new)
    narrate(f"Renamed {old} to {new}{instead}.")


@app.command()
def copy(old: Annotated[str, typer.Argument(metavar="OLD")], new: NewName) -> None:
    """Save a shape under a second name, such as a shipped one to change."""
    instead = _instead(new)
    with _refusals(saving=new):
        copy_shape(old, new)
    narrate(f"Copied {old} to {new}{instead}.")


@app.command()
def remove(name: Name) -> None:
    """Remove a shape of your own; the line it prints brings it back."""
    with _refusals():
        kept = remove_shape(name)
    narrate(f"Removed {name}; `stampo presets restore {name} {kept}` brings it back.")


@app.command()
def history(name: Name) -> None:
    """Print hash, time, kind and title of what a shape of yours is and was, the latest first."""
    with _refusals():
        found = versions(name)
    for version in found:
        when = "current" if version.current else f"until {version.saved.astimezone():%Y-%m-%d %H:%M}"
        emit(f"{version.hash}  {when:<22}  {_kind(version.preset):<11}  {_title(version)}\n")


@app.command()
def restore(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="HASH", help="From `history`, or its beginning.")],
) -> None:
    """Make an earlier version of a shape the current one; what is current now is kept."""
    with _refusals():
        preset = restore_version(name, version)
    narrate(f"Restored {name} ({_kind(preset)}).")


def _body(name: str, way: str, value: str | list[str]) -> str:
    """Return a shape's file or schema from what one of the ways in was given. Raises `ShapeError`."""
    if isinstance(value, list):
        return json.dumps({"title": name, "choices": [text_of(text, way) for text in value]})
    if way == "@FILE":
        return read_text(value.removeprefix("@"))
    if way == "--pydantic":
        return from_class(text_of(value, way), None)
    text = text_or_file(value, way)
    if way == "--shorthand":
        return from_shorthand(text)
    if way == "--example":
        if places := empty_places(text):
            narrate(f"The example shows nothing inside {', '.join(places)}; anything fits there.")
        return from_example(text)
    if way == "--json-schema":
        return text
    return json.dumps({"title": name, way.removeprefix("--"): text})


@contextmanager
def _refusals(before: str = "", *, saving: str = "") -> Iterator[None]:
    """End the command with a sentence where a shape cannot be used or `saving` it would replace one unasked."""
    try:
        yield
    except FileExistsError:
        refuse(
            f"You have a shape named {saving}; `presets add --force` replaces it and keeps what it was, "
            "and `presets remove` makes room."
        )
    except (ShapeError, PathError) as error:
        text = f"{before}{error}"
        refuse(text if text.endswith((".", "?")) else f"{text}.")


def _instead(name: str) -> str:
    """Say what a shape that is saved under this name takes the place of."""
    origins = [shape.origin for shape in saved_shapes() if shape.name == name]
    if not origins:
        return ""
    return ", in place of the shipped one" if "shipped" in origins else ", and kept what it was as a version"


def _tell(preset: Preset) -> None:
    text = " ".join(describe(preset.spec()).split("\n"))
    narrate(f"A model is told: {text if len(text) <= 1_000 else text[:999] + '…'}")


def _kind(preset: Preset | None) -> str:
    return preset.spec().kind if preset else "-"


def _title(shape: SavedShape | Version) -> str:
    return one_line(shape.preset.title if shape.preset else f"cannot be used: {shape.fault}")
