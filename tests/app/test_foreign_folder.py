"""Started in a folder that holds hostile modules, no process of Stampo imports them.

Python puts the current folder first for `python -m` and `python -c`; the console script does not, and every process
that Stampo starts is told not to. `python -m app` is not among what is promised.
"""

import sys
from pathlib import Path

import pytest
from data import vocabulary
from processes import console_script, environment, run
from tiny import write_tiny_model

NAMES = [
    "app", "engine", "grammars", "json", "re", "os", "random", "asyncio", "encodings", "sitecustomize",
    "usercustomize", "llama_cpp", "llguidance", "numpy", "pydantic", "textual", "typer", "jinja2", "jsonschema",
    "ctypes", "signal", "sqlite3", "subprocess", "tokenize", "readline", "rich",
]  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Make a folder with a package and a module of every name; each leaves a note and ends the process."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    code = f"import os\nopen({str(tmp_path / 'imported')!r}, 'a').write(__name__ + ' ')\nos._exit(66)\n"
    for name in NAMES:
        (folder / f"{name}.py").write_text(code)
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(code)
    (folder / "pyproject.toml").write_text("not toml at all [")
    return folder


def imported(hostile: Path) -> str:
    note = hostile.parent / "imported"
    return note.read_text() if note.exists() else ""


def test_the_folder_is_hostile_indeed(hostile: Path) -> None:
    done = run(
        [sys.executable, "-c", "import engine"], folder=hostile, environment=environment(hostile.parent)
    )
    assert done.returncode == 66
    assert imported(hostile)


def test_a_question_is_answered_without_them(hostile: Path, tmp_path: Path) -> None:
    """Interface process, worker and validator; the schema's look-ahead is checked in a process of its own."""
    model = write_tiny_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"))
    stampo = console_script(tmp_path / "bin")
    where = environment(tmp_path / "home")
    done = run(
        [
            *stampo,
            "ask",
            "Is it?",
            "-m",
            str(model),
            "--threads",
            "1",
            "--json-schema",
            '{"enum":["yes","no"]}',
        ],
        folder=hostile,
        environment=where,
    )
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert done.stdout.strip() in ('"yes"', '"no"')
    assert imported(hostile) == ""


@pytest.mark.proof
def test_no_command_imports_them(hostile: Path, tmp_path: Path, smollm2: Path) -> None:
    stampo = console_script(tmp_path / "bin")
    for arguments in (
        ["--help"],
        ["presets", "list"],
        ["chats", "list"],
        ["doctor", "-m", str(smollm2)],
        ["export", "1"],
    ):
        done = run([*stampo, *arguments], folder=hostile, environment=environment(tmp_path / "home"))
        assert done.returncode == (2 if arguments[0] == "export" else 0), done.stderr
        assert "Traceback" not in done.stderr
    assert imported(hostile) == ""


def test_a_search_in_a_process_of_its_own_imports_none_of_them(hostile: Path, tmp_path: Path) -> None:
    code = (
        "from grammars.check import _matches_backtracking as m; print(m('(?=b)b', 'abc'), m('(?=z)z', 'abc'))"
    )
    done = run([sys.executable, "-P", "-c", code], folder=hostile, environment=environment(tmp_path / "home"))
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert imported(hostile) == ""


def test_the_worker_alone_imports_none_of_them(hostile: Path, tmp_path: Path) -> None:
    code = "from app.client import worker_command as w; print('\\n'.join(w()))"
    command = run(
        [sys.executable, "-P", "-c", code], folder=tmp_path, environment=environment(tmp_path / "home")
    )
    done = run(command.stdout.splitlines(), folder=hostile, environment=environment(tmp_path / "home"))
    assert done.returncode == 0
    assert '"hello"' in done.stdout
    assert imported(hostile) == ""
