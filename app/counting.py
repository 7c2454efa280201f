"""Asking the engine how many tokens texts and prompts have.

Knows commands and events, no chats and no screen. Invariant: every question is answered once, with None if the engine
cannot count or is gone; questions wait behind what the engine is doing.
"""

from collections.abc import Callable, Sequence

from engine.events import Counted, Event, Exited, Failed, Loading
from engine.protocol import Command, Count, Message

_FIRST_TURN = -1_000_000_000  # far below the turns of inspections, which count down from zero

Answered = Callable[[Counted | None], None]


class Counter:
    """Sends questions through `send` and hears the answers."""

    def __init__(self, send: Callable[[Command], None]) -> None:
        self._send = send
        self._turn = _FIRST_TURN
        self._waiting: dict[int, Answered] = {}

    def ask(
        self,
        then: Answered,
        *,
        texts: Sequence[str] = (),
        messages: Sequence[Message] = (),
        think: bool | None = None,
    ) -> None:
        """Count the tokens of texts, and of the prompt that messages make; `then` hears the answer."""
        self._turn -= 1
        self._waiting[self._turn] = then
        self._send(Count(turn=self._turn, texts=tuple(texts), messages=tuple(messages), think=think))

    def hear(self, event: Event) -> None:
        """Take an event of the engine."""
        if isinstance(event, Counted | Failed) and event.turn in self._waiting:
            self._waiting.pop(event.turn)(event if isinstance(event, Counted) else None)
        elif isinstance(event, Exited | Loading):  # whoever was asked is gone
            waiting, self._waiting = self._waiting, {}
            for then in waiting.values():
                then(None)
