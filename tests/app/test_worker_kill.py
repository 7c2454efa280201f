"""The engine's process as a fault domain: however it ends or hangs, it is told, nothing is lost and a key restarts it.

Real processes; where a model has to answer it is a tiny one, and SmolLM2 in the proof.
"""

import asyncio
import os
import random
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import gguf_parts as gp
import pytest
from data import vocabulary
from tiny import write_tiny_model, write_tiny_recurrent_model

from app.client import EngineClient, worker_command
from app.session import Session
from app.settings import ReplySettings
from app.store.store import Store
from app.supervisor import Supervisor
from engine.events import Event, Exited, Failed, Ready
from engine.protocol import Load

HOT = ReplySettings(temperature=1.5, max_tokens=400)
ASSERTION = "/somewhere/private/llama-model.cpp:99: GGML_ASSERT(layers > 0) failed"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(
        tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("llama-spm"), layers=2
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))


async def until(true: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


def state(pid: int) -> str:
    """Return the letter of a process's state, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    return state(pid) in ("", "Z")  # a zombie runs no more; whoever inherited it may take its time


@asynccontextmanager
async def session_over(model: Path, folder: Path, *, silence_s: float = 15.0) -> AsyncIterator[Session]:
    def supervise(on_event: Callable[[Event], None]) -> Supervisor:
        client = partial(EngineClient, silence_s=silence_s)
        load = Load(model=str(model), threads=1, context=1024)
        return Supervisor(load, on_event, client_factory=client)

    store = Store(folder / "chats.sqlite3")
    session = Session(store, supervise, settings=HOT)
    session.engine.start()
    try:
        await until(lambda: session.engine.state == "ready")
        yield session
    finally:
        await session.close()
        store.close()


async def last_words(command: list[str], log: Path, load: Load | None = None) -> Exited:
    """Start a program as the engine and return what is told of its end."""
    client = EngineClient()
    await client.start(command, log)
    if load is not None:
        client.send(load)
    async with asyncio.timeout(60):
        events = [event async for event in client.events()]
    await client.close()
    assert isinstance(events[-1], Exited)
    return events[-1]


async def test_a_failed_assertion_while_loading_names_the_file_and_the_assertion(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("an older run: other.cpp:1: GGML_ASSERT(old) failed\n")
    code = (
        f"import os, sys; print({ASSERTION!r}, file=sys.stderr, flush=True); sys.stdin.readline(); os.abort()"
    )
    end = await last_words([sys.executable, "-c", code], tmp_path / "log", Load(model="/models/odd.gguf"))
    assert "failed assertion (SIGABRT) while it loaded odd.gguf, which may be damaged" in end.message
    assert "llama-model.cpp:99: GGML_ASSERT(layers > 0) failed" in end.message
    assert "/somewhere" not in end.message
    assert "old" not in end.message
    assert "\n" not in end.message


async def test_an_abort_of_the_real_worker_is_told_like_that(tmp_path: Path) -> None:
    """An assertion of one architecture, which no check of headers knows."""
    parts = gp.take_apart(
        write_tiny_recurrent_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"), hybrid=True)
    )
    parts.entries["jamba.ssm.inner_size"] = gp.uint32(64)
    path = parts.write(tmp_path / "odd.gguf")
    end = await last_words(
        worker_command(tmp_path / "log"), tmp_path / "log", Load(model=str(path), threads=1)
    )
    assert "failed assertion (SIGABRT) while it loaded odd.gguf, which may be damaged" in end.message
    assert "jamba.cpp" in end.message
    assert "GGML_ASSERT(2 * n_embd == d_inner) failed" in end.message


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGSEGV, marks=pytest.mark.proof),
        pytest.param(signal.SIGTERM, marks=pytest.mark.proof),
    ],
)
async def test_a_death_in_the_middle_of_a_reply_keeps_what_was_written(
    model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    async with session_over(model, tmp_path) as session:
        live = session.send("Tell me.")
        await until(lambda: len(live.text) > 20)
        assert session.engine.pid is not None
        os.kill(session.engine.pid, number)
        await until(lambda: session.engine.state == "gone")
        shown = live.text
        assert number.name in session.trouble
        assert session.path[-1].content == shown
        assert session.path[-1].reply is not None
        assert session.path[-1].reply.finish == "error"
        session.restart()
        await until(lambda: session.engine.state == "ready")
        session.send("And now?")
        await until(lambda: not session.busy)
        assert [message.role for message in session.path] == ["user", "assistant"] * 2


async def test_a_stopped_worker_is_noticed_and_replaced(model: Path, tmp_path: Path) -> None:
    """SIGSTOP is a hang from outside: no heartbeat, no reply, no end of input noticed."""
    async with session_over(model, tmp_path, silence_s=2.5) as session:
        live = session.send("Tell me.")
        await until(lambda: live.text)
        stopped = session.engine.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        await until(lambda: session.engine.silent_s > 0)
        session.restart()
        assert session.path[-1].content == live.text
        await until(lambda: session.engine.state == "ready")
        assert session.engine.pid != stopped
        await until(lambda: gone(stopped))


async def test_a_worker_that_closes_its_ears_ends_and_sending_to_it_is_no_error(tmp_path: Path) -> None:
    code = "import os, sys; os.close(0); sys.stdout.flush(); import time; time.sleep(60)"
    client = EngineClient()
    await client.start([sys.executable, "-c", code])
    for _ in range(20):
        client.send(Load(model="x" * 100_000))
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await client.close()
    assert client.pid is not None and gone(client.pid)


async def test_a_log_that_cannot_be_written_is_done_without(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    client = EngineClient()
    await client.start(log=tmp_path / "file" / "log")
    client.send(Load(model=str(model), threads=1, context=256))
    async with asyncio.timeout(60):
        kinds = [type(event) async for event in _upto(client, Ready, Exited)]
    assert kinds[-1] is Ready
    await client.close()


async def _upto(client: EngineClient, *kinds: type) -> AsyncIterator[Event]:
    async for event in client.events():
        yield event
        if isinstance(event, kinds):
            return


INTERFACE = """
import asyncio, os, sys
from app.client import EngineClient, worker_command
from engine.events import Ready, Tokens
from engine.protocol import Generate, Load, Message, Sampling

async def main():
    client = EngineClient()
    await client.start()
    client.send(Load(model=sys.argv[1], threads=1, context=1024))
    async for event in client.events():
        if isinstance(event, Ready):
            message = Message(role="user", content="Tell me.")
            client.send(Generate(turn=1, messages=(message,), sampling=Sampling(temperature=1.5), max_tokens=900))
        if isinstance(event, Tokens):
            print(client.pid, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "hung", [pytest.param(False, id="working", marks=pytest.mark.proof), pytest.param(True, id="stopped")]
)
async def test_no_worker_outlives_an_interface_that_was_killed(model: Path, hung: bool) -> None:
    """A stopped worker reads no end of input: the system ends it with its parent."""
    interface = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", INTERFACE, str(model), stdout=asyncio.subprocess.PIPE
    )
    assert interface.stdout is not None
    async with asyncio.timeout(60):
        worker = int(await interface.stdout.readline())
    if hung:
        os.kill(worker, signal.SIGSTOP)
        await until(lambda: state(worker) == "T")
    interface.kill()
    await interface.wait()
    await until(lambda: gone(worker), 10)


async def test_a_line_the_worker_cannot_read_is_told_and_the_next_turn_works(
    model: Path, tmp_path: Path
) -> None:
    client = EngineClient()
    await client.start(log=tmp_path / "log")
    process = client._process
    assert process is not None and process.stdin is not None
    for line in (
        b"\xff\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"load","model":"' + b"x" * 20_000_000 + b'"}\n',
    ):
        process.stdin.write(line)
    client.send(Load(model=str(model), threads=1, context=256))
    kinds: list[str] = []
    async with asyncio.timeout(60):
        async for event in client.events():
            if isinstance(event, Failed):
                assert len(event.message) < 2_000
                kinds.append(event.kind)
            if isinstance(event, Ready | Exited):
                break
    assert kinds == ["internal", "internal", "internal", "model"]
    assert isinstance(event, Ready)
    await client.close()


@pytest.mark.proof
@pytest.mark.timeout(600)
async def test_kill_9_at_twenty_random_moments_of_a_turn_loses_nothing(smollm2: Path, tmp_path: Path) -> None:
    """While the prompt is read, before the first token and in the middle of the reply; a restart after each."""
    moments = random.Random(5)
    async with session_over(smollm2, tmp_path) as session:
        for number in range(20):
            said = "Count the stars. " * moments.choice((1, 30))
            text = f"{number}: {said}".strip()
            session.new_chat()
            live = session.send(text)
            wanted = moments.choice((None, 0, 1, moments.randrange(40)))
            if wanted is not None:
                await until(
                    lambda live=live, wanted=wanted: (
                        (len(live.tokens) >= wanted and live.seed is not None) or live.phase == "done"
                    )
                )
            ended = live.phase == "done"  # the seed is random, so a reply may be shorter than was waited for
            assert session.engine.pid is not None
            os.kill(session.engine.pid, signal.SIGKILL)
            await until(lambda: session.engine.state == "gone")
            assert not session.busy
            assert ended or "SIGKILL" in session.trouble
            assert session.path[0].content == text
            assert session.path[-1].role == "assistant"
            assert session.path[-1].content == live.text
            session.restart()
            await until(lambda: session.engine.state == "ready")
        session.send("Still there?")
        await until(lambda: bool(session.live and session.live.text) or not session.busy)
        session.stop()
        await until(lambda: not session.busy)
        assert session.path[-1].content
    with sqlite3.connect(tmp_path / "chats.sqlite3") as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert store.execute("SELECT count(*) FROM messages WHERE role = 'user'").fetchone()[0] == 21
    store.close()
