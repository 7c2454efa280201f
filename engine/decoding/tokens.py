"""What the bytes of a vocabulary's tokens say to guards and landing; computed once a vocabulary.

Knows bytes and ids, nothing of grammars. Tokens without bytes (control tokens, padding) belong to no class.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.decoding.processor import Bits
from engine.vocabulary import Vocabulary

_DIGITS = b"0123456789"
_BLANKS = b" \t\n\r"
_PLAIN = re.compile(rb"[A-Za-z0-9 ]+")
_LONG_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{3}")


class TokenTable:
    """Classes of tokens as packed bits of the shape of a mask, and the spellings behind them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.pieces = [vocabulary.piece(token) for token in range(vocabulary.size)]
        self.end_ids = vocabulary.end_ids
        self.ids: dict[bytes, int] = {}
        """The first token of each spelling."""
        for token, piece in enumerate(self.pieces):
            if piece and token not in self.end_ids:
                self.ids.setdefault(piece, token)
        self.longest = max(map(len, self.ids), default=0)
        """Bytes of the longest token."""
        self._words = (vocabulary.tokenizer.vocab_size + 31) // 32
        self._digits = self._runs(_DIGITS)
        self._blanks = self._runs(_BLANKS)
        self.most_digits = int(self._digits.max(initial=0))
        """The longest run of digits that a token begins with."""
        self.most_blanks = int(self._blanks.max(initial=0))
        self._from: dict[tuple[str, int], Bits] = {}
        self._scans: dict[tuple[int, bool, bool, bool], Scan] = {}
        self._rises = [self._rise_bits(inside=False), self._rise_bits(inside=True)]
        self.most_rise = max(map(len, self._rises))
        """The most brackets that a token opens at once."""
        self.long_exponents = self._long_exponents()
        """Tokens with an exponent of three digits or more; None if there are none."""
        self.ends = self.pack(self.end_ids)
        """The tokens that end a generation."""
        self.unquoted = self.pack(
            token
            for token, piece in enumerate(self.pieces)
            if piece and not (b'"' in piece and scan(piece, inside=True).crosses)
        )
        """Tokens that, begun inside a JSON string, do not close it."""
        self.fillers = self._plain_sizes()
        """By token: how many characters it adds to a text if it is plain (letters, digits, blanks), 0 for others."""

    def scan(self, token: int, inside: bool, escaped: bool = False, exponent: bool = False) -> "Scan":
        """Return what a token does to a reader of JSON, remembered; see `scan`."""
        key = (token, inside, escaped, exponent)
        found = self._scans.get(key)
        if found is None:
            found = self._scans[key] = scan(
                self.pieces[token], inside=inside, escaped=escaped, exponent=exponent
            )
        return found

    def follow(self, place: "Scan", token: int) -> "Scan":
        """Return the place behind a token; its runs are those of that token alone."""
        return self.scan(token, place.inside, place.escaped)

    def pack(self, tokens: Iterable[int]) -> Bits:
        """Return a mask with the bits of these tokens set."""
        flags = np.zeros(self._words * 32, dtype=np.bool_)
        flags[list(tokens)] = True
        return np.packbits(flags, bitorder="little").view(np.uint32)

    def digits(self, count: int) -> Bits:
        """Return the tokens that begin with at least so many digits."""
        return self._beginning("digits", self._digits, count)

    def blanks(self, count: int) -> Bits:
        """Return the tokens that begin with at least so many blanks."""
        return self._beginning("blanks", self._blanks, count)

    def rising(self, inside: bool, levels: int) -> Bits | None:
        """Return the tokens that open more than so many brackets, from inside a JSON string or outside; None if none.

        Brackets in strings do not count.
        """
        bits = self._rises[inside]
        return bits[levels] if levels < len(bits) else None

    def _plain_sizes(self) -> NDArray[np.int32]:
        sizes = np.zeros(len(self.pieces), dtype=np.int32)
        for piece, token in self.ids.items():
            if _PLAIN.fullmatch(piece):
                sizes[token] = len(piece)
        return sizes

    def _runs(self, alphabet: bytes) -> NDArray[np.uint8]:
        """Return how many bytes of the alphabet each token begins with, at most 255."""
        lengths = (len(piece) - len(piece.lstrip(alphabet)) for piece in self.pieces)
        return np.fromiter((min(255, length) for length in lengths), dtype=np.uint8, count=len(self.pieces))

    def _beginning(self, name: str, runs: NDArray[np.uint8], count: int) -> Bits:
        bits = self._from.get((name, count))
        if bits is None:
            bits = self._from[name, count] = self.pack(np.flatnonzero(runs >= count).tolist())
        return bits

    def _long_exponents(self) -> Bits | None:
        found = [token for token, piece in enumerate(self.pieces) if _LONG_EXPONENT.search(piece)]
        return self.pack(found) if found else None

    def _rise_bits(self, *, inside: bool) -> list[Bits]:
        rises = {
            token: rise
            for token, piece in enumerate(self.pieces)
            if (b"{" in piece or b"[" in piece) and (rise := scan(piece, inside=inside).rise)
        }
        return [
            self.pack(token for token, rise in rises.items() if rise > levels)
            for levels in range(max(rises.values(), default=0))
        ]


class Scan(NamedTuple):
    """What a token's bytes do to a reader of JSON.

    Runs are those at the token's end; `length` counts the characters of the string it ends in. `crosses` is True if
    the token opened or closed a string, so that `length` does not add to what was there before.
    """

    inside: bool
    escaped: bool
    crosses: bool
    length: int
    digits: int
    exponent: bool
    blanks: int
    depth: int
    rise: int
    size: int


def scan(piece: bytes, *, inside: bool, escaped: bool = False, exponent: bool = False) -> Scan:
    """Read the bytes of one token, from inside a string (perhaps behind a backslash) or outside.

    `exponent` is True behind the `e` of a number.
    """
    crosses = False
    length = digits = blanks = depth = rise = 0
    for byte in piece:
        blanks = blanks + 1 if byte in _BLANKS else 0
        if byte == 0x22 and not escaped:
            inside, crosses, length, digits, exponent = not inside, True, 0, 0, False
        elif inside:
            escaped = byte == 0x5C and not escaped
            length += byte & 0xC0 != 0x80
        elif byte in _DIGITS:
            digits += 1
        else:
            exponent = byte in b"eE" or (byte in b"+-" and exponent and not digits)  # a sign keeps it one
            digits = 0
            depth += (byte in b"{[") - (byte in b"]}")
            rise = max(rise, depth)
    return Scan(inside, escaped, crosses, length, digits, exponent, blanks, depth, rise, len(piece))


START = scan(b"", inside=False)
"""Where every reply begins."""

_tables: "WeakKeyDictionary[Vocabulary, TokenTable]" = WeakKeyDictionary()


def token_table(vocabulary: Vocabulary) -> TokenTable:
    """Return the table of a vocabulary, made on first use."""
    table = _tables.get(vocabulary)
    if table is None:
        table = _tables[vocabulary] = TokenTable(vocabulary)
    return table
