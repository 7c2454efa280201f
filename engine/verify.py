"""The self-check: a finished reply is written again by the naive loop, from a cold prompt, and compared.

Knows token ids and what a turn is made of; shares with the decode loop the sampler, the processors and the model.
Changes nothing but the cache, which afterwards holds a prefix of prompt and replay.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.decoding.naive import naive
from engine.decoding.processor import Row
from engine.decoding.sampler import Sampler
from engine.errors import Aborted, EngineError
from engine.events import Finish, Token, Verification
from engine.protocol import Generate

if TYPE_CHECKING:
    from engine.turn import Engine


def verify(
    engine: "Engine", request: Generate, *, seed: int, tokens: Sequence[int], finish: Finish
) -> Verification:
    """Replay a turn whose reply were `tokens` and return how far both agree.

    An abort or a fault of the engine ends the replay early: `compared` then says how far it came. The end is compared
    where the loop decides on it (`stop`, `length`, `context_full`), and left alone where it came from outside (a stop
    text, a cancel).
    """
    constraint = None if request.shape is None else engine.constraint(request.shape)
    margins = _Margins()
    history = engine.prompt(request.messages).ids
    processors = [*engine._processors(request.sampling, constraint), margins]
    sampler = Sampler(request.sampling, seed=seed, history=history, processors=processors)
    engine.context.keep(0)
    compared = 0
    error = None
    difference: tuple[int | None, int | None] | None = None
    replay = naive(
        engine.context,
        sampler,
        structure=constraint,
        end_ids=engine.vocabulary.end_ids,
        budget=request.max_tokens,
    )
    try:
        while compared < len(tokens) and difference is None:
            margins.last = None
            step = next(replay)
            replayed = None if isinstance(step, str) else step.token
            if replayed == tokens[compared]:
                compared += 1
            else:
                difference = tokens[compared], replayed
        if difference is None and finish in ("stop", "length", "context_full"):
            margins.last = None
            step = next(replay)
            if step != finish:
                difference = None, None if isinstance(step, str) else step.token
    except Aborted:
        error = "it was stopped"
    except EngineError as fault:
        error = str(fault)
    return Verification(
        equal=difference is None,
        compared=compared,
        total=len(tokens),
        exact=engine.exact,
        at=None if difference is None else compared,
        replied=None if difference is None else _token(engine, difference[0]),
        replayed=None if difference is None else _token(engine, difference[1]),
        margin=None if difference is None else margins.last,
        error=error,
    )


def _token(engine: "Engine", token: int | None) -> Token | None:
    if token is None:
        return None
    text = engine.vocabulary.piece(token).decode("utf-8", "replace")
    return Token(id=token, text=text, origin="sampled")


class _Margins:
    """A processor that changes nothing and remembers how close the last choice was; it stands last."""

    last: float | None = None

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Remember the distance of the two largest logits."""
        second, first = np.partition(row, -2)[-2:]
        self.last = float(first - second) if np.isfinite(second) else None

    def admit(self, token: int) -> int:
        """Return the token."""
        return token

    def commit(self, token: int) -> None:
        """Remember nothing."""

    def reset(self) -> None:
        """Forget the last choice."""
        self.last = None
