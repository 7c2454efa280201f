"""Kinds of faults that users of constrained generation report, as far as a grammar alone decides them."""

import itertools
import json

import pytest
from bytewalk import accepts, compiled, draw
from jsonschema import Draft202012Validator

from grammars.lint import lint
from grammars.spec import GrammarSpec, ShapeError

NODE = {
    "type": "object",
    "properties": {"tag": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["tag", "kids"],
}


def told(schema):
    return lint(GrammarSpec(kind="json_schema", text=json.dumps(schema)))


def test_a_reference_to_itself_alone_is_refused():
    with pytest.raises(ShapeError, match="itself"):
        compiled("json_schema", {"$ref": "#/$defs/p", "$defs": {"p": {"$ref": "#/$defs/p"}}})


def test_the_order_of_the_reply_is_told():
    schema = {
        "type": "object",
        "properties": {"why": {"type": "string"}, "verdict": {"enum": ["keep", "drop"]}},
        "required": ["verdict", "why"],
    }
    assert accepts(compiled("json_schema", schema), '{"why":"x","verdict":"keep"}')
    assert not accepts(compiled("json_schema", schema), '{"verdict":"keep","why":"x"}')
    assert any("why, verdict" in each.why for each in told(schema))


def test_recursion_works_and_is_told():
    schema = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
    assert accepts(compiled("json_schema", schema), '{"tag":"a","kids":[{"tag":"b","kids":[]}]}')
    assert any(each.code == "$ref" and "itself" in each.why for each in told(schema))


def test_unique_items_of_a_finite_list_are_one_of_its_arrays():
    schema = {"type": "array", "items": {"enum": ["red", "blue"]}, "uniqueItems": True, "maxItems": 2}
    grammar = compiled("json_schema", schema)
    arrays = [list(some) for size in range(4) for some in itertools.product(["red", "blue"], repeat=size)]
    fitting = [each for each in arrays if accepts(grammar, json.dumps(each, separators=(",", ":")))]
    assert fitting == [[], ["red"], ["blue"], ["red", "blue"], ["blue", "red"]]
    assert all(
        Draft202012Validator(schema).is_valid(json.loads(draw(grammar, seed, 40))) for seed in range(30)
    )


def test_code_points_are_counted():
    grammar = compiled("json_schema", {"type": "string", "maxLength": 3})
    assert accepts(grammar, '"é😀ü"')
    assert not accepts(grammar, '"é😀üx"')


def test_a_silent_keyword_is_told_with_its_rewrite():
    (nullable,) = [each for each in told({"type": "string", "nullable": True}) if each.code == "nullable"]
    assert (nullable.level, nullable.where) == ("warning", "$.nullable")
    assert '["string", "null"]' in (nullable.suggestion or "")
    assert not accepts(compiled("json_schema", {"type": "string", "nullable": True}), "null")


def test_branches_that_overlap_are_told_and_left_for_afterwards():
    grammar = compiled("json_schema", {"oneOf": [{"type": "integer"}, {"type": "number", "multipleOf": 0.5}]})
    assert [each.where for each in grammar.afterwards] == ["$.oneOf"]
    assert accepts(grammar, "1.5")


def test_conflicting_bounds_name_both_keywords():
    (error,) = told({"type": "integer", "minimum": 10, "maximum": 3})
    assert (error.level, "minimum" in error.why, "maximum" in error.why) == ("error", True, True)
