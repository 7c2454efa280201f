"""The shapes a person can pick by name: those shipped with Stampo, and their own as files in the same format.

Knows no store and no engine. Invariants: a name never leads out of the shapes folder; a person's own shape
wins over a shipped one of the same name; nothing is written that does not compile, and no file is replaced
unasked. One broken file never hides the others: it is listed with its fault.
"""

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.paths import PathError, shapes_dir, write_private
from grammars.compile import MAX_TEXT, compile_grammar
from grammars.presets import Preset, parse_preset, presets
from grammars.schema import read_json
from grammars.spec import GrammarSpec, ShapeError

Origin = Literal["shipped", "own"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BODIES = {"json_schema", "regex", "lark", "choices"}
# The keywords of JSON Schema 2020-12 and older drafts that say anything about a value: without one of them an
# object is no schema but something else, which would be taken for one that allows everything.
_KEYWORDS = (
    "$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if dependentSchemas dependentRequired dependencies "
    "type enum const properties patternProperties additionalProperties propertyNames required minProperties "
    "maxProperties unevaluatedProperties items prefixItems additionalItems contains minItems maxItems "
    "uniqueItems unevaluatedItems minLength maxLength pattern format minimum maximum exclusiveMinimum "
    "exclusiveMaximum multipleOf"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedShape:
    """A shape under its name. `preset` is None if the file cannot be used, and `fault` says why."""

    name: str
    origin: Origin
    preset: Preset | None
    fault: str | None = None


def saved_shapes() -> list[SavedShape]:
    """Return every shape by name, in alphabetical order."""
    found = {
        name: SavedShape(name=name, origin="shipped", preset=preset) for name, preset in presets().items()
    }
    folder = _folder()
    for file in folder.glob("*.json") if folder else ():
        if _NAME.fullmatch(file.stem):
            found[file.stem] = _own(file)
    return [found[name] for name in sorted(found)]


def saved_shape(name: str) -> SavedShape:
    """Return the shape of a name, usable or not. Raises `ShapeError` if there is none."""
    folder = _folder()
    if folder and _NAME.fullmatch(name) and (file := folder / f"{name}.json").exists():
        return _own(file)
    if name in presets():
        return SavedShape(name=name, origin="shipped", preset=presets()[name])
    near = difflib.get_close_matches(name[:64].lower(), [shape.name for shape in saved_shapes()], n=1)
    hint = f"did you mean {near[0]}?" if near else "`stampo presets list` shows what there is"
    raise ShapeError(f"there is no shape named {name!r}; {hint}")


def load_shape(name: str) -> GrammarSpec:
    """Return the shape of a name. Raises `ShapeError` if there is none or its file cannot be used."""
    shape = saved_shape(name)
    if shape.preset is None:
        raise ShapeError(f"the file of {name} cannot be used: {shape.fault}")
    return shape.preset.spec()


def add_shape(name: str, text: str, *, replace: bool = False) -> Preset:
    """Save a shape under a name; `text` is in the format of grammars/presets, or a JSON Schema alone.

    Raises `ShapeError` if the name or the shape cannot be used, `FileExistsError` if the person has a shape
    of this name and `replace` is false, `PathError` if the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise ShapeError(
            f"{name!r} is no name for a shape: use up to 64 small letters, digits, hyphens and underscores, "
            "and begin with a letter or digit"
        )
    content, preset = _as_preset(name, text)
    compile_grammar(preset.spec())
    write_private(_file(name), content.encode(), replace=replace)
    return preset


def remove_shape(name: str) -> None:
    """Remove a shape of the person's own. Raises `ShapeError` if it is none, `PathError` if it stays."""
    shape = saved_shape(name)
    if shape.origin == "shipped":
        raise ShapeError(
            f"{name} comes with Stampo and stays; a shape of your own with this name replaces it"
        )
    try:
        _file(name).unlink()
    except OSError as error:
        raise PathError(f"{_file(name)} cannot be removed: {error.strerror}.") from error


def _as_preset(name: str, text: str) -> tuple[str, Preset]:
    value = read_json(text)
    if isinstance(value, dict) and not _BODIES.isdisjoint(value):
        value = {"name": name} | value | {"name": name}
    elif isinstance(value, dict) and set(value).isdisjoint(_KEYWORDS.split()):
        raise ShapeError(
            "this is no shape: it has no keyword of JSON Schema that says anything about a reply, and none of "
            f"the keys {', '.join(sorted(_BODIES))} that a named shape needs",
            "$",
        )
    else:
        title = value.get("title") if isinstance(value, dict) else None
        value = {
            "name": name,
            "title": title if isinstance(title, str) and title else name,
            "json_schema": value,
        }
    content = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    return content, parse_preset(content, name)


def _own(file: Path) -> SavedShape:
    name = file.stem
    try:
        if file.stat().st_size > 4 * MAX_TEXT:
            raise ShapeError("the file is too large for a shape")
        preset = parse_preset(file.read_text(encoding="utf-8"), name)
    except (ShapeError, OSError, UnicodeDecodeError) as error:
        return SavedShape(name=name, origin="own", preset=None, fault=str(error))
    return SavedShape(name=name, origin="own", preset=preset)


def _file(name: str) -> Path:
    return shapes_dir() / f"{name}.json"


def _folder() -> Path | None:
    try:
        return shapes_dir()
    except (
        PathError
    ):  # it is not there and cannot be made, so it holds no shapes; the shipped ones still serve
        return None
