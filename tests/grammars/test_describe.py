"""The words that show a shape to the model: short, in the order of the reply, and never without an end."""

import json

import pytest

from grammars.describe import describe
from grammars.presets import presets
from grammars.spec import GrammarSpec


def words(kind, text) -> str:
    return describe(GrammarSpec(kind=kind, text=text if isinstance(text, str) else json.dumps(text)))


def outline(schema) -> str:
    head, _, rest = words("json_schema", schema).partition("\n")
    assert head == "Answer in JSON like this:"
    return rest


def test_an_object_is_shown_as_a_reply_in_the_order_of_its_keys():
    schema = {
        "type": "object",
        "properties": {
            "why": {"type": "string", "description": "one\n sentence", "pattern": "^x+$"},
            "sure": {"type": "integer", "minimum": 0, "maximum": 100},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "pair": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
            "note": {"type": ["string", "null"]},
        },
        "required": ["why", "sure", "tags", "pair"],
    }
    assert outline(schema) == (
        '{"why": text (one sentence), "sure": whole number from 0 to 100, "tags": ["a" or "b", ...], '
        '"pair": [number, number], "note": text or null (optional)}'
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, "anything"),
        ({"const": "é"}, '"é"'),
        ({"type": "string", "format": "date"}, "text (date)"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "null or true or false"),
        ({"prefixItems": [{"type": "string"}], "items": False}, "[text]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{...: whole number}"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "text"),
        ({"$ref": "#/$defs/gone"}, "anything"),
        (
            {"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]},
            '{"n": {"n": the same again}}',
        ),
    ],
)
def test_each_kind_of_schema_has_plain_words(schema, expected):
    assert outline(schema) == expected


def test_the_other_kinds_are_shown_as_they_are():
    assert words("choice", ["yes", "no"]) == 'Answer only with "yes" or "no", without the quotes.'
    assert words("regex", "[0-9]+").endswith("\n[0-9]+")
    assert words("lark", 'start: "a"\n').endswith('\nstart: "a"')


def test_presets_are_shown_in_few_words():
    for preset in presets().values():
        assert 20 < len(describe(preset.spec())) < 1100


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$ref": "#/$defs/l0",
            "$defs": {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 4} for n in range(30)},
        },
        {"$ref": "#", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}},
        {"type": [[]], "properties": 3, "required": 7, "anyOf": {}, "items": [], "minItems": "x"},
    ],
)
def test_shapes_that_branch_without_an_end_are_cut(schema):
    assert len(words("json_schema", schema)) < 9000
