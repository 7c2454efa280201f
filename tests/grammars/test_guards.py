"""Guards narrow what a schema leaves open, and nothing else."""

import json
from dataclasses import replace

import pytest
from bytewalk import accepts, compiled

from grammars.guards import describe_guards, guarded, soft_guards
from grammars.presets import parse_preset
from grammars.spec import GrammarSpec, Guards, ShapeError

LARGEST = 10**15 - 1
USUAL = Guards()


def shape(schema, **options) -> GrammarSpec:
    return GrammarSpec(kind="json_schema", text=json.dumps(schema), **options)


def test_an_integer_without_bounds_gets_them():
    assert guarded({"type": "integer"}, USUAL) == {
        "type": "integer", "maximum": LARGEST, "minimum": -LARGEST
    }  # fmt: skip
    assert guarded({"type": ["integer", "null"]}, replace(USUAL, digits=3))["maximum"] == 999


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": LARGEST + 5},
        {"type": "integer", "exclusiveMinimum": LARGEST},
        {"type": "integer", "maximum": -LARGEST - 1},
    ],
)
def test_a_bound_of_the_schemas_own_wins(schema):
    made = guarded(schema, USUAL)
    assert made.items() >= schema.items()
    lows = [made[key] for key in ("minimum", "exclusiveMinimum") if key in made]
    highs = [made[key] for key in ("maximum", "exclusiveMaximum") if key in made]
    assert not lows or not highs


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 10**16},
        {"type": "integer", "enum": [1, 2**60]},
        {"type": "integer", "const": 10**17},
        {"type": ["integer", "number"]},
        {"type": "array", "maxItems": 10_000},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string"}}},  # llguidance counts no optional members
        {"enum": [{"type": "integer"}]},
        {"properties": {"type": {"const": "integer"}}},
        True,
    ],
)
def test_what_is_bounded_or_written_out_stays_as_it_is(schema):
    assert guarded(schema, USUAL) == schema


def test_lists_and_open_objects_are_bounded_above_what_they_must_hold():
    few = replace(USUAL, items=2)
    assert guarded({"type": "array"}, few)["maxItems"] == 2
    assert guarded({"type": "array", "minItems": 7}, few)["maxItems"] == 7
    assert guarded({"type": "array", "prefixItems": [{}, {}, {}]}, few)["maxItems"] == 3
    assert guarded({"type": "object", "minProperties": 5}, few)["maxProperties"] == 5
    assert guarded({"type": "object", "properties": {"a": {}}, "required": ["a"]}, few)["maxProperties"] == 2


@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        ({"allOf": [{"type": "integer"}, {"minimum": 10**16, "maximum": 10**16}]}, str(10**16)),
        ({"minimum": 10**16, "maximum": 10**16, "anyOf": [{"type": "integer"}, {"type": "null"}]}, str(10**16)),
        (
            {"$ref": "#/$defs/n", "minimum": 10**16, "maximum": 10**16, "$defs": {"n": {"type": "integer"}}},
            str(10**16),
        ),
        ({"allOf": [{"type": "array", "items": {"type": "null"}}, {"minItems": 201}]}, f"[{'null,' * 200}null]"),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "integer"}}, "type": "object"},
                    {"properties": {"a": {"minimum": 10**16, "maximum": 10**16}}, "required": ["a"]},
                ],
            },
            f'{{"a":{10**16}}}',
        ),
    ],
)  # fmt: skip
def test_a_part_that_another_part_narrows_is_left_alone(schema, reply):
    """A bound of ours on one side would have made these shapes impossible."""
    assert guarded(schema, USUAL) == schema
    assert accepts(compiled("json_schema", schema), reply)


def test_a_definition_is_bounded_unless_some_reference_is_narrowed():
    definitions = {"$defs": {"n": {"type": "integer"}}}
    lone = {"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/n"}, **definitions}
    assert guarded(lone, USUAL)["$defs"]["n"]["maximum"] == LARGEST
    joined = {"prefixItems": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n", "minimum": 5}], **definitions}
    assert guarded(joined, USUAL) == joined


def test_the_schema_given_is_not_changed_and_recursion_ends():
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
    before = json.dumps(schema)
    assert guarded(schema, USUAL)["$defs"]["n"]["maxItems"] == USUAL.items
    assert json.dumps(schema) == before


def test_a_compiled_integer_has_fifteen_digits_at_most():
    grammar = compiled("json_schema", {"type": "integer"})
    assert accepts(grammar, "9" * 15)
    assert not accepts(grammar, "9" * 16)
    assert accepts(compiled("json_schema", {"type": "integer"}, guards=Guards.off()), "9" * 16)


def test_soft_limits_are_raised_to_what_the_schema_writes_itself():
    schema = {
        "properties": {
            "a": {"enum": ["x" + " " * 30 + "y", 123456789]},
            "b": {"type": "string", "maxLength": 5000},
            "c": {"const": [[[[1]]]]},
        }
    }
    low = Guards(digits=2, blanks=3, string=10, items=None, depth=1)
    made = soft_guards(shape(schema, guards=low))
    assert made is not None
    assert made.digits == 9
    assert made.blanks == 30
    assert made.string is not None and made.string >= 5000
    assert made.depth is not None and made.depth >= 5
    assert soft_guards(shape({"type": "number"}, guards=low)) == low
    assert soft_guards(GrammarSpec(kind="json_schema", text="true", guards=low)) == low
    assert soft_guards(shape(schema, guards=Guards.off())) is None
    assert soft_guards(GrammarSpec(kind="lark", text='start: "a"')) is None


def test_the_usual_guards_leave_the_hash_as_it_was_and_others_change_it():
    """Kept chats hold hashes made before there were guards."""
    assert shape({}).hash == "bd7b6c2c39310aeb411d6d043591eeaabf8063c54811f48000ec375ed7ede0ab"
    hashes = {
        shape({}, guards=guards).hash
        for guards in (Guards(), Guards.off(), Guards(digits=3), Guards(string=3), Guards(blanks=3))
    }
    assert len(hashes) == 5
    regex = GrammarSpec(kind="regex", text="a")
    assert regex.hash == replace(regex, guards=Guards.off()).hash


def test_a_person_reads_the_guards_in_one_line():
    assert describe_guards(Guards.off()) == "No guards."
    line = describe_guards(Guards(digits=None))
    assert "digits" not in line
    assert "2,000 characters in a text" in line
    assert "\n" not in line


def test_a_preset_file_sets_its_guards():
    text = '{"name": "a", "title": "A", "json_schema": {}, "guards": {"digits": null, "items": 3}}'
    assert parse_preset(text, "a").spec().guards == Guards(digits=None, items=3)
    with pytest.raises(ShapeError) as caught:
        parse_preset('{"name": "a", "title": "A", "json_schema": {}, "guards": {"digits": 900}}', "a")
    assert caught.value.where.startswith("$.guards")
    with pytest.raises(ShapeError):
        parse_preset('{"name": "a", "title": "A", "json_schema": {}, "guards": {"didgits": 3}}', "a")
