"""Keeps one engine process at hand: starts it, loads the model, notices when it goes, starts it again.

Knows nothing of chats or screens. Invariants: at most one process is listened to; every event reaches
`on_event` once, after the state here has followed it; a fault of any kind, here or in `on_event`, ends in the
state `gone` and an `Exited`; nothing here waits for the engine except `close`.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from app.client import EngineClient
from app.terminal import well_formed
from engine.events import Event, Exited, Failed, Heartbeat, Loading, Probed, Ready
from engine.protocol import Cancel, Command, Load

State = Literal["off", "loading", "ready", "stopped", "failed", "gone"]

STOP_S = 0.8
"""How long a load may take to obey a stop before its process is ended."""


class Supervisor:
    """The engine as the interface sees it.

    `state`: `off` before the start and after the end, `loading`, `ready`, `stopped` when the person stopped
    the loading, `failed` when the model could not be loaded, `gone` when the process died; `reason` says why.
    """

    def __init__(
        self,
        load: Load,
        on_event: Callable[[Event], None],
        *,
        client_factory: Callable[..., EngineClient] = EngineClient,
        command: Sequence[str] | None = None,
        log: Path | None = None,
    ) -> None:
        self.state: State = "off"
        self.fraction = 0.0
        self.ready: Ready | None = None
        self.reason = ""
        self.silent_s = 0.0
        self._load = load
        self._on_event = on_event
        self._client_factory = client_factory
        self._command = command
        self._log = log
        self._attempt = 0
        self._client: EngineClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The engine's process id."""
        return self._client.pid if self._client else None

    @property
    def wanted(self) -> Load:
        """What is loaded, or is to be."""
        return self._load

    @property
    def model_name(self) -> str:
        """The file that is loaded, without its folder."""
        return Path(self._load.model).name

    def start(self) -> None:
        """Start a process and load the model, in the background."""
        self._loading()
        self._client = self._client_factory(on_silence=self._silence)
        self._task = asyncio.create_task(self._run(self._client), name="engine")

    def send(self, command: Command) -> None:
        """Pass a command on."""
        if self._client is not None:
            self._client.send(command)

    def stop(self) -> None:
        """Stop what runs. A load that does not obey is ended with its process."""
        self.send(Cancel())
        if self.state == "loading":
            asyncio.get_running_loop().call_later(STOP_S, self._insist, self._attempt)

    def restart(self) -> None:
        """Load the model again, in the same process if that is well, else in a new one."""
        if self.state in ("stopped", "failed") and self._client is not None:
            self._loading()
            self.send(self._load)
            return
        self._drop()
        self.start()

    def load(self, load: Load) -> None:
        """Load another model, or the same one otherwise, in a new process."""
        self._load = load
        self._drop()
        self.start()

    async def close(self) -> None:
        """End the process; none is left when this returns."""
        self._drop()
        self.state = "off"
        while self._closing:
            await asyncio.wait(self._closing)

    def _loading(self) -> None:
        self._attempt += 1
        self.state, self.fraction, self.ready, self.reason, self.silent_s = "loading", 0.0, None, "", 0.0

    def _drop(self) -> None:
        """Let go of the process; it ends in the background and is heard no more."""
        client, task, self._client, self._task = self._client, self._task, None, None
        if client is None or task is None:
            return
        closing = asyncio.create_task(self._end(client, task), name="engine-close")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    @staticmethod
    async def _end(client: EngineClient, task: asyncio.Task[None]) -> None:
        await client.close()
        await task

    async def _run(self, client: EngineClient) -> None:
        try:
            await client.start(self._command, self._log)
            client.send(self._load)
            async for event in client.events():
                self._hear(client, event)
        except (
            Exception
        ) as error:  # of any kind: the person must not wait for what nobody listens to any more
            if (
                client is not self._client
            ):  # the end was told before, and could not be taken: asyncio reports it
                raise
            reason = f"The engine was ended by a fault of Stampo ({type(error).__name__}: {error})."
            self._hear(client, Exited(message=well_formed(reason), code=None))

    def _hear(self, client: EngineClient, event: Event) -> None:
        if client is self._client:
            self._follow(event)
            self._on_event(event)

    def _follow(self, event: Event) -> None:
        if isinstance(event, Heartbeat):
            return
        if isinstance(event, Loading) and self.state == "loading":
            self.fraction = event.fraction
        elif isinstance(event, Ready):
            self.state, self.ready, self.fraction = "ready", event, 1.0
        elif isinstance(event, Probed) and self.ready is not None:
            self.ready = replace(self.ready, exact=event.exact, numerics_reason=event.detail)
        elif isinstance(event, Failed) and event.turn is None and self.state == "loading":
            self.state = "stopped" if event.kind == "cancelled" else "failed"
            self.reason = event.message
        elif isinstance(event, Exited):
            self.state, self.ready, self.reason = "gone", None, event.message
            self._drop()

    def _insist(self, attempt: int) -> None:
        if self.state == "loading" and attempt == self._attempt:
            self._drop()
            self.state, self.reason = "stopped", "Loading was stopped."
            self._on_event(Failed(kind="cancelled", message=self.reason))

    def _silence(self, seconds: float) -> None:
        self.silent_s = seconds
        self._on_event(Heartbeat())
