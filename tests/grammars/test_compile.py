"""Compiled shapes allow the language they describe, and nothing else."""

import itertools
import json
from time import process_time

import pytest
from bytewalk import accepts, compiled, matcher
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.spec import ShapeError

RECORD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
LAYOUTS = {
    "compact": '{"a":1,"b":[true,false]}',
    "spaced": '{"a": 1, "b": [true, false]}',
    "indented": '{\n  "a": 1,\n  "b": [\n    true,\n    false\n  ]\n}',
    "deepest": '{"a":1,"b":[\n        true]}',
    "too deep": '{"a":1,"b":[\n         true]}',
    "two blanks": '{"a":  1,"b":[]}',
    "two lines": '{"a":1,\n\n"b":[]}',
    "tab": '{"a":\t1,"b":[]}',
    "before": ' {"a":1,"b":[]}',
    "after": '{"a":1,"b":[]} ',
}


@pytest.mark.parametrize(
    ("whitespace", "fitting"),
    [
        ("compact", {"compact"}),
        ("spaced", {"spaced"}),
        ("flexible", {"compact", "spaced", "indented", "deepest"}),
    ],
)
@pytest.mark.parametrize("forcing", [True, False])
@pytest.mark.parametrize("kind", ["json_schema", "lark"])
def test_whitespace_is_what_the_shape_says_and_bounded(whitespace, fitting, forcing, kind):
    text = json.dumps(RECORD) if kind == "json_schema" else f"start: %json {json.dumps(RECORD)}"
    grammar = compiled(kind, text, whitespace=whitespace)
    grammar = grammar if forcing else grammar.without_forcing()
    assert {name for name, text in LAYOUTS.items() if accepts(grammar, text)} == fitting


@pytest.mark.parametrize("kind", ["json_schema", "lark"])
def test_options_inside_a_schema_cannot_weaken_it(kind):
    schema = {"x-guidance": {"whitespace_flexible": True, "lenient": True, "bogus": 1}, **RECORD}
    grammar = compiled(kind, schema if kind == "json_schema" else f"start: %json {json.dumps(schema)}")
    assert accepts(grammar, LAYOUTS["compact"])
    assert not accepts(grammar, LAYOUTS["spaced"])
    inner = {
        **RECORD,
        "properties": {
            **RECORD["properties"],
            "b": {"const": "\n", "x-guidance": {"json_allowed_escapes": ""}},
        },
    }
    grammar = compiled(kind, inner if kind == "json_schema" else f"start: %json {json.dumps(inner)}")
    assert accepts(grammar, '{"a":1,"b":"\\n"}')
    with pytest.raises(ShapeError):
        compiled("json_schema", {"x-guidance": {"lenient": True}, "not": {}})


@pytest.mark.parametrize(
    ("kind", "text", "reply"),
    [
        ("json_schema", json.dumps(RECORD), LAYOUTS["compact"]),
        ("regex", "a/b|c\\\\d", "c\\d"),
        ("lark", 'start: "a" b\nb: /[0-9]/', "a7"),
        ("choice", '["car","cart"]', "cart"),
    ],
)
def test_without_forcing_the_language_is_the_same(kind, text, reply):
    grammar = compiled(kind, text)
    assert grammar.without_forcing().text != grammar.text
    for variant in (grammar, grammar.without_forcing()):
        assert accepts(variant, reply)
        assert not accepts(variant, reply + "x")
        assert not accepts(variant, reply[:-1] + "\x01")


def test_annotations_are_welcome():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/s",
        "$comment": "c",
        "title": "t",
        "description": "d",
        "default": "x",
        "examples": ["y"],
        "type": "string",
        "maxLength": 3,
    }
    assert accepts(compiled("json_schema", schema), '"abc"')


def test_true_allows_any_json():
    for schema in (True, {}):
        grammar = compiled("json_schema", schema)
        assert all(accepts(grammar, reply) for reply in ("null", "[1]", '{"a":{}}', '"x"'))


def test_keys_come_in_the_order_of_the_schema():
    for keys in (("why", "verdict"), ("verdict", "why")):
        schema = {
            "type": "object",
            "properties": {key: {"enum": [1]} for key in keys},
            "required": sorted(keys),
        }
        grammar = compiled("json_schema", schema)
        first, second = keys
        assert matcher(grammar).compute_ff_bytes().startswith(f'{{"{first}":1,"{second}":1'.encode())


def test_pattern_and_length_hold_together():
    grammar = compiled("json_schema", {"type": "string", "pattern": "^[a-f]+$", "maxLength": 4})
    assert accepts(grammar, '"abcd"')
    assert not accepts(grammar, '"abcde"')
    assert not accepts(grammar, '"abcg"')
    assert not accepts(grammar, '""')


def test_an_unanchored_pattern_is_found_anywhere_and_its_digits_are_ascii():
    grammar = compiled("json_schema", {"type": "string", "pattern": r"\d{2}-\d{2}"})
    assert accepts(grammar, '"12-34"')
    assert accepts(grammar, '"from 12-34 on"')
    assert not accepts(grammar, '"1-2"')
    assert not accepts(grammar, '"١٢-٣٤"')


def test_a_large_length_compiles_at_once_and_its_bound_holds():
    schema = {
        "type": "object",
        "properties": {"memo": {"type": "string", "maxLength": 2000}},
        "required": ["memo"],
    }
    started = process_time()
    grammar = compiled("json_schema", {**schema, "additionalProperties": False})
    assert process_time() - started < 5  # 0.01 s; without the bound of its own it takes minutes
    for length, fits in ((2000, True), (2001, False)):
        walked = matcher(grammar)
        reply = json.dumps({"memo": "x" * length}, separators=(",", ":")).encode()
        assert (walked.try_consume_tokens(list(reply)) == len(reply)) is fits


def test_an_empty_object_is_braces():
    grammar = compiled("json_schema", {"type": "object", "properties": {}, "additionalProperties": False})
    assert matcher(grammar).compute_ff_bytes() == b"{}"


def test_a_hundred_nested_arrays_compile():
    schema: dict = {"type": "string", "maxLength": 1}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    assert accepts(compiled("json_schema", schema), "[" * 100 + '"a"' + "]" * 100)


@pytest.mark.parametrize("kind", ["regex", "lark"])
def test_alternatives_are_anchored_at_both_ends(kind):
    grammar = compiled(kind, "yes|no" if kind == "regex" else "start: /yes|no/")
    assert accepts(grammar, "yes")
    assert accepts(grammar, "no")
    for reply in ("yesno", "ye", "yeso", "nono", "", " yes"):
        assert not accepts(grammar, reply)


def test_a_choice_that_begins_another_leaves_both_reachable():
    for order in itertools.permutations(["car", "cart", "carton"]):
        grammar = compiled("choice", list(order))
        for word in ("car", "cart", "carton"):
            assert accepts(grammar, word)
        for word in ("ca", "carto", "cartons", ""):
            assert not accepts(grammar, word)


@pytest.mark.parametrize(
    "word",
    [
        "a.b*",
        '"quoted"',
        "back\\slash",
        "two\nlines",
        "tab\t",
        "é😀ü",
        "/slash/",
        "%json {}",
        "<|im_end|>",
        "\x7f\x01",
        " ",
    ],
)
def test_a_choice_is_meant_to_the_letter(word):
    grammar = compiled("choice", [word, "other"])
    assert accepts(grammar, word)
    assert not accepts(grammar, word + "x")
    assert not accepts(grammar, word.upper() + "y")


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        min_size=1,
        unique=True,
    )
)
@settings(max_examples=25, deadline=None)
def test_every_choice_is_reachable_whatever_its_letters(words):
    grammar = compiled("choice", words)
    assert all(accepts(grammar, word) for word in words)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("a/b", "a/b", "a\\/b"),
        ("a\\/b", "a/b", "a\\/b"),
        ("[/]+", "//", "a"),
        ("a\nb", "a\nb", "anb"),
        ("a\\\nb", "a\nb", "a\\\nb"),
        ("(?x)a # note\n b", "ab", "a\nb"),
        ("\\\\", "\\", "\\\\"),
        ('"#"', '"#"', '"'),
        ("^abc$", "abc", "abcd"),
        ("é😀{2}", "é😀😀", "é😀"),
    ],
)
def test_a_regular_expression_keeps_its_meaning_inside_the_grammar(pattern, fitting, other):
    grammar = compiled("regex", pattern)
    assert accepts(grammar, fitting)
    assert not accepts(grammar, other)


def test_quoted_special_tokens_and_comments_in_a_grammar_are_text():
    grammar = compiled("lark", 'start: "<|im_end|>" B // <not_a_token>\n# max_tokens=3\nB: /<b>/')
    assert accepts(grammar, "<|im_end|><b>")
