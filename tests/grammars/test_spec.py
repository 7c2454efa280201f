"""The hash of a shape is the identity of its language."""

import pytest

from grammars.spec import GrammarSpec, ShapeError


def spec(kind, text, **options) -> GrammarSpec:
    return GrammarSpec(kind=kind, text=text, **options)


def test_layout_is_no_part_of_the_hash():
    assert spec("json_schema", '{ "type":\n "string" }').hash == spec("json_schema", '{"type":"string"}').hash
    assert spec("choice", '[ "a" , "b" ]').hash == spec("choice", '["a","b"]').hash
    assert spec("choice", '["\\u00e9"]').hash == spec("choice", '["é"]').hash


def test_key_order_is_part_of_the_hash_because_replies_follow_it():
    one = spec("json_schema", '{"properties":{"a":{},"b":{}}}')
    other = spec("json_schema", '{"properties":{"b":{},"a":{}}}')
    assert one.hash != other.hash


def test_the_name_is_no_part_of_the_hash():
    assert spec("regex", "a+", name="one").hash == spec("regex", "a+", name="two").hash


def test_whitespace_counts_where_there_is_json():
    assert spec("json_schema", "{}").hash != spec("json_schema", "{}", whitespace="spaced").hash
    assert spec("regex", "a").hash == spec("regex", "a", whitespace="spaced").hash
    assert spec("choice", '["a"]').hash == spec("choice", '["a"]', whitespace="flexible").hash


def test_the_kind_is_part_of_the_hash():
    assert spec("regex", '["a"]').hash != spec("choice", '["a"]').hash


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\ud800", ""])
def test_what_is_no_json_still_has_a_hash(text):
    assert len(spec("json_schema", text).hash) == 64


def test_an_error_says_where_before_why():
    assert str(ShapeError("is wrong", "$.a")) == "$.a: is wrong"
    assert str(ShapeError("is wrong")) == "is wrong"
