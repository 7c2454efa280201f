"""`stampo presets`: data on standard output, sentences on standard error, 2 where something is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app import paths
from app.commands.presets import app
from grammars.presets import presets

SCHEMA = '{"type": "object", "title": "A \\u001b[31m pet", "properties": {"name": {"const": "\\u202e"}}}'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def schema(tmp_path: Path) -> str:
    (tmp_path / "pet.schema.json").write_text(SCHEMA)
    return f"@{tmp_path / 'pet.schema.json'}"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def test_shapes_are_listed_one_a_line_and_harmlessly(schema: str) -> None:
    assert run("add", "pet", schema).exit_code == 0
    (paths.shapes_dir() / "broken.json").write_text("{")
    result = run("list")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert set(lines) == {*presets(), "pet", "broken"}
    assert lines["pet"].split()[1:3] == ["json_schema", "own"] and "␛[31m" in lines["pet"]
    assert lines["city"].split()[1:3] == ["json_schema", "shipped"]
    assert "cannot be used" in lines["broken"]


def test_a_shape_is_shown_exactly_and_can_be_added_again(schema: str) -> None:
    run("add", "pet", schema)
    shown = run("show", "pet").stdout
    assert "\u202e" not in shown and "\x1b" not in shown
    assert json.loads(shown)["json_schema"] == json.loads(SCHEMA)
    assert run("add", "again", "-", stdin=shown.encode()).exit_code == 0
    assert json.loads(run("show", "again").stdout)["json_schema"] == json.loads(SCHEMA)


def test_a_schema_is_taken_as_the_other_commands_take_it(schema: str) -> None:
    for name, given in (("pet", schema), ("pet2", SCHEMA)):
        assert run("add", name, "--json-schema", given).exit_code == 0
        assert json.loads(run("show", name).stdout)["json_schema"] == json.loads(SCHEMA)


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_shipped_shape_can_be_shown_and_added_under_another_name(name: str) -> None:
    shown = run("show", name).stdout
    assert run("add", "mine", "-", stdin=shown.encode()).exit_code == 0


def test_adding_and_removing_say_what_they_did_on_standard_error(schema: str) -> None:
    added, shadowing, removed = run("add", "pet", schema), run("add", "city", schema), run("remove", "pet")
    assert (added.stdout, shadowing.stdout, removed.stdout) == ("", "", "")
    assert added.stderr == "Saved pet (json_schema).\n"
    assert "in place of the shipped one" in shadowing.stderr
    assert removed.stderr.startswith("Removed pet; `stampo presets restore pet ")


def test_a_shape_is_replaced_only_by_force(schema: str) -> None:
    run("add", "pet", schema)
    assert "--force" in refused("add", "pet", schema)
    assert run("add", "pet", schema, "--force").exit_code == 0


def test_what_is_wrong_is_a_sentence(schema: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"type": "object", "properties": {"a": {"type": "strin"}}}')
    (tmp_path / "latin").write_bytes(b'"\xe9"')
    assert "no shape named 'nothing'" in refused("show", "nothing")
    assert "no shape named 'nothing'" in refused("remove", "nothing")
    assert "comes with Stampo" in refused("remove", "city")
    assert "no name for a shape" in refused("add", "../x", schema)
    assert "no such file" in refused("add", "x", "@/no/such/file")
    assert "is a directory" in refused("add", "x", f"@{tmp_path}")
    assert "no UTF-8" in refused("add", "x", f"@{tmp_path / 'latin'}")
    assert "properties.a" in refused("add", "x", f"@{tmp_path / 'bad.json'}")


def test_a_broken_file_cannot_be_shown_and_says_why() -> None:
    (paths.shapes_dir() / "broken.json").write_text("{")
    assert "1:2" in refused("show", "broken")


def saved(*arguments: str) -> dict:
    """Add a shape named `mine` and return its file."""
    result = run("add", "mine", *arguments)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    return json.loads(run("show", "mine").stdout)


def test_a_shorthand_becomes_a_shape_and_its_outline_is_told() -> None:
    result = run("add", "trip", "--shorthand", "name, age int: in years, tags [str]")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Saved trip (json_schema).\n")
    assert '"age": whole number (in years)' in result.stderr
    shown = json.loads(run("show", "trip").stdout)
    assert (shown["title"], list(shown["json_schema"]["properties"])) == ("trip", ["name", "age", "tags"])


def test_every_other_way_in_makes_a_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"b": 1}\n{"b": 2, "a": []}\n')
    (tmp_path / "list.lark").write_text('start: "a" | "b"\n')
    (tmp_path / "some.short").write_text("one\ntwo int\n")
    (tmp_path / "own.py").write_text(
        "import pydantic\nclass Own(pydantic.BaseModel):\n    z: int\n    a: str\n"
    )
    assert list(saved("--example", "@rows.jsonl")["json_schema"]["properties"]) == ["b", "a"]
    for way, key, value in (
        (["--shorthand", "@some.short"], "json_schema", ["one", "two"]),
        (["--example", '{"q": 1}'], "json_schema", ["q"]),
        (["--pydantic", "own:Own"], "json_schema", ["z", "a"]),
        (["--pydantic", "own.py:Own"], "json_schema", ["z", "a"]),
        (["--regex", "[0-9]+"], "regex", "[0-9]+"),
        (["--regex", "@@x"], "regex", "@x"),
        (["--lark", "@list.lark"], "lark", 'start: "a" | "b"\n'),
        (["--choice", "yes", "--choice", "no, never"], "choices", ["yes", "no, never"]),
    ):
        found = saved(*way, "--force")[key]
        assert (list(found["properties"]) if key == "json_schema" else found) == value


def test_an_example_that_shows_nothing_somewhere_is_told() -> None:
    result = run("add", "mine", "--example", '{"tags": [], "n": 1}')
    assert "shows nothing inside $.tags" in result.stderr


def test_title_description_tags_and_whitespace_are_saved_with_any_way_in(schema: str) -> None:
    options = ["--title", "T", "--description", "D", "--tag", "a", "--tag", "b", "--whitespace", "spaced"]
    for way in (["--shorthand", "a"], [schema], ["--regex", "a"]):
        found = saved(*way, *options, "--force")
        assert (found["title"], found["description"], found["tags"]) == ("T", "D", ["a", "b"])
        assert found["whitespace"] == "spaced"


@pytest.mark.parametrize("option", ["--show", "--dry-run"])
def test_a_shape_can_be_shown_without_saving_it(option: str) -> None:
    result = run("add", "mine", "--shorthand", "a: \u202e", option)
    assert result.exit_code == 0 and "\u202e" not in result.stdout + result.stderr
    assert json.loads(result.stdout)["json_schema"]["properties"]["a"]["description"] == "\u202e"
    assert list(paths.shapes_dir().iterdir()) == []
    (paths.shapes_dir() / "mine.json").write_text(result.stdout)
    assert json.loads(run("show", "mine").stdout) == json.loads(result.stdout)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "exactly one way"),
        (["@x.json", "--regex", "a"], "there are @FILE and --regex"),
        (["--shorthand", "age strng"], "--shorthand: 1:5: there is no type 'strng'; did you mean str?\n"),
        (["--shorthand", "@/no/such"], "--shorthand: /no/such cannot be read"),
        (["--example", "{"], "--example: 1:2: invalid JSON"),
        (["--pydantic", "nothing_here:X"], "--pydantic: there is no module nothing_here"),
        (["--regex", "("], "unclosed group"),
        (["--lark", "start: nothing"], "cannot be used"),
        (["--json-schema", "{"], "cannot be used"),
        (["--json-schema", "@/no/such"], "--json-schema: /no/such cannot be read"),
        (["--choice", "a", "--choice", "a"], "cannot be used"),
        (["--choice", "a", "--title", "x" * 201], "title"),
        (["--shorthand", "a\udcff"], "no UTF-8"),
        (["--choice", "a", "--tag", "a\udcff"], "no UTF-8"),
    ],
)
def test_what_is_wrong_with_a_way_in_is_a_sentence_and_saves_nothing(arguments: list[str], why: str) -> None:
    assert why in refused("add", "mine", *arguments)
    assert "there is no shape named" in refused("show", "mine")


def test_a_shape_is_copied_renamed_and_its_history_restored() -> None:
    assert run("copy", "city", "town").stderr == "Copied city to town.\n"
    assert run("add", "town", "--regex", "a+", "--force").stderr == (
        "Saved town (regex), and kept what it was as a version.\n"
    )
    assert run("rename", "town", "sentiment").stderr == (
        "Renamed town to sentiment, in place of the shipped one.\n"
    )
    current, earlier = run("history", "sentiment").stdout.splitlines()
    assert current.split()[1:3] == ["current", "regex"] and earlier.split()[1] == "until"
    assert "Restored sentiment" in run("restore", "sentiment", earlier.split()[0]).stderr
    assert "json_schema" in json.loads(run("show", "sentiment").stdout)
    removed = run("remove", "sentiment").stderr
    assert run(*removed.split("`")[1].split()[2:]).exit_code == 0
    assert run("history", "sentiment").stdout.splitlines()[0].split()[:2] == [earlier.split()[0], "current"]


def test_names_that_are_taken_or_missing_are_sentences(schema: str) -> None:
    run("add", "pet", schema)
    run("add", "dog", schema)
    assert "You have a shape named dog" in refused("rename", "pet", "dog")
    assert "You have a shape named dog" in refused("copy", "city", "dog")
    assert "no shape named 'nothing'" in refused("rename", "nothing", "dog")
    assert "comes with Stampo" in refused("rename", "city", "town")
    assert "comes with Stampo" in refused("history", "city")
    assert "no shape named" in refused("history", "../pet")
    assert "has no version" in refused("restore", "pet", "../pet")
