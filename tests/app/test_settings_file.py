"""The settings file: faults are told by file, line and key and stop nothing; a change keeps what else is written."""

import os
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.setting_words import WORDS
from app.settings import EngineSettings, InterfaceSettings, ReplySettings, Settings
from app.settings_file import SettingsFileError, change, check_value, keys_of, read_settings

WRITTEN = """\
# mine
[reply]
temperature = 0.2  # cool
system = '''
Be brief ] and
kind.
'''
stop = [
    "END",  # the usual one
    "STOP",
]

[keys]
"shape.pick" = ["ctrl+y"]
shape.toggle = "f11"

[engine]
threads = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_what_is_written_is_read(file: Path) -> None:
    file.write_text(WRITTEN)
    found, faults = read_settings(file)
    assert faults == []
    assert found == Settings(
        reply=ReplySettings(temperature=0.2, stop=("END", "STOP")),
        system="Be brief ] and\nkind.\n",
        engine=EngineSettings(threads=2),
        keys={"shape.pick": ("ctrl+y",), "shape.toggle": ("f11",)},
    )


def test_a_missing_file_sets_nothing(file: Path) -> None:
    assert read_settings(file) == (Settings(), [])
    assert not file.exists()


FAULTS = [
    ("\n[reply]\ntemprature = 1", "line 3: [reply] has no key 'temprature'; 'temperature' is the nearest."),
    ("[reply]\ntop_k = -3", "line 2: reply.top_k is -3; it takes a whole number from 0; 0 sets no limit."),
    ('[reply]\ntop_k = "3"', 'line 2: reply.top_k is "3"; it takes a whole number from 0; 0 sets no limit.'),
    ("[reply]\nland = 1", "line 2: reply.land is 1; it takes true or false."),
    ("[reply]\nmin_p = nan", "line 2: reply.min_p is NaN; it takes a number from 0 to 1."),
    (
        '[reply]\nstop = [\n"a",\n""]',
        'line 2: reply.stop is ["a", ""]; it takes a list of texts, none of them empty.',
    ),
    (
        "[engine]\nmodel = 2020-01-01",
        'line 2: engine.model is "2020-01-01"; it takes the path of a GGUF file.',
    ),
    ("reply.top_p = 0", "line 1: reply.top_p is 0; it takes a number above 0, at most 1."),
    ("reply = {top_p = 0}", "line 1: reply.top_p is 0; it takes a number above 0, at most 1."),
    ("[repply]", "line 1: there is no table [repply]; 'reply' is the nearest."),
    ("a = '''\n\n'''\nreply = 3", "line 4: reply is a table: write [reply] and its keys below."),
    ('[keys]\n"shape.pik" = "f9"', "line 2: [keys] has no action 'shape.pik'; 'shape.pick' is the nearest."),
    ("[keys]\nshape.pick = []", 'line 2: keys."shape.pick" is []; it takes keys such as ["ctrl+t", "f6"].'),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_a_fault_names_file_line_key_and_what_is_meant_and_the_rest_counts(
    file: Path, text: str, fault: str
) -> None:
    file.write_text(f"{text}\n[interface]\nreduced_motion = true\n")
    found, faults = read_settings(file, actions=["shape.pick"])
    assert f"{file}, {fault}" in faults
    assert len(faults) == (2 if text.startswith("a =") else 1)
    assert found == Settings(interface=InterfaceSettings(reduced_motion=True))


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"[reply]\ntop_k = \n", "line 2: this is no TOML (invalid value)."),
        (b"[reply]\ntop_k = 1\ntop_k = 2\n", "line 3: this is no TOML (cannot overwrite a value)."),
        (b"[reply]\n\xff = 1", "line 2: this is no UTF-8;"),
        (b'[reply]\nsystem = """a', "line 2: this is no TOML"),
        (b"#" * 300_000, " has more than 262,144 bytes and is not read."),
    ],
)
def test_a_file_that_cannot_be_read_as_a_whole_is_told_and_sets_nothing(
    file: Path, data: bytes, where: str
) -> None:
    file.write_bytes(data)
    found, [fault] = read_settings(file)
    assert found == Settings()
    assert fault.startswith(str(file))
    assert where in fault


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_told_and_never_waited_for(file: Path, make) -> None:
    make(file)
    assert read_settings(file) == (Settings(), [f"{file} is no file; the settings are not used."])
    with pytest.raises(SettingsFileError, match="is no file"):
        change(file, "reply", "seed", 1)


def test_a_change_touches_its_own_lines_only(file: Path) -> None:
    file.write_text(WRITTEN)
    change(file, "reply", "temperature", 0.5)
    change(file, "reply", "stop", None)
    change(file, "reply", "top_k", 40)
    change(file, "keys", "shape.toggle", ("f12", "alt+o"))
    change(file, "keys", "message.up", ["k"])
    change(file, "interface", "theme", "nord")
    assert (
        file.read_text()
        == """\
# mine
[reply]
temperature = 0.5  # cool
system = '''
Be brief ] and
kind.
'''
top_k = 40

[keys]
"shape.pick" = ["ctrl+y"]
shape.toggle = ["f12", "alt+o"]
"message.up" = ["k"]

[engine]
threads = 2

[interface]
theme = "nord"
"""
    )
    assert read_settings(file)[0].reply == ReplySettings(temperature=0.5, top_k=40)


def test_a_change_that_would_mean_something_else_is_refused_and_nothing_written(file: Path) -> None:
    file.write_text("reply = {top_k = 1}\n")
    with pytest.raises(SettingsFileError, match=r"reply\.top_p is written in a way"):
        change(file, "reply", "top_p", 0.5)
    assert file.read_text() == "reply = {top_k = 1}\n"


def test_a_faulty_file_is_not_overwritten(file: Path) -> None:
    file.write_text("[reply\n")
    with pytest.raises(SettingsFileError, match="before its faults are mended"):
        change(file, "reply", "top_p", 0.5)
    assert file.read_text() == "[reply\n"


VALUES = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
    st.lists(st.text("a\"'\\\n#]=\x7f", max_size=5), max_size=3),
)  # fmt: skip


CHANGES = st.tuples(st.sampled_from(["reply", "keys", "x"]), st.sampled_from(["a", "b.c", "top"]), VALUES)


@settings(max_examples=40, deadline=None)  # each change is on disk before the next
@given(st.lists(CHANGES, max_size=6))
def test_any_changes_leave_a_file_that_means_them(tmp_path_factory, changes) -> None:
    file = tmp_path_factory.mktemp("any") / "settings.toml"
    file.write_bytes("# first\r\n[x]\r\n\"b.c\" = 'é\u2028' # é\r\n".encode())
    wanted: dict = {"x": {"b.c": "é\u2028"}}
    for table, key, value in changes:
        change(file, table, key, value)
        wanted.setdefault(table, {})[key] = value
        assert tomllib.loads(file.read_bytes().decode()) == wanted
    assert file.read_bytes().startswith(b"# first\r\n[x]\r\n")


def test_every_setting_has_its_words_and_its_own_value_is_one_that_it_takes() -> None:
    for table, kind in (
        ("reply", ReplySettings),
        ("engine", EngineSettings),
        ("interface", InterfaceSettings),
    ):
        for name in keys_of(table):
            assert WORDS[name].what
        for field in fields(kind):
            if (value := getattr(kind(), field.name)) is not None:
                assert check_value(table, field.name, value) == value
