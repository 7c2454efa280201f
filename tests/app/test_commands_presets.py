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


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_shipped_shape_can_be_shown_and_added_under_another_name(name: str) -> None:
    shown = run("show", name).stdout
    assert run("add", "mine", "-", stdin=shown.encode()).exit_code == 0


def test_adding_and_removing_say_what_they_did_on_standard_error(schema: str) -> None:
    added, shadowing, removed = run("add", "pet", schema), run("add", "city", schema), run("remove", "pet")
    assert (added.stdout, shadowing.stdout, removed.stdout) == ("", "", "")
    assert added.stderr == "Saved pet (json_schema).\n"
    assert "in place of the shipped one" in shadowing.stderr
    assert removed.stderr == "Removed pet.\n"


def test_a_shape_is_replaced_only_by_force(schema: str) -> None:
    run("add", "pet", schema)
    assert "--force" in refused("add", "pet", schema)
    assert run("add", "pet", schema, "--force").exit_code == 0


def test_what_is_wrong_is_a_sentence(schema: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"type": "object", "properties": {"a": {"not": {}}}}')
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
