"""Places follow STAMPO_HOME or the platform, are private, and files are written whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from app import paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_stampo_home_moves_everything(home: Path) -> None:
    places = [
        paths.data_dir(),
        paths.store_path(),
        paths.shapes_dir(),
        paths.cache_dir(),
        paths.log_path(),
        paths.config_path(),
    ]
    assert all(place.is_relative_to(home) for place in places)
    assert len(set(places)) == len(places)


def test_without_it_the_platform_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAMPO_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in ("DATA", "CACHE", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    places = [
        paths.store_path(),
        paths.shapes_dir(),
        paths.cache_dir(),
        paths.log_path(),
        paths.config_path(),
    ]
    assert all(place.is_relative_to(tmp_path) and "stampo" in place.parts for place in places)


def test_an_empty_stampo_home_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPO_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert paths.data_dir().is_relative_to(tmp_path)


def test_folders_are_private(home: Path) -> None:
    folders = [paths.data_dir(), paths.shapes_dir(), paths.cache_dir(), paths.log_path().parent]
    assert [mode(folder) for folder in folders] == [0o700] * 4


def test_a_place_that_cannot_be_made_is_named(home: Path) -> None:
    home.write_text("a file, no folder")
    with pytest.raises(paths.PathError, match=str(home)):
        paths.shapes_dir()


def test_a_written_file_is_private_and_exact(tmp_path: Path) -> None:
    paths.write_private(tmp_path / "a", b"\0\xff")
    assert (tmp_path / "a").read_bytes() == b"\0\xff"
    assert mode(tmp_path / "a") == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_existing_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        paths.write_private(file, b"new")
    assert file.read_bytes() == b"old"
    paths.write_private(file, b"new", replace=True)
    assert file.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_file_system_without_hard_links_still_gets_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    paths.write_private(tmp_path / "a", b"1")
    with pytest.raises(FileExistsError):
        paths.write_private(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(paths.PathError, match="no space left"):
        paths.write_private(file, b"new", replace=True)
    assert file.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_link_is_followed_and_a_pipe_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    paths.write_private(tmp_path / "link", b"new", replace=True)
    assert (tmp_path / "target").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(paths.PathError, match="not a regular file"):
        paths.write_private(tmp_path / "pipe", b"new", replace=True)


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(paths.PathError, match="cannot be written: no such file"):
        paths.write_private(tmp_path / "no" / "a", b"")
