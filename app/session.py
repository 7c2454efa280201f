"""What the person is doing: the open chat, the reply being written, and the store that keeps both.

Knows no screen: an interface calls its methods, reads its state and compares `revision`. Invariants: the
prompt is in the store before the engine is asked; one reply at a time; a reply is checkpointed about once a
second and ends in the store exactly once, whatever happens to the engine; a message that the engine refused
before reading it is back in the draft and not in the path; a fault of the store never stops the reply on the
screen.
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
SLOW_STOP_S = 1.0

_NOT_RUNNING = {
    "gone": "The engine is not running; Ctrl+R starts it.",
    "failed": "The model could not be loaded; Ctrl+R tries again.",
    "stopped": "Loading was stopped; Ctrl+R loads the model.",
}


class RefusedError(Exception):
    """Something that cannot be done now; the text is written for the person."""


class Session:
    """The state of one interface.

    `trouble` is the last thing that went wrong with the open chat, as a sentence, or empty.
    """

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
        self._stopped_at = 0.0
        self._live_title = ""
        self._returned = ""
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

    @property
    def elsewhere(self) -> str:
        """The title of the chat that the current or last reply belongs to, if another chat is open."""
        return self._live_title if self.live is not None and self.live.chat != self.chat.id else ""

    @property
    def stop_is_slow(self) -> bool:
        """True when a reply was told to stop a while ago and did not."""
        stopping = self.busy and self.live is not None and self.live.stopping
        return stopping and self._clock() - self._stopped_at >= SLOW_STOP_S

    def told_in_path(self, trouble: str) -> bool:
        """Tell whether the open chat's last reply says itself that this went wrong."""
        reply = self.path[-1].reply if self.path else None
        return reply is not None and reply.finish == "error" and reply.error == trouble

    def chats(self) -> list[ChatSummary]:
        """Return the chats that hold something, and the open one; those without a message with their drafts."""
        chats = [
            summary if summary.messages or summary.title else self.store.chat(summary.id)
            for summary in self.store.chats()
        ]
        return [chat for chat in chats if chat.id == self.chat.id or not _is_blank(chat)]

    def open(self, chat_id: int) -> None:
        """Open a chat; a reply of another one goes on being written."""
        self.chat = self.store.chat(chat_id)
        self.trouble = self._returned = ""
        self._read_path()

    def new_chat(self) -> None:
        """Open an empty chat, an unused one if there is any."""
        empty = (self.store.chat(chat.id) for chat in self.store.chats() if not chat.messages)
        blank = next((chat.id for chat in empty if _is_blank(chat)), None)
        self.open(self.store.create_chat() if blank is None else blank)

    def set_draft(self, text: str) -> None:
        """Keep unsent text with the open chat."""
        text = well_formed(text)
        if text != self.chat.draft:
            self.store.set_draft(self.chat.id, text)
            self._read_chat()

    def take_returned(self) -> str:
        """Return a message of the open chat that was refused, once; it belongs into the field it came from."""
        text, self._returned = self._returned, ""
        return text

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
        """Write the open chat into the current folder, else into the data folder; return where.

        Raises `RefusedError` for a chat without a message.
        """
        if not self.chat.messages:
            raise RefusedError("There is nothing to export yet.")
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
            where = f" in the chat “{self.elsewhere}”" if self.elsewhere else ""
            raise RefusedError(f"A reply is being written{where}. Escape stops it.")
        if self.engine.state != "ready" or self.engine.ready is None:
            reason = _NOT_RUNNING.get(self.engine.state)
            raise RefusedError(reason or "The model is not loaded yet; your text stays here.")
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
        self._live_title = self.chat.title
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
            if not self.live.stopping:
                self._stopped_at = self._clock()
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
        elif isinstance(event, Failed) and event.kind in ("usage", "shape", "model") and live.seed is None:
            self._keep(lambda: self._take_back(live))  # it never started: nothing was read
        else:
            self._keep(lambda: self.store.checkpoint(live.reply, live.text, live.tokens))
            error = live.error if live.finish == "error" and live.error else ""
            self._keep(lambda: self.store.abandon_reply(live.reply, finish=live.finish, error=error))
        if live.error and live.finish == "error":
            error = live.error.replace("ask for a larger context", "start Stampo with --context N")
            self.trouble = f"In the chat “{self.elsewhere}”: {error}" if self.elsewhere else error
        self._keep(self._read_chat)
        if live.chat == self.chat.id:
            self._keep(self._read_path)

    def _take_back(self, live: LiveReply) -> None:
        """Put a message and its reply into the trash, and its text in front of the chat's draft."""
        self.store.abandon_reply(live.reply, finish="error", error=live.error or "")
        user = self.store.message(self.store.message(live.reply).parent)
        self.store.trash_message(live.reply)
        self.store.trash_message(user.id)
        self.store.set_leaf(live.chat, user.parent)
        chat = self.store.chat(live.chat)
        if user.parent is None and chat.title == title(user.content):
            self.store.rename_chat(live.chat, "")
        self.store.set_draft(live.chat, "\n\n".join(filter(None, (user.content, chat.draft))))
        if live.chat == self.chat.id:
            self._returned = user.content

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


def _is_blank(chat: ChatSummary) -> bool:
    """Tell whether nothing was ever put into a chat, which must come whole if it has no message."""
    return isinstance(chat, Chat) and not (
        chat.messages or chat.title or chat.draft or chat.system or chat.shape
    )


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
