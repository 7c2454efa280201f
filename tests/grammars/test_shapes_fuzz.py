"""Shapes from strangers: compiled or refused in a sentence, within a second, whatever they are."""

from time import process_time

import pytest
from fuzz_targets import HANG_S, fuzz

from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec, ShapeError


def test_no_shape_leads_to_anything_but_a_refusal() -> None:
    fuzz("shapes", 200)


@pytest.mark.proof
def test_nor_do_two_thousand() -> None:
    fuzz("shapes", 2_000)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("regex", "((a{1,100}){1,100}){1,100}"),
        ("regex", "(a|b|ab)*c{1,999999}"),
        ("regex", "(.*a){20}"),
        ("regex", ".{0,99999}x.{0,99999}y"),
        ("regex", "|".join(f"(.*{letter}.*)" for letter in "abcdefghijklmnop")),
        ("lark", "start: A\nA: /(x{1,500}){1,500}/"),
        ("lark", "start: a~1..99999\na: b~1..99999\nb: /x/"),
        ("lark", "start: " + " ".join(f'("a{n}" | "b{n}")*' for n in range(2000))),
        ("json_schema", '{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$","maxLength":100000}'),
        ("json_schema", '{"allOf":[' + ",".join(f'{{"pattern":".*{n}.*"}}' for n in range(12)) + "]}"),
        ("json_schema", '{"type":"array","minItems":100000,"items":{"type":"array","minItems":100000}}'),
        ("json_schema", '{"anyOf":[' + ",".join(["{}"] * 30_000) + "]}"),
        (
            "json_schema",
            '{"type":"object","properties":{' + ",".join(f'"k{n}":{{}}' for n in range(20_000)) + "}}",
        ),
        ("choice", "[" + ",".join(f'"{n}"' for n in range(200_000)) + "]"),
        ("choice", '["' + "x" * 3_000_000 + '"]'),
    ],
)
def test_shapes_that_explode_are_stopped_within_a_second(kind, text) -> None:
    started = process_time()
    try:
        compile_grammar(GrammarSpec(kind=kind, text=text))
    except ShapeError as refusal:
        assert str(refusal)
        assert len(str(refusal)) < 2_000
    assert process_time() - started < HANG_S  # under 1 s; what explodes takes minutes
