"""Plain constrained decoding, the oracle of the decode loop: a mask for every row, one forward for every token.

Shares with the loop the sampler and nothing else. It commits the same tokens, only slower.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from engine.decoding.decoder import Committed, Context
from engine.decoding.masks import count_legal, legal_ids
from engine.decoding.processor import Structured
from engine.decoding.sampler import Sampler
from engine.events import Finish


def naive(
    context: Context,
    sampler: Sampler,
    *,
    structure: Structured | None,
    end_ids: AbstractSet[int],
    budget: int,
    apart: Callable[[], int] = lambda: 0,
    given: int = 0,
) -> Iterator[Committed | Finish]:
    """Yield the committed tokens of one reply, and last how it finished.

    `apart` counts the tokens so far that the budget does not. The last `given` of the history belong to the reply.
    """
    prompt = len(sampler.history) - given
    while True:
        if structure is not None and structure.ahead().ended:
            yield "stop"
            return
        if len(sampler.history) - prompt - apart() >= budget:
            yield "length"
            return
        legal = None if structure is None else structure.ahead().mask()
        forced = legal is not None and count_legal(legal) == 1
        if not forced and len(sampler.history) > context.length:
            yield "context_full"
            return
        if forced:
            assert legal is not None
            token = int(legal_ids(legal)[0])
            sampler.take(token)
            yield Committed(token, "forced", None)
            continue
        context.keep(len(sampler.history) - 1)
        row = None
        while row is None:
            at = len(context.tokens)
            last = len(sampler.history) - 1
            # Prompts are read in whole batches, replies one token at a time.
            upto = min(at + context.batch, prompt) if at < prompt else at + 1
            rows = context.decode(sampler.history[at:upto], (upto - at - 1,) if upto - 1 == last else ())
            row = rows[0] if rows else None
        token = sampler.next(row)
        if token in end_ids:
            yield "stop"
            return
        yield Committed(token, "sampled", sampler.allowed)
