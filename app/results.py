"""Replies under one shape as a table: columns, filter, order, and the table as JSON, JSON Lines or CSV.

Knows no store and no screen; replies come in as the store hands them out. Invariants: a value is kept as it was
written (`1.10` stays `1.10`), so JSON and JSON Lines hold it exactly; every reply is a row, also one that was cut or
is no JSON: its text then stands in the column `reply`.
"""

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, NoReturn

from app.paths import write_private
from app.store.values import StoredMessage
from app.terminal import well_formed
from engine.events import Finish
from grammars.schema import read_json, resolve, step
from grammars.spec import GrammarSpec, ShapeError

Format = Literal["json", "jsonl", "csv"]
Kind = Literal["text", "number", "other"]

OWN = ("chat", "time", "fits")
REPLY = "reply"
MOST_COLUMNS = 60
"""Members beyond these are found in the reply as a whole only."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_BLANKS = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\n\r]+')
_WORDS = re.compile(
    r'(?:(?:"(?P<quoted_column>[^"]+)"|(?P<column>[^\s":]+)):)?(?:"(?P<quoted>[^"]*)"|(?P<word>\S+))'
)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One value: `raw` is its JSON without white space, `text` what a person reads."""

    kind: Kind
    raw: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One reply. `cells` are its members by column; `text` is the reply as it was written.

    `fits` is None where nothing judged the reply. `is_json` says whether `text` is JSON.
    """

    message: int
    chat: int
    chat_title: str
    time: datetime
    finish: Finish | None
    fits: bool | None
    text: str
    is_json: bool
    cells: Mapping[str, Cell]

    def words(self, column: str) -> str:
        """Return what stands in a column, empty where there is nothing."""
        if column == "chat":
            return self.chat_title
        if column == "time":
            return f"{self.time.astimezone():%Y-%m-%d %H:%M}"
        if column == "fits":
            return "not checked" if self.fits is None else "fits" if self.fits else "does not fit"
        cell = self.cells.get(column)
        return cell.text if cell else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows, the newest first, under `columns`: those of the replies in front, then `OWN`.

    `members` maps each of the columns in front to the member's name. They are the same, but for a member that is named
    as a column of ours, which goes by its path (`$.time`); the column `reply` is no member.
    """

    members: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns in their order."""
        return (*self.members, *OWN)


def table(spec: GrammarSpec, replies: Sequence[StoredMessage], titles: Mapping[int, str]) -> Table:
    """Return the replies that were held to a shape as a table; `titles` has the chats' by number."""
    names = dict.fromkeys(_declared(spec)) if spec.kind == "json_schema" else {}
    read: list[tuple[StoredMessage, dict[str, Cell] | None, bool]] = []
    for reply in replies:
        members, is_json = _members(reply.content) if spec.kind == "json_schema" else (None, False)
        if members is not None and len(names) < MOST_COLUMNS:
            names.update(dict.fromkeys(members))
        read.append((reply, members, is_json))
    columns = {_column(name): name for name in list(names)[:MOST_COLUMNS]}
    if any(members is None for _, members, _ in read) or not columns:
        columns[REPLY] = ""
    return Table(
        members=columns,
        rows=tuple(_row(reply, members, is_json, columns, titles) for reply, members, is_json in read),
    )


def filtered(rows: Sequence[Row], columns: Sequence[str], words: str) -> list[Row]:
    """Return the rows that hold every word, case aside; `column:word` asks one column, quotes hold blanks together."""
    conditions = list(_conditions(words, columns))
    return [
        row
        for row in rows
        if all(any(word in row.words(column).casefold() for column in places) for places, word in conditions)
    ]


def ordered(rows: Sequence[Row], column: str, *, down: bool = False) -> list[Row]:
    """Return the rows by a column: numbers by value, then texts by letter; rows without a value are last."""
    key: Callable[[Row], tuple[int, Decimal, str]]
    if column in OWN:
        given = {
            "time": lambda row: (0, Decimal(row.time.timestamp()), ""),
            "chat": lambda row: (0, Decimal(0), row.chat_title.casefold()),
            "fits": lambda row: (0, Decimal({True: 0, False: 1, None: 2}[row.fits]), ""),
        }
        return sorted(rows, key=given[column], reverse=down)
    having = [row for row in rows if column in row.cells]
    without = [row for row in rows if column not in row.cells]
    key = lambda row: _value(row.cells[column])  # noqa: E731 (typed above)
    return [*sorted(having, key=key, reverse=down), *without]


def exported(rows: Sequence[Row], members: Mapping[str, str], form: Format) -> str:
    """Return rows as a text. JSON and JSON Lines hold each reply exactly.

    In CSV a text (or the name of a column) that a spreadsheet would take for a formula, because it begins with `=`,
    `+`, `-`, `@`, a tab or a carriage return, has an apostrophe in front; numbers stay numbers, lists and objects are
    JSON, and a member that is missing is empty.
    """
    if form == "csv":
        return well_formed(_csv(rows, members))
    lines = [_json(row) for row in rows]
    if form == "jsonl":
        return well_formed("".join(f"{line}\n" for line in lines))
    return well_formed("[\n" + ",\n".join(lines) + "\n]\n") if lines else "[]\n"


def write(folder: Path, name: str, text: str, form: Format) -> Path:
    """Write a new file under a name that is free; return its path. Raises `OSError`."""
    stem = re.sub(r"[^\w-]+", "-", name)[:40].strip("-").lower() or "replies"
    for number in itertools.count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}.{form}"
        try:
            write_private(path, text.encode())
        except FileExistsError:
            continue
        return path
    raise AssertionError("counting never ends")


def _declared(spec: GrammarSpec) -> Iterator[str]:
    """Yield the members that a schema names at its top, in their order."""
    try:
        root = read_json(spec.text)
    except ShapeError:
        return
    part, seen = root, set()
    while isinstance(part, dict):
        members = part.get("properties")
        yield from members if isinstance(members, dict) else ()
        reference = part.get("$ref")
        if not isinstance(reference, str) or reference in seen:
            return
        seen.add(reference)
        target = resolve(root, reference)
        part = target[1] if target else None


def _members(text: str) -> tuple[dict[str, Cell] | None, bool]:
    """Return the top-level members of a JSON object with their values as written, None if it is none.

    The second value tells whether the text is JSON.
    """
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None, False
    if not text.lstrip(" \t\n\r").startswith("{"):
        return None, True
    members: dict[str, Cell] = {}
    place = _skip(text, text.index("{") + 1)
    while text[place] != "}":
        key, place = _DECODER.raw_decode(text, place)
        start = _skip(text, _skip(text, place) + 1)  # behind the colon
        value, end = _DECODER.raw_decode(text, start)
        members[key] = _cell(value, text[start:end])
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return members, True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _skip(text: str, place: int) -> int:
    while text[place] in " \t\n\r":
        place += 1
    return place


def _cell(value: object, raw: str) -> Cell:
    if isinstance(value, str):
        return Cell(kind="text", raw=raw, text=value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(kind="number", raw=raw, text=raw)
    compact = _compact(raw)
    return Cell(kind="other", raw=compact, text=compact)


def _compact(raw: str) -> str:
    return _BLANKS.sub(lambda match: match[0] if match[0].startswith('"') else "", raw)


def _column(name: str) -> str:
    ours = name in (*OWN, REPLY, "") or name.startswith("$")
    return step("$", name) if ours else name


def _row(
    reply: StoredMessage,
    members: dict[str, Cell] | None,
    is_json: bool,
    columns: Mapping[str, str],
    titles: Mapping[int, str],
) -> Row:
    if members is None:
        cells = {REPLY: Cell(kind="text", raw=json.dumps(reply.content), text=reply.content)}
    else:
        cells = {
            column: members[name] for column, name in columns.items() if column != REPLY and name in members
        }
    return Row(
        message=reply.id,
        chat=reply.chat_id,
        chat_title=titles.get(reply.chat_id, ""),
        time=reply.created_at,
        finish=reply.reply.finish if reply.reply else None,
        fits=reply.reply.valid if reply.reply else None,
        text=reply.content,
        is_json=is_json,
        cells=cells,
    )


def _conditions(words: str, columns: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    by_name = {column.casefold(): column for column in columns}
    for match in _WORDS.finditer(words):
        name = (match["quoted_column"] or match["column"] or "").casefold()
        word = match["quoted"] if match["quoted"] is not None else match["word"]
        if name in by_name:
            yield (by_name[name],), word.casefold()
        elif name:  # no column: a text with a colon in it, such as a time
            yield columns, match[0].replace('"', "").casefold()
        else:
            yield columns, word.casefold()


def _value(cell: Cell) -> tuple[int, Decimal, str]:
    if cell.kind == "number":
        try:
            return 0, Decimal(cell.raw), ""
        except InvalidOperation:
            return 0, Decimal(0), cell.raw
    return 1, Decimal(0), cell.text.casefold()


def _json(row: Row) -> str:
    about = {
        "chat": row.chat_title,
        "time": row.time.astimezone(UTC).isoformat(timespec="milliseconds"),
        "fits": row.fits,
        "finish": row.finish,
    }
    reply = _compact(row.text) if row.is_json else json.dumps(row.text, ensure_ascii=False)
    return f"{json.dumps(about, ensure_ascii=False)[:-1]}, {json.dumps(REPLY)}: {reply}}}"


def _csv(rows: Sequence[Row], members: Mapping[str, str]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([*map(_harmless, members), *OWN])
    for row in rows:
        cells = (row.cells.get(column) for column in members)
        writer.writerow(
            [
                *(
                    "" if cell is None else cell.text if cell.kind == "number" else _harmless(cell.text)
                    for cell in cells
                ),
                _harmless(row.chat_title),
                row.time.astimezone(UTC).isoformat(timespec="milliseconds"),
                row.words("fits"),
            ]
        )
    return out.getvalue()


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
