"""The client turns whatever a worker process does into events, and leaves nothing behind."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import scripted_worker

from app.client import EngineClient
from engine.events import Event, Exited, Failed, Finished, Heartbeat, Hello, Ready, Started, Tokens
from engine.protocol import Cancel, Generate, Load, Message


@pytest.fixture
async def start(tmp_path: Path):
    """Return a function that starts a client over a script; every client is closed at the end."""
    clients: list[EngineClient] = []

    async def begin(script: dict, *, log: Path | None = None, **options) -> EngineClient:
        file = tmp_path / f"script{len(clients)}.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        client = EngineClient(**options)
        clients.append(client)
        await client.start([sys.executable, scripted_worker.__file__, str(file)], log=log)
        return client

    yield begin
    for client in clients:
        await client.close()


async def collect(client: EngineClient, until: type[Event] = Exited) -> list[Event]:
    """Read events, heartbeats left out, up to and including the first of a type, or to the end."""
    seen: list[Event] = []
    async for event in client.events():
        if not isinstance(event, Heartbeat):
            seen.append(event)
        if isinstance(event, until):
            break
    return seen


def ask(turn: int = 1) -> Generate:
    return Generate(turn=turn, messages=(Message(role="user", content="hi"),))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_load_and_a_turn_come_back_as_events(start):
    client = await start({"turns": [[{"say": "Paris", "size": 2}, {"end": "stop"}]]})
    client.send(Load(model="m.gguf"))
    assert isinstance((await collect(client, Ready))[0], Hello)
    client.send(ask())
    events = await collect(client, Finished)
    assert isinstance(events[0], Started)
    assert "".join(event.text for event in events if isinstance(event, Tokens)) == "Paris"
    assert events[-1].text == "Paris"


async def test_a_cancel_reaches_loading(start):
    client = await start({"load": [{"hold": True}]})
    client.send(Load(model="m.gguf"))
    client.send(Cancel())
    assert (await collect(client, Failed))[-1].kind == "cancelled"


async def test_types_and_fields_of_a_later_version_are_passed_over(start):
    script = {
        "load": [
            {"send": {"type": "hologram", "depth": 3}},
            {"send": scripted_worker.READY | {"aura": "blue"}},
        ]
    }
    client = await start(script)
    client.send(Load(model="m.gguf"))
    assert [type(event) for event in await collect(client, Ready)] == [Hello, Ready]


@pytest.mark.parametrize(
    "line", ["no json", "[]", '{"type": 3}', '{"type": "loading"}', '{"nothing": 1}', "\udcff"]
)
async def test_a_line_that_is_no_message_ends_the_worker_with_a_sentence(start, line):
    client = await start({"load": [{"raw": line}, {"hold": True}]})
    client.send(Load(model="m.gguf"))
    last = (await collect(client))[-1]
    assert isinstance(last, Exited)
    assert "no message" in last.message
    assert gone(client.pid)


async def test_another_protocol_version_is_named(start):
    client = await start({"hello": {"type": "hello", "protocol": 99, "version": "9.9", "pid": 1}})
    events = await collect(client)
    assert len(events) == 1
    assert "protocol 99" in events[0].message
    assert "9.9" in events[0].message


async def test_a_worker_that_does_not_greet_is_stopped(start):
    client = await start({"hello": {"type": "heartbeat"}})
    assert "greeting" in (await collect(client))[-1].message


@pytest.mark.parametrize(
    ("death", "words"), [(-9, "SIGKILL"), (-11, "segmentation fault"), (-6, "assertion"), (3, "exit code 3")]
)
async def test_a_death_is_one_event_with_its_manner_and_the_log(start, tmp_path, death, words):
    log = tmp_path / "logs" / "worker.log"
    client = await start({"turns": [[{"say": "Par"}, {"die": death}]]}, log=log)
    client.send(ask())
    events = [event async for event in client.events()]
    exits = [event for event in events if isinstance(event, Exited)]
    assert len(exits) == 1
    assert events[-1] is exits[0]
    assert words in exits[0].message
    assert str(log) in exits[0].message
    assert exits[0].code == death
    client.send(Cancel())  # to nobody: dropped, not an error


async def test_what_a_dying_interpreter_writes_is_in_the_log(tmp_path):
    client = EngineClient()
    log = tmp_path / "worker.log"
    await client.start([sys.executable, "-c", "raise SystemExit('no such engine')"], log=log)
    assert [type(event) async for event in client.events()] == [Exited]
    assert "no such engine" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    await client.close()


async def test_a_program_that_cannot_be_started_is_an_event_too(tmp_path):
    client = EngineClient()
    await client.start([str(tmp_path / "nothing-here")])
    (event,) = [event async for event in client.events()]
    assert "could not be started" in event.message
    await client.close()


async def test_no_file_stays_open_when_there_is_no_pipe_to_be_had(tmp_path, monkeypatch):
    # The log was closed only once there was a pipe.
    def none_left() -> None:
        raise OSError("too many open files")

    open_before = set(Path("/dev/fd").iterdir())
    client = EngineClient()
    monkeypatch.setattr(os, "pipe", none_left)
    await client.start([sys.executable, "-c", "pass"], log=tmp_path / "log")
    (event,) = [event async for event in client.events()]
    assert "too many open files" in event.message
    assert set(Path("/dev/fd").iterdir()) == open_before
    await client.close()


async def test_a_line_of_twenty_megabytes_passes(start):
    code = (
        "import json,sys;h={'type':'hello','protocol':1,'version':'0','pid':1};print(json.dumps(h));"
        "print(json.dumps({'type':'failed','kind':'model','message':'x'*20_000_000}),flush=True);sys.stdin.read()"
    )
    client = EngineClient()
    await client.start([sys.executable, "-c", code])
    assert len((await collect(client, Failed))[-1].message) == 20_000_000
    await client.close()


async def test_silence_is_told_and_so_is_its_end(start):
    told: asyncio.Queue[float] = asyncio.Queue()
    client = await start(
        {"heartbeat": False, "load": [{"send": {"type": "heartbeat"}}]},
        on_silence=told.put_nowait,
        silence_s=0.15,
    )
    seconds = await told.get()
    while seconds == 0:  # the greeting of a slow start
        seconds = await told.get()
    assert seconds >= 0.15
    client.send(Load(model="m.gguf"))
    while await told.get() != 0:
        pass


async def test_close_ends_a_worker_at_end_of_input_without_an_exit_event(start):
    client = await start({})
    await collect(client, Hello)
    await client.close()
    assert gone(client.pid)
    assert [event async for event in client.events() if isinstance(event, Exited)] == []
    await client.close()


async def test_close_kills_a_worker_that_does_not_listen():
    client = EngineClient()
    await client.start([sys.executable, "-c", "import time; time.sleep(60)"])
    async with asyncio.timeout(5):
        await client.close()
    assert gone(client.pid)


async def test_close_before_start_and_while_starting_leaves_nothing():
    idle = EngineClient()
    await idle.close()
    assert [event async for event in idle.events()] == []
    client = EngineClient()
    starting = asyncio.create_task(client.start([sys.executable, "-c", "import time; time.sleep(60)"]))
    await asyncio.sleep(0)
    await client.close()
    await starting
    await client.close()
    assert client.pid is None or gone(client.pid)


async def test_the_worker_has_a_session_of_its_own(start):
    client = await start({})
    await collect(client, Hello)
    assert os.getsid(client.pid) == client.pid


async def test_close_waits_for_what_is_still_being_started(monkeypatch):
    """`close` used to return while the process was being made, which then lived on for a moment."""
    client = EngineClient()
    spawned, go_on = asyncio.Event(), asyncio.Event()
    spawn = client._spawn

    async def slowly(*arguments):
        process = await spawn(*arguments)
        spawned.set()
        await go_on.wait()
        return process

    monkeypatch.setattr(client, "_spawn", slowly)
    starting = asyncio.create_task(client.start([sys.executable, "-c", "import time; time.sleep(60)"]))
    await spawned.wait()
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    await closing
    assert client.pid is not None and gone(client.pid)
    await starting
    assert [event async for event in client.events()] == []


async def test_a_start_after_close_starts_nothing():
    client = EngineClient()
    await client.close()
    await client.start([sys.executable, "-c", "pass"])
    assert client.pid is None


async def test_a_fault_while_listening_ends_the_process_and_is_told():
    def broken(_seconds: float) -> None:
        raise RuntimeError("no screen")

    client = EngineClient(on_silence=broken, silence_s=0.1)
    await client.start([sys.executable, "-c", "import time; time.sleep(60)"])
    async with asyncio.timeout(10):
        (event,) = [event async for event in client.events()]
    assert isinstance(event, Exited) and "no screen" in event.message
    assert gone(client.pid)
    await client.close()
