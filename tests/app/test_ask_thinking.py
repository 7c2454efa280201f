"""`stampo ask` and reasoning, landing and loops: what goes where, and with which exit code."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data
import pytest
import scripted_worker
from gguf import TokenType
from tiny import write_tiny_model
from typer.testing import CliRunner, Result

from app import client, paths
from app.main import app
from app.store import Store

Ask = Callable[..., Result]
REASON = {"type": "tokens", "turn": "$turn", "text": "", "forwards": 1, "elapsed_s": 0.1}
THOUGHT = {"id": 5, "text": "hm", "origin": "sampled", "part": "reasoning"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that asks a scripted worker."""

    def run(steps: list[dict[str, Any]], *arguments: str) -> Result:
        file = tmp_path / "script.json"
        file.write_text(json.dumps({"turns": [steps]}), encoding="utf-8")
        command = [sys.executable, scripted_worker.__file__, str(file)]
        monkeypatch.setattr(client, "worker_command", lambda _log, _cache=None: command)
        return CliRunner().invoke(app, ["ask", "Go.", "-m", "m.gguf", *arguments])

    return run


def thinks(finish: str = "stop") -> list[dict[str, Any]]:
    """A turn that thinks, then says yes."""
    end = {"type": "finished", "turn": "$turn", "finish": finish, "text": "yes", "tokens": [7], "seed": 7}
    stats = {"reply_tokens": 1, "reasoning_tokens": 1, "landed_tokens": 0}
    return [
        {"send": scripted_worker._started(1) | {"turn": "$turn"}},
        {"send": REASON | {"tokens": [THOUGHT], "reasoning": "hm, \x1b[31m"}},
        {"send": REASON | {"tokens": [{"id": 7, "text": "yes", "origin": "sampled"}], "text": "yes"}},
        {"send": end | {"stats": stats, "reasoning": "hm, \x1b[31m"}},
    ]


def test_reasoning_is_no_part_of_what_is_printed(ask: Ask) -> None:
    done = ask(thinks(), "--stats")
    assert (done.exit_code, done.stdout) == (0, "yes")
    assert "hm" not in done.stderr
    assert "1 reply tokens and 1 of reasoning" in done.stderr


def test_reasoning_stands_apart_in_json(ask: Ask) -> None:
    done = ask(thinks(), "--json", "--choice", "yes", "--choice", "no")
    answer = json.loads(done.stdout)
    assert (answer["reply"], answer["reasoning"], answer["valid"]) == ("yes", "hm, \x1b[31m", True)
    assert answer["stats"]["reasoning_tokens"] == 1


def test_reasoning_is_kept_apart_with_the_chat(ask: Ask) -> None:
    ask(thinks(), "--save", "--no-think", "--think-tokens", "9", "--no-loop-guard")
    with Store(paths.store_path()) as store:
        message = store.path(1)[-1]
    assert message.reply is not None
    assert (message.content, message.reply.reasoning, message.reply.tokens) == ("yes", "hm, \x1b[31m", (7,))
    options = message.reply.options
    assert (options["think"], options["think_tokens"], options["stop_loops"]) == (False, 9, False)


@pytest.mark.parametrize(
    ("finish", "code", "says"), [("landed", 0, "cut short"), ("loop", 1, "repeated itself")]
)
def test_a_reply_that_was_ended_early_says_so_in_one_line(
    ask: Ask, finish: str, code: int, says: str
) -> None:
    done = ask(thinks(finish))
    assert (done.exit_code, done.stdout) == (code, "yes")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), {"think": None, "think_tokens": 1024, "land": True, "stop_loops": True}),
        (("--think",), {"think": True}),
        (("--no-think", "--think-tokens", "5"), {"think": False, "think_tokens": 5}),
        (("--no-land", "--no-loop-guard"), {"land": False, "stop_loops": False}),
    ],
)
def test_the_options_reach_the_engine(
    ask: Ask, tmp_path: Path, options: tuple[str, ...], wanted: dict[str, Any]
) -> None:
    log = tmp_path / "asked"
    ask([{"log": str(log)}, *thinks()], *options)
    asked = json.loads(log.read_text())
    assert {name: asked[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--think-tokens", "-1"), "--think-tokens"),
        (("--stop", ""), "--stop"),
        (("--stop", "a", "--stop", ""), "--stop"),
    ],
)
def test_options_that_make_no_sense_are_refused(ask: Ask, options: tuple[str, ...], says: str) -> None:
    done = ask(thinks(), *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_every_usage_error_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.main import main

    for arguments in (("--streams", "0"), ("--strams", "2"), ("--context", "many"), ("--choice",)):
        monkeypatch.setattr(sys, "argv", ["stampo", "ask", "Go.", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 2
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert arguments[0] in said.err


def test_a_reasoning_model_thinks_and_answers_in_the_shape(tmp_path: Path) -> None:
    """A tiny random model behind Qwen3's template, as a process; a budget too small for the shape names the least."""
    model = write_tiny_model(
        tmp_path / "tiny.gguf",
        data.vocabulary("gpt-2"),
        template=data.template("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"),
        added={"<think>": TokenType.USER_DEFINED, "</think>": TokenType.USER_DEFINED},
    )
    schema = '{"type":"object","properties":{"mood":{"enum":["calm","tense"]}},"required":["mood"]}'
    common = ["ask", "Go.", "-m", str(model), "--context", "512", "--threads", "1", "--json-schema", schema]
    done = CliRunner().invoke(app, [*common, "--think", "--think-tokens", "8", "--json", "--seed", "1"])
    answer = json.loads(done.stdout)
    assert done.exit_code == 0
    assert answer["parsed"]["mood"] in ("calm", "tense")
    assert answer["stats"]["reasoning_tokens"] > 8
    assert answer["reasoning"]
    small = CliRunner().invoke(app, [*common, "--max-tokens", "2"])
    assert (small.exit_code, small.stdout) == (2, "")
    assert "The shortest reply found for this shape has" in small.stderr
    assert "the budget is 2" in small.stderr
