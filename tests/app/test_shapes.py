"""Shapes by name: shipped ones and the person's own, whose files are checked before they are written."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app import paths
from app.shapes import (
    add_shape,
    copy_shape,
    load_shape,
    remove_shape,
    rename_shape,
    restore_version,
    saved_shape,
    saved_shapes,
    shape_text,
    versions,
)
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
        ('{"type": "integer", "minimum": 2, "maximum": 1}', "minimum"),
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


def test_a_pipe_among_the_shapes_is_not_waited_for() -> None:
    paths.shapes_dir()
    os.mkfifo(paths.shapes_dir() / "pipe.json")
    assert "regular file" in (saved_shape("pipe").fault or "")
    with pytest.raises(ShapeError, match="not a regular file"):
        versions("pipe")
    for change in (lambda: add_shape("pipe", PRESET, replace=True), lambda: remove_shape("pipe")):
        with pytest.raises(paths.PathError, match="not a regular file"):
            change()


def test_where_no_folder_can_be_made_the_shipped_shapes_still_serve(home: Path) -> None:
    home.write_text("a file in the way")
    assert load_shape("city") == presets()["city"].spec()
    assert len(saved_shapes()) == len(presets())
    with pytest.raises(paths.PathError):
        add_shape("pet", SCHEMA)


def kinds(name: str) -> list[tuple[str, bool]]:
    return [
        (version.preset.spec().kind if version.preset else "-", version.current) for version in versions(name)
    ]


def test_a_file_can_be_made_without_saving_and_what_is_told_takes_the_place_of_what_it_says() -> None:
    text = shape_text("pet", SCHEMA, title="Mine", tags=["a", "b"], whitespace="spaced")
    assert json.loads(text) == {
        "name": "pet",
        "title": "Mine",
        "json_schema": json.loads(SCHEMA),
        "tags": ["a", "b"],
        "whitespace": "spaced",
    }
    assert list(json.loads(text)["json_schema"]["properties"]) == ["zip", "age"]
    assert json.loads(shape_text("dice", PRESET))["tags"] == ["game"]
    assert not list(paths.shapes_dir().iterdir())
    for name, options in (("a/b", {}), ("pet", {"title": "x" * 201}), ("pet", {"whitespace": "wide"})):
        with pytest.raises(ShapeError):
            shape_text(name, SCHEMA, **options)


def test_what_is_replaced_is_kept_as_a_version_and_can_be_restored() -> None:
    add_shape("pet", SCHEMA)
    first = versions("pet")[0].hash
    assert kinds("pet") == [("json_schema", True)]
    add_shape("pet", PRESET, replace=True)
    assert kinds("pet") == [("choice", True), ("json_schema", False)]
    assert versions("pet")[1].hash == first
    restore_version("pet", first[:6].upper())
    assert kinds("pet") == [("json_schema", True), ("choice", False)]
    assert load_shape("pet").text == json.dumps(json.loads(SCHEMA))
    kept = versions("pet")[1].path
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_shapes_that_are_replaced_at_once_all_stay_as_versions() -> None:
    # Each kept what it read before the other wrote, and the first one's shape was gone without a version.
    def replace(number: int) -> None:
        add_shape("pet", json.dumps({"title": "Pet", "regex": f"a{{{number}}}"}), replace=True)

    with ThreadPoolExecutor(4) as at_once:
        list(at_once.map(replace, range(1, 41)))
    kept = {version.preset.regex for version in versions("pet") if version.preset}
    assert kept == {f"a{{{number}}}" for number in range(1, 41)}


def test_the_latest_version_comes_first_and_no_content_twice() -> None:
    for text in (SCHEMA, PRESET, '{"const": 1}', SCHEMA, PRESET, SCHEMA):
        add_shape("pet", text, replace=True)
    assert kinds("pet") == [("json_schema", True), ("choice", False), ("json_schema", False)]
    assert len({version.hash for version in versions("pet")}) == 3


def test_another_layout_of_the_same_is_no_version() -> None:
    add_shape("pet", SCHEMA)
    add_shape("pet", json.dumps(json.loads(SCHEMA), indent=8), replace=True)
    assert len(versions("pet")) == 1 and not paths.versions_dir("pet").exists()


def test_a_removed_shape_can_be_brought_back() -> None:
    add_shape("pet", SCHEMA)
    remove_shape("pet")
    assert "pet" not in {shape.name for shape in saved_shapes()}
    (version,) = versions("pet")
    assert not version.current
    restore_version("pet", version.hash)
    assert load_shape("pet").kind == "json_schema" and versions("pet")[0].current


def test_a_broken_file_that_is_replaced_or_removed_is_kept_byte_for_byte() -> None:
    broken = paths.shapes_dir() / "pet.json"
    for content in (b"{", b"\xff"):
        broken.write_bytes(content)
        remove_shape("pet")
        assert content in {version.path.read_bytes() for version in versions("pet")}
        assert versions("pet")[0].fault
    broken.write_bytes(b"[")
    add_shape("pet", SCHEMA, replace=True)
    assert {version.path.read_bytes() for version in versions("pet")[1:]} == {b"{", b"\xff", b"["}
    with pytest.raises(ShapeError, match=str(versions("pet")[1].path)):
        restore_version("pet", versions("pet")[1].hash)
    assert load_shape("pet").kind == "json_schema"


def test_a_shape_is_copied_under_a_second_name_with_its_key_order() -> None:
    copy_shape("city", "town")
    city, town = presets()["city"], saved_shape("town").preset
    assert town and town.spec().hash == city.spec().hash
    assert (town.name, town.title, town.tags) == ("town", city.title, city.tags)
    assert list(town.json_schema["properties"]) == list(city.json_schema["properties"])
    with pytest.raises(FileExistsError):
        copy_shape("city", "town")
    with pytest.raises(ShapeError, match="no name for a shape"):
        copy_shape("city", "../town")
    with pytest.raises(ShapeError, match="there is no shape named"):
        copy_shape("nothing", "town2")


def test_a_renamed_shape_takes_its_versions_with_it() -> None:
    add_shape("pet", SCHEMA)
    add_shape("pet", PRESET, replace=True)
    current, *before = [(version.hash, version.saved) for version in versions("pet")]
    rename_shape("pet", "dog")
    assert kinds("dog") == [("choice", True), ("json_schema", False)]
    assert versions("dog")[0].hash == current[0]
    assert [(version.hash, version.saved) for version in versions("dog")][1:] == before
    restore_version("dog", before[0][0])
    assert load_shape("dog").kind == "json_schema"
    with pytest.raises(ShapeError, match="there is no shape named 'pet'"):
        versions("pet")


def test_a_rename_that_cannot_be_changes_nothing() -> None:
    add_shape("pet", SCHEMA)
    add_shape("dog", PRESET)
    (paths.shapes_dir() / "broken.json").write_text("{")
    with pytest.raises(FileExistsError):
        rename_shape("pet", "dog")
    with pytest.raises(FileExistsError):
        rename_shape("pet", "pet")
    for old, new, why in (
        ("city", "town", "comes with Stampo"),
        ("broken", "mended", "cannot be used"),
        ("pet", "A", "no name"),
        ("nothing", "town", "there is no shape"),
    ):
        with pytest.raises(ShapeError, match=why):
            rename_shape(old, new)
    assert (load_shape("pet").kind, load_shape("dog").kind) == ("json_schema", "choice")
    assert {file.name for file in paths.shapes_dir().iterdir()} == {"pet.json", "dog.json", "broken.json"}


def test_a_version_that_is_not_there_is_refused() -> None:
    add_shape("pet", SCHEMA)
    for hash in ("", "zz", "../../pet", "0" * 64):  # noqa: A001
        with pytest.raises(ShapeError, match="has no version"):
            restore_version("pet", hash)
    with pytest.raises(ShapeError, match="comes with Stampo"):
        restore_version("city", "0")
    with pytest.raises(ShapeError, match="there is no shape named"):
        versions("../pet")


def test_nothing_is_replaced_or_removed_while_its_version_cannot_be_kept() -> None:
    add_shape("pet", SCHEMA)
    (paths.shapes_dir() / "versions").write_text("a file in the way")
    for act in (lambda: add_shape("pet", PRESET, replace=True), lambda: remove_shape("pet")):
        with pytest.raises(paths.PathError):
            act()
    assert load_shape("pet").kind == "json_schema"
