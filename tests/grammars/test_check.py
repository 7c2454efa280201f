"""A reply is judged by something other than what made it, and no reply raises."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.check import check
from grammars.spec import GrammarSpec


def verdict(kind, text, reply):
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return check(GrammarSpec(kind=kind, text=text), reply)


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "ages": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name"],
}


def test_a_fitting_document_comes_parsed_whatever_its_layout():
    found = verdict("json_schema", PERSON, '{\n "ages": [1, 2],\n "name": "é"}')
    assert (found.fits, found.parsed, found.problem, found.where) == (
        True,
        {"ages": [1, 2], "name": "é"},
        None,
        None,
    )


@pytest.mark.parametrize(
    ("reply", "where", "words"),
    [
        ('{"name":"a","ages":[1,"x"]}', "$.ages[1]", "integer"),
        ('{"ages":[]}', "$", "name"),
        ("7", "$", "object"),
        ('{"name":"a"', "1:12", "invalid JSON"),
        ('{"name":"a"} and more', "1:14", "invalid JSON"),
        ('{"name":NaN}', None, "NaN"),
        ('{"name":-Infinity}', None, "Infinity"),
        ("", "1:1", "invalid JSON"),
    ],
)
def test_a_document_that_does_not_fit_says_where_and_why(reply, where, words):
    found = verdict("json_schema", PERSON, reply)
    assert not found.fits
    assert found.where == where
    assert words in (found.problem or "")


@pytest.mark.parametrize(
    ("value", "fits"), [(74.54, True), (0.07, True), (19.99, True), (74.545, False), (1e300, True)]
)
def test_multiples_are_judged_exactly_not_as_floats(value, fits):
    assert verdict("json_schema", {"type": "number", "multipleOf": 0.01}, json.dumps(value)).fits == fits


def test_of_members_with_one_key_the_last_counts_as_for_every_reader():
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert verdict("json_schema", schema, '{"a":1,"a":2}').parsed == {"a": 2}
    assert not verdict("json_schema", schema, '{"a":1,"a":"x"}').fits


def test_what_the_engine_cannot_enforce_is_checked_all_the_same():
    schema = {"type": "array", "items": {"enum": ["red", "blue"]}, "uniqueItems": True, "maxItems": 2}
    assert verdict("json_schema", schema, '["red","blue"]').fits
    assert not verdict("json_schema", schema, '["red","red"]').fits


def test_formats_are_checked():
    assert verdict("json_schema", {"format": "date"}, '"2024-02-29"').fits
    assert not verdict("json_schema", {"format": "date"}, '"2023-02-29"').fits
    assert not verdict("json_schema", {"format": "ipv4"}, '"1.2.3.400"').fits


def test_the_draft_is_the_one_that_the_schema_names():
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert not verdict("json_schema", old, "1").fits
    assert verdict("json_schema", old, "2").fits


def test_a_remote_reference_is_never_fetched(monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", forbidden)
    monkeypatch.setattr("urllib.request.urlopen", forbidden)
    found = verdict("json_schema", {"$ref": "http://127.0.0.1:9/s.json"}, "1")
    assert not found.fits
    assert "127.0.0.1" in (found.problem or "")


def test_a_pattern_that_python_does_not_know_is_still_checked():
    schema = {"type": "string", "pattern": r"^\p{Lu}+$"}
    assert verdict("json_schema", schema, '"ÀÉ"').fits
    assert not verdict("json_schema", schema, '"Àé"').fits


def test_a_choice_is_one_of_the_texts_and_nothing_around_it():
    assert verdict("choice", ["yes", "no"], "yes").parsed == "yes"
    for reply in ("Yes", "yes ", "", "yesno"):
        assert not verdict("choice", ["yes", "no"], reply).fits


@pytest.mark.parametrize(
    ("kind", "text", "reply", "fits", "where"),
    [
        ("regex", "yes|no", "yes", True, None),
        ("regex", "yes|no", "yes!", False, "1:4"),
        ("regex", "yes|no", "ye", False, "1:3"),
        ("regex", "[é😀]{2}\nx", "é😀\ny", False, "2:1"),
        ("regex", ".", "\ud800", False, "1:1"),
        ("lark", 'start: "a" b\nb: /[0-9]+/', "a12", True, None),
        ("lark", 'start: "a" b\nb: /[0-9]+/', "a1x", False, "1:3"),
        ("lark", 'start: "n" %json {"type":"integer"}', "n42", True, None),
    ],
)
def test_text_is_walked_to_where_it_leaves_the_shape(kind, text, reply, fits, where):
    found = verdict(kind, text, reply)
    assert (found.fits, found.where) == (fits, where)
    assert (found.problem is None) is fits


NODE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }
    },
}


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_deep_replies_get_a_verdict(depth):
    deep = '{"kids":[' * depth + "]}" * depth
    assert verdict("json_schema", NODE, deep).fits or depth > 100
    assert verdict("json_schema", {"type": "object"}, "[" * depth).fits is False


@pytest.mark.parametrize(
    ("kind", "text"),
    [("json_schema", "{}"), ("regex", "[a-z]*"), ("lark", "start: /[a-z]*/"), ("choice", '["a"]')],
)
def test_huge_replies_get_a_verdict(kind, text):
    assert verdict(kind, text, "é" * 10_000_001).fits is False
    assert verdict(kind, text, "9" * 10_000).fits is False


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json_schema", '{"type":"object","additionalProperties":{"type":"number","multipleOf":0.1}}'),
        ("regex", "[a-z]+é?"),
        ("lark", 'start: "{" /[^}]*/ "}"'),
        ("choice", '["{}"]'),
    ],
)
@given(
    reply=st.text()
    | st.recursive(st.floats() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x)).map(
        json.dumps
    )
)
@settings(max_examples=25, deadline=None)
def test_no_reply_raises(kind, text, reply):
    found = verdict(kind, text, reply)
    assert found.fits is (found.problem is None)


def fits(schema, value):
    return verdict("json_schema", schema, json.dumps(value)).fits


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("b", "abc", True),  # a pattern may match anywhere
        ("^b", "abc", False),
        ("^a$", "a", True),
        ("^a$", "a\n", False),  # Python's `$` also matches before a last newline
        (r"^\d$", "٣", False),  # Python's `\d` takes every Unicode digit
        (r"^\w$", "é", False),
        ("^[\\s\\S]*$", '\0\t"\\/\x7f\u2028😀', True),
        ("^(a+)+$", "a" * 5000 + "!", False),  # Python's search would not end
        ("(?=.*b)a", "ab", True),  # llguidance refuses look-around
        ("(?=.*b)a", "a", False),
    ],
)
def test_patterns_are_json_schemas_and_not_pythons(pattern, value, found):
    assert fits({"type": "string", "pattern": pattern}, value) is found
    assert fits({"patternProperties": {pattern: False}}, {value: 1}) is not found
    closed = {"patternProperties": {pattern: True}, "properties": {"x": {}}, "additionalProperties": False}
    assert fits(closed, {"x": 2, value: 1}) is found


def test_additional_properties_are_checked_and_named():
    schema = {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    assert fits(schema, {"a": "x", "b": 1})
    assert verdict("json_schema", schema, '{"b": "x"}').where == "$.b"
    closed = {"properties": {"a": {}}, "additionalProperties": False}
    assert "'b'" in verdict("json_schema", closed, '{"a": 1, "b": 2}').problem


def test_a_search_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr("grammars.check._SEARCH_S", 0.2)
    found = verdict("json_schema", {"pattern": "^(?=a)(a+)+$"}, json.dumps("a" * 60 + "!"))
    assert not found.fits
    assert "too long" in found.problem


@given(text=st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_every_text_can_be_searched(text):
    assert fits({"pattern": "^[\\s\\S]*$"}, text)
    assert fits({"pattern": "x"}, text) is ("x" in text)
