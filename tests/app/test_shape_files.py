"""Files that hold shapes: read whole, told apart by what is in them; what cannot be read is said."""

import os
from pathlib import Path

import pytest

from app.shape_files import read_shape, read_text, removed_shapes
from app.shapes import add_shape, remove_shape
from grammars.spec import ShapeError


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.json", '{"type": "string"}', "json_schema"),
        ("a.json", '{"name": "x", "title": "X", "regex": "[a-z]+"}', "regex"),
        ("a.json", '["yes", "no"]', "choice"),
        ("a.json", '{"type": ', "json_schema"),
        ("a.lark", 'start: "a"', "lark"),
        ("a.txt", 'x: "b"\nstart: "a" x', "lark"),
        ("a.txt", "[0-9]{3}\n", "regex"),
        ("a.txt", "\ufeff[0-9]{3}\r\n", "regex"),
    ],
)
def test_what_is_in_a_file_says_what_kind_of_shape_it_is(tmp_path: Path, name, text, kind) -> None:
    (tmp_path / name).write_bytes(text.encode())
    draft = read_shape(str(tmp_path / name))
    assert draft.kind == kind
    if kind == "regex":
        assert draft.text in ("[a-z]+", "[0-9]{3}")


def test_what_cannot_be_read_is_told_and_nothing_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    for name, words in (
        ("missing", "does not exist"),
        ("pipe", "is no file"),
        (".", "is a folder"),
        ("bytes", "is no UTF-8 text (byte 2)"),
        ("a\0b", ""),
        ("x" * 300, "cannot be read"),
    ):
        with pytest.raises(ShapeError) as error:
            read_text(f"{tmp_path}/{name}")
        assert words in str(error.value)


def test_a_removed_shape_is_known_until_there_is_one_of_its_name(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path))
    assert removed_shapes() == []
    add_shape("pet", '{"type": "string"}')
    assert removed_shapes() == []
    remove_shape("pet")
    assert removed_shapes() == ["pet"]
    add_shape("pet", '{"type": "null"}')
    assert removed_shapes() == []
