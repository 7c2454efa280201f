"""All replies under one shape, of all chats, as a table: filtered, put in order, exported, and opened in their chat.

Knows the store and app/results.py, no engine.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import Input

from app.paths import data_dir
from app.results import OWN, Format, Row, Table, exported, filtered, ordered, table, write
from app.store.store import Store
from app.store.values import StoreError
from app.terminal import one_line
from app.tui.screens.closing import OwnScreen
from app.tui.until_closed import until_closed
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.record_table import RecordTable, fitting
from app.tui.words import finish_words, shape_name
from grammars.spec import GrammarSpec

FILTER_S = 0.15
FOLLOW_S = 1.0
_MEASURED = 200  # rows whose texts decide how wide a column is
_WIDEST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """The person wants to go to a message in its chat."""

    chat: int
    message: int


class ResultsScreen(OwnScreen[Reveal | None]):
    """Returns the reply to go to, or None."""

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="results.filter"),
        Binding("s", "order", "Sort by column", id="results.order"),
        Binding("c", "export('csv')", "CSV", id="results.csv"),
        Binding("j", "export('json')", "JSON", id="results.json"),
        Binding("l", "export('jsonl')", "JSON Lines", id="results.jsonl"),
        Binding("escape", "back", "Back", id="results.back"),
    ]

    def __init__(self, spec: GrammarSpec, store: Store) -> None:
        super().__init__()
        self._spec = spec
        self._store = store
        self._table: Table | None = None
        self._reading = False
        self._rows: Sequence[Row] = ()
        self._sorted: tuple[str, bool] = ("time", True)
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """The filter, the table, and the reply under the cursor in one line."""
        yield Line(classes="top")
        yield PlainInput(placeholder="/ filters: words, or column:word", compact=True)
        yield RecordTable()
        yield Line(classes="whole")
        yield Line(classes="state")
        yield KeysLine()

    def on_mount(self) -> None:
        """Read the replies; the screen is there before they are."""
        self.query_one(".top", Line).put(f"Replies under {one_line(shape_name(self._spec))}")
        self._say("Reading…")
        self.query_one(RecordTable).focus()
        self.call_after_refresh(self._begin)
        self.set_interval(FOLLOW_S, self._follow)

    def _begin(self) -> None:
        self._reading = True
        self.run_worker(self._read(), group="read", exclusive=True)

    def _follow(self) -> None:
        """Read again when a reply has ended, or another window has changed something."""
        if self._table is None or self._reading:
            return
        try:
            count = self._store.count_under_shape(self._spec.hash)
        except StoreError as error:
            self._say(str(error))
            return
        if count != len(self._table.rows):
            self._begin()

    @until_closed
    async def _read(self) -> None:
        try:
            # The store belongs to this thread; what is read is then set out in another.
            replies = self._store.replies_under_shape(self._spec.hash)
            titles = {chat.id: chat.title for chat in self._store.chats()}
            self._table = await asyncio.to_thread(table, self._spec, replies, titles)
        except StoreError as error:
            self._say(str(error))
            return
        finally:
            self._reading = False
        self._say("" if self._table.rows else "No reply was held to this shape yet.")
        self._show(stay=True)

    # --- what is shown

    @on(Input.Changed)
    def _filter_soon(self, event: Input.Changed) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(FILTER_S, self._show)

    @on(Input.Submitted)
    def _to_table(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._show()
        self.query_one(RecordTable).focus()

    def _show(self, *, stay: bool = False) -> None:
        """List what the filter leaves, with the first reply highlighted, or with `stay` the one that is now."""
        if self._table is None:
            return
        now = self.query_one(RecordTable).row
        before = self._rows[now].message if stay and now < len(self._rows) else None
        column, down = self._sorted
        columns = self._table.columns
        found = filtered(self._table.rows, columns, self.query_one(PlainInput).value)
        self._rows = ordered(found, column, down=down)
        rows = self._rows
        shown = [
            fitting(
                f"{name} {'▼' if down else '▲'}" if name == column else name,
                [row.words(name) for row in rows[:_MEASURED]],
                _WIDEST,
                right=name not in OWN
                and all(row.cells[name].kind == "number" for row in rows[:_MEASURED] if name in row.cells),
            )
            for name in columns
        ]
        self.query_one(RecordTable).show(
            shown,
            len(rows),
            lambda row, place: rows[row].words(columns[place]),
            row=next((place for place, row in enumerate(rows) if row.message == before), 0),
        )
        order = f"by {one_line(column)}, {'last' if down else 'first'} in front"
        self.query_one(".top", Line).put(
            f"Replies under {one_line(shape_name(self._spec))}  {len(rows):,} of {len(self._table.rows):,}, {order}"
        )

    def on_record_table_moved(self) -> None:
        """Show the highlighted reply whole, as far as a line can."""
        row = self.query_one(RecordTable).row
        if row < len(self._rows):
            found = self._rows[row]
            self.query_one(".whole", Line).put(
                f"{finish_words(found.finish)}, {found.words('fits')}: {one_line(found.text[:1_000])}"
            )
        else:
            self.query_one(".whole", Line).put("")

    # --- actions

    def on_record_table_opened(self, message: RecordTable.Opened) -> None:
        """Go to the reply in its chat."""
        if message.row < len(self._rows):  # the filter may have come in between
            row = self._rows[message.row]
            self.dismiss(Reveal(chat=row.chat, message=row.message))

    def action_filter(self) -> None:
        """Go to the filter."""
        self.query_one(PlainInput).focus()

    def action_order(self) -> None:
        """Sort by the highlighted column, the other way round at the second time."""
        if self._table is not None:
            column = self._table.columns[self.query_one(RecordTable).column]
            self._sorted = (column, not self._sorted[1] if column == self._sorted[0] else False)
            self._show()

    def action_back(self) -> None:
        """Leave the filter, else the table."""
        field = self.query_one(PlainInput)
        if field.has_focus or field.value:
            field.value = ""
            self.query_one(RecordTable).focus()
        else:
            self.dismiss(None)

    @until_closed
    async def action_export(self, form: Format) -> None:
        """Write what is shown, in its order, to a new file in the current folder, else in Stampo's own."""
        rows = self._rows  # another key may filter them while they are written
        if self._table is None or not rows:
            self._say("There is nothing to export.")
            return
        name = f"{shape_name(self._spec)}-replies"
        text = await asyncio.to_thread(exported, rows, self._table.members, form)
        try:
            try:
                path = write(Path.cwd(), name, text, form)
            except OSError:  # the folder is read-only or gone
                path = write(data_dir(), name, text, form)
        except OSError as error:
            self._say(f"Nothing was written: {error}")
            return
        count = f"{len(rows):,} repl{'y' if len(rows) == 1 else 'ies'}"
        note = " Texts that a spreadsheet would run begin with an apostrophe." if form == "csv" else ""
        self._say(f"{count} written to {path}.{note}")

    def _say(self, sentence: str) -> None:
        self.query_one(".state", Line).put(one_line(sentence))
