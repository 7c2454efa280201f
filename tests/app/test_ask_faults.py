"""`stampo ask` when something around the reply goes wrong: Ctrl+C, the engine, the store, the output.

The engine is a scripted worker, so that each thing goes wrong at its place.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import scripted_worker
from typer.testing import CliRunner, Result

from app import client, paths
from app.client import EngineClient
from app.main import app
from app.store import Store, StoreError
from app.store.values import StoredMessage
from app.terminal import OutputError
from engine.events import Hello, Loading, Ready

WHOLE = [{"say": "All of it"}, {"end": "stop"}]
STAMPO = [sys.executable, "-P", "-c", "from app.main import main; main()"]

Ask = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that asks a scripted worker."""

    def run(script: dict[str, Any], *arguments: str) -> Result:
        file = tmp_path / "script.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        command = [sys.executable, scripted_worker.__file__, str(file)]
        monkeypatch.setattr(client, "worker_command", lambda _log, _cache=None: command)
        result = CliRunner().invoke(app, ["ask", "Go.", "-m", "m.gguf", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


def saved_reply() -> StoredMessage:
    with Store(paths.store_path()) as store:
        return store.path(1)[-1]


# --- Ctrl+C


@pytest.mark.parametrize("moment", ["starting", Hello, Loading, Ready])
def test_ctrl_c_before_the_question_means_that_nothing_is_asked(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: Any
) -> None:
    """While the process was being made there was nobody to cancel, and the question was asked all the same."""
    started: list[EngineClient] = []
    spawn, events = EngineClient._spawn, EngineClient.events

    async def spawn_interrupted(self: EngineClient, *rest: Any) -> Any:
        started.append(self)
        if moment == "starting":
            os.kill(os.getpid(), signal.SIGINT)
        return await spawn(self, *rest)

    async def events_interrupted(self: EngineClient) -> Any:
        async for event in events(self):
            if moment != "starting" and isinstance(event, moment):
                signal.raise_signal(signal.SIGINT)
                await _handled()
            yield event

    monkeypatch.setattr(EngineClient, "_spawn", spawn_interrupted)
    monkeypatch.setattr(EngineClient, "events", events_interrupted)
    log = tmp_path / "asked"
    done = ask({"turns": [[{"log": str(log)}, *WHOLE]]}, "--save")
    assert (done.exit_code, done.stdout) == (130, "")
    assert "Interrupted" in done.stderr
    assert not log.exists()
    assert started[0].pid is not None and not Path(f"/proc/{started[0].pid}").exists()


async def _handled() -> None:
    """Let the event loop run the signal's handler."""
    await asyncio.sleep(0.05)


def test_ctrl_c_does_not_wait_for_a_load_that_never_ends(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    events = EngineClient.events

    async def events_interrupted(self: EngineClient) -> Any:
        async for event in events(self):
            yield event
            if isinstance(event, Loading):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(EngineClient, "events", events_interrupted)
    done = ask({"load": [{"send": {"type": "loading", "fraction": 0.5}}, {"deaf": True}]})
    assert (done.exit_code, done.stdout) == (130, "")


# --- the engine


def test_an_error_in_the_middle_of_a_reply_is_the_models(ask: Ask) -> None:
    done = ask({"turns": [[{"say": "Half of it"}, {"end": "error"}]]})
    assert (done.exit_code, done.stdout) == (3, "Half of it")
    assert "error" in done.stderr
    done = ask({"turns": [[{"say": "Half of it"}, {"end": "error"}]]}, "--json")
    assert (done.exit_code, json.loads(done.stdout)["finish"]) == (3, "error")


BROKE = {"type": "failed", "kind": "internal", "message": "It broke.", "turn": "$turn"}


@pytest.mark.parametrize(("end", "says"), [({"die": -9}, "SIGKILL"), ({"send": BROKE}, "It broke.")])
def test_a_reply_without_an_end_is_kept_to_the_last_character(
    ask: Ask, end: dict[str, Any], says: str
) -> None:
    """It was left open, with what the last checkpoint held."""
    done = ask({"turns": [[{"say": "Half "}, {"say": "of it"}, end]]}, "--save")
    assert (done.exit_code, done.stdout) == (3, "Half of it")
    assert says in done.stderr
    reply = saved_reply()
    assert reply.content == "Half of it"
    assert reply.reply is not None
    assert (reply.reply.state, reply.reply.finish) == ("done", "error")
    assert says in (reply.reply.error or "")


# --- the output


@pytest.mark.parametrize(
    ("fault", "code", "finish"),
    [(OutputError(), 0, "cancelled"), (OutputError("The disk is full."), 2, "error")],
)
def test_output_that_cannot_be_written_ends_the_turn_and_keeps_the_reply(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, fault: OutputError, code: int, finish: str
) -> None:
    def emit(_text: str) -> None:
        raise fault

    monkeypatch.setattr("app.commands.report.emit", emit)
    done = ask({"turns": [[{"say": "Half", "size": 4}, {"hold": True}]]}, "--save")
    assert done.exit_code == code
    assert str(fault) in done.stderr
    reply = saved_reply()
    assert reply.reply is not None
    assert (reply.content, reply.reply.finish) == ("Half", finish)


# --- the store


@pytest.mark.parametrize("method", ["begin_reply", "checkpoint", "finish_reply"])
def test_a_store_that_fails_is_told_once_and_the_reply_goes_on(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr("app.record.CHECKPOINT_S", 0.0)
    monkeypatch.setattr(Store, method, fail)
    done = ask({"turns": [WHOLE]}, "--save")
    assert (done.exit_code, done.stdout) == (0, "All of it")
    assert done.stderr.count("The disk is full.") == 1
    whole = method == "checkpoint"  # the end holds the whole reply
    assert ("Saved as chat 1" in done.stderr) is whole
    assert ("does not hold the whole reply" in done.stderr) is not whole


def test_a_store_that_was_busy_at_the_beginning_holds_the_reply_in_the_end(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Store.begin_reply
    faults = [StoreError("It is in use.")]

    def begin_later(self: Store, *rest: Any, **options: Any) -> int:
        if faults:
            raise faults.pop()
        return begin(self, *rest, **options)

    monkeypatch.setattr(Store, "begin_reply", begin_later)
    done = ask({"turns": [WHOLE]}, "--save")
    assert done.exit_code == 0
    assert "Saved as chat 1" in done.stderr
    assert saved_reply().content == "All of it"


def test_without_a_place_for_the_log_the_reply_comes_all_the_same(ask: Ask, home: Path) -> None:
    home.write_text("a file in the way")
    done = ask({"turns": [WHOLE]})
    assert (done.exit_code, done.stdout) == (0, "All of it")
    assert "log is not kept" in done.stderr
    done = ask({"turns": [WHOLE]}, "--save")
    assert (done.exit_code, done.stdout) == (2, "")


# --- what cannot be meant


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ask", "Go.", "-m", "~nosuchuser/x"), 3),
        (("ask", "Go.", "-m", "/tmp/\udcff.gguf"), 3),
        (("-m", "~nosuchuser/x"), 3),
        (("-m", "\udcff.gguf"), 3),
        (("doctor", "-m", "~nosuchuser/x"), 3),
        (("doctor", "-m", "\udcff.gguf"), 3),
        (("ask", "Go.", "--regex", "@~nosuchuser/x"), 2),
        (("ask", "Go.", "--json-schema", "@\udcff"), 2),
        (("ask", "Go.", "--json-schema", "@/dev/zero"), 2),
        (("ask", "Go.", "--regex", "\udcff"), 2),
        (("ask", "Go.", "--lark", "start: \udcff"), 2),
        (("ask", "Go.", "--choice", "\udcff"), 2),
        (("ask", "Go.", "--preset", "\udcff"), 2),
        (("ask", "Go.", "--stop", "\udcff"), 2),
        (("ask", "Go.", "--system", "\udcff"), 2),
        (("ask", "Go.", "--logit-bias", "\udcff"), 2),
        (("presets", "add", "x", "@~nosuchuser/x"), 2),
        (("presets", "show", "\udcff"), 2),
        (("export", "\udcff"), 2),
    ],
)
def test_what_names_nothing_is_a_sentence_everywhere(arguments: tuple[str, ...], code: int) -> None:
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code
    assert done.stderr.strip() or "model:" in done.stdout


def run(*arguments: str, **streams: Any) -> tuple[int, str]:
    done = subprocess.run([*STAMPO, *arguments], timeout=120, stderr=subprocess.PIPE, text=True, **streams)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_home_that_cannot_be_is_a_sentence_in_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = tmp_path / "x.json"
    shape.write_text('{"regex": "a", "title": "a"}')
    made = [("presets", "add", "x", str(shape)), ("doctor",)]
    looked_at = [("chats", "list"), ("export", "1")]
    for home, commands in (("/proc/nope", made), ("~nosuchuser/x", [*made, *looked_at])):
        monkeypatch.setenv("STAMPO_HOME", home)
        for command in commands:
            code, says = run(*command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            assert code == 2, command
            assert home in says or command == ("doctor",)


def test_a_full_disk_under_standard_output_is_a_sentence() -> None:
    for command in (("presets", "list"), ("presets", "show", "city"), ("--help",)):
        with Path("/dev/full").open("wb") as full:
            code, says = run(*command, stdout=full)
        assert code == 2
        assert "no space left" in says.lower()


def test_standard_output_is_utf8_wherever_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert (
        run("presets", "add", "x", "-", input='{"title": "é😀", "regex": "a"}', stdout=subprocess.PIPE)[0]
        == 0
    )
    done = subprocess.run([*STAMPO, "presets", "show", "x"], capture_output=True, timeout=120)
    assert "é😀" in done.stdout.decode()


def test_closed_standard_streams_are_no_files_of_others(home: Path) -> None:
    """A file opened while number 1 is free gets it, and then what is printed goes into that file."""
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        shell = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", *STAMPO, "chats", "list"], capture_output=True, timeout=120
        )
        assert shell.returncode == 0
        assert b"Traceback" not in shell.stderr
    with Store(paths.store_path()) as store:
        assert store.chats() == []
