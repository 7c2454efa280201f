"""Find a short ending of a half-written reply by a greedy walk; no search.

Knows a look-ahead and the bytes of tokens, not the kind of the grammar: closing quotes and brackets, short values and
plain letters are tried first because JSON is the commonest shape. The effort is bounded by steps and walks, never by
the clock, so that the same state has the same ending on every path.
"""

from collections.abc import Sequence
from itertools import product
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

import numpy as np

from engine.decoding.masks import count_legal, is_legal, legal_ids
from engine.decoding.processor import Bits, ShapedLookahead
from engine.decoding.recall import ends, likely, shorter
from engine.decoding.tokens import START, Scan, TokenTable
from engine.errors import ConstraintError, EngineError

_CHOICES = 1_000  # free choices in one walk
_LONGEST = 100_000  # tokens of a first ending
_NARROW = 16  # a mask of so few tokens is looked at token by token
_KEPT = 16
_SHORTENED = 32  # tokens of an ending that is shortened wherever it can be; twice as many of the first ones
_BRACKETS = tuple("".join(closing) for size in (4, 3, 2, 1) for closing in product("]}", repeat=size))
# Inside a text: closed by the token that closes most with it.
_CLOSED = tuple('"' + brackets for brackets in _BRACKETS)
_CLOSED_AND_ON = ('","', '":"', '",', '":', '"')
# Outside: a whole value, then what closes, then what goes on because nothing may close.
_VALUES = ('""', "0", "[]", "{}")
_ON = (",", ":", '"')
# One of each class of bytes, what ends or separates things first.
_CLASSES = (*'"\n;.,:)]}>@-_/=+ ', "a", "A", "0", "1", "9", *"!#$%&'(*<?[\\^`{|~", "é")
# What may have to stand before an ending that was known: the end of a text, a value, or both.
_BEFORE = ('"', "'", '""', '"0"', "0", "]", "}", ")", ">", ";", "\n")
_FEW_LETTERS = 12  # so many are tried one by one: units, a meridiem, the hour of a zone


class _Way(NamedTuple):
    """How a walk chooses: `patience` fillers before something else; whether `,` goes on, as it does in JSON."""

    patience: int
    json: bool


_WAYS = (_Way(7, True), _Way(0, True), _Way(7, False), _Way(0, False))


class Endings:
    """The walks of one shape with one vocabulary, for all its replies.

    `samples` are texts worth trying where a walk goes round in circles, such as the shortest match of a pattern.
    """

    def __init__(self, table: TokenTable, samples: Sequence[str] = ()) -> None:
        self.table = table
        self._spellings: dict[bytes, Sequence[int] | None] = {}
        self._closed = self._known(_CLOSED)
        self._closed_and_on = self._known(_CLOSED_AND_ON)
        self._brackets = self._known((*_BRACKETS, ")"))
        self._values = self._known(_VALUES)
        self._on = self._known(_ON)
        self._letters = self._known((*ascii_uppercase, *ascii_lowercase))
        self._zero = table.ids.get(b"0", -1)
        self._one = table.ids.get(b"1", -1)
        self._quote = table.ids.get(b'"', -1)
        self._classes = self._known(_CLASSES)
        before = (self.spelled(text.encode()) for text in (*_BEFORE, *samples))
        self._before = [tokens for tokens in before if tokens]
        self._samples = sorted((sample.encode() for sample in samples if sample), key=len)
        self._first: list[list[int] | None] = []

    def first(self, ahead: ShapedLookahead, most: int) -> list[int] | None:
        """Return an ending from where every reply begins: one of at most `most` tokens, or else the shortest found.

        None if no walk ends. Every way is walked once, whatever is asked for. `ahead` stays where it is.
        """
        for place, way in enumerate(_WAYS):
            if place == len(self._first):
                self._first.append(self._shortened(ahead, self.walk(ahead.copy(), _LONGEST, way, START)))
            found = self._first[place]
            if found is not None and len(found) <= most:
                return found
        return min((ending for ending in self._first if ending is not None), key=len, default=None)

    def fitting(self, ahead: ShapedLookahead, most: int, place: Scan) -> list[int] | None:
        """Return the first ending found that has at most `most` tokens, or None. `ahead` stays where it is.

        `place` is what the reply so far is to a reader of JSON.
        """
        for way in _WAYS:
            if (ending := self.walk(ahead.copy(), most, way, place)) is not None:
                return ending
        return None

    def walk(self, ahead: ShapedLookahead, most: int, way: _Way, place: Scan) -> list[int] | None:
        """Walk one way to an ending. Moves `ahead`."""
        walk = _Walk(ahead, self.table, place)
        try:
            for _ in range(_CHOICES):
                while span := ahead.forced():
                    if len(walk.tokens) + len(span) > most:
                        return None
                    walk.advance(span)
                if len(walk.tokens) > most:  # a sample may be several tokens
                    return None
                if ahead.ended:
                    return walk.tokens
                mask = ahead.mask()
                if np.any(mask & self.table.ends):
                    return walk.tokens
                if len(walk.tokens) == most:
                    return None
                walk.advance(self._pick(walk, mask, way))
        except EngineError:
            return None  # this way is closed; the reply itself goes another
        return None

    def takes(self, ahead: ShapedLookahead, data: bytes) -> bool:
        """Tell whether bytes are an ending from here, in some spelling. `ahead` stays where it is."""
        tokens = self.spelled(data)
        return tokens is not None and ends(ahead, tokens)

    def likely(
        self,
        ahead: ShapedLookahead,
        known: bytes,
        earlier: Sequence[Sequence[int]],
        before: Sequence[Sequence[int]],
    ) -> bytes | None:
        """Return a short ending made of those that were known, or None; see `recall.likely`.

        What may stand `before` the known one stands there in addition to the ends of texts, and to values.
        """
        found = likely(ahead, self.spelled(known) or (), earlier, [*before, *self._before])
        return None if found is None else self.bytes_of(found)

    def shorter(self, ahead: ShapedLookahead, tokens: Sequence[int], *, longest: int = _SHORTENED) -> bytes:
        """Return an ending without what can be left out of it; see `recall.shorter`. `ahead` stays where it is."""
        return self.bytes_of(shorter(ahead, tokens, longest=longest))

    def spelled(self, data: bytes) -> Sequence[int] | None:
        """Return the longest tokens that make up bytes; None where that leads nowhere.

        The same ending is asked for at every token of a text, so the last few answers are kept.
        """
        if data not in self._spellings:
            if len(self._spellings) >= _KEPT:
                self._spellings.clear()
            self._spellings[data] = self._split(data)
        return self._spellings[data]

    def spell(self, ahead: ShapedLookahead, data: bytes, most: int) -> list[int] | None:
        """Return the tokens in which bytes would be committed as the ending; None if they cannot. Moves `ahead`."""
        tokens: list[int] = []
        try:
            while True:
                span: Sequence[int] = ahead.forced()
                if not span:
                    if not data:
                        return tokens if self.may_end(ahead) else None
                    span = self.begin(ahead.mask(), data)
                for token in span:
                    piece = self.table.pieces[token]
                    if not data.startswith(piece):
                        return None
                    data = data[len(piece) :]
                    ahead.advance(token)
                    tokens.append(token)
                if not span or len(tokens) > most:
                    return None
        except EngineError:
            return None

    def begin(self, mask: Bits, data: bytes) -> tuple[int, ...]:
        """Return the longest legal token that bytes begin with, alone; nothing if there is none."""
        token = self._longest(data, 0, mask)
        return () if token is None else (token,)

    def may_end(self, ahead: ShapedLookahead) -> bool:
        """Tell whether the reply may end here."""
        return ends(ahead, ())

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of tokens."""
        return b"".join(self.table.pieces[token] for token in tokens)

    def _known(self, texts: Sequence[str]) -> list[int]:
        ids = (self.table.ids.get(text.encode()) for text in texts)
        return list(dict.fromkeys(token for token in ids if token is not None))

    def _shortened(self, ahead: ShapedLookahead, found: list[int] | None) -> list[int] | None:
        """Return an ending, or the shorter one within it in the tokens that would be committed."""
        if found is None or (data := self.shorter(ahead, found, longest=2 * _SHORTENED)) == self.bytes_of(
            found
        ):
            return found
        return self.spell(ahead.copy(), data, len(found)) or found

    def _split(self, data: bytes) -> Sequence[int] | None:
        tokens: list[int] = []
        at = 0
        while at < len(data):
            token = self._longest(data, at)
            if token is None:
                return None
            tokens.append(token)
            at += len(self.table.pieces[token])
        return tokens

    def _longest(self, data: bytes, at: int, mask: Bits | None = None) -> int | None:
        for size in range(min(self.table.longest, len(data) - at), 0, -1):
            token = self.table.ids.get(data[at : at + size])
            if token is not None and (is_legal(mask, token)):
                return token
        return None

    def _pick(self, walk: "_Walk", mask: Bits, way: _Way) -> Sequence[int]:
        """Return what to write at a free choice."""
        repeats = walk.meet(mask)
        if (token := self._likely(walk, mask, repeats, way)) is not None:
            return (token,)
        if span := self._sample(walk, repeats):
            return span
        if count_legal(mask) <= _NARROW:
            return (self._shortest_way(walk, mask),)
        legal = legal_ids(mask)
        letters = [token for token in self._letters if is_legal(mask, token)]
        others = [token for token in self._classes if is_legal(mask, token)]
        others = [*others, *letters] if len(letters) <= _FEW_LETTERS else others
        others = others or legal.tolist()
        rounds, step = divmod(repeats, way.patience + 1)
        if step < way.patience or not repeats:
            legal = legal[legal < self.table.fillers.size]
            best = int(legal[self.table.fillers[legal].argmax()]) if legal.size else -1
            if best >= 0 and self.table.fillers[best] > 1:
                return (best,)
            digit = self._one if walk.place.inside else self._zero
            if digit >= 0 and not repeats and is_legal(mask, digit):
                return (digit,)
        return (others[(rounds if way.patience else repeats) % len(others)],)

    def _sample(self, walk: "_Walk", repeats: int) -> Sequence[int]:
        """Return the first sample that is legal here; at every other repeat one of them, or nothing."""
        if repeats and self._samples:
            tried = [self._samples[repeats // 2 % len(self._samples)]] if repeats % 2 else []
        else:
            tried = self._samples
        spans = (self._taken(walk.ahead.copy(), sample) for sample in tried)
        return next((span for span in spans if span), ())

    def _likely(self, walk: "_Walk", mask: Bits, repeats: int, way: _Way) -> int | None:
        """Return the first legal token of those that end things in JSON."""
        if walk.place.escaped:
            return None
        if walk.place.inside:
            if (token := _first(mask, self._closed)) is not None:
                return token
            token = _first(mask, self._closed_and_on)
            if token not in (None, self._quote) and is_legal(mask, self._quote) and self._may_close(walk):
                return self._quote
            return token
        if not way.json and repeats:
            return None
        # A number may need other digits than zeros; one that is begun needs no more.
        values = [token for token in self._values if token != self._zero] if repeats % 2 else self._values
        on = self._on if way.json else []
        return _first(
            mask, [*self._brackets, *on, *values] if walk.place.digits else [*self._brackets, *values, *on]
        )

    def _may_close(self, walk: "_Walk") -> bool:
        """Tell whether a bracket may close behind the quote that ends this text."""
        ahead = walk.ahead.copy()
        ahead.advance(self._quote)
        return not ahead.forced() and _first(ahead.mask(), self._brackets) is not None

    def _shortest_way(self, walk: "_Walk", mask: Bits) -> int:
        """Return the token behind which the least is forced; repeating a pick costs, which leads recursion out."""
        best, lowest = -1, float("inf")
        for token in legal_ids(mask).tolist():
            step = walk.ahead.copy()
            try:
                step.advance(token)
                cost = self._weight(token) + sum(map(self._weight, step.forced())) + 4 * walk.picked(token)
                if walk.place.inside and not self.table.pieces[token].strip(b"0"):
                    cost += 0.5  # there is no year, month or day 0
            except EngineError:
                continue
            if cost < lowest:
                best, lowest = token, cost
        if best < 0:
            raise ConstraintError("every way is closed")
        walk.pick(best)
        return best

    def _weight(self, token: int) -> int:
        """Return what a token costs on the way out: closing brackets nothing, white space much."""
        piece = self.table.pieces[token]
        if not piece.strip(b"]}"):
            return 0
        return 20 if not piece.strip() else 1

    def _taken(self, ahead: ShapedLookahead, sample: bytes) -> list[int]:
        """Return the tokens of a sample if all of it is legal here. Moves `ahead`."""
        tokens: list[int] = []
        try:
            while sample:
                span = ahead.forced() or self.begin(ahead.mask(), sample)
                if not span:
                    return []
                for token in span:
                    piece = self.table.pieces[token]
                    tokens.append(token)
                    ahead.advance(token)
                    if not sample.startswith(piece):
                        return tokens if piece.startswith(sample) else []
                    sample = sample[len(piece) :]
        except EngineError:
            return []
        return tokens


class _Walk:
    """Where a walk stands, what it has written, and how often it was where."""

    def __init__(self, ahead: ShapedLookahead, table: TokenTable, place: Scan) -> None:
        self.ahead = ahead
        self.place = place
        self.tokens: list[int] = []
        self._table = table
        self._met: dict[bytes, int] = {}
        self._picks: dict[tuple[bytes, int], int] = {}
        self._here = b""

    def advance(self, span: Sequence[int]) -> None:
        for token in span:
            self.ahead.advance(token)
            self.place = self._table.follow(self.place, token)
            self.tokens.append(token)

    def meet(self, mask: Bits) -> int:
        """Return how often this mask was met before. Equal masks need not be equal states: a guess at going round."""
        self._here = mask.tobytes()
        repeats = self._met[self._here] = self._met.get(self._here, -1) + 1
        return repeats

    def picked(self, token: int) -> int:
        return self._picks.get((self._here, token), 0)

    def pick(self, token: int) -> None:
        self._picks[self._here, token] = self.picked(token) + 1


def _first(mask: Bits, tokens: Sequence[int]) -> int | None:
    return next((token for token in tokens if is_legal(mask, token)), None)
