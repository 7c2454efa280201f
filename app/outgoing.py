"""What goes out with the next message: its attachments, and whether all of it fits into the context.

Knows the session and the engine's figures, no screen. Invariants: an attachment is in the store as soon as it is
taken; one that was removed can be taken back until Stampo ends; nothing is sent from here.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.context_budget import SHORTEST_REPLY, Choice, choices
from app.conversation import left_out, prompt, user_message
from app.session import Session
from app.store.values import Attachment, StoredMessage
from app.terminal import well_formed
from app.text_files import about_tokens
from engine.events import Counted, Ready
from engine.gguf import ModelFileError, read_header
from engine.hyperparameters import Settings
from engine.memory import available_memory, need
from engine.protocol import Load, Message

_COUNTED_CHARACTERS = 400_000
"""Longer texts keep their rough number: counting them would hold the engine for a second."""

_FEWEST_CHARACTERS_A_TOKEN = 2
_SPARE_TOKENS = 64


class Outgoing:
    """The attachments of the open chat's draft with their numbers of tokens; `changed` hears of new numbers."""

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        self._counted: dict[tuple[str, str], int] = {}  # model's vocabulary and text -> tokens
        self._asked: set[tuple[str, str]] = set()
        self._removed: list[tuple[int, Attachment]] = []

    @property
    def attachments(self) -> list[Attachment]:
        """What is to be sent with the open chat's next message."""
        return self._session.store.draft_attachments(self._session.chat.id)

    def attach(self, name: str, content: str) -> None:
        """Add a text. Raises `StoreError`."""
        attachment = Attachment(name=well_formed(name), content=well_formed(content))
        self._session.store.add_attachment(self._session.chat.id, attachment)

    def remove(self, attachment: Attachment) -> None:
        """Remove an attachment of the draft; `take_back` adds it again. Raises `StoreError`."""
        self._session.store.remove_attachment(attachment.id or 0)
        self._removed.append((self._session.chat.id, attachment))

    def take_back(self) -> bool:
        """Add the attachment of the open chat that was last removed again; False if there is none."""
        for place in range(len(self._removed) - 1, -1, -1):
            chat, attachment = self._removed[place]
            if chat == self._session.chat.id:
                self._session.store.add_attachment(chat, attachment)
                del self._removed[place]
                return True
        return False

    def tokens(self, text: str) -> tuple[int, bool]:
        """Return how many tokens a text has, and whether they were counted; if not it is a rough number.

        The engine is asked for the exact one where it can tell; `changed` hears when it came.
        """
        ready = self._session.engine.ready
        if ready is None or len(text) > _COUNTED_CHARACTERS:
            return about_tokens(text), False
        key = (ready.model.vocabulary, text)
        if key in self._counted:
            return self._counted[key], True
        if key not in self._asked:
            self._asked.add(key)
            self._session.counter.ask(lambda counted: self._take(key, counted), texts=[text])
        return about_tokens(text), False

    def _take(self, key: tuple[str, str], counted: Counted | None) -> None:
        self._asked.discard(key)
        if counted is not None:
            self._counted[key] = counted.texts[0]
            self._changed()

    def may_not_fit(self, text: str) -> bool:
        """Tell whether counting is worth while: False where the message and its reply fit for sure, or nearly."""
        session = self._session
        ready = session.engine.ready
        if ready is None or session.busy:
            return False  # the session refuses it with the reason
        new = [text, *(attachment.content for attachment in self.attachments)]
        if session.chat.shape is not None and session.chat.shape_on:
            new.append(session.chat.shape.text)
        known, unknown = _read_before(session.path, ready)
        new += [message.content for message in unknown]
        if not known:
            new.append(session.chat.system)
        tokens = known + sum(map(len, new)) // _FEWEST_CHARACTERS_A_TOKEN + _SPARE_TOKENS
        return tokens + _reserve(session.settings.max_tokens, ready.context) > ready.context

    async def options(self, text: str) -> "Fit | None":
        """Count the whole prompt and return what fits and what could be done; None if it cannot be counted."""
        session, ready = self._session, self._session.engine.ready
        if ready is None:
            return None
        messages = self._messages(text)
        answer: asyncio.Future[Counted | None] = asyncio.get_running_loop().create_future()
        settings = session.settings
        reserve = _reserve(settings.max_tokens, ready.context)
        session.counter.ask(
            lambda counted: None if answer.done() else answer.set_result(counted),
            messages=messages,
            texts=[message.content for message in messages],
            think=settings.think,
        )
        counted = await answer
        if counted is None or counted.prompt is None:
            return None
        largest = await asyncio.to_thread(largest_context, session.engine.wanted, ready.context)
        start = int(messages[0].role == "system")
        path = _shares(counted.texts[start:], counted.prompt - sum(counted.texts))
        offered = choices(
            path,
            system=counted.prompt - sum(path),
            reply=reserve,
            context=ready.context,
            largest=largest,
        )
        return Fit(prompt=counted.prompt, reply=reserve, context=ready.context, choices=offered)

    def _messages(self, text: str) -> tuple[Message, ...]:
        chat = self._session.chat
        shape = chat.shape if chat.shape_on and chat.shape_shown else None
        return prompt(chat, self._session.path, user_message(well_formed(text), self.attachments, shape))

    def dropped(self, messages: int) -> int:
        """Return how many messages the chat leaves out when so many more are dropped."""
        return left_out(self._session.chat.settings, self._session.path, more=True) + messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a count said: tokens of the prompt, the reply's budget, the context, and what would make it fit."""

    prompt: int
    reply: int
    context: int
    choices: tuple[Choice, ...]

    @property
    def fits(self) -> bool:
        """True if the reply may have its whole budget."""
        return self.prompt + self.reply <= self.context

    @property
    def room(self) -> int:
        """The tokens that the context leaves for the reply; 0 if they are too few for one."""
        left = self.context - self.prompt
        return left if left >= SHORTEST_REPLY else 0

    @property
    def words(self) -> str:
        """A sentence on what does not fit."""
        return (
            f"The chat has {self.prompt:,} tokens with this message, {self.reply:,} are kept for the reply, "
            f"and the context holds {self.context:,}."
        )


def largest_context(load: Load, current: int) -> int:
    """Return the longest context that memory and the model allow once the loaded one is gone; 0 if unknown."""
    try:
        headers = [read_header(Path(load.model))]
        trained = Settings(headers[0]).number("context_length", 0, least=1, most=(1 << 31) - 1)
        if load.draft_model is not None:
            headers.append(read_header(Path(load.draft_model)))
        available = available_memory() if load.gpu_layers == 0 else None
        if available is None:
            return trained
        wanted = need(headers[0])
        for header in headers[1:]:
            wanted += need(header)
    except (ModelFileError, OSError):
        return 0
    return min(trained, wanted.largest_context(available + wanted.total(current)))


def _reserve(most: int, context: int) -> int:
    """Return what is kept for a reply of at most `most` tokens: never more than half of the context."""
    return max(1, min(most, context // 2))


def _read_before(path: Sequence[StoredMessage], ready: Ready) -> tuple[int, Sequence[StoredMessage]]:
    """Return the tokens of a path up to its last counted reply, and the messages behind."""
    for place in range(len(path) - 1, -1, -1):
        reply = path[place].reply
        if reply is not None and reply.stats is not None and reply.model is not None:
            if reply.model.vocabulary != ready.model.vocabulary:
                break
            stats = reply.stats
            return stats.prompt_tokens + stats.reply_tokens + stats.reasoning_tokens, path[place + 1 :]
    return 0, path


def _shares(texts: Sequence[int], around: int) -> list[int]:
    """Return the tokens of each message with its share of what the template writes around them."""
    each = max(0, around) // max(1, len(texts))
    return [tokens + each for tokens in texts]
