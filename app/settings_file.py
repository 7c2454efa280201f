"""The settings file: reading it with every fault told by file, line and key, and changing one key of it.

Knows TOML and the settings, no screen. Invariants: a faulty file never stops the program, what is wrong is left out
and told; a change touches the lines of its own key only, so that comments and order stay the person's; a file that
would mean anything else afterwards is not written.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.paths import write_private
from app.setting_words import range_words
from app.settings import EngineSettings, InterfaceSettings, LimitsSettings, ReplySettings, Settings

MOST_BYTES = 256 * 1024
_TABLES: Mapping[str, type[Any]] = {
    "reply": ReplySettings,
    "engine": EngineSettings,
    "interface": InterfaceSettings,
    "limits": LimitsSettings,
}
_CLOSING = re.compile(r"\"\"\"|'''|[\]}]")
_POSITION = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")

Path_ = tuple[str, ...]


class SettingsFileError(Exception):
    """The file cannot be changed; the text is written for the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """One statement of TOML: its first line and the one behind it, counted from 0, and what it sets.

    `key` is the whole path of what it sets, `written` the key as it stands before the `=`, empty for the head of a
    table.
    """

    start: int
    end: int
    key: Path_
    written: str


def keys_of(table: str) -> tuple[str, ...]:
    """Return the keys that a table may have; none for one that has no fixed ones."""
    names = tuple(field.name for field in fields(_TABLES[table])) if table in _TABLES else ()
    return (*names, "system") if table == "reply" else names


def read_settings(path: Path, *, actions: Sequence[str] | None = None) -> tuple[Settings, list[str]]:
    """Return the settings in a file and a sentence for each fault; a missing file sets nothing.

    `actions` are the ids that `[keys]` may name, None if they are not to be checked.
    """
    try:
        if path.exists() and not path.is_file():
            return Settings(), [f"{path} is no file; the settings are not used."]
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        return Settings(), [f"{path} cannot be read: {(error.strerror or str(error)).lower()}."]
    if len(data) > MOST_BYTES:
        return Settings(), [f"{path} has more than {MOST_BYTES:,} bytes and is not read."]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Settings(), [f"{path}, line {line}: this is no UTF-8; the settings are not used."]
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Settings(), [f"{path}{_syntax(text, str(error))} The settings are not used."]
    reader = _Reader(path, text, actions)
    return reader.settings(values), reader.faults


def check_value(table: str, name: str, value: Any) -> Any:
    """Return a value as the settings keep it. Raises `ValueError` with what the key takes, in words."""
    if table == "reply" and name == "system":
        if not isinstance(value, str):
            raise ValueError(range_words(name))
        return value
    try:
        # As JSON: strict then means no text for a number, but a list for a tuple.
        made = TypeAdapter(_TABLES[table]).validate_json(json.dumps({name: value}), strict=True)
    except (ValidationError, TypeError) as error:  # TypeError: JSON has no dates
        raise ValueError(range_words(name)) from error
    return getattr(made, name)


def change(path: Path, table: str, key: str, value: Any) -> None:
    """Set one key in the file, or take it out if the value is None.

    Makes the file if it is missing. Raises `SettingsFileError` with the file as it was, and `PathError`.
    """
    if path.exists() and not path.is_file():
        raise SettingsFileError(f"{path} is no file and cannot be changed.")
    try:
        text = path.read_bytes().decode() if path.exists() else ""
        before = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsFileError(
            f"{path} cannot be changed before its faults are mended: {str(error).rstrip('.')}."
        ) from error
    found = _nested(before.get(table, {}), key)
    if found == value and type(found) is type(value):
        return
    wanted = _changed(before, table, key, value)
    new = _rewritten(text, table, key, value)
    try:
        good = tomllib.loads(new) == wanted
    except tomllib.TOMLDecodeError:
        good = False
    if not good:
        raise SettingsFileError(
            f"{path}: {table}.{key} is written in a way that Stampo cannot change; please edit it there."
        )
    write_private(path, new.encode(), replace=True)


class _Reader:
    """Turns the values of one file into settings and collects what is wrong."""

    def __init__(self, path: Path, text: str, actions: Sequence[str] | None) -> None:
        self._found: list[tuple[int, str]] = []
        self._path = path
        self._lines = _line_numbers(text)
        self._actions = actions

    @property
    def faults(self) -> list[str]:
        """What is wrong, in the order of the file."""
        return [sentence for _, sentence in sorted(self._found, key=lambda fault: fault[0])]

    def settings(self, values: Mapping[str, Any]) -> Settings:
        tables = (*_TABLES, "keys")
        for name in values:
            if name not in tables:
                self._tell((name,), f"there is no table [{name}]{_nearest(name, tables)}")
            elif not isinstance(values[name], dict):
                self._tell((name,), f"{name} is a table: write [{name}] and its keys below")
        found = {name: values[name] for name in tables if isinstance(values.get(name), dict)}
        made = {name: self._table(name, found.get(name, {})) for name in _TABLES}
        return Settings(
            reply=ReplySettings(**_without(made["reply"], "system")),
            system=made["reply"].get("system", ""),
            engine=EngineSettings(**made["engine"]),
            interface=InterfaceSettings(**made["interface"]),
            limits=LimitsSettings(**made["limits"]),
            keys=self._keys(found.get("keys", {})),
        )

    def _table(self, table: str, values: Mapping[str, Any]) -> dict[str, Any]:
        good: dict[str, Any] = {}
        for name, value in values.items():
            if name not in keys_of(table):
                self._tell((table, name), f"[{table}] has no key {name!r}{_nearest(name, keys_of(table))}")
                continue
            try:
                good[name] = check_value(table, name, value)
            except ValueError as error:
                self._tell((table, name), f"{table}.{name} is {_shown(value)}; it takes {error}")
        return good

    def _keys(self, values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        good: dict[str, tuple[str, ...]] = {}
        for place, value in _leaves(values):
            name = ".".join(place)
            keys = (value,) if isinstance(value, str) else value
            if self._actions is not None and name not in self._actions:
                self._tell(("keys", *place), f"[keys] has no action {name!r}{_nearest(name, self._actions)}")
            elif not isinstance(keys, list | tuple) or not keys or not all(map(_is_key, keys)):
                self._tell(
                    ("keys", *place),
                    f'keys."{name}" is {_shown(value)}; it takes keys such as ["ctrl+t", "f6"]',
                )
            else:
                good[name] = tuple(keys)
        return good

    def _tell(self, place: Path_, what: str) -> None:
        shorter = (place[:size] for size in range(len(place), 0, -1))
        line = next((self._lines[part] + 1 for part in shorter if part in self._lines), 1)
        self._found.append((line, f"{self._path}, line {line}: {what}."))


def _statements(text: str) -> Iterator[_Statement]:
    """Cut valid TOML into its statements: the shortest runs of lines that are valid by themselves."""
    lines = [f"{line}\n" for line in _split(text)]
    table: Path_ = ()
    start = 0
    while start < len(lines):
        end = start + 1
        parsed = _parsed("".join(lines[start:end]))
        while parsed is None and end < len(lines):
            end += 1
            if _CLOSING.search(lines[end - 1]):
                parsed = _parsed("".join(lines[start:end]))
        if parsed:
            key = _chain(parsed)
            if lines[start].lstrip().startswith("["):
                table = key
                yield _Statement(start=start, end=end, key=table, written="")
            else:
                chunk = "".join(lines[start:end])
                written = next(
                    chunk[: match.start()]
                    for match in re.finditer("=", chunk)
                    if _parsed(f"{chunk[: match.start()]}= 0") is not None
                )
                key = _chain(_parsed(f"{written}= 0") or {})
                yield _Statement(start=start, end=end, key=(*table, *key), written=written.strip())
        start = end


def _rewritten(text: str, table: str, key: str, value: Any) -> str:
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = _split(text)
    all_of_them = list(_statements(text))
    place = (table, *key.split(".")) if table == "keys" else (table, key)
    same = [s for s in all_of_them if s.written and s.key in (place, (table, key))]
    if same:
        found = same[-1]
        old = lines[found.start : found.end]
        lines[found.start : found.end] = (
            [] if value is None else [f"{found.written} = {_toml(value)}{_comment(old)}"]
        )
    elif value is not None:
        line = f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else json.dumps(key)} = {_toml(value)}"
        heads = [s for s in all_of_them if not s.written and s.key == (table,)]
        if heads:
            inside = [s for s in all_of_them if s.key[:1] == (table,) and s.start >= heads[0].start]
            lines.insert(inside[-1].end if inside else heads[0].end, line)
        else:
            lines += [*([""] if lines and lines[-1].strip() else []), f"[{table}]", line]
    return "".join(f"{line}{ending}" for line in lines)


def _split(text: str) -> list[str]:
    """Return the lines of a text; TOML knows fewer ends of a line than Python does."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _comment(old: Sequence[str]) -> str:
    """Return the comment behind a value that stands on one line, with the blanks before it."""
    if len(old) != 1:
        return ""
    whole = _parsed(old[0])
    for match in re.finditer(r"\s*#", old[0]):
        if _parsed(old[0][: match.start()]) == whole:
            return old[0][match.start() :]
    return ""


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):  # TOML's basic strings are those of JSON, but for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _changed(values: Mapping[str, Any], table: str, key: str, value: Any) -> dict[str, Any]:
    """Return what the file is to mean after a change."""
    new = deepcopy(dict(values))
    inner = new.get(table)
    nested = inner if isinstance(inner, dict) else {}
    *before, last = key.split(".") if key not in nested and _nested(nested, key) is not None else [key]
    holder = nested
    for name in before:
        holder = holder[name]
    if value is None:
        holder.pop(last, None)
    else:
        holder[last] = list(value) if isinstance(value, tuple) else value
        new[table] = nested
    return new


def _nested(values: Any, key: str) -> Any:
    if isinstance(values, dict) and key in values:
        return values[key]
    for name in key.split("."):
        if not isinstance(values, dict) or name not in values:
            return None
        values = values[name]
    return values


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _chain(parsed: Mapping[str, Any]) -> Path_:
    """Return the path to the one thing that a statement sets."""
    found: list[str] = []
    value: Any = parsed
    while isinstance(value, dict) and len(value) == 1:
        [(name, value)] = value.items()
        found.append(name)
    return tuple(found)


def _line_numbers(text: str) -> dict[Path_, int]:
    numbers: dict[Path_, int] = {}
    for statement in _statements(text):
        for size in range(1, len(statement.key) + 1):
            numbers.setdefault(statement.key[:size], statement.start)
        if statement.written:
            numbers[statement.key] = statement.start
    return numbers


def _leaves(values: Mapping[str, Any], before: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*before, name))
        else:
            yield (*before, name), value


def _is_key(key: object) -> bool:
    return isinstance(key, str) and bool(re.fullmatch(r"[^\s,]+", key))


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _nearest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"; {near[0]!r} is the nearest"
    return f"; there are {', '.join(names)}" if len(names) < 10 else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _syntax(text: str, message: str) -> str:
    """Return the place and the reason of a fault of TOML's syntax, as the end of a sentence and a sentence."""
    match = _POSITION.search(message)
    line = int(match[1]) if match and match[1] else text.count("\n") + 1
    reason = _POSITION.sub("", message)
    return f", line {line}: this is no TOML ({reason[:1].lower()}{reason[1:]})."
