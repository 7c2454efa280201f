"""The schema of a person's class is Pydantic's, made in a process that can do no harm to this one."""

import json
import os
import sys
from pathlib import Path

import pytest
from bytewalk import accepts, compiled

from grammars.pydantic_class import from_class
from grammars.spec import ShapeError

MODULE = """
import sys
from dataclasses import dataclass
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

print("\\x1b[31mnoise")
print("\\x1b[31mnoise", file=sys.stderr)

class Stop(BaseModel):
    model_config = ConfigDict(extra="forbid")
    place: str = Field(max_length=5)
    nights: int

class Trip(BaseModel):
    model_config = ConfigDict(extra="forbid")
    zulu: str = Field(max_length=5, description="where to")
    alpha: int
    stops: list[Stop]
    class Inner(BaseModel):
        a: int

@dataclass
class Point:
    y: int
    x: int = 0

class Row(TypedDict):
    b: int
    a: str

class Plain:
    pass

class Broken(BaseModel):
    other: "Nowhere"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trips.py").write_text(MODULE)
    return tmp_path


def properties(reference: str, folder: Path) -> list[str]:
    return list(json.loads(from_class(reference, folder))["properties"])


def refusal(reference: str, folder: Path, **options) -> str:
    with pytest.raises(ShapeError) as error:
        from_class(reference, folder, **options)
    assert "\x1b" not in str(error.value)
    return str(error.value)


def test_the_fields_keep_their_order_and_definitions_stay(folder, capfd):
    text = from_class("trips:Trip", folder)
    found = json.loads(text)
    assert list(found["properties"]) == ["zulu", "alpha", "stops"]
    assert found["properties"]["zulu"]["description"] == "where to"
    assert list(found["$defs"]["Stop"]["properties"]) == ["place", "nights"]
    grammar = compiled("json_schema", text)
    assert accepts(grammar, '{"zulu":"x","alpha":1,"stops":[{"place":"y","nights":2}]}')
    assert not accepts(grammar, '{"alpha":1,"zulu":"x","stops":[]}')
    assert capfd.readouterr() == ("", "")


def test_dataclasses_typed_dicts_and_inner_classes_serve_too(folder):
    assert properties("trips:Point", folder) == ["y", "x"]
    assert properties("trips:Row", folder) == ["b", "a"]
    assert properties("trips:Trip.Inner", folder) == ["a"]


def test_a_file_is_named_by_its_path_and_may_import_its_neighbours(folder, monkeypatch):
    (folder / "deep").mkdir()
    (folder / "deep" / "json.py").write_text("from near import Near\nclass Mine(Near):\n    b: int\n")
    (folder / "deep" / "near.py").write_text("import pydantic\nclass Near(pydantic.BaseModel):\n    a: int\n")
    assert properties("deep/json.py:Mine", folder) == ["a", "b"]
    assert properties(f"{folder / 'deep' / 'json.py'}:Mine", Path("/")) == ["a", "b"]
    monkeypatch.chdir(folder / "deep")
    assert list(json.loads(from_class("near:Near", None))["properties"]) == ["a"]


def test_nothing_is_imported_here(folder):
    before, path = set(sys.modules), list(sys.path)
    from_class("trips:Trip", folder)
    assert "trips" not in sys.modules and set(sys.modules) == before and sys.path == path


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("trips", "names no class"),
        (":Trip", "names no class"),
        ("trips:", "names no class"),
        ("trips:Trip()", "names no class"),
        ("a b:Trip", "neither a module nor a file"),
        ("../trips:Trip", "neither a module nor a file"),
        ("nothing.py:Trip", "there is no file"),
        ("x" * 300 + ".py:Trip", "cannot be read"),
        ("a\0.py:Trip", "there is no file"),
        ("~nobody-here/a.py:Trip", "cannot be read"),
        ("nothing:Trip", "there is no module nothing"),
        ("trips.sub:Trip", "there is no module trips.sub"),
        ("trips:Tripp", "trips has no Tripp; it has Stop, Trip, Point, Row, Broken"),
        ("trips:Trip.nothing", "trips has no Trip.nothing; it has Inner"),
        ("trips:Plain", "no Pydantic model, dataclass or TypedDict"),
        ("trips:BaseModel", "no Pydantic model, dataclass or TypedDict"),
        ("trips:sys", "no Pydantic model, dataclass or TypedDict"),
        ("trips:Broken", "has no JSON Schema: "),
    ],
)
def test_what_stands_in_the_way_is_a_sentence(reference, why, folder):
    assert why in refusal(reference, folder)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "raise ValueError('oh \\x1b[31m no'.replace('\\x1b', 'ESC'))",
            "ends with ValueError: oh ESC[31m no",
        ),
        ("raise ValueError", "ends with ValueError"),
        (
            "import not_there",
            "ends with ModuleNotFoundError: No module named 'not_there'; what it imports must",
        ),
        ("x = = 1", "ends with SyntaxError: invalid syntax (bad.py, line 1)"),
        ("import sys; sys.exit('bye')", "ends with SystemExit: bye"),
        ("raise KeyboardInterrupt", "ends with KeyboardInterrupt"),
        ("import os; os._exit(7)", "ended Python (exit code 7)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended Python (exit code -9)"),
        ("raise ValueError('x' * 100_000)", "ends with ValueError: xxx"),
        (
            "import pydantic\nX = pydantic.create_model('X', a=(str, pydantic.Field(description='x' * 5_000_000)))",
            "the schema of bad is too large",
        ),
    ],
)
def test_a_module_that_fails_is_told_by_its_last_line(code, why, folder):
    (folder / "bad.py").write_text(code)
    said = refusal("bad:X", folder)
    assert why in said and len(said) < 600


def test_a_module_that_never_ends_is_ended(folder):
    (folder / "endless.py").write_text("while True: pass")
    assert "takes too long" in refusal("endless:X", folder, seconds=0.3)


def test_what_a_module_started_ends_with_it(folder):
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    (folder / "parent.py").write_text(
        "import os, pathlib, subprocess, sys\n"
        "pipe = os.open(pathlib.Path(__file__).with_name('pipe'), os.O_WRONLY)\n"
        "os.write(pipe, b'open')\n"
        "endless = [sys.executable, '-c', 'import signal; signal.pause()']\n"
        "subprocess.Popen(endless, pass_fds=[pipe])\n"
        "from trips import Trip\n"
    )
    from_class("parent:Trip", folder)
    os.set_blocking(reader, True)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"open"  # returns when the last process that holds the other end is gone
