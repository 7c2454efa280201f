"""What the person is doing: the open chat (open_chat.py) and the replies that an engine writes into it (writing.py).

Knows no screen: an interface calls its methods, reads its state and compares `revision`. Invariants: those of both;
a message that the engine refused before reading it is back in the draft and not in the path; another try at a reply, a
continued one and an edited message keep the shape they had.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.conversation import LEFT_OUT, left_out, prompt, title
from app.counting import Counter
from app.inspection import Inspections, Place
from app.live import LiveReply
from app.open_chat import OpenChat, RefusedError
from app.settings import ReplySettings, overlaid
from app.store.store import Store
from app.store.values import Reply, StoredMessage, StoreError
from app.supervisor import Supervisor
from app.terminal import well_formed
from app.writing import SLOW_STOP_S, Wish, Writing, command
from engine.events import Event, Heartbeat, ModelInfo
from engine.protocol import Load
from grammars.spec import GrammarSpec

__all__ = ["SLOW_STOP_S", "RefusedError", "Session"]

_NOT_RUNNING = {
    "gone": "The engine is not running; Ctrl+R starts it.",
    "failed": "The model could not be loaded; Ctrl+R tries again.",
    "stopped": "Loading was stopped; Ctrl+R loads the model.",
}
_WHOLE = ("stop", "stop_text")


class Session(OpenChat):
    """The state of one interface: an open chat with an engine beside it."""

    def __init__(
        self,
        store: Store,
        supervisor: Callable[[Callable[[Event], None]], Supervisor],
        *,
        settings: ReplySettings | None = None,
        system: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = supervisor(self._on_event)
        self.inspections = Inspections(self.engine)
        self.counter = Counter(self.engine.send)
        self._writing = Writing(store, self.engine, tell=self._tell, ended=self._ended, clock=clock)
        self._live_title = ""
        super().__init__(store, settings=settings, system=system)

    @property
    def live(self) -> LiveReply | None:
        """The reply being written, or the last one of this session."""
        return self._writing.live

    @property
    def busy(self) -> bool:
        """True while a reply is being written."""
        return self._writing.busy

    @property
    def live_here(self) -> LiveReply | None:
        """The reply being written, if it belongs to the open chat."""
        return self.live if self.growing is not None else None

    def growing_in(self, chat_id: int) -> int | None:
        """Return the reply that is being written in a chat."""
        return self.live.reply if self.busy and self.live is not None and self.live.chat == chat_id else None

    @property
    def elsewhere(self) -> str:
        """The title of the chat that the current or last reply belongs to, if another chat is open."""
        return self._live_title if self.live is not None and self.live.chat != self.chat.id else ""

    @property
    def stop_is_slow(self) -> bool:
        """True when a reply was told to stop a while ago and did not."""
        return self._writing.stop_is_slow

    def can_continue(self, reply: Reply) -> bool:
        """Tell whether a reply was cut, so that it can go on."""
        return reply.finish not in _WHOLE

    def take_returned(self, chat_id: int) -> str:
        """Return a message of a chat that was refused, once; it belongs into the field it came from."""
        returned = self._writing.returned
        if returned is None or returned[0] != chat_id:
            return ""
        self._writing.returned = None
        return returned[1]

    # --- replies

    def send(self, text: str, *, max_tokens: int | None = None) -> LiveReply:
        """Store a message with the draft's attachments and ask for its reply, of at most `max_tokens` if given.

        Raises `RefusedError`, or `StoreError` with nothing sent.
        """
        attachments = self.store.draft_attachments(self.chat.id)
        if not text.strip() and not attachments:
            raise RefusedError("Write something first.")
        model = self._need_model()
        text = well_formed(text)
        chat = self.chat
        shape = chat.shape if chat.shape_on else None
        parent = self.path[-1].id if self.path else None
        wanted = self._wanted()
        if max_tokens is not None:
            wanted["settings"] = replace(wanted["settings"], max_tokens=max_tokens)

        def made() -> Wish:
            user = self.store.add_user(
                chat.id, parent, text, shape=shape if chat.shape_shown else None, with_draft=True
            )
            if not chat.title:
                self.store.rename_chat(chat.id, title(text) or title(attachments[0].name))
            self.store.set_draft(chat.id, "")
            return Wish(message=user, shape=shape, **wanted)

        return self._ask(model, made)

    def edit(self, message_id: int, text: str) -> LiveReply:
        """Ask again with another text in place of a message; the old one stays as its sibling. Raises `RefusedError`.

        The new message is shown and held to the shape of the old one.
        """
        if not text.strip():
            raise RefusedError("Write something first.")
        model = self._need_model()
        old = self.store.message(message_id)
        if old.reply is not None:
            raise RefusedError("Only your own messages can be edited; a reply can be asked for again.")
        shape = self._shape_of(old)
        wanted = self._wanted()

        def made() -> Wish:
            user = self.store.add_user(
                old.chat_id, old.parent, well_formed(text), shape=old.shape, attachments=old.attachments
            )
            return Wish(message=user, shape=shape, **wanted)

        return self._ask(model, made)

    def regenerate(self, reply_id: int, *, same_seed: bool = False) -> LiveReply:
        """Ask for another reply to the same message, under the same shape; with its own seed and settings if wished."""
        model = self._need_model()
        old, reply = self._reply(reply_id)
        wanted = self._wanted()
        if same_seed:
            settings, _ = overlaid(wanted["settings"], reply.options)
            wanted = {"settings": settings, "sampling": replace(reply.sampling, seed=reply.seed)}
        return self._ask(model, lambda: Wish(message=_parent(old), shape=old.shape, **wanted))

    def continue_reply(self, reply_id: int) -> LiveReply:
        """Go on with a reply that was cut; what it was given to end within its budget is taken back."""
        _, reply = self._reply(reply_id)
        if not self.can_continue(reply):
            raise RefusedError("This reply is whole; there is nothing to go on with.")
        trace = self.store.trace(reply_id)
        landed = next((place for place, token in enumerate(trace) if token.origin == "landed"), len(trace))
        return self._begin_with(reply_id, landed, further=reply.finish in ("length", "landed"))

    def fork(self, reply_id: int, place: int, token: int | None = None) -> LiveReply:
        """Write a reply anew that begins with the first `place` tokens of another one, and then with `token`."""
        return self._begin_with(reply_id, place, token)

    def _begin_with(
        self, reply_id: int, place: int, token: int | None = None, *, further: bool = False
    ) -> LiveReply:
        """Begin with tokens of another reply; with `further`, or if they are all it may have, it may have as many more
        as any reply.
        """
        model = self._need_model()
        old, reply = self._reply(reply_id)
        ids = self._ids(reply_id, reply, model)
        if not 0 <= place <= len(ids):
            raise RefusedError("The reply has no such token.")
        prefix = (*ids[:place], *(() if token is None else (token,)))
        wanted = self._wanted()
        settings: ReplySettings = wanted["settings"]
        begun = sum(committed.part == "reply" for committed in self.store.trace(reply_id)[:place])
        if further or begun >= settings.max_tokens:
            wanted["settings"] = replace(settings, max_tokens=settings.max_tokens + begun)
        wish = Wish(message=_parent(old), shape=old.shape, prefix=prefix, continued_from=reply_id, **wanted)
        return self._ask(model, lambda: wish)

    def inspect(self, reply_id: int, place: int) -> None:
        """Ask what the model thinks of a place of a reply; `inspections` gets the answer. Raises `RefusedError`."""
        model = self._need_model()
        old, reply = self._reply(reply_id)
        ids = self._ids(reply_id, reply, model)
        if not 0 <= place < len(ids):
            raise RefusedError("The reply has no such token.")
        message = _parent(old)
        settings, _ = overlaid(self.settings, reply.options)
        wish = Wish(message=message, shape=old.shape, sampling=reply.sampling, settings=settings)
        messages = prompt(self.store.chat(old.chat_id), self.store.path(old.chat_id, message))
        self.inspections.ask(Place(reply_id, place), command(0, messages, wish), ids, model.vocabulary)

    def stop(self) -> bool:
        """Stop what runs; return whether there was anything to stop."""
        if self.busy:
            self._writing.stop()
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
        self._writing.give_up("The engine was restarted.")
        self.trouble = ""
        self.engine.restart()
        self.revision += 1

    def load(self, load: Load) -> None:
        """Load another model, or the same one otherwise. Raises `RefusedError` while a reply is written."""
        if self.busy:
            raise RefusedError("A reply is being written. Escape stops it.")
        self.trouble = ""
        self.engine.load(load)
        self.revision += 1

    async def close(self) -> None:
        """End the engine; a reply being written ends as cancelled with what there is of it."""
        await self.engine.close()
        self._writing.give_up("", "cancelled")

    # --- inside

    def _wanted(self) -> dict[str, Any]:
        settings = self.settings
        return {"settings": settings, "sampling": settings.sampling()}

    def _ask(self, model: ModelInfo, made: Callable[[], Wish]) -> LiveReply:
        """Ask for the reply that is wished for by what `made` returns, which may add its message to the store."""
        chat = self.chat

        def fitting() -> Wish:
            wish = made()
            if LEFT_OUT in chat.settings and not left_out(
                chat.settings, self.store.path(chat.id, wish.message)
            ):  # a branch that is too short for what another one leaves out, and begins to grow
                kept = {name: value for name, value in chat.settings.items() if name != LEFT_OUT}
                self.store.set_settings(chat.id, kept)
            return wish

        self.inspections.stop()
        live = self._writing.begin(chat.id, fitting, model)
        self.trouble = ""
        self._read_all()
        self._live_title = self.chat.title
        return live

    def _need_model(self) -> ModelInfo:
        if self.busy:
            where = f" in the chat “{self.elsewhere}”" if self.elsewhere else ""
            raise RefusedError(f"A reply is being written{where}. Escape stops it.")
        if self.engine.state != "ready" or self.engine.ready is None:
            reason = _NOT_RUNNING.get(self.engine.state)
            raise RefusedError(reason or "The model is not loaded yet; your text stays here.")
        return self.engine.ready.model

    def _reply(self, reply_id: int) -> tuple[StoredMessage, Reply]:
        message = self.store.message(reply_id)
        if message.reply is None:
            raise RefusedError("This is no reply.")
        return message, message.reply

    def _ids(self, reply_id: int, reply: Reply, model: ModelInfo) -> list[int]:
        """Return the committed ids of a reply, reasoning included, where they are ids of the loaded model."""
        if reply.model is None or reply.model.vocabulary != model.vocabulary:
            raise RefusedError("The loaded model has other tokens than the one that wrote this reply.")
        return [committed.id for committed in self.store.trace(reply_id)]

    def _shape_of(self, message: StoredMessage) -> GrammarSpec | None:
        """Return the shape that the newest reply to a message was held to, else that of the next reply."""
        replies = self.store.children(message.id)
        if replies:
            return replies[-1].shape
        return self.chat.shape if self.chat.shape_on else None

    def _on_event(self, event: Event) -> None:
        self._writing.hear(event)
        self.inspections.hear(event)
        self.counter.hear(event)
        if not isinstance(event, Heartbeat) or self.engine.silent_s:
            self.revision += 1

    def _tell(self, sentence: str) -> None:
        self.trouble = sentence
        self.revision += 1

    def _ended(self, live: LiveReply) -> None:
        if live.error and live.finish == "error":
            error = live.error.replace("ask for a larger context", "start Stampo with --context N")
            self.trouble = f"In the chat “{self.elsewhere}”: {error}" if self.elsewhere else error
        try:
            self._read_chat()
            if live.chat == self.chat.id:
                self._read_path()
        except StoreError as error:
            self._tell(str(error))


def _parent(reply: StoredMessage) -> int:
    assert reply.parent is not None  # a reply answers a message
    return reply.parent
