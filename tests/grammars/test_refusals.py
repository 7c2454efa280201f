"""Shapes that cannot be used are refused with one sentence that says where and why."""

import json

import pytest
from bytewalk import compiled

from grammars.spec import ShapeError


def refusal(kind, text) -> ShapeError:
    with pytest.raises(ShapeError) as refused:
        compiled(kind, text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700
    return refused.value


def test_unique_items_of_a_finite_list_are_refused_by_path_for_now():
    schema = {"type": "array", "items": {"enum": ["red", "blue"]}, "uniqueItems": True, "maxItems": 2}
    assert refusal("json_schema", schema).where == "$.uniqueItems"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('{"type":}', "1:9", "invalid JSON"),
        ('{\n  "a": 1,\n}', "3:1", "invalid JSON"),
        ("", "1:1", "invalid JSON"),
        ("[]", "", "object"),
        ("7", "", "object"),
        ('{"a":1,"a":2}', "", '"a" stands twice'),
        ('{"minimum":NaN}', "", "NaN"),
        ('{"minimum":1e999}', "", "1e999"),
        ('{"const":"\\ud800"}', "", "surrogate"),
        ('{"const":' + "9" * 5000 + "}", "", "digits"),
        ("[" * 100_000, "", "deep"),
        ('{"items":' * 130 + "true" + "}" * 130, "", "deep"),
    ],
)
def test_what_is_no_schema_is_refused_by_position(text, where, words):
    error = refusal("json_schema", text)
    assert error.where == where
    assert words in error.why


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("not", {}),
        ("if", {}),
        ("then", {}),
        ("else", {}),
        ("uniqueItems", True),
        ("uniqueItems", False),
        ("contains", {}),
        ("minContains", 1),
        ("maxContains", 1),
        ("dependentRequired", {}),
        ("dependentSchemas", {}),
        ("dependencies", {}),
        ("propertyNames", {}),
        ("unevaluatedItems", False),
        ("unevaluatedProperties", False),
        ("$dynamicRef", "#a"),
    ],
)
def test_an_unsupported_keyword_is_refused_with_its_path(keyword, value):
    bad = {"type": "string", keyword: value}
    step = f".{keyword}"
    for schema, path in (
        (bad, "$"),
        ({"properties": {"a": {"type": "array", "items": bad}}}, "$.properties.a.items"),
        ({"properties": {"a b": bad}}, '$.properties["a b"]'),
        ({"anyOf": [{"type": "null"}, bad]}, "$.anyOf[1]"),
        ({"$ref": "#/$defs/x", "$defs": {"x": bad}}, "$.$defs.x"),
        ({"type": "array", "prefixItems": [bad]}, "$.prefixItems[0]"),
        ({"additionalProperties": bad}, "$.additionalProperties"),
    ):
        error = refusal("json_schema", schema)
        assert error.where == path + step
        assert f"`{keyword}`" in error.why


def test_several_unsupported_keywords_are_told_at_once():
    error = refusal("json_schema", {"properties": {"a": {"not": {}}, "b": {"if": {}}}})
    assert error.where == "$.properties.a.not"
    assert "$.properties.b.if" in error.why


def test_a_keyword_where_it_is_no_keyword_is_fine():
    compiled("json_schema", {"properties": {"not": {"const": {"if": 1}}, "if": {"enum": ["contains"]}}})
    compiled("json_schema", {"type": "string", "$defs": {"unused": {"not": {}}}, "examples": [{"not": {}}]})


@pytest.mark.parametrize(
    ("schema", "where", "words"),
    [
        ({"type": "integer", "minimum": 10, "maximum": 3}, "$", ["minimum", "maximum"]),
        ({"minimum": 1, "exclusiveMaximum": 1}, "$", ["minimum", "exclusiveMaximum"]),
        ({"type": "string", "minLength": 4, "maxLength": 2}, "$", ["minLength", "maxLength"]),
        ({"type": "array", "minItems": 4, "maxItems": 2}, "$", ["minItems", "maxItems"]),
        ({"properties": {"a": {"minimum": 10, "maximum": 3}}}, "$.properties.a", ["minimum", "maximum"]),
        (False, "$", ["nothing"]),
        ({"enum": []}, "$", ["nothing fits"]),
        (
            {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]},
            "$",
            ["nothing fits", "a"],
        ),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "$", ["nothing fits", "a"]),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, "$", ["nothing fits"]),
        ({"type": "integer", "minimum": 0.5, "maximum": 0.7}, "$", ["nothing fits"]),
        ({"$ref": "#/$defs/p", "$defs": {"p": {"$ref": "#/$defs/p"}}}, "$", ["refers to itself"]),
        ({"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}, "$", ["never ends"]),
        (
            {"properties": {"a": {"$ref": "https://example.com/s"}}},
            "$.properties.a",
            ["remote", "https://example.com/s"],
        ),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "$.properties.a", ["#/$defs/gone", "nowhere"]),
        ({"properties": {"a": {"type": "text"}}}, "$.properties.a", ["text"]),
        ({"items": {"pattern": "(", "type": "string"}}, "$.items", ["regular expression", "unclosed group"]),
        ({"items": {"format": "color", "type": "string"}}, "$.items", ["color", "date-time"]),
        ({"items": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, "$.items", ["oneOf", "anyOf"]),
        ({"properties": {"a": {"minimum": "x"}}}, "$.properties.a", ["minimum", "number"]),
        ({"properties": {"a": {"const": 2**63}}}, "$.properties.a.const", ["too large"]),
        ({"allOf": [{"pattern": f"a.*{n}"} for n in range(30)], "type": "string"}, "$.allOf", ["patterns"]),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_path(schema, where, words):
    error = refusal("json_schema", schema)
    assert error.where == where
    assert all(word in error.why for word in words), error.why


@pytest.mark.parametrize(
    ("pattern", "where", "words"),
    [
        ("", "", "empty"),
        ("(", "1:1", "unclosed group"),
        ("ab[z-a]", "1:4", "range"),
        ("a/b/(c/", "1:5", "unclosed group"),
        ("a\nb(", "2:2", "unclosed group"),
        ("é(", "1:2", "unclosed group"),
        ("a(?=b)", "1:2", "look-around"),
        (r"(a)\1", "1:4", "backreferences"),
        (r"\bword", "", "anchor"),
        ("a\\", "1:2", "backslash"),
        ("[a&&b]", "", "no reply fits"),
        ("a{1000000}", "", "bytes"),
        ("()", "", "empty reply"),
    ],
)
def test_a_broken_regular_expression_is_refused_by_position(pattern, where, words):
    error = refusal("regex", pattern)
    assert error.where == where
    assert words in error.why


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "", "empty"),
        ('start: "a" b', "1:8", "unknown name"),
        ('start: "é" b', "1:8", "unknown name"),
        ('start: a\n\na: ((\n"x"', "3:6", "Expected"),
        ("start: /(/", "1:8", "unclosed group"),
        ('rule: "a"', "", "start"),
        ("start: A\nA: B\nB: A", "3:4", "circular"),
        ('start: x\nx: x "a"', "", "refers to itself"),
        ("start: <|im_end|>", "1:8", "one vocabulary"),
        ("start: a\na: <[12]>", "2:4", "one vocabulary"),
        ("start: a\na[max_tokens=3]: /a*/", "2:3", "max_tokens"),
        ('start: %json {"type":"string",}', "1:31", "invalid JSON"),
        ('start: x\nx: %json {"items":{"not":{}}}', "2:10", "$.items.not"),
        ('start: x\nx: %json {"items":{"type":"text"}}', "2:10", "$.items"),
        ("start: %json 7", "1:14", "object"),
        ('{"grammars":[{"regex":"a"}]}', "1:1", "expecting"),
        ('start: ""', "", "empty reply"),
    ],
)
def test_a_broken_grammar_is_refused_by_position(text, where, words):
    error = refusal("lark", text)
    assert words in error.why, error.why
    assert error.where == where


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("[]", "", "at least one"),
        ('{"a":1}', "", "list"),
        ('["a","b","a"]', "$[2]", "$[0]"),
        ('["a",""]', "$[1]", "empty"),
        ('["a",1]', "$[1]", "text"),
        ('["a"', "1:5", "invalid JSON"),
        (json.dumps([str(n) for n in range(10_001)]), "", "10,000"),
    ],
)
def test_choices_that_are_none_are_refused(text, where, words):
    error = refusal("choice", text)
    assert error.where == where
    assert words in error.why


@pytest.mark.parametrize("kind", ["json_schema", "regex", "lark", "choice"])
@pytest.mark.parametrize("text", ["x" * 4_000_001, "\ud800", "a\0b"])
def test_text_that_is_too_long_or_no_text_is_refused(kind, text):
    refusal(kind, text)
