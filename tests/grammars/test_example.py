"""The schema of examples keeps what they have in common, and every example fits it."""

import json

import jsonschema
import pytest
from bytewalk import compiled, matcher
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.example import empty_places, from_example
from grammars.spec import ShapeError


def schema(*documents) -> dict:
    return json.loads(from_example("\n".join(json.dumps(document) for document in documents)))


def fits(document, found) -> bool:
    """Ask jsonschema with formats, and walk the reply through the compiled shape."""
    judge = jsonschema.Draft202012Validator
    judge(found, format_checker=judge.FORMAT_CHECKER).validate(document)
    walked = matcher(compiled("json_schema", json.dumps(found)))
    # llguidance takes DEL in a string as an escape only.
    reply = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("\x7f", "\\u007f")
    return walked.try_consume_tokens(list(reply.encode())) == len(reply.encode()) and walked.is_accepting()


def test_the_order_types_and_nesting_are_the_examples():
    found = schema({"zip": "x", "age": 3, "size": 1.0, "ok": True, "in": {"b": None, "a": [1]}})
    assert list(found["properties"]) == ["zip", "age", "size", "ok", "in"]
    assert found == {
        "type": "object",
        "properties": {
            "zip": {"type": "string"},
            "age": {"type": "integer"},
            "size": {"type": "number"},
            "ok": {"type": "boolean"},
            "in": {
                "type": "object",
                "properties": {"b": {"type": "null"}, "a": {"type": "array", "items": {"type": "integer"}}},
                "required": ["b", "a"],
                "additionalProperties": False,
            },
        },
        "required": ["zip", "age", "size", "ok", "in"],
        "additionalProperties": False,
    }


def test_objects_of_a_list_are_merged_and_what_some_lack_is_optional():
    found = schema([{"a": 1, "c": 2}, {"a": 1.5, "b": "x", "c": None}])
    assert found["type"] == "array"
    assert list(found["items"]["properties"]) == ["a", "b", "c"]
    assert found["items"]["required"] == ["a", "c"]
    assert found["items"]["properties"]["a"] == {"type": "number"}
    assert found["items"]["properties"]["c"] == {"type": ["integer", "null"]}


def test_lines_are_several_documents_and_a_list_is_one():
    lines = '{"a": 1}\n\n{"a": 2, "b": "x"}\r\n'
    assert json.loads(from_example(lines))["required"] == ["a"]
    assert json.loads(from_example('[{"a": 1}, {"b": 2}]'))["type"] == "array"
    assert json.loads(from_example('[\n{"a": 1}\n]'))["type"] == "array"
    assert schema([1], ["x"]) == {"type": "array", "items": {"type": ["integer", "string"]}}


def test_types_that_differ_are_listed_with_null_last():
    assert schema([None, 1, "x", 2.5]) == {"type": "array", "items": {"type": ["string", "number", "null"]}}
    assert schema([True, 0])["items"] == {"type": ["boolean", "integer"]}
    mixed = schema([{"a": 1}, [2], None])["items"]
    assert mixed["type"] == ["object", "array", "null"]
    assert (list(mixed["properties"]), mixed["items"]) == (["a"], {"type": "integer"})


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("date", ["2024-02-29", "0001-12-31"]),
        ("date-time", ["2024-02-29T23:59:59Z", "2024-01-01T00:00:00.125+01:00"]),
        ("time", ["14:30:00Z", "00:00:00.5-11:30"]),
        ("uuid", ["123e4567-E89B-12d3-a456-426614174000"]),
        ("ipv4", ["127.0.0.1", "255.255.255.255"]),
        ("email", ["a.b+c@mail.example.com", "x_y@b-c.de"]),
        ("uri", ["https://a.example/b%20c/?d=e#f", "http://localhost:8080", "ftp://a.b"]),
    ],
)
def test_a_format_is_kept_where_every_example_has_it(form, texts):
    found = schema(texts)
    assert found["items"] == {"type": "string", "format": form}
    assert fits(texts, found)
    assert schema([*texts, None])["items"] == {"type": ["string", "null"], "format": form}
    for other in ("", "x", "é"):
        assert schema([*texts, other])["items"] == {"type": "string"}


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29", "2024-13-01", "0000-01-01", "2024-1-1", "2024-01-01 ", "2024-01-01\n", "14:30:00", "14:30Z",
        "25:00:00Z", "2024-01-01T10:00:00", "2024-01-01 10:00:00Z", "256.1.1.1", "01.1.1.1", "1.2.3", "a@b",
        "a@b.c ", "@", "mail me@x.y", "note:x", "https://", "http://a b", "https://ä.de", "https://a.b/%zz",
        "123e4567e89b12d3a456426614174000", "٢٠٢٤-01-01", "a" * 3_000 + "@b.c",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_format_is_a_text(text):
    assert schema(text) == {"type": "string"}


def test_what_no_example_fills_is_open_and_said():
    text = '{"a": [], "b": {}, "c": [[], [1]], "d": [{"e f": []}], "g": [{}, {"h": 1}]}'
    found = json.loads(from_example(text))["properties"]
    assert (found["a"], found["b"]) == ({"type": "array"}, {"type": "object"})
    assert found["c"]["items"] == {"type": "array", "items": {"type": "integer"}}
    assert found["g"]["items"]["required"] == []
    assert empty_places(text) == ["$.a", "$.b", '$.d[]["e f"]']
    assert empty_places("[]") == ["$"] and empty_places("1") == []


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "", "no example"),
        (" \n", "", "no example"),
        ("{", "1:2", "invalid JSON"),
        ('{\n "a": 1,\n}', "3:1", "invalid JSON"),
        ('{"a": 1}\n{"a": }', "2:7", "invalid JSON"),
        ('{"a": 1}\n\n{"a": 1, "a": 2}', "3:1", "twice"),
        ('{"a": NaN}', "", "NaN"),
        ('["\\ud800"]', "", "surrogate"),
        ("[" * 200 + "]" * 200, "", "levels deep"),
    ],
)
def test_what_is_no_json_is_refused_where_it_stands(text, where, why):
    with pytest.raises(ShapeError) as error:
        from_example(text)
    assert (error.value.where, why in error.value.why) == (where, True)


def test_a_document_with_thousands_of_keys_and_one_with_thousands_of_lines_are_merged():
    lines = "\n".join(json.dumps({f"k{n}": n, "same": n, f"m{n}": n}) for n in range(3_000))
    found = json.loads(from_example(lines))
    assert found["required"] == ["same"] and len(found["properties"]) == 6_001


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LIKE_FORMATS = st.sampled_from(
    ["2024-02-29", "2024-02-30", "10:00:00Z", "2024-02-29T10:00:00Z", "a@b.de", "https://a.b/c", "1.2.3.4"]
)
KEYS = st.text("ab é\"'\\/", max_size=3)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 10**15, 10**15 - 1)
    | st.floats(-1e6, 1e6)
    | TEXTS
    | LIKE_FORMATS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(VALUES)
def test_every_example_fits_its_own_schema(document):
    assert fits(document, schema(document))


@settings(deadline=None)
@given(st.lists(VALUES, min_size=2, max_size=4))
def test_every_one_of_several_documents_fits(documents):
    found = schema(*documents)
    judge = jsonschema.Draft202012Validator
    for document in documents:
        judge(found, format_checker=judge.FORMAT_CHECKER).validate(document)
