"""The shorthand says what its grammar says, refuses the rest at `line:column`, and can be read back."""

import json
import re

import pytest
from bytewalk import accepts, compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.shorthand import from_shorthand, to_shorthand
from grammars.spec import ShapeError


def schema(text: str) -> dict:
    return json.loads(from_shorthand(text))


def member(text: str) -> dict:
    """Return the schema of the only member."""
    (found,) = schema(text)["properties"].values()
    return found


def ordered(node):
    """Return a schema so that comparing minds the order of members and tells 1 from 1.0 and true."""
    if isinstance(node, dict):
        pairs = [[key, ordered(value)] for key, value in node.items()]
        return (
            pairs
            if "properties" not in node
            else {"members": list(node["properties"]), "all": sorted(map(repr, pairs))}
        )
    return [ordered(value) for value in node] if isinstance(node, list) else repr(node)


def refusal(text: str) -> ShapeError:
    with pytest.raises(ShapeError) as error:
        from_shorthand(text)
    return error.value


def test_members_are_required_in_their_order_and_the_object_is_closed():
    assert schema("name, age int: in years, tags [str]") == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "description": "in years"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    }
    assert list(schema("zulu, alpha, mike")["properties"]) == ["zulu", "alpha", "mike"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", {"type": "string"}),
        ("a str", {"type": "string"}),
        ("a int", {"type": "integer"}),
        ("a float", {"type": "number"}),
        ("a num", {"type": "number"}),
        ("a bool", {"type": "boolean"}),
        ("a date", {"type": "string", "format": "date"}),
        ("a time", {"type": "string", "format": "time"}),
        ("a datetime", {"type": "string", "format": "date-time"}),
        ("a email", {"type": "string", "format": "email"}),
        ("a url", {"type": "string", "format": "uri"}),
        ("a uuid", {"type": "string", "format": "uuid"}),
        ("a null", {"type": "null"}),
        ("a string", {"type": "string"}),
        ("a int|null", {"type": ["integer", "null"]}),
        ("a date | null", {"type": ["string", "null"], "format": "date"}),
        ("a [int]", {"type": "array", "items": {"type": "integer"}}),
        ("a [[date]]", {"type": "array", "items": {"type": "array", "items": {"type": "string", "format": "date"}}}),
        ("a int 0..150", {"type": "integer", "minimum": 0, "maximum": 150}),
        ("a float -1.5..", {"type": "number", "minimum": -1.5}),
        ("a num ..1", {"type": "number", "maximum": 1}),
        ("a str 1..80", {"type": "string", "minLength": 1, "maxLength": 80}),
        ("a [str] 1..5", {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5}),
        ("a [int 0..] ..3", {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3}),
        ("a calm|tense", {"enum": ["calm", "tense"]}),
        ("a (calm|tense)", {"enum": ["calm", "tense"]}),
        ("a (calm)", {"enum": ["calm"]}),
        ("a ( not sure )", None),
        ('a ("not sure" | yes)', {"enum": ["not sure", "yes"]}),
        ("a (calm|tense)|null", {"enum": ["calm", "tense", None]}),
        ("a calm|null", {"enum": ["calm", None]}),
        ('a (1|2.5|true|"1"|01)', {"enum": [1, 2.5, True, "1", "01"]}),
        ("a (date|time)", {"enum": ["date", "time"]}),
        ("a [calm|tense]", {"type": "array", "items": {"enum": ["calm", "tense"]}}),
        ("a int: in years", {"type": "integer", "description": "in years"}),
        ("a : b: c", {"type": "string", "description": "b: c"}),
        ("a:", {"type": "string"}),
    ],
)  # fmt: skip
def test_types_ranges_choices_and_descriptions(text, expected):
    if expected is None:
        refusal(text)
    else:
        assert ordered(member(text)) == ordered(expected)
        compiled("json_schema", from_shorthand(text))


def test_objects_nest_and_members_may_be_optional():
    found = schema("address {street, city?}, items [{name, price float}] 1.., nick?")
    assert found["required"] == ["address", "items"]
    assert found["properties"]["address"] == schema("street, city?")
    assert found["properties"]["items"] == {
        "type": "array",
        "items": schema("name, price float"),
        "minItems": 1,
    }
    assert schema("a {}")["properties"]["a"]["properties"] == {}


def test_keys_in_quotes_may_be_any_text():
    assert list(schema(r'"first name" int, "a,b"?, "é\"\n", ähm')["properties"]) == [
        "first name",
        "a,b",
        'é"\n',
        "ähm",
    ]


def test_members_may_stand_one_a_line_and_descriptions_then_hold_commas():
    found = schema("""
        name: first, then last
        age int

        home {
            street: with number, if any
            city
        }, mood calm|tense,
    """)
    assert list(found["properties"]) == ["name", "age", "home", "mood"]
    assert found["properties"]["name"]["description"] == "first, then last"
    assert found["properties"]["home"]["properties"]["street"]["description"] == "with number, if any"
    assert schema("a {b: one, c}: two, d") == schema("a {\n b: one\n c\n}: two\nd")
    assert schema("name, age int\n") == schema("name, age int")


def test_a_list_or_an_object_may_be_the_whole_reply():
    assert schema("[{name, age int}] 1..3") == {
        "type": "array",
        "items": schema("name, age int"),
        "minItems": 1,
        "maxItems": 3,
    }
    assert schema("{name, age int}") == schema("name, age int")


def test_replies_of_a_shorthand_are_what_they_should_be():
    grammar = compiled("json_schema", from_shorthand("name str 1..9, age int 0..150, tags [a|b] ..2, nick?"))
    assert accepts(grammar, '{"name":"Ada","age":36,"tags":["a"]}')
    assert accepts(grammar, '{"name":"Ada","age":36,"tags":[],"nick":"x"}')
    for reply in (
        '{"age":36,"name":"Ada","tags":[]}',
        '{"name":"Ada","age":151,"tags":[]}',
        '{"name":"Ada","age":1}',
    ):
        assert not accepts(grammar, reply)


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "1:1", "nothing is described"),
        (" \n ", "2:2", "nothing is described"),
        ("age strng", "1:5", "did you mean str?"),
        ("age Int", "1:5", "did you mean int?"),
        ("when datetme", "1:6", "did you mean datetime?"),
        ("when integr", "1:6", "did you mean int?"),
        ("mood wild", "1:6", "there are str, int"),
        ("a,\nb,\na", "3:1", "stands twice"),
        ("a (x|x)", "1:6", "stands twice"),
        ("a int foo", "1:7", "comma or a new line"),
        ("a [str", "1:7", "] is expected"),
        ("a []", "1:4", "[str]"),
        ("a {b", "1:5", "}"),
        ("a b}", "1:3", "no type"),
        ("a str}", "1:6", "comma"),
        ("a (b", "1:5", "| or )"),
        ("a (", "1:4", "choice is expected"),
        ('a "b', "1:3", "never closed"),
        ('"\\x" int', "1:1", "JSON string"),
        ('"\\ud800" int', "1:1", "surrogate"),
        ("a: \ud800", "1:4", "surrogate"),
        ('a "b"', "1:3", "parentheses"),
        ("a 1..5", "1:3", "int 1..5"),
        ("a int 5..1", "1:7", "5 is above 1"),
        ("a int 0.5..1", "1:7", "whole numbers"),
        ("a str -1..4", "1:7", "below zero"),
        ("a bool 0..1", "1:8", "bounds int"),
        ("a date 0..1", "1:8", "bounds int"),
        ("a int ..", "1:7", "needs a bound"),
        ("a str|int", "1:7", "only null"),
        ("a calm|date", "1:8", "quote it"),
        ("a calm|string", "1:8", "quote it"),
        ("a string|calm", "1:10", "only null"),
        ("a null|null", "1:3", "twice"),
        ("[str] x", "1:7", "after the end"),
        ("a " + "[" * 100 + "str" + "]" * 100, "1:43", "40 levels"),
        ("a " + "{a " * 100_000, "1:123", "40 levels"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_where_it_stands(text, where, why):
    error = refusal(text)
    assert (error.where, why in error.why) == (where, True), str(error)


@pytest.mark.parametrize(
    "text",
    [
        "name, age int, tags [str]",
        "name\nage int: in years",
        "a: only one",
        "{\n  a: one, with a comma\n}",
        "home {street, city}, mood (calm|tense|null), nick? date|null",
        "home {\n  street: with number, if any\n  city\n}\nzip str 5..5",
        "[{name, price float 0..}] 1..5",
        '"first name", a ("1"|1|true|"null")',
        "{}",
        "{a}|null",
    ],
)
def test_a_shorthand_in_this_layout_comes_back_as_it_was(text):
    assert to_shorthand(from_shorthand(text)) == text


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "more",
    [
        {"title": "x"},
        {"additionalProperties": True},
        {"properties": {"a": {"type": "string", "pattern": "x"}}},
        {"properties": {"a": {"type": "string", "description": "two\nlines"}}},
        {"properties": {"a": {"type": "string", "description": " blanks "}}},
        {"properties": {"a": {"type": "string", "description": "in years,"}}},
        {"properties": {"a": {"type": "string", "description": 1}}},
        {"properties": {"a": {"type": ["string", "integer"]}}},
        {"properties": {"a": {"enum": [[1]]}}},
        {"properties": {"a": {"enum": [1e20]}}},
        {"properties": {"a": {"enum": []}}},
        {"properties": {"a": {"type": "number", "minimum": 1e-7}}},
        {"properties": {"a": {"type": "string", "minLength": "1..5, b"}}},
        {"properties": {"a": {"type": "string", "description": "x\nb int"}}},
        {"properties": {"a": {"type": {}}}},
        {"properties": {"a": True}},
        {"properties": []},
        {"required": "a"},
        {"required": [[], "a", "b"]},
        {"type": "string"},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_says_more_has_no_shorthand(more):
    assert to_shorthand(json.dumps(CLOSED)) == "a"
    assert to_shorthand(json.dumps(CLOSED | more)) is None


@pytest.mark.parametrize(
    "text", ["true", "[]", "1", '"a"', "{}", '{"type": "string"}', '{"type": ["string", "null"]}']
)
def test_what_is_neither_an_object_nor_a_list_has_no_shorthand(text):
    assert to_shorthand(text) is None


def test_what_is_no_json_is_refused():
    with pytest.raises(ShapeError, match="1:2"):
        to_shorthand("{")


WORDS = [
    {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"},
    *({"type": "string", "format": form} for form in ("date", "time", "date-time", "email", "uri", "uuid")),
]  # fmt: skip
BOUNDS = {"integer": "imum", "number": "imum", "string": "Length", "array": "Items"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DESCRIPTIONS = st.text("ab éß,:;|?()[]{.\"'", min_size=1, max_size=20).filter(
    lambda text: text.strip() == text and not text.endswith(",")
)
CHOICES = (
    TEXTS | st.integers(-99, 99) | st.booleans() | st.none() | st.sampled_from([0.5, -2.25, 3.0, "1", "null"])
)


@st.composite
def bounded(draw, base):
    found = dict(draw(base))
    if "format" not in found and found["type"] in BOUNDS and draw(st.booleans()):
        low = draw(st.integers(0, 9) if found["type"] in ("string", "array") else st.integers(-9, 9))
        limits = {"min": low, "max": low + draw(st.integers(0, 9))}
        given_ones = draw(st.sampled_from([("min",), ("max",), ("min", "max")]))
        found |= {one + BOUNDS[found["type"]]: limits[one] for one in given_ones}
    if found["type"] != "null" and draw(st.booleans()):
        found["type"] = [found["type"], "null"]
    return found


@st.composite
def objects(draw, types):
    properties = draw(st.dictionaries(TEXTS, types, max_size=4))
    for name, child in properties.items():
        if draw(st.booleans()):
            properties[name] = child | {"description": draw(DESCRIPTIONS)}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if draw(st.booleans())],
        "additionalProperties": False,
    }


def enums():
    distinct = st.lists(CHOICES, min_size=1, max_size=4, unique_by=lambda value: (type(value), value))
    return distinct.map(lambda values: {"enum": values})


TYPES = st.recursive(
    bounded(st.sampled_from(WORDS)) | enums(),
    lambda inner: bounded(st.builds(lambda items: {"type": "array", "items": items}, inner)) | objects(inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(objects(TYPES))
def test_every_schema_of_this_kind_has_a_shorthand_that_means_it(written):
    text = to_shorthand(json.dumps(written))
    assert text is not None
    assert ordered(schema(text)) == ordered(written)


TOKENS = st.sampled_from(
    [
        *'abc ,:?|()[]{}"é',
        "\n",
        "\r\n",
        "\t",
        "\\",
        "x y",
        "int",
        "str",
        "date",
        "null",
        "true",
        '"q"',
        "..",
        "1..2",
        "0..",
        "-1",
        "1.5",
    ]
)


@settings(deadline=None)
@given(st.lists(TOKENS, max_size=14).map("".join) | st.text(max_size=20))
def test_any_text_is_read_or_refused_with_its_place_and_what_is_read_comes_back(text):
    try:
        written = from_shorthand(text)
    except ShapeError as error:
        assert re.fullmatch(r"\d+:\d+", error.where) and error.why
        return
    again = to_shorthand(written)
    assert again is not None
    assert ordered(schema(again)) == ordered(json.loads(written))
