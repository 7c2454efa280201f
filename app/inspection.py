"""What the model thinks of places in replies: asked of the engine one at a time, and remembered.

Knows the engine's commands and events, no screen and no store. Invariants: a question is asked only once while its
answer is known; a loaded model forgets all answers; turns of inspections are below zero, so none is a reply's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from app.supervisor import Supervisor
from engine.events import Event, Exited, Failed, Inspected, Ready
from engine.protocol import Cancel, Generate, Inspect

KEPT = 512


class Place(NamedTuple):
    """A place of a stored reply: the token with this number, counted from 0."""

    reply: int
    number: int


class Inspections:
    """Asks for one place at a time; `waiting` is the one that is being computed."""

    def __init__(self, engine: Supervisor) -> None:
        self.waiting: Place | None = None
        self._engine = engine
        self._turn = 0
        self._answers: dict[Place, Inspected | str] = {}

    def answer(self, place: Place) -> Inspected | str | None:
        """Return what the engine said of a place: figures, or a sentence on why there are none; None if not asked."""
        return self._answers.get(place)

    def ask(self, place: Place, turn: Generate, ids: Sequence[int], vocabulary: str) -> None:
        """Ask for a place of a reply of these ids that was asked for with `turn`; another question is given up."""
        if place == self.waiting or isinstance(self._answers.get(place), Inspected):
            return
        self.stop()
        self._turn -= 1
        self.waiting = place
        self._engine.send(
            Inspect(
                generate=replace(turn, turn=self._turn, prefix=tuple(ids[: place.number])),
                vocabulary=vocabulary,
                token=ids[place.number],
            )
        )

    def stop(self) -> None:
        """Give up the question that waits for its answer."""
        if self.waiting is not None:
            self.waiting = None
            self._engine.send(Cancel())

    def hear(self, event: Event) -> None:
        """Take an event of the engine."""
        if isinstance(event, Inspected | Failed) and event.turn == self._turn and self.waiting is not None:
            self._keep(self.waiting, event if isinstance(event, Inspected) else event.message)
        elif isinstance(event, Exited) and self.waiting is not None:
            self._keep(self.waiting, event.message)
        elif isinstance(event, Ready):
            self._answers.clear()
            self.waiting = None

    def _keep(self, place: Place, answer: Inspected | str) -> None:
        self.waiting = None
        self._answers[place] = answer
        if len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]
