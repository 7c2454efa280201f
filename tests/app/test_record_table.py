"""The table of any length: what it draws, where its cursor goes, and that texts are only shown."""

from textual.app import App, ComposeResult

from app.tui.widgets.record_table import Column, RecordTable, fitting

COUNT = 10_000


class TableApp(App[None]):
    """A table of 10,000 rows, counting which cells it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []
        self.opened: list[int] = []

    def compose(self) -> ComposeResult:
        yield RecordTable()

    def on_mount(self) -> None:
        columns = [Column(title="name", width=8), Column(title="n", width=6, right=True)]
        self.query_one(RecordTable).show(columns, COUNT, self.words)

    def words(self, row: int, column: int) -> str:
        self.asked.append((row, column))
        return f"a [/x] \x1b {row}" if column == 0 else str(row)

    def on_record_table_opened(self, message: RecordTable.Opened) -> None:
        self.opened.append(message.row)


def lines(app: App) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def test_only_what_is_seen_is_asked_for_and_the_heading_stays() -> None:
    app = TableApp()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        assert {row for row, _ in app.asked} == set(range(7))
        await pilot.press("end")
        await pilot.pause()
        assert len({row for row, _ in app.asked}) <= 16
        shown = lines(app)
        assert "name" in shown[0]
        assert shown[-1].startswith("› ")
        assert "9999" in shown[-1]
        await pilot.press("up", "enter", "home", "pagedown")
        assert app.opened == [COUNT - 2]
        assert app.query_one(RecordTable).row == 6


async def test_texts_are_shown_and_cut_and_numbers_stand_at_the_right() -> None:
    app = TableApp()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        shown = lines(app)
        assert shown[1].startswith("› a [/x] …")
        assert shown[3].startswith("  a [/x] …       2")
        assert not set("".join(shown)) & {"\x1b"}


async def test_a_click_highlights_a_row_and_another_opens_it() -> None:
    app = TableApp()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.click(RecordTable, offset=(3, 3))
        await pilot.pause()
        assert (app.query_one(RecordTable).row, app.opened) == (2, [])
        await pilot.click(RecordTable, offset=(3, 3))
        await pilot.pause()
        assert app.opened == [2]


async def test_columns_are_reached_by_keys_where_the_screen_is_narrow() -> None:
    app = TableApp()
    async with app.run_test(size=(12, 5)) as pilot:
        await pilot.pause()
        await pilot.press("right", "right")
        await pilot.pause()
        assert app.query_one(RecordTable).column == 1
        assert lines(app)[2].strip().endswith("1")


async def test_a_table_without_rows_opens_nothing() -> None:
    app = TableApp()
    async with app.run_test(size=(30, 8)) as pilot:
        app.query_one(RecordTable).show([], 0, app.words)
        await pilot.press("down", "right", "enter", "end")
        await pilot.pause()
        assert app.opened == []
        assert app.query_one(RecordTable).row == 0


def test_a_column_is_as_wide_as_its_texts_need_and_no_wider_than_allowed() -> None:
    assert fitting("n", ["1", "22"], 10).width == 4
    assert fitting("name", ["漢字漢字"], 20).width == 8
    assert fitting("name", ["x" * 90], 20).width == 20
