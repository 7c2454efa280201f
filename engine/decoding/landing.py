"""Landing: a shaped reply ends properly within its budget.

Knows a structured processor, a budget of tokens and the bytes of tokens; not the kind of the shape. The invariant: an
ending of the state after every committed token fits into what is left of the budget. A chosen token that would break
it is replaced, before commit, by the first token of the known ending; forced tokens are counted, since every ending
contains them. Where none is known any more the turn ends with an error: it is never left to luck. No clock has a say,
so every path lands at the same token.

How it stays cheap: the known ending is kept as bytes. While what is left is at least as many tokens as these bytes,
every spelling of them fits, because a token has at least one byte: then it is enough that the bytes still are an
ending behind the chosen token, which the grammar answers without a mask, or needs no question where the token begins
the ending. Where they are not, an ending is made of what was known before (`engine.decoding.recall`), and only where
that fails, a walk looks for one (`engine.decoding.endings`). Where less is left, the tokens of an ending are counted
as they would be committed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from engine.decoding.endings import Endings
from engine.decoding.masks import legal_ids
from engine.decoding.processor import Bits, Row, Shaped, ShapedLookahead
from engine.decoding.tokens import START, Scan
from engine.errors import BudgetTooSmall, ConstraintError

_CONTINUATIONS = bytes(range(0x80, 0xC0))  # the bytes of a character behind its first
_KEPT = 4  # endings that walks have found in this reply
_LOST = "no ending of the shape is known that fits into what is left of the budget"


class _Ending(NamedTuple):
    """Bytes that end the reply, and the tokens that would be committed for them, where they are known."""

    data: bytes
    tokens: tuple[int, ...] | None
    walked: bool = False
    """True where it was found by a walk; its rests are likely endings later on."""

    def fits(self, left: int) -> bool:
        return (len(self.data) if self.tokens is None else len(self.tokens)) <= left

    def behind(self, token: int, piece: bytes) -> "_Ending | None":
        """Return the rest behind a token that begins the ending; None if it does not."""
        if not piece or not self.data.startswith(piece):
            return None
        same = self.tokens is not None and self.tokens[:1] == (token,)
        return _Ending(self.data[len(piece) :], self.tokens[1:] if self.tokens is not None and same else None)


class Landing:
    """Keeps the replies of `inner`, which has not begun, within `budget` tokens.

    `endings` are those of the shape that `inner` holds to. Raises `BudgetTooSmall` if the first ending does not fit.
    Where no ending at all is found from the start, nothing is promised and nothing is replaced.
    """

    def __init__(self, inner: Shaped, *, budget: int, endings: Endings) -> None:
        self._inner = inner
        self._budget = budget
        self._endings = endings
        first = endings.first(inner.ahead(), budget)
        if first is not None and len(first) > budget:
            raise BudgetTooSmall(budget, len(first))
        self._first = None if first is None else self._ending_of(first)
        self.reset()

    @property
    def landed(self) -> bool:
        """True when the reply was cut short: a token was replaced, or the budget is used up where it might go on."""
        if self._cut or self._left > 0:
            return self._cut
        ahead = self._inner.ahead()
        return not ahead.ended and self._endings.may_end(ahead)

    def reset(self) -> None:
        """Start again with the whole budget."""
        self._inner.reset()
        self._left = self._budget
        self._place = START
        self._ending = self._first
        self._walked: tuple[Sequence[int], ...] = ()
        self._inserted: tuple[Sequence[int], ...] = ()
        if self._first is not None and (tokens := self._endings.spelled(self._first.data)):
            self._walked = (tokens,)
        self._next: tuple[int, _Ending] | None = None
        self._cut = False
        self.searched = 0
        """How many endings were walked for in this reply."""

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Set the logits of illegal tokens to -inf."""
        self._inner.process(row, history)

    def admit(self, token: int) -> int:
        """Return the token, or the first one of the known ending if no ending behind the token fits.

        Raises `ConstraintError` if that cannot be written either.
        """
        token = self._inner.admit(token)
        self._next = None
        if self._ending is None or token in self._endings.table.end_ids:
            return token
        try:
            ending = self._behind(token, self._ending)
        except ConstraintError:
            return token  # refused by its own mask: the inner processor mends that when it is committed
        if ending is not None:
            self._next = token, ending
            return token
        self._cut = True
        return self._begun(self._ending)

    def commit(self, token: int) -> None:
        """Count a committed token and keep an ending behind it. Raises `ConstraintError` if there is none any more."""
        if token in self._endings.table.end_ids:
            self._inner.commit(token)
            return
        before, behind = self._ending, None
        if self._next is not None and self._next[0] == token:
            behind = self._next[1]
        elif before is not None:  # forced, or given as the beginning of a reply
            with suppress(ConstraintError):
                behind = self._behind(token, before)
        self._inner.commit(token)
        self._left -= 1
        self._place = self._endings.table.follow(self._place, token)
        if before is not None and behind is None:  # what the inner processor took may be other than it was
            likely = before.behind(token, self._endings.table.pieces[token]) or before
            ahead = self._inner.ahead()
            behind = self._search(ahead, before.data, (likely.data,), self._left, self._place)
            if behind is None:
                raise ConstraintError(_LOST)
        self._ending = behind
        self._next = None
        if before is not None and behind is not None and behind.walked:
            self._remember(before.data, behind.data)

    def ahead(self) -> "LandingLookahead":
        """Open a look-ahead at the current state."""
        return LandingLookahead(self._inner.ahead(), self._left, self._endings)

    def clone(self) -> "Landing":
        """Return an independent landing in the same state."""
        twin = object.__new__(Landing)
        twin.__dict__.update(self.__dict__)
        twin._inner = self._inner.clone()
        return twin

    def _ending_of(self, tokens: Sequence[int]) -> _Ending:
        return _Ending(self._endings.bytes_of(tokens), tuple(tokens))

    def _behind(self, token: int, ending: _Ending) -> _Ending | None:
        """Return an ending behind a token that fits, or None. Raises `ConstraintError` if the token is refused."""
        left = self._left - 1
        rest = ending.behind(token, self._endings.table.pieces[token])
        if rest is not None and rest.fits(left):
            return rest
        if left < 0:
            return None
        ahead = self._inner.ahead()
        ahead.advance(token)
        if not ending.data and self._endings.takes(ahead, b""):
            return _Ending(b"", ())
        place = self._endings.table.follow(self._place, token)
        likely = chain(() if rest is None else (rest.data,), self._nearby(ending.data, token, place))
        return self._search(ahead, ending.data, likely, left, place)

    def _nearby(self, data: bytes, token: int, place: Scan) -> Iterator[bytes]:
        """Yield what may end the reply behind a token in place of the bytes that would have ended it before.

        Half a character must first be completed, and what would have completed it is done with; the same for an escape.
        A token that ends a text or a number ends it without what the ending would have put in.
        """
        piece = self._endings.table.pieces[token]
        content = data[data.find(b'"') :] if self._place.inside else data.lstrip(b"0123456789")
        if content != data and content.startswith(piece):
            yield content[len(piece) :]
        yield data
        whole = data.lstrip(_CONTINUATIONS)
        if piece[-1:] >= b"\x80":
            yield from (b"\x90" * more + whole for more in (1, 2, 3))
        if place.escaped:
            yield b'"' + whole
        if self._place.escaped:
            yield whole[1:]
        if whole != data:
            yield whole

    def _begun(self, ending: _Ending) -> int:
        """Return the first token of an ending of the current state, or the end marker if it is one already.

        Bytes of which no spelling is known fit in every spelling: they are begun with the longest legal token. Only a
        guard may leave none of those; then another ending is looked for. Raises `ConstraintError`.
        """
        if not ending.data and not ending.tokens:
            return self._end()
        tokens = ending.tokens or self._endings.begin(self._inner.ahead().mask(), ending.data)
        if not tokens:
            found = self._endings.fitting(self._inner.ahead(), self._left, self._place)
            if found is None:
                raise ConstraintError(_LOST)
            if not found:
                return self._end()
            ending, tokens = self._ending_of(found), tuple(found)
        first = tokens[0]
        rest = ending.data[len(self._endings.table.pieces[first]) :]
        self._next = first, _Ending(rest, None if ending.tokens is None else ending.tokens[1:])
        return first

    def _remember(self, before: bytes, found: bytes) -> None:
        """Keep an ending that a walk has found, and what it has before the one that was known."""
        at = next((at for at in range(len(found)) if before.endswith(found[at:])), len(found))
        if tokens := self._endings.spelled(found):
            self._walked = (tokens, *self._walked[: _KEPT - 1])
        if tokens := self._endings.spelled(found[:at]):
            self._inserted = (tokens, *self._inserted[: _KEPT - 1])

    def _search(
        self, ahead: ShapedLookahead, known: bytes, likely: Iterable[bytes], left: int, place: Scan
    ) -> _Ending | None:
        """Return an ending of at most `left` tokens: a likely one, one made of those that were known, or a walk's."""
        for data in likely:
            if self._endings.takes(ahead, data) and (found := self._fitting(ahead, data, left)) is not None:
                return found
        data = self._endings.likely(ahead, known, self._walked, self._inserted)
        if data is not None and (found := self._fitting(ahead, data, left)) is not None:
            return found
        self.searched += 1
        tokens = self._endings.fitting(ahead, left, place)
        if tokens is None:
            return None
        found = self._fitting(ahead, self._endings.shorter(ahead, tokens), left) or self._ending_of(tokens)
        return found._replace(walked=True)

    def _fitting(self, ahead: ShapedLookahead, data: bytes, left: int) -> _Ending | None:
        """Return bytes that end the reply as an ending, if they fit in every spelling or as they would be committed."""
        if len(data) <= left:
            return _Ending(data, None)
        tokens = self._endings.spell(ahead.copy(), data, left)
        return None if tokens is None else _Ending(data, tuple(tokens))

    def _end(self) -> int:
        """Return the end marker that is legal here."""
        mask = self._inner.ahead().mask()
        ends = mask & self._endings.table.ends
        return int(legal_ids(ends)[0])


class LandingLookahead:
    """A look-ahead that ends where the budget does, if the reply may end there."""

    def __init__(self, inner: ShapedLookahead, left: int, endings: Endings) -> None:
        self._inner = inner
        self._left = left
        self._endings = endings

    @property
    def ended(self) -> bool:
        """True when nothing may follow, or the budget is used up where the reply may end."""
        return self._inner.ended or (self._left <= 0 and self._endings.may_end(self._inner))

    def forced(self) -> Sequence[int]:
        """Return a span with exactly one legal token at each place; empty at a free choice."""
        return self._inner.forced()

    def mask(self) -> Bits:
        """Return the legal next tokens."""
        return self._inner.mask()

    def advance(self, token: int) -> None:
        """Step over a legal token."""
        self._inner.advance(token)
        self._left -= 1

    def copy(self) -> "LandingLookahead":
        """Return an independent walk at the same place."""
        return LandingLookahead(self._inner.copy(), self._left, self._endings)
