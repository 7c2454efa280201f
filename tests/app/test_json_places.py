"""From a JSON path to a place in a text, also while the text is being typed."""

import pytest

from app.json_places import offset, places

TEXT = '{"a": [1, {"b c": null}, []],\n "d": {"a": "x\\"y", "e": true}}'


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("$", '{"a"'),
        ("$.a", '"a": ['),
        ("$.a[0]", "1,"),
        ("$.a[1]", '{"b c"'),
        ('$.a[1]["b c"]', '"b c"'),
        ("$.a[2]", "[]]"),
        ("$.d", '"d"'),
        ("$.d.a", '"a": "x'),
        ("$.d.e", '"e": true'),
    ],
)
def test_a_path_leads_to_its_key_or_element(path: str, there: str) -> None:
    assert TEXT[places(TEXT)[path] :].startswith(there)


def test_a_keyword_of_a_part_is_preferred_to_the_part() -> None:
    schema = '{"properties": {"n": {"type": "integer", "minimum": 3}}}'
    assert schema[offset(schema, "$.properties.n", "minimum") or 0 :].startswith('"minimum"')
    assert schema[offset(schema, "$.properties.n", "unbounded") or 0 :].startswith('"n"')


def test_lines_and_columns_count_from_one_and_stay_within_the_text() -> None:
    assert offset("ab\ncd", "2:1") == 3
    assert offset("ab\ncd", "2:2") == 4
    assert offset("ab\ncd", "9:9") == 5


@pytest.mark.parametrize("where", ["", "$.nothing", "$[4]"])
def test_what_is_not_there_has_no_place(where: str) -> None:
    assert offset(TEXT, where) is None


@pytest.mark.parametrize("end", range(len(TEXT)))
def test_a_text_that_is_not_finished_is_read_as_far_as_it_goes(end: int) -> None:
    assert places(TEXT[:end]).get("$.a") in (None, 1, 2)
