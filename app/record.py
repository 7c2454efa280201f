"""The chat of one headless turn among the saved ones: the prompt before the first token, the reply as it grows.

Knows no engine. Invariants: a fault of the store is told once and never stops the reply; the end is tried
whatever failed before, since it holds the whole reply; nothing says "saved" of what is not.
"""

import time
from collections.abc import Callable, Sequence
from typing import Self

from app import paths
from app.conversation import title
from app.store.store import Store
from app.store.values import StoreError
from app.terminal import narrate
from app.writing import CHECKPOINT_S
from engine.events import Finish, Finished, ModelInfo, Token
from engine.protocol import Generate


class Record:
    """One chat with one prompt and its reply. Made by `open`, ended by `close`."""

    def __init__(self, store: Store, chat: int, user: int, request: Generate) -> None:
        self._store = store
        self._chat = chat
        self._user = user
        self._request = request
        self._model: ModelInfo | None = None
        self._reply: int | None = None
        self._text = ""
        self._reasoning = ""
        self._saved_at = 0.0
        self._faulty = False

    @classmethod
    def open(cls, request: Generate) -> Self:
        """Save the prompt. Raises `StoreError` or `PathError` if that cannot be done."""
        *before, message = request.messages
        store = Store(paths.store_path())
        if store.notice:
            narrate(store.notice)
        try:
            chat = store.create_chat(title=title(message.content), system=before[0].content if before else "")
            store.set_shape(
                chat, request.shape, on=request.shape is not None, shown=message.shape is not None
            )
            user = store.add_user(chat, None, message.content, shape=message.shape)
        except BaseException:
            store.close()
            raise
        return cls(store, chat, user, request)

    def begin(self, model: ModelInfo) -> None:
        """Open the reply."""
        self._model = model
        self._keep(self._begin)

    def grow(self, text: str, trace: Sequence[Token], reasoning: str = "") -> None:
        """Take more of the reply and of its reasoning; about once a second it is written."""
        self._text += text
        self._reasoning += reasoning
        if time.monotonic() - self._saved_at >= CHECKPOINT_S:
            self._saved_at = time.monotonic()
            self._keep(lambda: self._checkpoint(trace))

    def close(
        self,
        finished: Finished | None,
        *,
        finish: Finish,
        error: str,
        valid: bool | None,
        trace: Sequence[Token],
    ) -> str:
        """Close the reply as it ended, and the store; return what to tell the person.

        `finish` and `error` are for a reply without an end.
        """
        kept = True
        if self._model is not None:
            if finished is not None:
                kept = self._keep(
                    lambda: self._store.finish_reply(self._begin(), finished, valid=valid, trace=trace)
                )
            else:
                kept = self._keep(lambda: self._checkpoint(trace))
                reason = error if finish == "error" else ""
                kept &= self._keep(
                    lambda: self._store.abandon_reply(self._begin(), finish=finish, error=reason)
                )
        self._store.close()
        return f"Saved as chat {self._chat}." if kept else f"Chat {self._chat} does not hold the whole reply."

    def _begin(self) -> int:
        """Return the reply's number; what failed at the beginning is tried again."""
        if self._reply is None:
            self._reply = self._store.begin_reply(
                self._chat,
                self._user,
                shape=self._request.shape,
                sampling=self._request.sampling,
                seed=self._request.sampling.seed,
                model=self._model,
                options={
                    "max_tokens": self._request.max_tokens,
                    "stop": list(self._request.stop),
                    "think": self._request.think,
                    "think_tokens": self._request.think_tokens,
                    "land": self._request.land,
                    "stop_loops": self._request.stop_loops,
                },
            )
        return self._reply

    def _checkpoint(self, trace: Sequence[Token]) -> None:
        self._store.checkpoint(self._begin(), self._text, trace, reasoning=self._reasoning)

    def _keep(self, write: Callable[[], object]) -> bool:
        """Do something with the store and return whether it worked; the first fault is told."""
        try:
            write()
        except StoreError as error:
            if not self._faulty:
                self._faulty = True
                narrate(f"The reply cannot be saved: {error}")
            return False
        return True
