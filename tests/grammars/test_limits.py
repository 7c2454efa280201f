"""No text, however large, deep or odd, does anything but compile or be refused, and soon."""

import json
from time import process_time

import jsonschema
import pytest
from bytewalk import allowed, compiled, matcher
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llguidance import LLParserLimits

from grammars.matcher import allow_effort, limits, pristine
from grammars.spec import ShapeError


@pytest.mark.parametrize("links", [100, 3_000])
@pytest.mark.parametrize(
    "chain",
    [
        lambda link: {"$ref": link},
        lambda link: {"type": "array", "items": {"$ref": link}},
        lambda link: {"allOf": [{"$ref": link}, {"minLength": 1}]},
        lambda link: {"type": "object", "properties": {"a": {"anyOf": [{"$ref": link}, {"type": "null"}]}}},
    ],
)
def test_long_chains_of_references_are_followed_or_refused_but_never_overflow_the_stack(chain, links):
    parts = {f"p{n}": chain(f"#/$defs/p{n + 1}") for n in range(links)}
    schema = {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{links}": {"type": "string", "maxLength": 9}}}
    for kind, text in (("json_schema", json.dumps(schema)), ("lark", f"start: %json {json.dumps(schema)}")):
        if links == 100:
            compiled(kind, text)
        else:
            with pytest.raises(ShapeError, match="deep"):
                compiled(kind, text)


@pytest.mark.parametrize("name", ["r", "R"])
def test_long_chains_of_rules_are_followed_or_refused_but_never_overflow_the_stack(name):
    def chain(links: int) -> str:
        return "\n".join(
            [
                f"start: {name}0",
                *(f'{name}{n}: {name}{n + 1} "x"' for n in range(links)),
                f'{name}{links}: "a"',
            ]
        )

    compiled("lark", chain(100))
    with pytest.raises(ShapeError, match="rules"):
        compiled("lark", chain(5_000))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("regex", "(a{1000}){1000}"),
        ("regex", "a{1000}{1000}{1000}"),
        ("regex", "(.*a.{20}){20}"),
        ("regex", "((a*)*)*b" * 50),
        ("json_schema", json.dumps({"enum": [f"x{n}" for n in range(20_000)]})),
        ("json_schema", json.dumps({"const": "a" * 100_000})),
        ("choice", json.dumps([f"x{n}" for n in range(10_000)])),
    ],
)
def test_shapes_that_explode_are_compiled_or_refused_within_seconds(kind, text):
    started = process_time()
    try:
        allowed(matcher(compiled(kind, text)))
    except ShapeError as error:
        assert len(str(error)) < 700
    assert process_time() - started < 30  # 1.5 s at worst; what explodes takes minutes


FRAGMENTS = {
    "json_schema": [
        '{"type":',
        '"object"',
        '"properties":{',
        '"a":',
        "{}",
        "}",
        "[",
        "]",
        ",",
        '"$ref":"#"',
        '"not":',
        "1",
        '"items":',
        '"enum":',
        '"pattern":"("',
        '"minimum":1',
        "null",
        ":",
    ],
    "regex": [
        "a",
        "(",
        ")",
        "[",
        "]",
        "*",
        "+",
        "?",
        "{2}",
        "{,3}",
        "|",
        "\\",
        "\\d",
        "\\p{L}",
        "^",
        "$",
        ".",
        "/",
        "\n",
        "é",
        "(?i)",
        "#",
        "&&",
    ],
    "lark": [
        "start:",
        "a",
        "A",
        ":",
        '"x"',
        "/y/",
        "|",
        "(",
        ")",
        "~2",
        "{1,3}",
        "%json",
        "{}",
        "%ignore",
        "<b>",
        "@",
        "\n",
        "#",
        "//",
        "[",
        "]",
        "%regex",
        "?",
        "&",
        "~",
        "é",
        "->",
        "%llguidance",
        "=",
        "lazy",
        "stop",
    ],
    "choice": ["[", "]", '"a"', '"b"', ",", "1", '""', "null", "{", "}", '"\\u0000"', '"\\ud800"'],
}


@pytest.mark.parametrize("kind", FRAGMENTS)
@given(data=st.data())
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_junk_compiles_or_is_refused_in_a_line(kind, data):
    pieces = st.lists(st.sampled_from(FRAGMENTS[kind]) | st.text(max_size=3), max_size=14)
    text = data.draw(pieces.map("".join) | pieces.map(" ".join))
    try:
        compiled(kind, text)
    except ShapeError as error:
        assert error.why
        assert "\n" not in str(error)


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            True,
            {"type": "string"},
            {"type": "integer", "minimum": 0},
            {"enum": [1, "a"]},
            {"not": {}},
            {"$ref": "#"},
            {"type": "boolean"},
        ]
    ),
    lambda inner: (
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda members: {"type": "object", "properties": members}
        )
        | inner.map(lambda items: {"type": "array", "items": items})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts})
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"allOf": parts})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"oneOf": parts})
    ),
    max_leaves=8,
)


@given(schema=SCHEMAS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_schema_compiles_or_is_refused_and_jsonschema_agrees_that_it_is_one(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    try:
        compiled("json_schema", schema)
    except ShapeError as error:
        assert error.where.startswith("$")


def test_a_shape_may_cost_more_where_a_person_allows_it(monkeypatch):
    monkeypatch.setattr("grammars.matcher._USUAL", LLParserLimits(max_grammar_size=30))
    monkeypatch.setattr("grammars.matcher._Effort.limits", limits())
    shape = json.dumps({"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(9)}})
    try:
        allow_effort(1)
        with pytest.raises(ShapeError, match="too large"):
            compiled("json_schema", shape)
        allow_effort(100)
        compiled("json_schema", shape)
    finally:
        pristine.cache_clear()  # what was made under these limits
