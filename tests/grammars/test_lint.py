"""The lint says what the compiler refuses, and what would otherwise be silently ignored."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from schemas import schemas

from grammars.compile import compile_grammar
from grammars.fixes import fixed
from grammars.keywords import CHECKED_FORMATS
from grammars.lint import lint, summary
from grammars.presets import presets
from grammars.spec import GrammarSpec, Guards, ShapeError


def spec(kind, text, **options) -> GrammarSpec:
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return GrammarSpec(kind=kind, text=text, **options)


def found(kind, text, **options):
    return {(each.level, each.where, each.code): each for each in lint(spec(kind, text, **options))}


@given(schema=schemas)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_there_is_an_error_if_and_only_if_the_shape_does_not_compile(schema):
    shape = spec("json_schema", schema)
    errors = [each for each in lint(shape) if each.level == "error"]
    try:
        grammar = compile_grammar(shape)
    except ShapeError as refused:
        assert (refused.where, refused.why) in {(each.where, each.why) for each in errors}
    else:
        assert not errors
        told = {each.where for each in lint(shape) if each.level == "warning"}
        assert {each.where for each in grammar.afterwards} <= told


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json_schema", "{"),
        ("json_schema", "[]"),
        ("json_schema", {"type": "integer", "minimum": 10, "maximum": 3}),
        ("json_schema", {"properties": {"a": {"$ref": "https://example.com/s"}}}),
        ("regex", "(?=a)b"),
        ("regex", "("),
        ("lark", "start: a"),
        ("lark", "start: AB\nAB: A & B\nA: /a/\nB: /b/"),
        ("lark", 'start: %json {"enum":[]}'),
        ("choice", '["a","a"]'),
        ("choice", "{"),
    ],
)
def test_what_does_not_compile_is_an_error_with_the_same_words(kind, text):
    with pytest.raises(ShapeError) as refused:
        compile_grammar(spec(kind, text))
    first = lint(spec(kind, text))[0]
    assert (first.level, first.where, first.why) == ("error", refused.value.where, refused.value.why)


def test_every_fault_is_told_and_not_only_the_first():
    schema = {
        "properties": {"a": {"minimum": 3, "maximum": 1}, "b": {"type": "strnig"}, "c": {"$ref": "#/x"}}
    }
    errors = [each for each in lint(spec("json_schema", schema)) if each.level == "error"]
    assert [each.where for each in errors] == ["$.properties.a", "$.properties.b", "$.properties.c"]
    assert errors[1].suggestion == "did you mean string?"


def test_a_remote_reference_is_refused_with_the_way_to_bundle_it():
    (error,) = lint(spec("json_schema", {"$ref": "https://example.com/s"}))
    assert "$defs" in (error.suggestion or "")


@pytest.mark.parametrize(
    ("schema", "where", "code", "words"),
    [
        ({"type": "string", "minLenght": 3}, "$.minLenght", "minLenght", "minLength"),
        (
            {"additionalproperties": False},
            "$.additionalproperties",
            "additionalproperties",
            "additionalProperties",
        ),
        ({"max_length": 3}, "$.max_length", "max_length", "maxLength"),
        ({"type": "string", "nullable": True}, "$.nullable", "nullable", '["string", "null"]'),
        ({"$ref": "#/$defs/a", "nullable": True, "$defs": {"a": {}}}, "$.nullable", "nullable", "anyOf"),
        ({"example": 3}, "$.example", "example", "examples"),
        ({"discriminator": {"propertyName": "a"}}, "$.discriminator", "discriminator", None),
        ({"then": {}}, "$.then", "then", None),
        ({"type": "integer", "minLength": 2}, "$.minLength", "minLength", None),
        ({"format": "wat"}, "$.format", "format", None),
        ({"type": "integer", "enum": ["a", 3]}, "$.enum[0]", "enum", None),
        (
            {"type": "object", "properties": {"name": {}}, "required": ["nmae"]},
            "$.required",
            "required",
            "did you mean `name`?",
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "dependentRequired": {"a": ["b"]}},
            "$.dependentRequired",
            "dependentRequired",
            None,
        ),
        (
            {
                "type": "object",
                "properties": {"a": {}},
                "additionalProperties": False,
                "anyOf": [{"required": ["b"]}, {}],
            },
            "$.anyOf[0]",
            "anyOf",
            "properties",
        ),
        (
            {
                "type": "object",
                "properties": {"n": {"$ref": "#/$defs/n"}},
                "$defs": {"n": {"minItems": 1, "type": "array", "items": {"$ref": "#/$defs/n"}}},
            },
            "$.$defs.n",
            "$ref",
            "optional",
        ),
    ],
)
def test_what_is_ignored_or_never_comes_to_pass_is_a_warning(schema, where, code, words):
    finding = found("json_schema", schema)["warning", where, code]
    assert words is None or words in (finding.suggestion or "")


@pytest.mark.parametrize(
    ("schema", "where", "code", "words"),
    [
        ({"type": "string"}, "$", "maxLength", "2,000 characters"),
        ({"type": "integer", "minimum": 0}, "$", "maximum", "20 digits"),
        ({"type": "array"}, "$", "maxItems", "200 elements"),
        ({"type": "object"}, "$", "additionalProperties", "200 members"),
        ({"items": {"$ref": "#"}}, "$", "$ref", "24 levels"),
        (
            {"type": "object", "properties": {"why": {}, "verdict": {}}, "required": ["verdict", "why"]},
            "$.required",
            "required",
            "why, verdict",
        ),
        ({"properties": {"a": {}}, "required": ["z"]}, "$.required", "required", "behind the named members"),
        ({"properties": {"1": {}}}, "$.properties", "properties", "number"),
        ({"pattern": "a"}, "$.pattern", "pattern", "anywhere"),
        ({"x-guidance": {}}, "$.x-guidance", "x-guidance", "left out"),
    ],
)
def test_what_is_worth_knowing_is_a_note(schema, where, code, words):
    assert words in found("json_schema", schema)["note", where, code].why


def test_what_no_guard_ends_is_a_warning():
    assert ("warning", "$", "maxLength") in found("json_schema", {"type": "string"}, guards=Guards.off())


def test_a_list_that_ends_in_null_is_fine():
    link = {
        "type": "object",
        "properties": {
            "value": {"type": "number"},
            "next": {"anyOf": [{"$ref": "#/$defs/link"}, {"type": "null"}]},
        },
        "required": ["value", "next"],
    }
    assert not [
        each
        for each in lint(spec("json_schema", {"$ref": "#/$defs/link", "$defs": {"link": link}}))
        if each.level != "note"
    ]


def test_a_fully_bounded_schema_has_nothing_to_say():
    schema = {
        "type": "object",
        "properties": {
            "mood": {"enum": ["calm", "tense"]},
            "level": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["mood", "level"],
        "additionalProperties": False,
    }
    assert lint(spec("json_schema", schema)) == ()


def test_shipped_presets_have_no_warnings():
    for preset in presets().values():
        assert not [each for each in lint(preset.spec()) if each.level != "note"], preset.name


def test_a_rule_that_nothing_uses_is_told_by_position():
    text = 'start: a\na[capture]: "x" B\nb: "y"\nB: /z/\nC: /w/\n%ignore C'
    assert [(each.where, each.code) for each in lint(spec("lark", text)) if each.level == "warning"] == [
        ("3:1", "b")
    ]


def test_a_schema_inside_a_grammar_is_looked_at_too():
    shape = spec("lark", 'start: "n"\n  %json {"const":1,"minLenght":3}')
    (finding,) = [each for each in lint(shape) if each.level == "warning"]
    assert finding.where == "2:9"
    assert "$.minLenght" in finding.why


@pytest.mark.parametrize(
    ("pattern", "codes"),
    [
        ("^a$", {"anchor"}),
        ("a+", {"unbounded"}),
        (r"\d{2}", {r"\d"}),
        ("[+*]{2}", set()),
        (r"\+", set()),
        ("ab?", set()),
    ],
)
def test_habits_of_regular_expressions_are_notes(pattern, codes):
    assert {each.code for each in lint(spec("regex", pattern))} == codes


def test_choices_that_look_the_same_are_told():
    assert [
        (each.level, each.where) for each in lint(spec("choice", '["Yes","no","yes","nobody"," x"]'))
    ] == [
        ("warning", "$[2]"),
        ("warning", "$[4]"),
        ("note", "$[1]"),
    ]


def test_a_summary_says_what_is_checked_afterwards_and_nothing_otherwise():
    undecided = {"oneOf": [{"type": "integer"}, {"type": "number", "multipleOf": 0.5}]}
    (sentence,) = summary(compile_grammar(spec("json_schema", undecided)))
    assert "`oneOf` at $.oneOf" in sentence
    assert summary(compile_grammar(spec("json_schema", {"type": "null"}))) == ()


@pytest.mark.parametrize(
    ("schema", "better"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        (
            {"items": {"$ref": "#/$defs/a", "nullable": True}, "$defs": {"a": {}}},
            {"items": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}, "$defs": {"a": {}}},
        ),
        ({"type": "str", "minLenght": 2}, {"type": "string", "minLength": 2}),
        ({"minLenght": 2, "minLength": 3}, {"minLenght": 2, "minLength": 3}),
        ({"example": 1}, {"examples": [1]}),
        (
            {"properties": {"minLenght": {}, "nullable": {}}},
            {"properties": {"minLenght": {}, "nullable": {}}},
        ),
    ],
)
def test_fixes_are_applied_where_there_is_one_meaning(schema, better):
    text = fixed(spec("json_schema", schema)).text
    assert json.loads(text) == better
    assert list(json.loads(text)) == list(better)


def test_nothing_to_fix_leaves_the_shape_as_it_is():
    shape = spec("json_schema", '{ "type":"string" }')
    assert fixed(shape) is shape


def test_the_formats_said_to_be_checked_are_those_that_the_validator_checks():
    from jsonschema import Draft202012Validator

    assert set(Draft202012Validator.FORMAT_CHECKER.checkers) == CHECKED_FORMATS


def test_habits_are_told_beside_errors():
    schema = {
        "properties": {"a": {"minimum": 3, "maximum": 1}, "b": {"minLenght": 3}, "c": {"type": "strnig"}}
    }
    assert {each.level for each in lint(spec("json_schema", schema))} == {"error", "warning"}
