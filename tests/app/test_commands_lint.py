"""`stampo lint`: findings on standard output, a verdict on standard error, 0 usable and 2 not."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from app.commands import lint

app = typer.Typer()
app.command("lint")(lint.lint)


def run(*arguments: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_usable_shape_exits_with_0_whatever_else_is_said():
    result = run('{"type":"string","minLenght":3}')
    assert result.exit_code == 0
    assert "warning  $.minLenght" in result.stdout
    assert "minLength" in result.stdout
    assert result.stderr == "Usable: 1 warning, 1 note.\n"


def test_a_shape_that_cannot_be_used_exits_with_2():
    result = run('{"type":"integer","minimum":10,"maximum":3}')
    assert result.exit_code == 2
    assert "error  $" in result.stdout
    assert "minimum (10) is above maximum (3)" in result.stdout


def test_lines_fit_into_80_columns_and_act_on_no_terminal():
    names = ["\x1b[31m" + "long name " * 12, "b\u202e"]
    result = run(
        json.dumps({"properties": {name: {"x\x07": 1, "minLenght": 1} for name in names}, "required": names})
    )
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if line.startswith(" "))
    assert not set("\x1b\x07\u202e") & set(result.stdout)


def test_json_is_one_object_with_stable_keys():
    result = run("--json", '{"type":"array","items":{"enum":["red","blue"]},"uniqueItems":true}')
    report = json.loads(result.stdout)
    assert list(report) == ["kind", "usable", "findings", "rewrites"]
    assert (report["kind"], report["usable"]) == ("json_schema", True)
    assert list(report["findings"][0]) == ["level", "where", "code", "why", "suggestion"]
    assert list(report["rewrites"][0]) == ["path", "before", "after", "why"]
    broken = run("--json", "{")
    assert (broken.exit_code, json.loads(broken.stdout)["usable"]) == (2, False)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{}", "json_schema"),
        ("true", "json_schema"),
        ("{", "json_schema"),
        ('["a","b"]', "choice"),
        ("a[0-9]+", "regex"),
        ('start: "a"', "lark"),
        ('{"name":"n","title":"t","regex":"a"}', "regex"),
    ],
)
def test_the_kind_is_told_from_the_text(text, kind, tmp_path: Path):
    file = tmp_path / "shape"
    file.write_text(text)
    for source, stdin in ((f"@{file}", ""), ("-", text)):
        assert json.loads(run("--json", source, stdin=stdin).stdout)["kind"] == kind


def test_the_kind_can_be_said():
    assert json.loads(run("--json", "--kind", "regex", "{}").stdout)["kind"] == "regex"
    result = run("--kind", "yaml", "a")
    assert result.exit_code == 2
    assert "json_schema" in result.stderr


def test_fix_prints_the_shape_with_the_offered_fixes(tmp_path: Path):
    file = tmp_path / "shape.json"
    file.write_text('{"type":"string","nullable":true}')
    result = run("--fix", f"@{file}")
    assert json.loads(result.stdout) == {"type": ["string", "null"]}
    assert file.read_text() == '{"type":"string","nullable":true}'
    assert run("--fix", "{").exit_code == 2
    assert run("--fix", "--json", "{}").exit_code == 2


def test_many_notes_of_one_kind_are_shortened():
    members = {f"m{n}": {"type": "string"} for n in range(40)}
    result = run(json.dumps({"type": "object", "properties": members}))
    assert "35 more notes about maxLength" in result.stdout
    assert "41 notes" in result.stderr


def test_a_file_that_is_not_there_is_a_sentence():
    result = run("@/nowhere/at/all")
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr
