"""What the person is doing: the open chat, the reply being written, and the store that keeps both.

Knows no screen: an interface calls its methods, reads its state and compares `revision`. Invariants: the
prompt is in the store before the engine is asked; one reply at a time; a reply is checkpointed about once a
second and ends in the store exactly once, whatever happens to the engine; a fault of the store never stops
the reply on the screen.
"""

import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path

from app.conversation import prompt, title
from app.exchange.export import dumps, export_chat
from app.live import LiveReply
from app.paths import data_dir, write_private
from app.store.store import Store
from app.store.values import Chat, ChatSummary, StoredMessage, StoreError
from app.supervisor import Supervisor
from app.terminal import well_formed
from engine.events import Event, Exited, Failed, Finish, Finished, Heartbeat
from engine.protocol import Generate, Sampling
from grammars.spec import GrammarSpec, ShapeError

CHECKPOINT_S = 1.0


class RefusedError(Exception):
    """Something that cannot be done now; the text is written for the person."""


class Session:
    """The state of one interface. `trouble` is the last thing that went wrong, as a sentence, or empty."""

    def __init__(
        self,
        store: Store,
        supervisor: Callable[[Callable[[Event], None]], Supervisor],
        *,
        sampling: Sampling | None = None,
        max_tokens: int = 1024,
        speculate: bool = True,
        remember: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.engine = supervisor(self._on_event)
        self.live: LiveReply | None = None
        self.trouble = ""
        self.revision = 0
        self._sampling = sampling or Sampling()
        self._max_tokens = max_tokens
        self._speculate = speculate
        self._remember = remember
        self._clock = clock
        self._saved_at = 0.0
        self._turn = 0
        self.chat, self.path = self._first_chat()

    # --- chats

    @property
    def busy(self) -> bool:
        """True while a reply is being written."""
        return self.live is not None and self.live.phase != "done"

    @property
    def live_here(self) -> LiveReply | None:
        """The reply being written, if it belongs to the open chat."""
        return self.live if self.busy and self.live is not None and self.live.chat == self.chat.id else None

    def chats(self) -> list[ChatSummary]:
        """Return the chats that hold something, and the open one."""
        return [chat for chat in self.store.chats() if chat.id == self.chat.id or not self._is_blank(chat)]

    def open(self, chat_id: int) -> None:
        """Open a chat; a reply of another one goes on being written."""
        self.chat = self.store.chat(chat_id)
        self._read_path()

    def new_chat(self) -> None:
        """Open an empty chat, an unused one if there is any."""
        blank = next((chat.id for chat in self.store.chats() if self._is_blank(chat)), None)
        self.open(self.store.create_chat() if blank is None else blank)

    def set_draft(self, text: str) -> None:
        """Keep unsent text with the open chat."""
        text = well_formed(text)
        if text != self.chat.draft:
            self.store.set_draft(self.chat.id, text)
            self._read_chat()

    def set_system(self, text: str) -> None:
        """Set the system prompt of the open chat."""
        self.store.set_system(self.chat.id, well_formed(text).strip())
        self._read_chat()

    def set_shape(self, shape: GrammarSpec | None) -> None:
        """Pour the next replies into a shape, or into none."""
        self._set_shape(shape, on=shape is not None, shown=self.chat.shape_shown)

    def toggle_shape(self) -> None:
        """Switch the shape off, or on again."""
        self._need_shape()
        self._set_shape(self.chat.shape, on=not self.chat.shape_on, shown=self.chat.shape_shown)

    def toggle_shown(self) -> None:
        """Show the shape to the model, or hide it."""
        self._need_shape()
        self._set_shape(self.chat.shape, on=self.chat.shape_on, shown=not self.chat.shape_shown)

    def export(self) -> Path:
        """Write the open chat into the current folder, else into the data folder; return where."""
        text = dumps(export_chat(self.store, self.chat.id)).encode()
        name = re.sub(r"[^\w-]+", "-", self.chat.title)[:40].strip("-").lower() or f"chat-{self.chat.id}"
        try:
            return _write_new(Path.cwd(), name, text)
        except OSError:  # the folder is read-only or gone
            return _write_new(data_dir(), name, text)

    # --- replies

    def send(self, text: str) -> LiveReply:
        """Store a message and ask for its reply. Raises `RefusedError`, or `StoreError` with nothing sent."""
        if not text.strip():
            raise RefusedError("Write something first.")
        if self.busy:
            raise RefusedError("A reply is being written. Escape stops it.")
        if self.engine.state != "ready" or self.engine.ready is None:
            raise RefusedError("The model is not loaded yet; your text stays here.")
        text = well_formed(text)
        chat, model = self.chat, self.engine.ready.model
        shape = chat.shape if chat.shape_on else None
        parent = self.path[-1].id if self.path else None
        told = shape if chat.shape_shown else None
        user = self.store.add_user(chat.id, parent, text, shape=told)
        if not chat.title:
            self.store.rename_chat(chat.id, title(text))
        reply = self.store.begin_reply(
            chat.id,
            user,
            shape=shape,
            sampling=self._sampling,
            seed=self._sampling.seed,
            model=model,
            options={"max_tokens": self._max_tokens},
        )
        self.set_draft("")
        self._turn += 1
        self.live = LiveReply(
            turn=self._turn, chat=chat.id, reply=reply, shape=shape, vocab_size=model.vocab_size
        )
        self.trouble = ""
        self._saved_at = self._clock()
        self._read_chat()
        self._read_path()
        self.engine.send(
            Generate(
                turn=self._turn,
                messages=prompt(self.chat, self.path),
                shape=shape,
                sampling=self._sampling,
                max_tokens=self._max_tokens,
                speculate=self._speculate,
                earlier=self._earlier(shape),
            )
        )
        return self.live

    def _earlier(self, shape: GrammarSpec | None) -> tuple[str, ...]:
        """Return earlier replies under the shape, from which the engine guesses."""
        if shape is None or not (self._speculate and self._remember):
            return ()
        return self.store.earlier_replies(shape)

    def stop(self) -> bool:
        """Stop what runs; return whether there was anything to stop."""
        if self.busy and self.live is not None:
            self.live.stopping = True
        elif self.engine.state != "loading":
            return False
        self.engine.stop()
        self.revision += 1
        return True

    def restart(self) -> None:
        """Load the model again. Raises `RefusedError` while all is well."""
        stuck = self.engine.silent_s > 0 or (self.live is not None and self.busy and self.live.stopping)
        if self.engine.state in ("ready", "loading") and not stuck:
            raise RefusedError("The engine is well; Ctrl+R is for when it is not.")
        self._give_up("The engine was restarted.")
        self.trouble = ""
        self.engine.restart()
        self.revision += 1

    async def close(self) -> None:
        """End the engine; a reply being written ends as cancelled with what there is of it."""
        await self.engine.close()
        self._give_up("", "cancelled")

    # --- inside

    def _first_chat(self) -> tuple[Chat, list[StoredMessage]]:
        """Return the chat to begin with: the latest one if it holds unsent text or no message, else a new one."""
        latest = max(self.store.chats(), key=lambda chat: chat.updated_at, default=None)
        chat = self.store.chat(latest.id if latest is not None else self.store.create_chat())
        if chat.messages and not chat.draft:
            chat = self.store.chat(self.store.create_chat())
        return chat, self.store.path(chat.id)

    def _is_blank(self, summary: ChatSummary) -> bool:
        """Tell whether nothing was ever put into a chat."""
        if summary.messages or summary.title:
            return False
        chat = self.store.chat(summary.id)
        return not (chat.draft or chat.system or chat.shape)

    def _set_shape(self, shape: GrammarSpec | None, *, on: bool, shown: bool) -> None:
        self.store.set_shape(self.chat.id, shape, on=on, shown=shown)
        self._read_chat()

    def _need_shape(self) -> None:
        if self.chat.shape is None:
            raise RefusedError("There is no shape yet. Ctrl+T picks one.")

    def _read_chat(self) -> None:
        self.chat = self.store.chat(self.chat.id)
        self.revision += 1

    def _read_path(self) -> None:
        """Read the open chat's messages; the reply being written is not among them."""
        live = self.live if self.busy else None
        messages = self.store.path(self.chat.id)
        self.path = [message for message in messages if live is None or message.id != live.reply]
        self.revision += 1

    def _on_event(self, event: Event) -> None:
        live = self.live
        if live is not None and live.apply(event) and live.phase == "done":
            self._end(live, event)
        elif isinstance(event, Exited):
            self._give_up(event.message)
        elif isinstance(event, Failed) and event.turn is None and self.engine.state == "ready":
            self._give_up(event.message)  # the engine could not read what it was sent
            self.trouble = event.message
        if self.busy and live is not None and self._clock() - self._saved_at >= CHECKPOINT_S:
            self._saved_at = self._clock()
            self._keep(lambda: self.store.checkpoint(live.reply, live.text, live.tokens))
        if not isinstance(event, Heartbeat) or self.engine.silent_s:
            self.revision += 1

    def _give_up(self, message: str, finish: Finish = "error") -> None:
        live = self.live
        if live is not None and live.phase != "done":
            live.fail(message, finish)
            self._end(live, None)

    def _end(self, live: LiveReply, event: Event | None) -> None:
        if isinstance(event, Finished):
            valid = self._fits(live.shape, event.text) if live.shape is not None else None
            self._keep(lambda: self.store.finish_reply(live.reply, event, valid=valid, trace=live.tokens))
        else:
            self._keep(lambda: self.store.checkpoint(live.reply, live.text, live.tokens))
            error = live.error if live.finish == "error" and live.error else ""
            self._keep(lambda: self.store.abandon_reply(live.reply, finish=live.finish, error=error))
        if live.error and live.finish == "error":
            self.trouble = live.error
        self._keep(self._read_chat)
        if live.chat == self.chat.id:
            self._keep(self._read_path)

    def _fits(self, shape: GrammarSpec, text: str) -> bool | None:
        """Tell whether a reply fits its shape; None if that cannot be checked."""
        from grammars.check import check  # a second of imports, which must not delay the first screen

        try:
            return check(shape, text).fits
        except ShapeError as error:
            self.trouble = f"The reply could not be checked: {error}"
            return None

    def _keep(self, write: Callable[[], None]) -> None:
        """Do something with the store; what fails is told, and the reply goes on."""
        try:
            write()
        except StoreError as error:
            self.trouble = str(error)
            self.revision += 1


def _write_new(folder: Path, name: str, data: bytes) -> Path:
    """Write a file under a name that is free; return its path."""
    for number in itertools.count(1):
        path = folder / f"{name}{'' if number == 1 else f'-{number}'}.json"
        try:
            write_private(path, data)
        except FileExistsError:
            continue
        return path
    raise AssertionError("counting never ends")
