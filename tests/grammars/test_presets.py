"""Shipped presets compile, stay bounded, and what is drawn from them passes a judge of another make."""

import datetime
import json
import re

import lark
import pytest
from bytewalk import draw
from judge import judge, lark_parser

from grammars.check import check
from grammars.compile import compile_grammar
from grammars.presets import Preset, parse_preset, presets
from grammars.spec import ShapeError

NAMES = [
    "arithmetic",
    "city",
    "contact",
    "event",
    "invoice",
    "iso-date",
    "rating",
    "recipe",
    "semver",
    "sentiment",
    "sql-select",
    "todo",
    "yes-no",
]


def pattern_width(pattern: str) -> int:
    """Return the most characters that a pattern can match."""
    assert "[^" not in pattern  # classes name what they allow
    return int(re._parser.parse(pattern).getwidth()[1])  # private, but the same parser that `re` trusts


def json_width(schema: dict) -> int:
    """Return the most characters that a compact document of a bounded schema can have, an escape being one."""
    if "enum" in schema:
        return max(len(json.dumps(value)) for value in schema["enum"])
    if "anyOf" in schema:
        return max(json_width(part) for part in schema["anyOf"])
    match schema["type"]:
        case "object":
            assert schema["additionalProperties"] is False
            members = schema["properties"].items()
            widths = [len(json.dumps(key)) + 1 + json_width(part) for key, part in members]
            return 2 + sum(widths) + len(widths) - 1
        case "array":
            return 2 + schema["maxItems"] * (json_width(schema["items"]) + 1) - 1
        case "string":
            return 2 + (pattern_width(schema["pattern"]) if "pattern" in schema else schema["maxLength"])
        case "integer":
            return max(len(str(schema["minimum"])), len(str(schema["maximum"])))
        case "boolean":
            return len("false")
        case "null":
            return len("null")
    raise AssertionError(f"no bound known for {schema}")


def lark_width(parser: lark.Lark) -> int:
    terminals = {terminal.name: pattern_width(terminal.pattern.to_regexp()) for terminal in parser.terminals}

    def width(name: str, above: tuple[str, ...]) -> int:
        assert name not in above, f"{name} is recursive, so no reply is the longest"
        rules = [rule for rule in parser.rules if rule.origin.name == name]
        assert rules
        return max(
            sum(
                terminals[symbol.name] if symbol.is_term else width(symbol.name, (*above, name))
                for symbol in rule.expansion
            )
            for rule in rules
        )

    return width("start", ())


def longest(preset: Preset) -> int:
    """Return an upper bound on the characters of a preset's compact reply, an escape being one."""
    if isinstance(preset.json_schema, dict):
        return json_width(preset.json_schema)
    if preset.regex is not None:
        return pattern_width(preset.regex)
    if preset.choices is not None:
        return max(map(len, preset.choices))
    return lark_width(lark_parser(preset.name))


def test_the_thirteen_presets_are_shipped_in_order():
    assert list(presets()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_longest_reply_stays_under_600_tokens(name):
    # A token holds at least one character, except where a text is full of characters that the vocabulary lacks
    # and spells in bytes, or of control characters, which JSON spells with six.
    assert longest(presets()[name]) < 600


@pytest.mark.parametrize("name", NAMES)
def test_twenty_random_replies_end_within_the_bound_and_pass_an_independent_judge(name):
    preset = presets()[name]
    grammar = compile_grammar(preset.spec())
    for seed in range(20):
        reply = draw(grammar, seed, 6 * longest(preset))
        assert len(re.sub(r"\\(u[0-9a-fA-F]{4}|.)", "x", reply)) <= longest(preset)
        judge(preset, reply)
        assert check(preset.spec(), reply).fits


@pytest.mark.parametrize("name", NAMES)
def test_people_find_a_title_a_description_tags_and_an_example(name):
    preset = presets()[name]
    assert preset.title
    assert preset.description
    assert preset.tags
    assert preset.example_prompt


@pytest.mark.parametrize("name", ["event", "invoice"])
def test_dates_inside_records_exist(name):
    grammar = compile_grammar(presets()[name].spec())
    for seed in range(20):
        datetime.date.fromisoformat(json.loads(draw(grammar, seed, 1200))["date"])


def test_the_date_preset_knows_every_day_of_the_calendar_and_no_other():
    pattern = re.compile(presets()["iso-date"].regex or "")
    for year in (1000, 1900, 2000, 2023, 2024, 2100, 2400, 2800):
        for month in range(14):
            for day in range(33):
                text = f"{year}-{month:02}-{day:02}"
                try:
                    datetime.date.fromisoformat(text)
                    exists = True
                except ValueError:
                    exists = False
                assert bool(pattern.fullmatch(text)) is exists, text


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("semver", "1.0.0"),
        ("semver", "1.0.0-alpha.1+001"),
        ("semver", "1.0.0-0A.is.legal"),
        ("arithmetic", "3 * 12 + 5"),
        ("arithmetic", "(1 + 2) * -3.5 / 7 - 4"),
        ("sql-select", "SELECT name FROM users ORDER BY age DESC LIMIT 10;"),
        (
            "sql-select",
            "SELECT COUNT(*), AVG(age) FROM users WHERE age >= 18 AND name LIKE 'A%' GROUP BY city;",
        ),
        ("yes-no", "yes"),
        (
            "city",
            '{"name":"Łódź","country":"Poland","population":658444,"founded":1332,"landmarks":["a","b","c"]}',
        ),
    ],
)
def test_what_people_expect_fits(name, reply):
    preset = presets()[name]
    judge(preset, reply)
    assert check(preset.spec(), reply).fits


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("semver", "1.0"),
        ("semver", "01.0.0"),
        ("semver", "1.0.0-01"),
        ("arithmetic", "1 +"),
        ("arithmetic", "((1))"),
        ("sql-select", "DROP TABLE users;"),
        ("sql-select", "SELECT * FROM users; DROP TABLE users;"),
        ("yes-no", "maybe"),
        ("city", '{"name":"Rome"}'),
    ],
)
def test_what_people_do_not_expect_does_not_fit(name, reply):
    assert not check(presets()[name].spec(), reply).fits


def test_a_preset_file_keeps_the_order_of_its_keys():
    text = '{"name":"p","title":"P","json_schema":{"properties":{"z":{},"a":{}},"required":["a"]}}'
    assert parse_preset(text, "p").spec().text.index('"z"') < parse_preset(text, "p").spec().text.index('"a"')


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "1:2"),
        ("[]", "$"),
        ('{"name":"p","title":"P"}', "$"),
        ('{"name":"p","title":"P","regex":"a","lark":"start: \\"a\\""}', "$"),
        ('{"name":"p","title":"P","regex":7}', "$.regex"),
        ('{"name":"p","title":"P","choices":["a",1]}', "$.choices[1]"),
        ('{"name":"p","title":"P","regex":"a","colour":"red"}', "$.colour"),
        ('{"name":"q","title":"P","regex":"a"}', "$.name"),
        ('{"name":"../p","title":"P","regex":"a"}', "$.name"),
        ('{"name":"p","title":"P","regex":"a","whitespace":"tabs"}', "$.whitespace"),
        ('{"title":"P","regex":"a"}', "$.name"),
    ],
)
def test_a_preset_file_that_cannot_be_used_says_where(text, where):
    with pytest.raises(ShapeError) as refused:
        parse_preset(text, "p")
    assert refused.value.where == where
    assert refused.value.why


def test_the_list_of_presets_cannot_be_changed_from_outside():
    presets().clear()
    assert list(presets()) == NAMES
