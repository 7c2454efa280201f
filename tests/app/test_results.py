"""Replies under one shape as a table: nothing is lost, nothing is changed, nothing runs in a spreadsheet."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from app.results import OWN, exported, filtered, ordered, table, write
from app.store.values import Reply, StoredMessage
from engine.protocol import Sampling
from grammars.spec import GrammarSpec

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "number"}, "tags": {"type": "array"}},
    "required": ["name", "age", "tags"],
}
SPEC = GrammarSpec(kind="json_schema", text=json.dumps(SCHEMA))


def reply(number: int, content: str, *, valid: bool | None = True, chat: int = 1) -> StoredMessage:
    return StoredMessage(
        id=number,
        chat_id=chat,
        parent=None,
        role="assistant",
        content=content,
        created_at=START + timedelta(minutes=number),
        trashed_at=None,
        shape=SPEC,
        sibling=1,
        siblings=1,
        attachments=(),
        reply=Reply(
            state="done",
            finish="stop",
            error=None,
            reasoning=None,
            valid=valid,
            seed=1,
            sampling=Sampling(),
            options={},
            model=None,
            stats=None,
            finished_at=START,
            continued_from=None,
            tokens=(),
        ),
    )


def a_table(*contents: str, spec: GrammarSpec = SPEC):
    return table(spec, [reply(n, text) for n, text in enumerate(contents)], {1: "a [/x] b"})


def test_the_columns_are_the_schemas_members_in_their_order_then_ours() -> None:
    found = a_table('{"name":"Ann","age":1.50,"tags":["x", "y"],"more":{"k": 1}}')
    assert found.columns == ("name", "age", "tags", "more", *OWN)
    (row,) = found.rows
    assert [row.words(column) for column in found.columns[:4]] == ["Ann", "1.50", '["x","y"]', '{"k":1}']
    assert row.words("chat") == "a [/x] b"
    assert row.words("fits") == "fits"


def test_a_reply_that_is_no_object_is_a_row_with_its_text() -> None:
    found = a_table('{"name":"Ann"}', '{"name":"cut', "[1, 2]", '{"age":NaN}')
    assert found.columns == ("name", "age", "tags", "reply", *OWN)
    assert [row.words("reply") for row in found.rows] == ["", '{"name":"cut', "[1, 2]", '{"age":NaN}']


def test_shapes_without_members_have_one_column() -> None:
    found = a_table("yes", "{}", spec=GrammarSpec(kind="choice", text='["yes", "{}"]'))
    assert found.columns == ("reply", *OWN)
    assert [row.words("reply") for row in found.rows] == ["yes", "{}"]


def test_references_at_the_top_of_a_schema_are_followed() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": SCHEMA}}
    assert table(GrammarSpec(kind="json_schema", text=json.dumps(schema)), [], {}).columns[:3] == (
        "name",
        "age",
        "tags",
    )
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert table(GrammarSpec(kind="json_schema", text=json.dumps(endless)), [], {}).columns == ("reply", *OWN)


def test_members_named_as_our_columns_keep_theirs() -> None:
    found = a_table('{"time":"noon","":"empty","reply":1,"$.time":"odd"}')
    assert '$["$.time"]' in found.columns
    (row,) = found.rows
    assert row.words("$.time") == "noon"
    assert row.words("$.reply") == "1"
    assert row.words('$[""]') == "empty"
    assert row.words('$["$.time"]') == "odd"
    assert len(set(found.columns)) == len(found.columns)


def test_words_filter_over_the_row_and_over_one_column() -> None:
    found = a_table(
        '{"name":"Ann Lee","age":31,"tags":["red"]}', '{"name":"Bo","age":13,"tags":["red","blue"]}'
    )

    def names(words: str) -> list[str]:
        return [row.words("name") for row in filtered(found.rows, found.columns, words)]

    assert names("") == ["Ann Lee", "Bo"]
    assert names("RED") == ["Ann Lee", "Bo"]
    assert names("red 31") == ["Ann Lee"]
    assert names("age:3") == ["Ann Lee", "Bo"]
    assert names("age:31") == ["Ann Lee"]
    assert names('name:"ann lee"') == ["Ann Lee"]
    assert names('"ann lee"') == ["Ann Lee"]
    assert names('tags:blue fits:fits chat:"a [/x]"') == ["Bo"]
    assert names("nocolumn:31") == []
    assert names("name:blue") == []


def test_numbers_are_sorted_by_value_and_what_is_missing_comes_last_either_way() -> None:
    found = a_table('{"age":9}', '{"age":1e400}', '{"age":-10.5}', '{"name":"x"}', '{"age":"old"}')

    def ages(down: bool) -> list[str]:
        return [row.words("age") for row in ordered(found.rows, "age", down=down)]

    assert ages(False) == ["-10.5", "9", "1e400", "old", ""]
    assert ages(True) == ["old", "1e400", "9", "-10.5", ""]


@pytest.mark.parametrize("column", OWN)
def test_every_column_of_ours_can_be_sorted_by(column: str) -> None:
    rows = table(SPEC, [reply(2, "{}", valid=None), reply(1, "{}", chat=2)], {1: "b", 2: "a"}).rows
    assert [row.message for row in ordered(rows, column)] == [1, 2]
    assert [row.message for row in ordered(rows, column, down=True)] == [2, 1]


def test_json_and_json_lines_hold_each_value_as_it_was_written() -> None:
    found = a_table('{"age": 1.10, "name": "a\\u0041 \\ud83d b"}', '{"name": "cut \u202e')
    lines = exported(found.rows, found.members, "jsonl").splitlines()
    assert '"reply": {"age":1.10,"name":"a\\u0041 \\ud83d b"}' in lines[0]
    assert json.loads(lines[1])["reply"] == '{"name": "cut \u202e'
    assert json.loads(lines[0])["time"] == "2026-03-01T12:00:00.000+00:00"
    assert json.loads(lines[0]) | {} == json.loads(exported(found.rows, found.members, "json"))[0]
    assert exported((), found.members, "json") == "[]\n"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\tx", "\rx"])
def test_what_a_spreadsheet_would_run_is_defused_and_numbers_stay_numbers(text: str) -> None:
    found = a_table(json.dumps({"name": text, "age": -5, text: 1}))
    header, row = csv.reader(io.StringIO(exported(found.rows, found.members, "csv"), newline=""))
    assert row[:2] == [f"'{text}", "-5"]
    assert header[3] == f"'{text}"


def test_csv_keeps_commas_quotes_and_lines_and_surrogates_have_bytes() -> None:
    found = a_table(json.dumps({"name": 'a, "b"\nc', "tags": [1]}), '{"name":"\\ud800","age":null}')
    text = exported(found.rows, found.members, "csv")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[1][:3] == ['a, "b"\nc', "", "[1]"]
    assert rows[2][:2] == ["\ufffd", "null"]
    assert text.encode()


def test_no_file_is_ever_replaced(tmp_path) -> None:
    first = write(tmp_path, "City ../x replies", "1", "csv")
    second = write(tmp_path, "City ../x replies", "2", "csv")
    assert (first.name, second.name) == ("city-x-replies.csv", "city-x-replies-2.csv")
    assert first.read_text() == "1"
    assert write(tmp_path, "///", "3", "json").name == "replies.json"
