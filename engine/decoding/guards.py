"""The soft run guard: keeps a model from writing digits, blanks, text or brackets for ever.

Stands around the constraint of a JSON Schema and reads the bytes of what is committed; knows the lexical rules of JSON
and no schema. Invariants: it only takes tokens away, and only while one is left, so it never leads into a dead end;
mask, row, forced span and end agree; what it leaves alone is legal by the grammar. Where it leaves one token, that is
forced, as everywhere.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from engine.decoding.masks import legal_ids, only_legal
from engine.decoding.processor import Bits, Row, Shaped, ShapedLookahead
from engine.decoding.tokens import TokenTable, token_table
from engine.vocabulary import Vocabulary
from grammars.spec import Guards

_EXPONENT = 2  # digits; what a double holds ends at 308


class RunGuard:
    """Guards the replies of `inner`, which must write JSON; `guards.items` is the grammar's business."""

    def __init__(self, inner: Shaped, *, guards: Guards, vocabulary: Vocabulary) -> None:
        self._inner = inner
        self._start = _Place(_Rules(guards, token_table(vocabulary)))
        self._place = self._start

    def reset(self) -> None:
        """Start again at the beginning of a reply."""
        self._inner.reset()
        self._place = self._start

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Set the logits of illegal and guarded tokens to -inf."""
        self._inner.process(row, history)
        if self._place.removals:
            bits = self._inner.ahead().mask()
            removed = bits & ~self._place.narrow(bits)
            row[legal_ids(removed)] = -np.inf

    def admit(self, token: int) -> int:
        """Return what the inner processor admits."""
        return self._inner.admit(token)

    def commit(self, token: int) -> None:
        """Read the bytes of a committed token."""
        self._inner.commit(token)
        self._place = self._place.after(token)

    def ahead(self) -> "GuardedLookahead":
        """Open a look-ahead at the current state."""
        return GuardedLookahead(self._inner.ahead(), self._place)

    def clone(self) -> "RunGuard":
        """Return an independent guard in the same state."""
        twin = object.__new__(RunGuard)
        twin._inner = self._inner.clone()
        twin._start = self._start
        twin._place = self._place
        return twin


class GuardedLookahead:
    """A look-ahead behind the guard."""

    def __init__(self, inner: ShapedLookahead, place: "_Place") -> None:
        self._inner = inner
        self._place = place

    @property
    def ended(self) -> bool:
        """True when nothing may follow but an end marker."""
        if self._inner.ended:
            return True
        if not self._place.removals:
            return False
        left = self.mask()
        return bool(left.any()) and not np.any(left & ~self._place.rules.table.ends)

    def forced(self) -> Sequence[int]:
        """Return a span with exactly one legal token at each place; what the guard forces is a span of one."""
        span = self._inner.forced()
        if span or not self._place.removals or self._inner.ended:
            return span
        token = only_legal(self.mask())
        return () if token is None or token in self._place.rules.table.end_ids else (token,)

    def mask(self) -> Bits:
        """Return the legal tokens that the guard leaves."""
        bits = self._inner.mask()
        return self._place.narrow(bits) if self._place.removals else bits

    def follow(self, tokens: Sequence[int]) -> int:
        """Return how many tokens may follow by the grammar: guards give way where nothing else would be left."""
        return self._inner.follow(tokens)

    def advance(self, token: int) -> None:
        """Step over a legal token."""
        self._inner.advance(token)
        self._place = self._place.after(token)

    def copy(self) -> "GuardedLookahead":
        """Return an independent walk at the same place."""
        return GuardedLookahead(self._inner.copy(), self._place)


class _Rules(NamedTuple):
    guards: Guards
    table: TokenTable


class _Place:
    """Where a reader of the reply stands; never changed."""

    __slots__ = (
        "_blanks", "_depth", "_digits", "_escaped", "_exponent", "_inside", "_length", "_narrowed", "removals", "rules",
    )  # fmt: skip

    def __init__(
        self,
        rules: _Rules,
        inside: bool = False,
        escaped: bool = False,
        length: int = 0,
        digits: int = 0,
        exponent: bool = False,
        blanks: int = 0,
        depth: int = 0,
    ) -> None:
        self.rules = rules
        self._inside = inside
        self._escaped = escaped
        self._length = length
        self._digits = digits
        self._exponent = exponent
        self._blanks = blanks
        self._depth = depth
        self._narrowed: tuple[Bits, Bits] | None = None
        self.removals = self._limits_are_near()

    def after(self, token: int) -> "_Place":
        """Return the place behind a token."""
        found = self.rules.table.scan(token, self._inside, self._escaped, self._exponent and not self._digits)
        goes_on = found.digits == found.size  # digits only, outside a string
        return _Place(
            self.rules,
            found.inside,
            found.escaped,
            found.length if found.crosses else self._length + found.length,
            found.digits + self._digits if goes_on else found.digits,
            self._exponent if goes_on else found.exponent,
            found.blanks + self._blanks if found.blanks == found.size else found.blanks,
            self._depth + found.depth,
        )

    def narrow(self, bits: Bits) -> Bits:
        """Return the mask without what is guarded; each guard gives way where it would leave nothing."""
        if self._narrowed is None or self._narrowed[0] is not bits:
            left = bits
            for removed in self._removed():
                fewer = left & ~removed
                if fewer.any():
                    left = fewer
            self._narrowed = bits, self._shallow(left)
        return self._narrowed[1]

    def _limits_are_near(self) -> bool:
        """Tell whether some token might be taken away here; cheap, because it is asked at every token."""
        guards, table = self.rules.guards, self.rules.table
        if guards.depth is not None and self._depth + table.most_rise > guards.depth:
            return True
        if guards.blanks is not None and self._blanks and self._blanks + table.most_blanks > guards.blanks:
            return True
        if self._inside:
            return guards.string is not None and self._length >= guards.string and not self._escaped
        return guards.digits is not None and (
            self._exponent
            or self._digits + table.most_digits > guards.digits
            or (self._digits > 0 and table.long_exponents is not None)
        )

    def _removed(self) -> Iterator[Bits]:
        guards, table = self.rules.guards, self.rules.table
        if guards.blanks is not None and self._blanks:
            room = max(0, guards.blanks - self._blanks)
            if table.most_blanks > room:
                yield table.blanks(room + 1)
        if self._inside:
            if guards.string is not None and self._length >= guards.string and not self._escaped:
                yield table.unquoted
        elif guards.digits is not None:
            room = max(0, (_EXPONENT if self._exponent else guards.digits) - self._digits)
            if table.most_digits > room:
                yield table.digits(room + 1)
            if self._digits and table.long_exponents is not None:
                yield table.long_exponents

    def _shallow(self, bits: Bits) -> Bits:
        """Return the tokens that stay within the depth, or else those that leave it by the fewest levels."""
        depth = self.rules.guards.depth
        if depth is None:
            return bits
        for levels in range(max(0, depth - self._depth), self.rules.table.most_rise):
            rising = self.rules.table.rising(self._inside, levels)
            if rising is None:
                break
            fewer = bits & ~rising
            if fewer.any():
                return fewer
        return bits
