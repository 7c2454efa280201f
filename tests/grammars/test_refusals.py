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
        ("minLength", -1),
        ("maxItems", 1.5),
        ("minimum", True),
        ("multipleOf", 0),
        ("properties", []),
        ("items", 3),
        ("anyOf", {}),
        ("required", "a"),
        ("enum", "a"),
        ("type", "strnig"),
        ("uniqueItems", "yes"),
        ("not", None),
        ("dependentRequired", {"a": "b"}),
        ("pattern", 1),
    ],
)
def test_a_keyword_with_a_value_it_cannot_have_is_refused_by_path(keyword, value):
    bad = {keyword: value}
    for schema, path in (
        (bad, "$"),
        ({"properties": {"a": {"type": "array", "items": bad}}}, "$.properties.a.items"),
        ({"properties": {"a b": bad}}, '$.properties["a b"]'),
        ({"anyOf": [{"type": "null"}, bad]}, "$.anyOf[1]"),
        ({"$ref": "#/$defs/x", "$defs": {"x": bad}}, "$.$defs.x"),
        ({"type": "array", "prefixItems": [bad]}, "$.prefixItems[0]"),
        ({"additionalProperties": bad}, "$.additionalProperties"),
        ({"not": {"if": bad}}, "$.not.if"),
    ):
        error = refusal("json_schema", schema)
        assert error.where == path
        assert error.why.startswith(keyword)


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
        (
            {"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]},
            "$",
            ["refers to itself"],
        ),
        (
            {
                "properties": {"k": {"type": "integer"}, "n": {"$ref": "#"}},
                "required": ["k", "n"],
                "type": "object",
            },
            "$",
            ["refers to itself"],
        ),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "$", ["refers to itself"]),
        (
            {"anyOf": [{"$ref": "#"}, {"type": "array", "prefixItems": [{"$ref": "#"}], "minItems": 1}]},
            "$",
            ["itself"],
        ),
        ({"type": "string", "not": {"type": "string"}}, "$", ["nothing fits"]),
        ({"not": {}}, "$", ["nothing fits"]),
        ({"enum": [1, 2], "not": {"enum": [2, 1]}}, "$", ["nothing fits"]),
        ({"type": "array", "contains": False}, "$", ["nothing fits"]),
        ({"contains": {}, "minContains": 3, "maxContains": 2}, "$", ["minContains", "maxContains"]),
        (
            {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 3},
            "$",
            ["nothing fits"],
        ),
        ({"oneOf": [{"type": "null"}, {"type": "null"}]}, "$", ["nothing fits"]),
        (
            {"type": "object", "required": ["a"], "if": {"required": ["a"]}, "then": False},
            "$",
            ["nothing fits"],
        ),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}, "$", ["prefixItems"]),
        (
            {"properties": {"a": {"$ref": "https://example.com/s"}}},
            "$.properties.a",
            ["remote", "https://example.com/s"],
        ),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "$.properties.a", ["#/$defs/gone", "nowhere"]),
        ({"properties": {"a": {"type": "text"}}}, "$.properties.a", ["text"]),
        ({"items": {"pattern": "(", "type": "string"}}, "$.items", ["regular expression", "unclosed group"]),
        ({"properties": {"a": {"minimum": "x"}}}, "$.properties.a", ["minimum", "number"]),
        ({"properties": {"a": {"const": 2**63}}}, "$.properties.a.const", ["too large"]),
        ({"allOf": [{"pattern": f"a.*{n}"} for n in range(30)], "type": "string"}, "$", ["patterns"]),
        (
            {
                "allOf": [{"$ref": f"#/$defs/{n}"} for n in range(12)],
                "$defs": {str(n): {"properties": {"a": {"pattern": f"a.*{n}"}}} for n in range(12)},
            },
            "$",
            ["patterns"],
        ),
        (
            {"allOf": [{"anyOf": [{"type": "null"}, {"pattern": f"a.*{n}"}]} for n in range(12)]},
            "$",
            ["patterns"],
        ),
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
        ('start: x\nx: %json {"items":{"minLength":-1}}', "2:10", "$.items"),
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


BAD = [
    {"minimum": 18446744073709551600},
    {"maximum": -18446744073709551600},
    {"allOf": [{"multipleOf": 97}, {"multipleOf": 89}, {"multipleOf": 83}]},
    {"type": "number", "minimum": 1e-320},
    {"items": {"pattern": "[\\ud800]", "type": "string"}},
    {"properties": {"a": {"pattern": "\\cA"}}},
    {"pattern": "[^]"},
    {"pattern": "a{2,1}"},
    {"patternProperties": {"(": {}}},
    {"type": "integer", "minimum": 1, "maximum": 3, "multipleOf": 7},
    {"type": "object", "required": ["a"], "maxProperties": 0},
    {
        "$defs": {
            "n": {
                "type": "object",
                "properties": {"n": {"allOf": [{"$ref": "#/$defs/n"}, {"required": ["a"]}]}},
            }
        },
        "$ref": "#/$defs/n",
    },
    {
        "allOf": [{"patternProperties": {"^a": {}}}, {"patternProperties": {"a$": {"type": "null"}}}],
        "type": "object",
    },
    {"anyOf": [{"type": "string", "pattern": f"^{n}(a|b)$"} for n in range(1_100)]},
    {"allOf": [{"anyOf": [{"properties": {f"k{j}": {"const": i}}} for i in range(20)]} for j in range(20)]},
]


@pytest.mark.parametrize("schema", BAD)
def test_no_wording_of_the_grammar_library_leaves(schema):
    error = refusal("json_schema", schema)
    assert error.where.startswith("$")
    for raw in (
        "Unimplemented",
        "Failed to",
        "while process",
        "Some(",
        "None",
        '["',
        "only supported",
        "json-schema:",
    ):
        assert raw not in error.why


def tree(depth, joined):
    link = {"allOf": [{"$ref": "#/$defs/p%d"}, {"type": "object"}]} if joined else {"$ref": "#/$defs/p%d"}
    part = {"type": "object", "properties": {"a": link, "b": link}, "required": ["a", "b"]}
    parts = {f"p{n}": json.loads(json.dumps(part).replace("%d", str(n + 1))) for n in range(depth)}
    return {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{depth}": {"type": "object"}}}


def test_what_multiplies_when_it_is_joined_is_refused_and_what_does_not_compiles():
    assert "joins" in refusal("json_schema", tree(40, joined=True)).why
    compiled("json_schema", tree(40, joined=False))


def test_a_schema_of_too_many_parts_is_refused_by_their_number():
    assert "12,000" in refusal("json_schema", {"anyOf": [{"type": "null"}] * 13_000}).why


@pytest.mark.parametrize("schema", [
    {"not": {}}, {"not": True}, {"allOf": [True, False]}, {"allOf": [False, False]}, {"oneOf": [True, True]},
    {"oneOf": [True, True, False]}, {"enum": []}, {"anyOf": [False]}, {"anyOf": []},
    {"$ref": "#/$defs/a", "$defs": {"a": False}}, {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {}}}},
])  # fmt: skip
def test_a_schema_that_excludes_everything_never_compiles_to_anything(schema):
    for extra in ({}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}):
        refusal("json_schema", {**extra, **schema})
    refusal("lark", f"start: %json {json.dumps(schema)}")
