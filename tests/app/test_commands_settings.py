"""What `stampo ask` and `stampo doctor` take from the settings file and from saved chats; options win."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import scripted_worker
from typer.testing import CliRunner, Result

from app import client, paths
from app.main import app
from app.store import Store
from engine.events import Finished, Stats
from engine.protocol import Sampling
from grammars.matcher import allow_effort
from grammars.spec import GrammarSpec

Ask = Callable[..., tuple[Result, dict, dict]]
SHAPE = GrammarSpec(kind="choice", text='["yes", "no"]')
SETTINGS = """
[reply]
temperature = 0.1
top_n_sigma = 2
max_tokens = 7
land = false
speculate = true
stop = ["END"]
system = "Be brief."
[engine]
threads = 3
context = 900
model = "/m/set.gguf"
draft_model = "/m/small.gguf"
[limits]
shape_effort = 3
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    allow_effort(1)  # it is a setting of the process


def write_settings(text: str) -> None:
    paths.config_path().write_text(text, encoding="utf-8")


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that asks a scripted worker; with what was to be loaded and what was asked."""

    def run(*arguments: str) -> tuple[Result, dict, dict]:
        log = tmp_path / "commands"
        log.unlink(missing_ok=True)
        script = {
            "load": [{"log": str(log)}, *scripted_worker.LOADED],
            "turns": [[{"log": str(log)}, {"say": "yes"}, {"end": "stop"}]],
        }
        file = tmp_path / "script.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        command = [sys.executable, scripted_worker.__file__, str(file)]
        monkeypatch.setattr(client, "worker_command", lambda _log, _cache=None: command)
        done = CliRunner().invoke(app, ["ask", "Go.", *arguments])
        load, generate = map(json.loads, log.read_text().splitlines())
        return done, load, generate

    return run


def test_settings_count_where_no_option_is_given(ask: Ask) -> None:
    write_settings(SETTINGS)
    done, load, turn = ask()
    assert (done.exit_code, done.stderr) == (0, "")
    assert (load["model"], load["draft_model"]) == ("/m/set.gguf", "/m/small.gguf")
    assert (load["threads"], load["context"], load["shape_effort"]) == (3, 900, 3)
    assert (turn["sampling"]["temperature"], turn["sampling"]["top_n_sigma"]) == (0.1, 2)
    assert (turn["max_tokens"], turn["land"], turn["stop"]) == (7, False, ["END"])
    assert turn["messages"][0] == turn["messages"][0] | {"role": "system", "content": "Be brief."}


def test_options_win_over_settings(ask: Ask) -> None:
    write_settings(SETTINGS)
    options = "-m other.gguf --threads 1 --temperature 0.7 --max-tokens 9 --land --typical-p 0.5 --stop Z"
    _, load, turn = ask(*options.split(), "--system", "")
    assert (load["model"], load["draft_model"], load["threads"]) == ("other.gguf", None, 1)
    assert (turn["sampling"]["temperature"], turn["sampling"]["typical_p"]) == (0.7, 0.5)
    assert (turn["max_tokens"], turn["land"], turn["stop"]) == (9, True, ["Z"])
    assert [message["role"] for message in turn["messages"]] == ["user"]


def test_a_stop_text_of_the_settings_does_not_keep_a_shape_from_being_used(ask: Ask) -> None:
    write_settings(SETTINGS)
    done, _, turn = ask("--choice", "yes")
    assert (done.exit_code, turn["stop"]) == (0, [])


def test_a_faulty_settings_file_is_told_in_one_line_and_the_rest_of_it_counts(ask: Ask) -> None:
    write_settings("[reply]\ntop_kk = 1\nmax_tokens = 5\n[foo]\n")
    done, _, turn = ask("-m", "m.gguf")
    assert (done.exit_code, done.stdout) == (0, "yes")
    assert done.stderr.count("\n") == 1
    assert (
        "settings.toml, line 2: [reply] has no key 'top_kk'; 'top_k' is the nearest. There are 1 more"
        in done.stderr
    )
    assert turn["max_tokens"] == 5


def keep_reply(text: str) -> None:
    with Store(paths.store_path()) as store:
        chat = store.create_chat()
        reply = store.begin_reply(
            chat, store.add_user(chat, None, "?"), shape=SHAPE, sampling=Sampling(), seed=1
        )
        end = Finished(turn=1, finish="stop", text=text, tokens=(1,), seed=1, stats=Stats())
        store.finish_reply(reply, end, valid=True, trace=())


def test_saved_replies_under_the_same_shape_are_guessed_from(ask: Ask) -> None:
    keep_reply("no")
    shaped = ("-m", "m.gguf", "--choice", "yes", "--choice", "no")
    assert ask(*shaped)[2]["earlier"] == ["no"]
    assert ask(*shaped, "--no-memory")[2]["earlier"] == []
    assert ask(*shaped, "--no-spec")[2]["earlier"] == []
    assert ask("-m", "m.gguf", "--choice", "yes")[2]["earlier"] == []
    write_settings("[reply]\nremember = false\n")
    assert ask(*shaped)[2]["earlier"] == []
    assert ask(*shaped, "--memory")[2]["earlier"] == ["no"]


def test_a_store_that_is_not_there_is_not_made_and_a_broken_one_does_not_stop_the_reply(
    ask: Ask, home: Path
) -> None:
    done, _, turn = ask("-m", "m.gguf", "--choice", "yes")
    assert turn["earlier"] == []
    assert not paths.store_place().exists()
    home.mkdir(exist_ok=True)
    paths.store_place().write_bytes(b"no database" * 100)
    done, _, turn = ask("-m", "m.gguf", "--choice", "yes")
    assert (done.exit_code, done.stdout) == (0, "yes")
    assert "Saved replies are not used: " in done.stderr


def test_the_doctor_says_where_the_settings_are_and_what_is_wrong_with_them(smollm2: Path) -> None:
    write_settings(f'[engine]\nmodel = "{smollm2}"\nnumerics = "fast"\nthread = 2\n')
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 2
    assert f"model: {smollm2}" in done.stdout
    assert "numerics: fast: " in done.stdout
    assert f"settings: {paths.config_place()}\n" in done.stdout
    assert "line 4: [engine] has no key 'thread'; 'threads' is the nearest." in done.stdout


def test_the_doctor_does_not_pretend_that_there_are_files(smollm2: Path) -> None:
    done = CliRunner().invoke(app, ["doctor", "-m", str(smollm2)])
    assert done.exit_code == 0
    for name, place in (("chats", paths.store_place()), ("settings", paths.config_place())):
        assert f"{name}: {place} (not there yet)" in done.stdout
    assert "numerics: unverified, meant to be exact and not yet compared on this machine" in done.stdout
