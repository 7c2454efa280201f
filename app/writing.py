"""The reply being written: from the request to its end in the store, whatever happens to the engine.

Knows the engine's events and the store, not which chat is open. Invariants: one reply at a time; the message it
answers is in the store before the engine is asked; a reply is checkpointed about once a second and ends in the store
exactly once; a fault of the store never stops the reply.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.conversation import prompt, title
from app.live import LiveReply
from app.settings import ReplySettings
from app.store.store import Store
from app.store.values import StoreError
from app.supervisor import Supervisor
from engine.events import Event, Exited, Failed, Finish, Finished, ModelInfo
from engine.protocol import Generate, Message, Sampling
from grammars.spec import GrammarSpec, ShapeError

CHECKPOINT_S = 1.0
SLOW_STOP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a reply is asked for with.

    `message` is the stored message of the person that it answers. `prefix` are ids that the reply begins with, when
    it goes on from an earlier one, `continued_from`.
    """

    message: int
    shape: GrammarSpec | None
    sampling: Sampling
    settings: ReplySettings
    prefix: tuple[int, ...] = ()
    continued_from: int | None = None


def command(turn: int, messages: tuple[Message, ...], wish: Wish, earlier: tuple[str, ...] = ()) -> Generate:
    """Return what the engine is asked for a reply with."""
    settings = wish.settings
    return Generate(
        turn=turn,
        messages=messages,
        shape=wish.shape,
        sampling=wish.sampling,
        max_tokens=settings.max_tokens,
        stop=settings.stop if wish.shape is None else (),
        think=settings.think,
        think_tokens=settings.think_tokens,
        land=settings.land,
        stop_loops=settings.stop_loops,
        speculate=settings.speculate,
        earlier=earlier,
        prefix=wish.prefix,
    )


class Writing:
    """Writes one reply after the other.

    `tell` hears sentences about what went wrong, `ended` a reply that came to its end; `returned` holds the text of a
    message that the engine refused before reading it, with its chat, until someone takes it.
    """

    def __init__(
        self,
        store: Store,
        engine: Supervisor,
        *,
        tell: Callable[[str], None],
        ended: Callable[[LiveReply], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.live: LiveReply | None = None
        self.returned: tuple[int, str] | None = None
        self._store = store
        self._engine = engine
        self._tell = tell
        self._ended = ended
        self._clock = clock
        self._saved_at = 0.0
        self._stopped_at = 0.0
        self._turn = 0

    @property
    def busy(self) -> bool:
        """True while a reply is being written."""
        return self.live is not None and self.live.phase != "done"

    @property
    def stop_is_slow(self) -> bool:
        """True when a reply was told to stop a while ago and did not."""
        stopping = self.busy and self.live is not None and self.live.stopping
        return stopping and self._clock() - self._stopped_at >= SLOW_STOP_S

    def begin(self, chat_id: int, made: Callable[[], Wish], model: ModelInfo) -> LiveReply:
        """Add an empty reply to the store and ask the engine for it.

        What `made` changes in the store, such as the message, comes to disk with the reply or not at all: raises
        `StoreError` with nothing changed and nothing asked.
        """
        with self._store.change():
            wish = made()
            chat, path = self._store.chat(chat_id), self._store.path(chat_id, wish.message)
            reply = self._store.begin_reply(
                chat.id,
                wish.message,
                shape=wish.shape,
                sampling=wish.sampling,
                seed=wish.sampling.seed,
                model=model,
                options=wish.settings.options(),
                continued_from=wish.continued_from,
            )
            earlier = self._earlier(wish.shape, wish.settings)
        self._turn += 1
        self.live = LiveReply(
            turn=self._turn, chat=chat.id, reply=reply, shape=wish.shape, vocab_size=model.vocab_size
        )
        self._saved_at = self._clock()
        self._engine.send(command(self._turn, prompt(chat, path), wish, earlier))
        return self.live

    def stop(self) -> None:
        """Ask the engine to end the reply."""
        if self.live is not None and not self.live.stopping:
            self._stopped_at = self._clock()
            self.live.stopping = True

    def hear(self, event: Event) -> None:
        """Take an event of the engine."""
        live = self.live
        if live is not None and live.apply(event) and live.phase == "done":
            self._end(live, event)
        elif isinstance(event, Exited):
            self.give_up(event.message)
        elif isinstance(event, Failed) and event.turn is None and self._engine.state == "ready":
            self.give_up(event.message)  # the engine could not read what it was sent
            self._tell(event.message)
        if self.busy and live is not None and self._clock() - self._saved_at >= CHECKPOINT_S:
            self._saved_at = self._clock()
            self._keep(lambda: self._checkpoint(live))

    def give_up(self, message: str, finish: Finish = "error") -> None:
        """End the reply from outside; what was written of it stays."""
        live = self.live
        if live is not None and live.phase != "done":
            live.fail(message, finish)
            self._end(live, None)

    def _earlier(self, shape: GrammarSpec | None, settings: ReplySettings) -> tuple[str, ...]:
        """Return earlier replies under the shape, from which the engine guesses."""
        if shape is None or not (settings.speculate and settings.remember):
            return ()
        return self._store.earlier_replies(shape)

    def _checkpoint(self, live: LiveReply) -> None:
        self._store.checkpoint(live.reply, live.text, live.tokens, reasoning=live.thoughts)

    def _end(self, live: LiveReply, event: Event | None) -> None:
        if isinstance(event, Finished):
            valid = self._fits(live.shape, event.text) if live.shape is not None else None
            self._keep(lambda: self._store.finish_reply(live.reply, event, valid=valid, trace=live.tokens))
        elif isinstance(event, Failed) and event.kind in ("usage", "shape", "model") and live.seed is None:
            self._keep(lambda: self._take_back(live))  # it never started: nothing was read
        else:
            self._keep(lambda: self._checkpoint(live))
            error = live.error if live.finish == "error" and live.error else ""
            self._keep(lambda: self._store.abandon_reply(live.reply, finish=live.finish, error=error))
        self._ended(live)

    def _take_back(self, live: LiveReply) -> None:
        """Put a reply that never began into the trash, and a message that was sent for it into the chat's draft."""
        self._store.abandon_reply(live.reply, finish="error", error=live.error or "")
        user = self._store.message(self._store.message(live.reply).parent)
        self._store.trash_message(live.reply)
        if self._store.children(user.id):
            return  # it was answered before; this was another try
        self._store.trash_message(user.id)
        self._store.set_leaf(live.chat, user.parent)
        chat = self._store.chat(live.chat)
        if user.parent is None and chat.title == title(user.content):
            self._store.rename_chat(live.chat, "")
        self._store.set_draft(live.chat, "\n\n".join(filter(None, (user.content, chat.draft))))
        for attachment in user.attachments:
            self._store.add_attachment(live.chat, attachment)
        self.returned = (live.chat, user.content)

    def _fits(self, shape: GrammarSpec, text: str) -> bool | None:
        """Tell whether a reply fits its shape; None if that cannot be checked."""
        from grammars.check import check  # a second of imports, which must not delay the first screen

        try:
            return check(shape, text).fits
        except ShapeError as error:
            self._tell(f"The reply could not be checked: {error}")
            return None

    def _keep(self, write: Callable[[], None]) -> None:
        """Do something with the store; what fails is told, and the reply goes on."""
        try:
            write()
        except StoreError as error:
            self._tell(str(error))
