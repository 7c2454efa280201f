"""The look at what a shape forces: forced text as it is, a word wherever the model is free."""

import json

import pytest

from grammars.check import check
from grammars.compile import compile_grammar
from grammars.presets import presets
from grammars.skeleton import skeleton
from grammars.spec import GrammarSpec


def marked(kind, text, **options) -> str:
    """Return a skeleton as one text, free places between angle quotes."""
    spec = GrammarSpec(kind=kind, text=text if isinstance(text, str) else json.dumps(text), **options)
    return "".join(f"‹{part.text}›" if part.free else part.text for part in skeleton(compile_grammar(spec)))


def an_object(required=None, **members):
    return {
        "type": "object",
        "properties": members,
        "required": list(members) if required is None else required,
        "additionalProperties": False,
    }


TEXT = {"type": "string"}


def test_keys_are_forced_and_values_are_free_with_their_kind() -> None:
    schema = an_object(name=TEXT, age={"type": "integer"}, size={"type": "number"}, ok={"type": "boolean"})
    assert marked("json_schema", schema) == (
        '{"name":"‹text›","age":‹whole number›,"size":‹number›,"ok":‹true | false›}'
    )


def test_alternatives_are_written_out_as_far_as_they_are_certain() -> None:
    assert marked("json_schema", an_object(mood={"enum": ["calm", "tense"]})) == '{"mood":"‹calm | tense›"}'
    assert marked("json_schema", {"enum": ["new york", "new delhi"]}) == '"new ‹delhi | york›"'
    assert marked("choice", ["yes", "no"]) == "‹no | yes›"


def test_a_constant_is_text_from_end_to_end() -> None:
    assert marked("json_schema", {"const": {"a": [1, 2.5, "x"]}}) == '{"a":[1,2.5,"x"]}'
    assert marked("choice", ["calm"]) == "calm"


def test_optional_members_and_lists_are_looked_into_once() -> None:
    assert marked("json_schema", an_object(["b"], b=TEXT, c=TEXT)) == '{"b":"‹text›"‹optional›,"c":"‹text›"}'
    assert marked("json_schema", {"type": "array", "items": TEXT}) == '[‹any number of›"‹text›"‹and so on›]'
    assert marked("json_schema", {"type": "object"}) == "{‹any members›}"


def test_a_text_with_a_form_of_its_own_is_shown_by_an_example() -> None:
    assert marked("json_schema", TEXT | {"pattern": "^[A-Z]{2}-[0-9]$"}) == '"‹text like AA-0›"'


def test_separators_are_those_of_the_style() -> None:
    assert (
        marked("json_schema", an_object(a=TEXT, b=TEXT), whitespace="spaced")
        == '{"a": "‹text›", "b": "‹text›"}'
    )
    assert marked("json_schema", an_object(a=TEXT), whitespace="flexible") == '{"a":"‹text›"}'


def test_expressions_and_grammars_show_their_fixed_text() -> None:
    assert marked("regex", r"\d{4}-\d\d") == "‹digits›-‹digits›"
    assert marked("lark", 'start: "Dear " /[A-Z]/ "."') == "Dear ‹letters›."


@pytest.mark.parametrize(
    ("texts", "skeleton_text"),
    [
        (["é", "ü"], "‹é | ü›"),
        (["\N{GRINNING FACE}", "\N{CRYING FACE} b"], "‹\N{GRINNING FACE} | \N{CRYING FACE} b›"),
    ],
)
def test_characters_of_several_bytes_stay_whole(texts, skeleton_text) -> None:
    assert marked("choice", texts) == skeleton_text
    assert marked("json_schema", {"enum": texts}) == f'"{skeleton_text}"'


def test_escapes_stay_whole() -> None:
    assert marked("json_schema", {"enum": ['a"b', "a\\c"]}) == '"a‹\\"b | \\\\c›"'


def test_a_shape_without_an_end_comes_to_one() -> None:
    node = an_object(["tag"], tag=TEXT, kids={"type": "array", "items": {"$ref": "#"}})
    assert marked("json_schema", node).startswith('{"tag":"‹text›"‹optional›,"kids":[‹any number of›{"tag"')
    assert marked("regex", "(ab|cd)*").startswith("‹")
    assert marked("lark", 'start: "a" start | "b"').startswith("‹")


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_has_a_skeleton_whose_marks_are_all_that_is_missing(name: str) -> None:
    spec = presets()[name].spec()
    parts = skeleton(compile_grammar(spec))
    assert any(part.free for part in parts)
    assert not any("\ufffd" in part.text for part in parts)
    assert all(part.text for part in parts)
    if not any(part.free for part in parts):
        assert check(spec, "".join(part.text for part in parts)).fits
