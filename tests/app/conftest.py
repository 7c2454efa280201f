"""What the tests of the program share: sessions over a scripted engine."""

import json
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import scripted_worker
import textual._wait
from pilots import BROKEN, SHAPES, until

from app.client import EngineClient
from app.session import Session
from app.store.store import Store
from app.supervisor import Supervisor
from app.tui.app import StampoApp
from app.tui.screens.chat import ChatScreen
from engine.protocol import Load

# A pilot looks every 20 ms whether the program rests, twice a key: half of the time of all tests with a screen. What a
# test is about it waits for itself.
textual._wait.SLEEP_GRANULARITY = 0.005
textual._wait.SLEEP_IDLE = 0.00025


@pytest.fixture
async def begin(tmp_path: Path):
    """Return a function that opens a session over a script; engines and stores are closed at the end."""
    opened: list[Session] = []

    def start(script: dict, *, silence_s: float = 15.0, **options) -> Session:
        file = tmp_path / f"script{len(opened)}.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        command = [sys.executable, scripted_worker.__file__, str(file)]
        session = Session(
            Store(tmp_path / "chats.sqlite3"),
            lambda on_event: Supervisor(
                Load(model="m.gguf"),
                on_event,
                client_factory=partial(EngineClient, silence_s=silence_s),
                command=command,
            ),
            **options,
        )
        opened.append(session)
        session.engine.start()
        return session

    yield start
    for session in opened:
        await session.close()
        session.store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "chats.sqlite3") as opened:
        yield opened


@pytest.fixture
def open_app(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch):
    """Return a context manager that runs the interface over a script and yields its pilot."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path / "home"))
    # Nothing moves or blinks while one looks.
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr("app.tui.app.GATHER_S", 0.01)

    @asynccontextmanager
    async def run(script: dict, size: tuple[int, int] = (100, 40)):
        file = tmp_path / "script.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        app = StampoApp(
            store=store,
            load=Load(model="/models/[/x].gguf"),
            shapes=lambda: [*SHAPES, BROKEN],
            worker=[sys.executable, scripted_worker.__file__, str(file)],
            log=tmp_path / "worker.log",
        )
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(pilot, lambda: isinstance(app.screen, ChatScreen))
            yield pilot

    return run
