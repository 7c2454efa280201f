"""`stampo bench` as a process: figures on standard output, everything else on standard error."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from data import vocabulary
from tiny import write_tiny_model
from typer.testing import CliRunner

from app.main import app

STAMPO = [sys.executable, "-P", "-c", "from app.__main__ import main; main()"]
MODES = {"naive", "forced", "full", "warm", "limit"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("llama-spm"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))


def bench(model: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*STAMPO, "bench", "-m", str(model), "--threads", "1", *arguments], capture_output=True, timeout=110
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def test_figures_of_a_task_as_one_object(model: Path) -> None:
    done = bench(model, "--tasks", "classification", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    assert set(answer) == {"version", "machine", "rounds", "curve", "learned_points", "tasks"}
    (task,) = answer["tasks"].values()
    assert set(task["modes"]) == MODES
    assert task["differing_runs"] == 0
    full, naive = task["modes"]["full"], task["modes"]["naive"]
    assert full["reply_tokens"] == naive["reply_tokens"] > 0
    assert full["no_logits_share"] > 0.5
    assert full["modelled_times_faster_than_naive"] > 1.2
    assert len(full["wall_s"]) == 1 and full["wall_median_s"] > 0
    assert task["forwards_lower_bound"] <= full["forwards"] < naive["forwards"]
    assert set(full["sources"]) == {"memory", "suffix", "recycling", "gate"}


def test_tables_for_people_say_what_they_were_measured_on(model: Path) -> None:
    done = bench(model, "--tasks", "tool", "--rounds", "0")
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    assert "tiny.gguf" in text.splitlines()[0]
    for word in ("naive", "forced", "full", "warm (2)", "limit", "recorded curve", "with the replies known"):
        assert word in text
    assert "\x1b" not in text


def test_tasks_and_models_that_do_not_exist_are_named(tmp_path: Path, model: Path) -> None:
    done = bench(model, "--tasks", "record,cooking")
    assert done.returncode == 2
    assert "cooking" in done.stderr.decode() and "classification" in done.stderr.decode()
    missing = bench(tmp_path / "none.gguf", "--tasks", "tool")
    assert missing.returncode == 3 and "none.gguf" in missing.stderr.decode()


def test_ctrl_c_leaves_with_a_word(model: Path) -> None:
    with subprocess.Popen(
        [*STAMPO, "bench", "-m", str(model), "--threads", "1", "--rounds", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stderr is not None
        narrated = process.stderr.readline()  # the first task has begun
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b"" and b"Traceback" not in err
    assert narrated and b"Interrupted." in err


def test_help_names_the_exit_codes() -> None:
    answer = CliRunner().invoke(app, ["bench", "--help"])
    assert answer.exit_code == 0
    assert "130" in answer.output
