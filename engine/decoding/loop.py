"""Tell when a free reply goes round in circles.

Knows token ids only. The rule: some period of at most 16 tokens has just been repeated at least 8 times over at least
64 tokens, exactly. A table, a list, code or a poem with a refrain changes something in each round and is not cut; a
ruled line of one character is cut only where the vocabulary needs more than 64 tokens for it.
"""

PERIOD = 16
REPEATS = 8
TOKENS = 64


class LoopDetector:
    """Hears the tokens of one reply, in constant time and memory each."""

    def __init__(self) -> None:
        self._last = [-1] * PERIOD
        """The last tokens, the one at place n modulo `PERIOD` at that index."""
        self._count = 0
        self._same = [0] * (PERIOD + 1)
        """By period: how many tokens in a row equal the one a period before them."""

    def copy(self) -> "LoopDetector":
        """Return an independent detector that has heard the same."""
        twin = LoopDetector()
        twin._last, twin._same, twin._count = list(self._last), list(self._same), self._count
        return twin

    def add(self, token: int) -> bool:
        """Take the next token; return True if it completes the rule."""
        looped = False
        last, count = self._last, self._count
        for period in range(1, PERIOD + 1):
            if last[(count - period) % PERIOD] == token:
                self._same[period] += 1
                # A run that equals what lies a period before it spans that period too.
                looped |= self._same[period] + period >= max(TOKENS, REPEATS * period)
            else:
                self._same[period] = 0
        last[count % PERIOD] = token
        self._count += 1
        return looped
