"""Shapes by name: shipped ones and the person's own, whose files are checked before they are written."""

import json
import stat
from pathlib import Path

import pytest

from app import paths
from app.shapes import add_shape, load_shape, remove_shape, saved_shape, saved_shapes
from grammars.presets import presets
from grammars.spec import ShapeError

SCHEMA = (
    '{"type": "object", "title": "A pet", "properties": {"zip": {"type": "string"}, "age": {"const": 1}}}'
)
PRESET = json.dumps({"name": "other", "title": "Dice", "choices": ["1", "2"], "tags": ["game"]})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_without_shapes_of_ones_own_there_are_the_shipped_ones() -> None:
    assert [shape.name for shape in saved_shapes()] == sorted(presets())
    assert {shape.origin for shape in saved_shapes()} == {"shipped"}
    assert load_shape("city") == presets()["city"].spec()


def test_a_bare_schema_becomes_a_shape_with_its_key_order() -> None:
    add_shape("pet", SCHEMA)
    spec = load_shape("pet")
    assert (spec.kind, spec.name, json.loads(spec.text)) == ("json_schema", "pet", json.loads(SCHEMA))
    assert list(json.loads(spec.text)["properties"]) == ["zip", "age"]
    saved = saved_shape("pet")
    assert saved.origin == "own" and saved.preset and saved.preset.title == "A pet"


def test_a_preset_file_is_saved_under_the_name_that_was_asked_for() -> None:
    add_shape("dice", PRESET)
    saved = saved_shape("dice")
    assert saved.preset and (saved.preset.name, saved.preset.title, saved.preset.tags) == (
        "dice",
        "Dice",
        ["game"],
    )
    assert load_shape("dice").kind == "choice"
    file = paths.shapes_dir() / "dice.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["name"] == "dice"


def test_ones_own_shape_wins_and_removing_it_brings_the_shipped_one_back() -> None:
    add_shape("city", SCHEMA)
    assert saved_shape("city").origin == "own"
    assert [shape.origin for shape in saved_shapes() if shape.name == "city"] == ["own"]
    remove_shape("city")
    assert load_shape("city") == presets()["city"].spec()


def test_a_shape_is_replaced_only_when_asked() -> None:
    add_shape("pet", SCHEMA)
    with pytest.raises(FileExistsError):
        add_shape("pet", PRESET)
    assert load_shape("pet").kind == "json_schema"
    add_shape("pet", PRESET, replace=True)
    assert load_shape("pet").kind == "choice"


@pytest.mark.parametrize(
    "name", ["", "../pet", "/pet", "Pet", "pet.json", "a b", "-pet", "pet\n", "x" * 65, "pät", "\x1b[31m"]
)
def test_a_bad_name_is_refused_and_leads_nowhere(name: str, home: Path) -> None:
    with pytest.raises(ShapeError, match="is no name for a shape"):
        add_shape(name, SCHEMA)
    for act in (load_shape, remove_shape, saved_shape):
        with pytest.raises(ShapeError, match="there is no shape named"):
            act(name)
    assert not list(home.rglob("*.json")) and not (home.parent / "pet.json").exists()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"type": "object",', "1:19"),
        ('{"type": "strin"}', ""),
        ('{"not": {}}', "not"),
        ('{"kind": "regex", "text": "[a-z]+"}', "no keyword of JSON Schema"),
        ('{"choice": ["a", "b"]}', "choices"),
        ('{"title": "x", "description": "y", "Type": "object"}', "no keyword of JSON Schema"),
        ("{}", "no keyword of JSON Schema"),
        ('{"title": "x", "regex": "("}', ""),
        ('{"title": "x", "lark": "start: nothing"}', ""),
        ('{"title": "x", "choices": []}', ""),
        ('{"title": "x", "choices": ["a"], "regex": "a"}', "exactly one"),
        ('{"title": "x", "choices": ["a"], "colour": 1}', "colour"),
        ("[]", ""),
        ('{"const": "\\ud800"}', "surrogate"),
        ("[" * 100_000, "nested"),
        ("", "1:1"),
    ],
)
def test_what_does_not_compile_is_not_saved(text: str, where: str) -> None:
    with pytest.raises(ShapeError) as error:
        add_shape("pet", text)
    assert where in str(error.value)
    assert list(paths.shapes_dir().iterdir()) == []


@pytest.mark.parametrize("text", ['{"enum": [1]}', '{"const": null}', '{"minLength": 1}', "true"])
def test_any_keyword_that_says_something_makes_a_schema(text: str) -> None:
    add_shape("small", text)
    assert load_shape("small").kind == "json_schema"


def test_a_shipped_shape_cannot_be_removed() -> None:
    with pytest.raises(ShapeError, match="comes with Stampo"):
        remove_shape("city")


def test_a_near_miss_is_named() -> None:
    with pytest.raises(ShapeError, match="did you mean city"):
        load_shape("ciyt")


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b'{"name": "other", "title": "x", "regex": "a"}', b"\0" * 17_000_000]
)
def test_a_broken_file_is_listed_with_its_fault_and_hides_no_other(content: bytes) -> None:
    add_shape("pet", SCHEMA)
    (paths.shapes_dir() / "broken.json").write_bytes(content)
    (paths.shapes_dir() / "Not a name.json").write_bytes(content)
    by_name = {shape.name: shape for shape in saved_shapes()}
    assert set(by_name) == {*presets(), "pet", "broken"}
    assert by_name["broken"].preset is None and by_name["broken"].fault
    assert by_name["pet"].preset
    with pytest.raises(ShapeError, match="the file of broken cannot be used"):
        load_shape("broken")
    remove_shape("broken")
    assert "broken" not in {shape.name for shape in saved_shapes()}


def test_where_no_folder_can_be_made_the_shipped_shapes_still_serve(home: Path) -> None:
    home.write_text("a file in the way")
    assert load_shape("city") == presets()["city"].spec()
    assert len(saved_shapes()) == len(presets())
    with pytest.raises(paths.PathError):
        add_shape("pet", SCHEMA)
