"""The shapes a person can pick by name: those shipped with Stampo, and their own as files in the same format.

Knows no store and no engine. What a person's shape was before it was replaced or removed is kept beside it,
as `versions/NAME/HASH.json`. Invariants: a name never leads out of the shapes folder; a person's own shape
wins over a shipped one of the same name; nothing is written that does not compile, no file is replaced
unasked, and none goes without a version of it being kept, whoever else changes shapes at the same time; looking
makes no folder. One broken file never hides the others: it is listed with its fault.
"""

import difflib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from app.locks import locked
from app.paths import (
    PathError,
    make_private,
    shapes_dir,
    shapes_lock,
    shapes_place,
    versions_dir,
    write_private,
)
from grammars.compile import MAX_TEXT, compile_grammar
from grammars.presets import Preset, parse_preset, presets
from grammars.schema import read_json
from grammars.spec import GrammarSpec, ShapeError, Whitespace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What a person's shape is or was. `hash` tells contents apart, whatever their layout and name.

    `saved` is when it was saved if it is the `current` one, else when it was replaced or removed. `preset` is
    None if the file cannot be used, and `fault` says why.
    """

    hash: str
    saved: datetime
    current: bool
    path: Path
    preset: Preset | None
    fault: str | None = None


def saved_shapes() -> list[SavedShape]:
    """Return every shape by name, in alphabetical order."""
    found = {
        name: SavedShape(name=name, origin="shipped", preset=preset) for name, preset in presets().items()
    }
    found |= {file.stem: _own(file) for file in _own_files()}
    return [found[name] for name in sorted(found)]


def saved_shape(name: str) -> SavedShape:
    """Return the shape of a name, usable or not. Raises `ShapeError` if there is none."""
    own = next((file for file in _own_files() if file.stem == name), None)
    if own is not None:
        return _own(own)
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


def shape_text(
    name: str,
    text: str,
    *,
    title: str | None = None,
    description: str | None = None,
    tags: Sequence[str] = (),
    whitespace: Whitespace | None = None,
) -> str:
    """Return the file of a shape, which is known to compile, without saving it.

    `text` is in the format of grammars/presets, or a JSON Schema alone; what else is given takes the place of
    what it says. Raises `ShapeError` if the name or the shape cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ShapeError(
            f"{name!r} is no name for a shape: use up to 64 small letters, digits, hyphens and underscores, "
            "and begin with a letter or digit"
        )
    value = _as_preset(name, text)
    told = {"title": title, "description": description, "tags": list(tags), "whitespace": whitespace}
    value |= {key: given for key, given in told.items() if given}
    content = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    compile_grammar(parse_preset(content, name).spec())
    return content


def add_shape(name: str, text: str, *, replace: bool = False) -> Preset:
    """Save a shape under a name; `text` is in the format of grammars/presets, or a JSON Schema alone.

    What was there is kept as a version. Raises `ShapeError` if the name or the shape cannot be used,
    `FileExistsError` if the person has a shape of this name and `replace` is false, `PathError` if the file
    cannot be written.
    """
    content = shape_text(name, text)
    with _alone():
        _save(name, content, replace=replace)
    return parse_preset(content, name)


def copy_shape(old: str, new: str) -> Preset:
    """Save a shape, shipped or the person's own, under a second name.

    Raises `ShapeError` if there is none or it cannot be used, `FileExistsError` if the person has a shape of the
    new name, `PathError` if the file cannot be written.
    """
    content = _copied(old, new)
    with _alone():
        _save(new, content)
    return parse_preset(content, new)


def rename_shape(old: str, new: str) -> Preset:
    """Give a shape of the person's own another name; its versions go with it. Raises as `copy_shape`."""
    with _alone():
        _own_shape(old, "a copy of it can have any name")
        content = _copied(old, new)
        _save(new, content)
        try:
            for version in _kept(old):
                _write_version(new, version.path.read_bytes(), version.saved)
            _file(old).unlink()
            shutil.rmtree(versions_dir(old), ignore_errors=True)  # copied, so that leaving them loses nothing
        except OSError as error:
            why = error.strerror or error
            raise PathError(f"{new} is saved, but {old} cannot be removed: {why}.") from error
    return parse_preset(content, new)


def remove_shape(name: str) -> str:
    """Remove a shape of the person's own; return the hash of the version as which it is kept.

    Raises `ShapeError` if it is none, `PathError` if it stays.
    """
    with _alone():
        _own_shape(name, "a shape of your own with this name replaces it")
        kept = _keep_version(name)
        try:
            _file(name).unlink()
        except OSError as error:
            raise PathError(f"{_file(name)} cannot be removed: {error.strerror}.") from error
    return kept


def versions(name: str) -> list[Version]:
    """Return what a person's shape is, if there is one, and what it was, the latest first.

    Raises `ShapeError` if no shape of this name was ever there.
    """
    found: list[Version] = []
    if _NAME.fullmatch(name):
        file = _file(name)
        current = [_version(file, name, current=True)] if file.is_file() else []
        known = {version.hash for version in current}
        found = current + [version for version in _kept(name) if version.hash not in known]
    if not found:
        shape = saved_shape(name)
        fault = f"cannot be used: {shape.fault}" if shape.origin == "own" else "comes with Stampo"
        raise ShapeError(f"{name} {fault} and has no versions")
    return found


def restore_version(name: str, hash: str) -> Preset:  # noqa: A002 (it is one)
    """Make a version, named by its hash or the unmistakable beginning of it, the current one again.

    What is current now is kept. Raises `ShapeError` if there is no such version or it cannot be used,
    `PathError` if it cannot be written.
    """
    matching = [version for version in versions(name) if hash and version.hash.startswith(hash.lower())]
    if len(matching) != 1:
        why = "several begin so" if matching else f"`stampo presets history {name}` shows what there is"
        raise ShapeError(f"{name} has no version {hash!r}; {why}")
    version = matching[0]
    if version.fault:
        raise ShapeError(f"the version in {version.path} cannot be used: {version.fault}")
    return add_shape(name, _text(version.path), replace=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other programs from changing shapes: what one keeps as a version would not be what it replaces."""
    place = shapes_lock()
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(place))
        except OSError as error:
            raise PathError(f"{place} cannot be locked: {error.strerror}.") from error
        yield


def _save(name: str, content: str, *, replace: bool = False) -> None:
    """Write a shape's file; what it replaces is kept as a version."""
    shapes_dir()
    file = _file(name)
    if replace and file.exists():
        _keep_version(name, but=content.encode())
    write_private(file, content.encode(), replace=replace)


def _copied(old: str, new: str) -> str:
    """Return the file of a shape under another name. Raises `ShapeError`."""
    shape = saved_shape(old)
    if shape.preset is None:
        raise ShapeError(f"the file of {old} cannot be used: {shape.fault}")
    return shape_text(new, json.dumps(shape.preset.model_dump(mode="json", exclude_unset=True)))


def _own_shape(name: str, hint: str) -> None:
    if saved_shape(name).origin == "shipped":
        raise ShapeError(f"{name} comes with Stampo and stays; {hint}")


def _keep_version(name: str, but: bytes | None = None) -> str:
    """Keep what is saved under a name, unless `but` says the same; return its hash."""
    file = _file(name)
    try:
        if not file.is_file():
            raise PathError(f"{file} is not a regular file.")
        data = file.read_bytes()
    except PathError:
        raise
    except OSError as error:
        raise PathError(f"{file} cannot be read: {error.strerror}.") from error
    if but is None or _hash(but) != _hash(data):
        _write_version(name, data, datetime.now(UTC))
    return _hash(data)


def _write_version(name: str, data: bytes, saved: datetime) -> None:
    folder = versions_dir(name)
    make_private(folder)
    file = folder / f"{_hash(data)}.json"
    write_private(file, data, replace=True)
    with suppress(OSError):  # only the order of the versions depends on it
        os.utime(file, (saved.timestamp(), saved.timestamp()))


def _kept(name: str) -> list[Version]:
    found = [_version(file, name, current=False) for file in versions_dir(name).glob("*.json")]
    return sorted(found, key=lambda version: version.saved, reverse=True)


def _version(file: Path, name: str, *, current: bool) -> Version:
    """Read a version; one that was saved under an earlier name has the shape's name now."""
    saved, digest = datetime.fromtimestamp(0, UTC), ""
    try:
        saved = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        digest = _hash(file.read_bytes()) if current else file.stem
        preset, fault = parse_preset(json.dumps(_as_preset(name, _text(file))), name), None
    except (ShapeError, OSError, UnicodeDecodeError) as error:
        preset, fault = None, str(error)
    return Version(hash=digest, saved=saved, current=current, path=file, preset=preset, fault=fault)


def _hash(data: bytes) -> str:
    """Return twelve hex digits that tell contents apart, layout and name aside; what is no JSON goes by bytes."""
    try:
        value = read_json(data.decode())
    except (ShapeError, UnicodeDecodeError):
        return hashlib.sha256(data).hexdigest()[:12]
    if isinstance(value, dict) and not _BODIES.isdisjoint(value):
        value = dict(sorted(value.items()))  # the order matters inside a schema only
        value.pop("name", None)
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def _as_preset(name: str, text: str) -> dict[str, Any]:
    value = read_json(text)
    if isinstance(value, dict) and not _BODIES.isdisjoint(value):
        return {"name": name} | value | {"name": name}
    if isinstance(value, dict) and set(value).isdisjoint(_KEYWORDS.split()):
        raise ShapeError(
            "this is no shape: it has no keyword of JSON Schema that says anything about a reply, and none of "
            f"the keys {', '.join(sorted(_BODIES))} that a named shape needs",
            "$",
        )
    title = value.get("title") if isinstance(value, dict) else None
    return {
        "name": name,
        "title": title if isinstance(title, str) and title else name,
        "json_schema": value,
    }


def _own(file: Path) -> SavedShape:
    name = file.stem
    try:
        preset = parse_preset(_text(file), name)
    except (ShapeError, OSError, UnicodeDecodeError) as error:
        return SavedShape(name=name, origin="own", preset=None, fault=str(error))
    return SavedShape(name=name, origin="own", preset=preset)


def _text(file: Path) -> str:
    """Return the text of a shape's file. Raises `ShapeError` if it is no file, or far too large for a shape."""
    if not file.is_file():  # a pipe would be waited for
        raise ShapeError("it is not a regular file")
    if file.stat().st_size > 4 * MAX_TEXT:
        raise ShapeError("the file is too large for a shape")
    return file.read_text(encoding="utf-8")


def _file(name: str) -> Path:
    return shapes_place() / f"{name}.json"


def _own_files() -> list[Path]:
    try:
        return [file for file in shapes_place().glob("*.json") if _NAME.fullmatch(file.stem)]
    except OSError:  # no folder can be there, so there are no shapes in it; the shipped ones still serve
        return []
