"""The self-check: a finished reply is written again by the naive loop, from a cold prompt, and compared.

Knows token ids and what a turn is made of; shares with the decode loop the sampler, the processors and the model.
Changes nothing but the cache, which afterwards holds a prefix of prompt and replay.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.arming import take_prefix
from engine.decoding.decoder import Committed
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

    `tokens` are all that were committed, reasoning and prefix included. An abort or a fault of the engine ends the
    replay early: `compared` then says how far it came. The end is compared
    where the loop decides on it (`stop`, `length`, `context_full`), and left alone where it came from outside (a stop
    text, a cancel).
    """
    margins = _Margins()
    compared = len(request.prefix)
    error = None
    difference: tuple[int | None, int | None] | None = None
    try:
        replay = _replay(engine, request, seed, margins)
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
    except Exception as fault:  # the reply stands; only its replay is at fault
        error = f"{type(fault).__name__}: {fault}"
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


def _replay(
    engine: "Engine", request: Generate, seed: int, margins: "_Margins"
) -> Iterator[Committed | Finish]:
    """Return the naive loop over a cold cache, held to what the turn was held to."""
    prompt = engine.prompt(request.messages, think=request.think, prefix=request.prefix)
    armed = engine.arm(request, prompt)
    sampler = Sampler(
        request.sampling,
        seed=seed,
        history=prompt.ids,
        processors=[*armed.processors, margins],
        wrapped=armed.wrapped,
    )
    take_prefix(armed, sampler, request.prefix, engine.vocabulary)
    engine.context.keep(0)
    return naive(
        engine.context,
        sampler,
        structure=armed.structure,
        end_ids=engine.vocabulary.end_ids,
        budget=armed.budget,
        apart=armed.apart,
        given=len(request.prefix),
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
