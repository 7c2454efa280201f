"""Crosses a draft source with a look-ahead: forced spans become certain tokens, guesses are filtered by the mask.

Pure: neither the source nor the owner of the look-ahead moves. A draft may go from forced to guessed to forced again.
"""

from typing import NamedTuple

from engine.decoding.masks import is_legal
from engine.decoding.processor import Lookahead
from engine.drafting.source import Walk
from engine.errors import ConstraintError


class Draft(NamedTuple):
    """One drafted token; `p` is the probability that it is right if everything before it in the draft is."""

    token: int
    p: float
    certain: bool


def cross(walk: Walk, ahead: Lookahead | None, longest: int, *, least: float = 0.0) -> list[Draft]:
    """Return at most `longest` drafted tokens from the current state; empty when the source has nothing to say.

    `ahead` is None for replies without a structure: guesses are then taken as they come. Behind a guess that is reached
    and right with a probability below `least` nothing is looked for. A draft that comes to the end of the reply stops
    before its last guess: the row that would verify it chooses it as well, and nothing is read behind it.
    """
    draft: list[Draft] = []
    reached = 1.0
    try:
        while len(draft) < longest and not (ahead is not None and ahead.ended):
            mask = None if ahead is None else ahead.mask()
            guess = walk.guess(mask)
            if guess is None:
                break
            token, p = guess
            if not is_legal(mask, token):
                break  # a source that did not look at the mask
            draft.append(Draft(token, p, certain=False))
            walk.advance(token)
            reached *= p
            if reached < least:
                break
            if ahead is None:
                continue
            ahead.advance(token)
            while len(draft) < longest and (span := ahead.forced()):
                for forced in span[: longest - len(draft)]:
                    draft.append(Draft(forced, 1.0, certain=True))
                    walk.advance(forced)
                    ahead.advance(forced)
        if ahead is not None and ahead.ended:
            while draft and draft.pop().certain:
                pass
    except ConstraintError:
        pass  # a refusal in the future: the owner will meet it in its own time, if it ever gets there
    return draft
