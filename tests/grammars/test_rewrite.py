"""What a rewritten schema accepts is what the schema accepts, by the judgement of jsonschema."""

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemas import DOCUMENTS, schemas

from grammars.check import _DRAFTS
from grammars.compile import compile_grammar
from grammars.complement import pattern_without
from grammars.formats import EXACT
from grammars.patterns import found_in
from grammars.rewrite import rewrite
from grammars.schema import Document
from grammars.spec import GrammarSpec, ShapeError

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"


def accepted(schema):
    """Tell of every document whether it fits."""
    validator = jsonschema.Draft202012Validator(schema)
    return [validator.is_valid(document) for document in DOCUMENTS]


@given(schema=schemas)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_rewritten_schema_accepts_the_same_documents_or_says_what_it_leaves_for_afterwards(schema):
    made = rewrite(Document(schema))
    before, after = accepted(schema), accepted(made.schema)
    if made.afterwards:
        assert all(wide or not narrow for narrow, wide in zip(before, after, strict=True)), made
    else:
        assert before == after, made


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": False},
        {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True, "maxItems": 2},
        {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True},
        {"dependentRequired": {"a": ["b"]}},
        {"dependentSchemas": {"a": {"required": ["b"]}}},
        {"$schema": DRAFT7, "dependencies": {"a": ["b"], "b": {"properties": {"a": {"type": "integer"}}}}},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}, {"const": None}]},
        {"oneOf": [{"minimum": 1, "type": "number"}, {"exclusiveMaximum": 1, "type": "number"}]},
        {
            "oneOf": [
                {"properties": {"a": {"const": "x"}}, "required": ["a"], "type": "object"},
                {"properties": {"a": {"enum": ["y", 1]}}, "required": ["a"], "type": "object"},
            ]
        },
        {
            "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
            "then": {"required": ["b"]},
            "else": False,
        },
        {"if": {"type": "string"}, "then": {"minLength": 2}},
        {"not": {"required": ["a"]}},
        {"not": {"required": ["a", "b"]}},
        {"not": {"const": "x"}},
        {"not": {"enum": ["x", 1, None]}},
        {"enum": ["x", "y", 1], "not": {"const": "x"}},
        {"not": {"type": ["string", "object"]}},
        {"not": {"minimum": 1}},
        {"contains": {"const": "x"}, "maxItems": 3},
        {"contains": {}, "minContains": 0},
        {"propertyNames": {"enum": ["a", "b"]}},
        {"propertyNames": {"pattern": "^[ab]$"}},
        {"propertyNames": False},
        {"properties": {"a": {}}, "unevaluatedProperties": False},
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "additionalProperties": False,
            "minProperties": 2,
        },
        {"$schema": DRAFT4, "minimum": 1, "exclusiveMinimum": True},
        {"$schema": DRAFT7, "items": [{"type": "integer"}], "additionalItems": False},
        {
            "$schema": DRAFT7,
            "$ref": "#/definitions/a",
            "minimum": 1,
            "definitions": {"a": {"type": "integer"}},
        },
        {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
        {"$id": "https://example.com/r", "$ref": "s", "$defs": {"x": {"$id": "s", "type": "integer"}}},
        {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "string"}}},
        {"$dynamicRef": "#here", "$defs": {"x": {"$dynamicAnchor": "here", "type": "string"}}},
        {"minLength": 1.0},
    ],
)
def test_these_keywords_are_enforced_whole(schema):
    document = Document(schema)
    made = rewrite(document)
    assert made.afterwards == ()
    judge = jsonschema.validators.validator_for(schema, default=_DRAFTS[document.draft])
    assert [judge(schema).is_valid(each) for each in DOCUMENTS] == accepted(made.schema)
    compile_grammar(GrammarSpec(kind="json_schema", text=json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "$.uniqueItems"),
        ({"not": {"pattern": "x"}}, "$.not"),
        ({"contains": {"type": "string"}}, "$.contains"),
        ({"propertyNames": {"minLength": 2, "pattern": "a"}}, "$.propertyNames"),
        ({"oneOf": [{"type": "integer"}, {"multipleOf": 0.5, "type": "number"}]}, "$.oneOf"),
        ({"patternProperties": {"^a": {}, "b$": {}}, "additionalProperties": False}, "$.patternProperties"),
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, "$.unevaluatedProperties"),
        ({"format": "regex"}, "$.format"),
        ({"not": {"const": "a\\b"}}, "$.not"),
        ({"pattern": r"^[^\\x]$"}, "$.pattern"),
        ({"if": {"pattern": "x"}, "then": {"minLength": 3}}, "$.if"),
    ],
)
def test_what_has_no_other_words_is_left_for_afterwards_and_never_narrows(schema, where):
    made = rewrite(Document(schema))
    assert where in [each.where for each in made.afterwards]
    after = accepted(made.schema)
    assert all(wide or not narrow for narrow, wide in zip(accepted(schema), after, strict=True))


@given(
    texts=st.lists(st.text("ab^]-[\n.é", max_size=3), min_size=1, max_size=4),
    text=st.text("ab^]-[\n.é", max_size=4),
)
@settings(max_examples=100, deadline=None)
def test_a_pattern_without_some_texts_matches_all_others(texts, text):
    pattern = pattern_without(texts)
    for each in [*texts, text]:
        assert found_in(pattern, each) is (each not in texts)


@pytest.mark.parametrize("name", ["date", "time", "date-time"])
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_format_in_other_words_writes_valid_values_only(name, data):
    value = data.draw(st.from_regex(EXACT[name]["pattern"].replace(r"\d", "[0-9]"), fullmatch=True)).rstrip(
        "\n"
    )
    assert jsonschema.Draft202012Validator.FORMAT_CHECKER.conforms(value, name), value


def test_the_shape_itself_stays_as_it_is():
    text = json.dumps({"oneOf": [{"type": "null"}, {"type": "string"}]})
    grammar = compile_grammar(GrammarSpec(kind="json_schema", text=text))
    (change,) = grammar.rewrites
    assert grammar.spec.text == text
    assert (change.path, list(change.before), list(change.after)) == ("$", ["oneOf"], ["anyOf"])


@pytest.mark.parametrize("pattern", ["^(?!x)a", r"(a)\1", r"\bword", "a(?<=a)$", "a^b"])
def test_a_pattern_that_cannot_be_written_is_left_for_afterwards_and_checked(pattern):
    for schema in (
        {"type": "string", "pattern": pattern},
        {"patternProperties": {pattern: {"type": "null"}}, "additionalProperties": False},
    ):
        grammar = compile_grammar(GrammarSpec(kind="json_schema", text=json.dumps(schema)))
        assert {each.code for each in grammar.afterwards} >= {next(key for key in schema if "attern" in key)}
    with pytest.raises(ShapeError):
        compile_grammar(GrammarSpec(kind="regex", text=pattern))


def test_surrogate_pairs_in_a_pattern_are_the_characters_they_stand_for():
    assert found_in(r"^[\ud83d\ude00]$", "😀")
    assert not found_in(r"^[\ud83d\ude00]$", "a")


def test_a_word_that_is_no_keyword_names_nothing():
    schema = {
        "$defs": {
            "u": {"not": {"array_of_schemas": [{"$id": "http://x/my.json", "type": "null"}]}},
            "r": {"$id": "http://x/my.json", "type": "string"},
        },
        "$ref": "http://x/my.json",
    }
    assert rewrite(Document(schema)).schema["$defs"]["r"] == {"type": "string"}


def test_beside_a_reference_nothing_counts_in_old_drafts():
    schema = {
        "$schema": DRAFT7,
        "definitions": {"a": {"type": "integer"}},
        "$ref": "#/definitions/a",
        "$id": "http://x/",
        "type": "string",
    }
    assert rewrite(Document(schema)).schema == {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}


def test_conditions_that_multiply_beyond_the_bound_are_left_for_afterwards():
    member = [
        {"if": {"properties": {f"k{n}": {"const": 1}}, "required": [f"k{n}"]}, "then": {"required": ["z"]}}
        for n in range(12)
    ]
    grammar = compile_grammar(
        GrammarSpec(kind="json_schema", text=json.dumps({"type": "object", "allOf": member}))
    )
    assert {each.code for each in grammar.afterwards} == {"if"}
    assert grammar.rewrites[0].path == "$.allOf[0]"
