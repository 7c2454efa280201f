"""`stampo ask` with several streams, with a replay, and `stampo doctor --probe`."""

import json
from pathlib import Path

import pytest
from data import vocabulary
from tiny import write_tiny_model
from typer.testing import CliRunner, Result

from app.main import app
from app.replay import describe_verification
from engine.events import Token, Verification


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("llama-spm"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))


def stampo(command: str, model: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(app, [command, "-m", str(model), "--threads", "1", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_several_replies_are_those_of_their_seeds_alone(model: Path) -> None:
    shape = ("--regex", "[a-z]{1,9}", "--context", "512")
    done = stampo("ask", model, "Go.", *shape, "--streams", "3", "--seed", "5", "--json")
    assert done.exit_code == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["seed"] for answer in answers] == [5, 6, 7]
    assert stampo("ask", model, "Go.", *shape, "--seed", "7").stdout == answers[2]["reply"]


def test_several_replies_have_a_line_between_them(model: Path) -> None:
    done = stampo("ask", model, "Go.", "--choice", "yes", "--streams", "2", "--context", "512")
    assert (done.exit_code, done.stdout) == (0, "yes\n---\nyes\n")


def test_the_worst_of_several_replies_decides_the_exit_code(model: Path) -> None:
    options = ("--regex", "[a-z]{40}", "--max-tokens", "2", "--no-land", "--streams", "2", "--context", "512")
    assert stampo("ask", model, "Go.", *options).exit_code == 1
    refused = CliRunner().invoke(app, ["ask", "Go.", "--streams", "2", "--save"])
    assert refused.exit_code == 2
    assert "--streams" in refused.stderr


def test_a_replay_is_told_and_changes_no_exit_code(model: Path) -> None:
    done = stampo("ask", model, "Go.", "--choice", "yes", "--verify", "--json", "--context", "512")
    assert done.exit_code == 0
    assert "all" in done.stderr
    check = json.loads(done.stdout)["verification"]
    assert (check["equal"], check["compared"] == check["total"]) == (True, True)


def test_differences_are_told_with_their_margin_and_the_numerics() -> None:
    check = Verification(
        equal=False,
        compared=3,
        total=9,
        exact="fast",
        at=3,
        replied=Token(id=1, text=" a", origin="sampled"),
        replayed=None,
        margin=0.0012345,
    )
    sentence = describe_verification(check)
    for part in ("token 4 of 9", "' a'", "the end", "0.00123", "fast"):
        assert part in sentence
    assert "equal so far" in describe_verification(
        Verification(equal=True, compared=2, total=9, exact="exact", error="it was stopped")
    )


def test_the_doctor_verifies_numerics_and_remembers(model: Path) -> None:
    assert "numerics: unverified" in stampo("doctor", model).stdout
    probed = stampo("doctor", model, "--probe")
    assert probed.exit_code == 0
    assert "numerics: exact" in probed.stdout
    answer = json.loads(stampo("ask", model, "Go.", "--choice", "yes", "--json").stdout)
    assert answer["stats"]["exact"] == "exact"
