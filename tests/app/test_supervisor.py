"""The supervisor's state follows the engine, also where something of Stampo itself fails."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import scripted_worker

from app.client import EngineClient
from app.supervisor import Supervisor
from engine.events import Event, Exited, Ready
from engine.protocol import Load


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    file = tmp_path / "script.json"
    file.write_text(json.dumps({}), encoding="utf-8")
    return [sys.executable, scripted_worker.__file__, str(file)]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


class FaultyClient(EngineClient):
    """Cannot send, as for a command that has no UTF-8."""

    def send(self, command: object) -> None:
        raise ValueError("no bytes for this")


async def test_a_command_that_cannot_be_sent_is_told_and_leaves_no_process(command: list[str]) -> None:
    """It used to end a task that nobody watches: "Loading 0%" for ever."""
    heard: list[Event] = []
    supervisor = Supervisor(Load(model="m.gguf"), heard.append, client_factory=FaultyClient, command=command)
    supervisor.start()
    client = supervisor._client
    await until(lambda: supervisor.state == "gone")
    assert "no bytes for this" in supervisor.reason
    assert [type(event) for event in heard] == [Exited]
    await supervisor.close()
    assert client is not None and client.pid is not None and gone(client.pid)


async def test_a_path_without_utf8_is_such_a_command(command: list[str]) -> None:
    heard: list[Event] = []
    supervisor = Supervisor(Load(model="\udcff.gguf"), heard.append, command=command)
    supervisor.start()
    await until(lambda: supervisor.state == "gone")
    assert supervisor.reason
    assert isinstance(heard[-1], Exited)
    await supervisor.close()


async def test_a_fault_of_the_listener_ends_the_engine_and_is_told(command: list[str]) -> None:
    heard: list[Event] = []

    def listen(event: Event) -> None:
        if isinstance(event, Ready):
            raise RuntimeError("the screen broke")
        heard.append(event)

    supervisor = Supervisor(Load(model="m.gguf"), listen, command=command)
    supervisor.start()
    await until(lambda: supervisor.state == "gone")
    assert "the screen broke" in supervisor.reason
    assert isinstance(heard[-1], Exited)
    supervisor._on_event = heard.append
    supervisor.restart()
    await until(lambda: supervisor.state == "ready")
    await supervisor.close()


@pytest.mark.parametrize("turns_of_the_loop", [0, 1, 2, 5])
async def test_close_while_starting_leaves_no_process(turns_of_the_loop: int) -> None:
    supervisor = Supervisor(
        Load(model="m.gguf"), lambda _: None, command=[sys.executable, "-c", "import time; time.sleep(60)"]
    )
    supervisor.start()
    client = supervisor._client
    for _ in range(turns_of_the_loop):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await supervisor.close()
    assert client is not None
    assert client.pid is None or gone(client.pid)
    assert supervisor.state == "off"
