"""Make an ending of those that were known before: no walk, no mask.

Knows a look-ahead that answers for whole spans, and endings as tokens in some spelling; nothing of texts. What is
written in other words than an ending foresaw mostly leaves a part of it to be written, perhaps behind something short.
The effort is bounded by the lengths of what is given; the same state and endings give the same answer.
"""

from collections.abc import Sequence

from engine.decoding.processor import ShapedLookahead

_RESTS = 3_000  # tokens of the longest rest of an ending that is tried: the effort grows with the square


def ends(ahead: ShapedLookahead, tokens: Sequence[int]) -> bool:
    """Tell whether the reply may end behind these tokens, in some spelling."""
    return ahead.follow(tokens) > len(tokens)


def likely(
    ahead: ShapedLookahead,
    known: Sequence[int],
    earlier: Sequence[Sequence[int]],
    before: Sequence[Sequence[int]],
) -> list[int] | None:
    """Return a short ending from here, in some spelling, or None.

    It is the shortest rest of the `known` one, or of an `earlier` one; or it is one of `before`, such as the end of a
    text or a value, with the shortest rest of the known one behind it.
    """
    begins: dict[int, bool] = {}
    for tokens in (known, *earlier):
        if (rest := _rest(ahead, tokens, begins)) is not None:
            return list(rest)
    for opening in before:
        if ahead.follow(opening) >= len(opening):
            for at in range(len(known), max(0, len(known) - _RESTS) - 1, -1):
                if ends(ahead, found := [*opening, *known[at:]]):
                    return found
    return None


def shorter(ahead: ShapedLookahead, tokens: Sequence[int], *, longest: int) -> Sequence[int]:
    """Return an ending without what can be left out of it, in some spelling.

    Of one with more than `longest` tokens only the beginning is left out: what is tried grows with the square.
    """
    rest = _rest(ahead, tokens, {})
    if rest is not None:
        tokens = rest
    if len(tokens) > longest:
        return tokens
    at = 0
    while at < len(tokens):
        cuts = ([*tokens[:at], *tokens[behind:]] for behind in range(len(tokens) - 1, at, -1))
        tokens = next((cut for cut in cuts if ends(ahead, cut)), tokens)
        at += 1
    return tokens


def _rest(ahead: ShapedLookahead, tokens: Sequence[int], begins: dict[int, bool]) -> Sequence[int] | None:
    """Return the shortest rest of an ending that is one from here; `begins` keeps which tokens may come first."""
    for at in range(len(tokens) - 1, max(0, len(tokens) - _RESTS) - 1, -1):
        first = tokens[at]
        if first not in begins:
            begins[first] = ahead.follow((first,)) > 0
        if begins[first] and ends(ahead, tokens[at:]):
            return tokens[at:]
    return None
