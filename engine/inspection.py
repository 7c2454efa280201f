"""What a model would say at one place of a reply, before and after its shape: the row of logits behind a prefix.

Knows an engine and a turn's request, whose prefix is the reply up to the place. Uses the engine's own cache: what the
cache has in common with the place stays, the rest is read again by the next turn, which commits the same tokens with
and without an inspection wherever rows do not depend on how a prompt was cut into batches (exact numerics). Drafts,
their memories and the costs of forwards hear nothing of it.
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.arming import take_prefix
from engine.decoding.processor import LogitProcessor, Row
from engine.decoding.sampler import Sampler
from engine.errors import Aborted, BrokenLogits, EngineError, TurnRefused
from engine.events import Alternative, Event, Failed, Inspected
from engine.gguf import ModelFileError
from engine.protocol import Inspect
from engine.turn import Engine

_LOG = logging.getLogger(__name__)


def inspect(engine: Engine, request: Inspect) -> Iterator[Event]:
    """Yield one `Inspected`, or one `Failed` with the request's turn."""
    turn = request.generate.turn
    try:
        yield _inspected(engine, request)
    except TurnRefused as refusal:
        yield Failed(kind=refusal.kind, message=str(refusal), turn=turn)
    except Aborted:
        yield Failed(kind="cancelled", message="The inspection was stopped.", turn=turn)
    except (ModelFileError, EngineError) as error:
        yield Failed(kind="model", message=f"The place cannot be inspected: {error}", turn=turn)
    except Exception as error:  # one inspection fails, the process and its next turn go on
        _LOG.exception("an inspection failed")
        text = f"The engine failed on its own account: {type(error).__name__}: {error}"
        yield Failed(kind="internal", message=text, turn=turn)


def _inspected(engine: Engine, request: Inspect) -> Inspected:
    wish = request.generate
    if request.vocabulary != engine.vocabulary.fingerprint:
        raise TurnRefused("usage", "The loaded model has other tokens than the one that wrote this reply.")
    if request.token is not None and not 0 <= request.token < engine.vocabulary.size:
        raise TurnRefused("usage", f"Token ids of this model go from 0 to {engine.vocabulary.size - 1}.")
    prompt = engine.prompt(wish.messages, think=wish.think, prefix=wish.prefix)
    armed = engine.arm(wish, prompt)
    sampler = Sampler(
        wish.sampling, seed=0, history=prompt.ids, processors=armed.processors, wrapped=armed.wrapped
    )
    take_prefix(armed, sampler, wish.prefix, engine.vocabulary)
    ahead = None if armed.structure is None else armed.structure.ahead()
    if ahead is not None and ahead.ended:
        raise TurnRefused("usage", "The reply is complete here: nothing may follow.")
    forced = () if ahead is None else ahead.forced()
    row = _row(engine, sampler.history)
    legal = _legal(row, armed.processors, sampler.history, forced)
    return _answer(engine, request, row, legal, forced=len(forced) > 0)


def _row(engine: Engine, history: Sequence[int]) -> Row:
    """Read what the cache lacks of a history; return a copy of the logits behind it, shape [vocabulary size]."""
    context = engine.context
    engine.reuse(history)
    while len(history) - len(context.tokens) > context.batch:
        at = len(context.tokens)
        context.decode(history[at : at + context.batch], ())
    pending = history[len(context.tokens) :]
    row = context.decode(pending, (len(pending) - 1,))[0].copy()
    if not np.isfinite(row).any() or np.isnan(row).any():
        raise BrokenLogits("the model's logits are no numbers; its file may be damaged")
    return row


def _legal(
    row: Row, processors: Sequence[LogitProcessor], history: Sequence[int], forced: Sequence[int]
) -> NDArray[np.bool_]:
    """Return which ids may stand here, shape [vocabulary size]: the forced one, or what the processors leave."""
    if forced:
        legal = np.zeros(row.size, dtype=np.bool_)
        legal[forced[0]] = True
        return legal
    bent = row.copy()
    for processor in processors:
        processor.process(bent, history)
    return bent > -np.inf


def _answer(
    engine: Engine, request: Inspect, row: Row, legal: NDArray[np.bool_], *, forced: bool
) -> Inspected:
    logits = row.astype(np.float64)
    weights = np.exp(logits - logits.max())
    probabilities = weights / weights.sum()
    under_mask = float(probabilities[legal].sum())
    order = np.argsort(-probabilities, kind="stable")
    allowed = int(np.count_nonzero(legal))
    listed = set(order[: request.top].tolist())
    listed.update(order[legal[order]][: request.top].tolist())
    if request.token is not None:
        listed.add(request.token)
    positive = probabilities[probabilities > 0]
    vocabulary = engine.vocabulary
    return Inspected(
        turn=request.generate.turn,
        alternatives=tuple(
            Alternative(
                id=token,
                text=vocabulary.piece(token).decode("utf-8", "replace"),
                probability=float(probabilities[token]),
                rank=rank,
                legal=bool(legal[token]),
                share=float(probabilities[token]) / under_mask if legal[token] and under_mask > 0 else 0.0,
                ends=token in vocabulary.end_ids,
            )
            for rank, token in enumerate(order.tolist(), 1)
            if token in listed
        ),
        forced=forced,
        allowed=allowed,
        masked=row.size - allowed,
        entropy=float(-(positive * np.log2(positive)).sum()),
    )
