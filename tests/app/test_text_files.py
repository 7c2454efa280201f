"""Text files that a person names: taken whole, or refused in a sentence."""

import os
from pathlib import Path

import pytest

from app.text_files import TextFileError, about_tokens, completions, read_text


def test_a_text_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a b.txt"
    file.write_bytes("\ufeffone\r\ntwo 漢字\n".encode())
    assert read_text(str(file)) == ("a b.txt", "one\r\ntwo 漢字\n")
    assert read_text(f" '{file}' ")[0] == "a b.txt"


def test_what_cannot_be_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"GGUF\0\0")
    (tmp_path / "latin").write_bytes("ä".encode("latin-1"))
    (tmp_path / "long").write_bytes(b"x" * 11)
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("binary", "zero bytes"),
        ("latin", "no UTF-8 text"),
        ("pipe", "is no file"),
        ("", "is a folder"),
        ("missing", "does not exist"),
        ("a\0b", "does not exist"),
        ("x" * 5000, "cannot be read"),
    ):
        with pytest.raises(TextFileError, match=why):
            read_text(f"{tmp_path}/{name}")
    with pytest.raises(TextFileError, match="longer than"):
        read_text(str(tmp_path / "long"), most=10)
    with pytest.raises(TextFileError, match="Name a file"):
        read_text("  ")
    with pytest.raises(TextFileError, match="no such user"):
        read_text("~nobody-of-this-name/x")


def test_a_path_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    for name in ("notes.txt", "other", ".hidden"):
        (tmp_path / name).touch()
    assert completions("no") == ["notes.txt", "notes/"]
    assert completions("") == ["notes.txt", "notes/", "other"]
    assert completions(".") == [".hidden"]
    assert completions(f"{tmp_path}/ot") == [f"{tmp_path}/other"]
    assert completions("nowhere/x") == completions("a\0") == completions("~nobody-of-this-name/x") == []


def test_a_rough_number_of_tokens_is_never_none_for_a_text() -> None:
    assert [about_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
