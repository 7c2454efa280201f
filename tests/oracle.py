"""Brute-force masks: which tokens may follow, told by recognisers of another make than the grammar library.

A recogniser knows a language as text and answers two questions about bytes: can they begin a word (`viable`), are they
one (`complete`). Three makes: enumerated words, the package `regex` with `partial=True`, and the package `lark` fed
character by character. A token is legal where what is written plus its bytes is viable; an end marker where what is
written is complete. Half characters are viable where some character that begins so is.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from random import Random
from typing import Protocol

import lark
import numpy as np
import regex
from llguidance import LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

_CONTROLS = (b"<|end|>", b"<|eot|>", b"<|user|>")
_ENDS = 2  # of the controls, how many end a generation


class Recogniser(Protocol):
    """Tells about prefixes of a language."""

    def viable(self, data: bytes) -> bool:
        """Tell whether some word begins with these bytes."""
        ...

    def complete(self, data: bytes) -> bool:
        """Tell whether these bytes are a word."""
        ...


class Enumerated:
    """A finite language, word by word."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(word.encode() for word in words)
        self._prefixes = {word[:size] for word in self.words for size in range(len(word) + 1)}

    def viable(self, data: bytes) -> bool:
        return data in self._prefixes

    def complete(self, data: bytes) -> bool:
        return data in self.words


class _Characters(ABC):
    """Carries answers about text over to bytes. `_known` are characters that the language tells apart."""

    _known: frozenset[str] = frozenset()

    @abstractmethod
    def _viable_text(self, text: str) -> bool:
        """Tell whether a text begins a word of the language."""

    def viable(self, data: bytes) -> bool:
        split = _split(data)
        if split is None:
            return False
        text, tail = split
        if not self._viable_text(text):
            return False
        return not tail or any(self._viable_text(text + sign) for sign in _samples(tail, self._known))


class Pattern(_Characters):
    """A regular language, by the package `regex`.

    The pattern may tell characters beyond ASCII apart by naming them or through `\\d` and `\\s`, not by ranges.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = regex.compile(pattern)
        self._known = frozenset(sign for sign in pattern if not sign.isascii())
        self._answers = lru_cache(maxsize=None)(self._search)

    def _viable_text(self, text: str) -> bool:
        return self._answers(text)

    def _search(self, text: str) -> bool:
        return self._pattern.fullmatch(text, partial=True) is not None

    def complete(self, data: bytes) -> bool:
        split = _split(data)
        return split is not None and not split[1] and self._pattern.fullmatch(split[0]) is not None


class CharacterGrammar(_Characters):
    """A context-free language, by the package `lark`: an LALR parser that takes characters as its tokens.

    `terminal` names the terminal of a character. An LALR parser never takes a token after which no word is left.
    """

    def __init__(self, text: str, characters: Iterable[str]) -> None:
        parser = lark.Lark(text, parser="lalr")
        self._known = frozenset(characters)
        self._states = {"": parser.parse_interactive("")}

    @staticmethod
    def terminal(sign: str) -> str:
        return f"T{ord(sign)}"

    def _viable_text(self, text: str) -> bool:
        return self._state(text) is not None

    def _state(self, text: str):
        if text not in self._states:
            state = self._state(text[:-1])
            if state is not None:
                state = state.copy()
                try:
                    state.feed_token(lark.Token(self.terminal(text[-1]), text[-1]))
                except lark.UnexpectedInput:
                    state = None
            self._states[text] = state
        return self._states[text]

    def complete(self, data: bytes) -> bool:
        split = _split(data)
        state = None if split is None or split[1] else self._state(split[0])
        if state is None:
            return False
        try:
            state.copy().feed_eof()
        except lark.UnexpectedInput:
            return False
        return True


class SmallVocabulary:
    """Byte tokens, other pieces, and three control tokens of which two end a generation; the longest match wins."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        more = dict.fromkeys(piece for piece in pieces if len(piece) > 1)
        self.pieces = [bytes((byte,)) for byte in range(256)] + list(more)
        self.end_ids = frozenset(range(len(self.pieces), len(self.pieces) + _ENDS))
        self._ids = {piece: token for token, piece in enumerate(self.pieces)}
        self._longest = max(map(len, self.pieces))
        self._root: _Node = {}
        for token, piece in enumerate(self.pieces):
            node = self._root
            for byte in piece:
                node = node.setdefault(byte, {})
            node[-1] = token
        self.tokenizer = LLTokenizer(TokenizerWrapper(_Wrapped(self)), eos_token=sorted(self.end_ids))

    fingerprint = "small"

    @property
    def size(self) -> int:
        return len(self.pieces) + len(_CONTROLS)

    def piece(self, token: int) -> bytes:
        return self.pieces[token] if token < len(self.pieces) else b""

    def text(self, tokens: Sequence[int]) -> str:
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    def tokenize(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        ids: list[int] = []
        while data:
            longest = range(min(self._longest, len(data)), 0, -1)
            size = next(size for size in longest if data[:size] in self._ids)
            ids.append(self._ids[data[:size]])
            data = data[size:]
        return ids

    def legal(self, recogniser: Recogniser, written: bytes) -> set[int]:
        """Return the ids that may follow, end markers included."""
        found = set(self.end_ids) if recogniser.complete(written) else set()
        waiting = [(written, self._root)]
        while waiting:
            data, node = waiting.pop()
            for byte, child in node.items():
                if byte == -1:
                    found.add(child)  # type: ignore[arg-type]
                elif recogniser.viable(longer := data + bytes((byte,))):
                    waiting.append((longer, child))
        return found


_Node = dict[int, "_Node | int"]


class _Wrapped:
    """What `TokenizerWrapper` asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, vocabulary: SmallVocabulary) -> None:
        self.tokens = [*vocabulary.pieces, *_CONTROLS]
        self.eos_token_id = len(vocabulary.pieces)
        self.special_token_ids = list(range(len(vocabulary.pieces), len(self.tokens)))
        self._vocabulary = vocabulary

    def __call__(self, data: bytes | str) -> list[int]:
        return self._vocabulary.tokenize(data)


_CROSSING = (
    '{"', '":', '": ', '":"', '": "', '","', '", "', '",', ',"', ', "', '"}', '"]', '["', '[{"', '"},{"', '}}', ']]',
    '},', '],', ']}', '{}', '[]', '""', ':"', ':[', ':{', ':[{"', '":[', '":{"', '":true', ':null', ',null', 'true,',
    'true}', 'false', 'null', '0]', '1,', '1}', '2,', ',1', ',-', '":1', '":-', '.0', '.5', 'e+', 'e-1', '-1',
    '\\"', '\\n', '\\u', '\\u00', '\\\\', '"\\', '\n', '\n ', '\n    ', '  ', ' "', ' {', '}\n',
)  # fmt: skip
_SIGNS = "éüßñЖд中文日語ก٣😀🎉👍"


def small_vocabulary(seed: int, size: int, samples: Sequence[str] = ()) -> SmallVocabulary:
    """Return a vocabulary of `size` pieces: bytes, tokens across JSON's punctuation, parts of characters, and cuts.

    Cuts are pieces of `samples`, texts that the languages at hand are likely to hold.
    """
    dice = Random(seed)
    pieces: dict[bytes, None] = {}

    def add(found: Iterable[bytes], room: int) -> None:
        for piece in found:
            if room and len(piece) > 1 and piece not in pieces:
                pieces[piece] = None
                room -= 1

    room = size - 256
    crossing = [text.encode() for text in _CROSSING]
    add(dice.sample(crossing, len(crossing)), room * 4 // 10)
    add(_parts_of_characters(dice), room * 2 // 10)
    if samples:
        add(_cuts(dice, samples), room - len(pieces))
    alphabet = 'abcdefnrtu0123456789-."{}[]:, '
    add(
        ("".join(dice.choices(alphabet, k=dice.randint(2, 4))).encode() for _ in range(10 * size)),
        room - len(pieces),
    )
    return SmallVocabulary(pieces)


def _parts_of_characters(dice: Random) -> Iterator[bytes]:
    for _ in range(400):
        data = "".join(dice.choices(_SIGNS + 'ab" ', k=2)).encode()
        start = dice.randrange(len(data) - 1)
        yield data[start : start + dice.randint(2, 5)]


def _cuts(dice: Random, samples: Sequence[str]) -> Iterator[bytes]:
    for _ in range(4_000):
        data = dice.choice(samples).encode()
        start = dice.randrange(len(data))
        yield data[start : start + dice.randint(2, 7)]


def ids(bits: NDArray[np.uint32]) -> set[int]:
    """Return the ids of a mask."""
    return set(np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist())


def forced_bytes(recogniser: Recogniser, written: bytes, longest: int) -> bytes:
    """Return what must follow, byte by byte, up to a length."""
    data = written
    while len(data) - len(written) < longest and not recogniser.complete(data):
        after = [longer for byte in range(256) if recogniser.viable(longer := data + bytes((byte,)))]
        if len(after) != 1:
            break
        data = after[0]
    return data[len(written) :]


def shortest_ending(vocabulary: SmallVocabulary, language: Enumerated, written: bytes) -> int:
    """Return the least number of tokens that complete a word of a finite language."""
    pieces = set(vocabulary.pieces)
    longest = max(map(len, pieces))

    def tokens(data: bytes) -> int:
        counts = [0]
        for end in range(1, len(data) + 1):
            starts = range(max(0, end - longest), end)
            counts.append(1 + min(counts[start] for start in starts if data[start:end] in pieces))
        return counts[-1]

    return min(tokens(word[len(written) :]) for word in language.words if word.startswith(written))


def _split(data: bytes) -> tuple[str, bytes] | None:
    """Return the text of the bytes and the half character at their end; None if they begin no text."""
    for size in range(min(4, len(data) + 1)):
        tail = data[len(data) - size :]
        try:
            text = data[: len(data) - size].decode()
        except UnicodeDecodeError:
            continue
        return (text, tail) if not tail or _range(tail) else None
    return None


@cache
def _range(tail: bytes) -> range:
    """Return the code points whose UTF-8 begins with these bytes; empty for what begins none."""
    lead = tail[0]
    size = 2 if 0xC2 <= lead <= 0xDF else 3 if 0xE0 <= lead <= 0xEF else 4 if 0xF0 <= lead <= 0xF4 else 0
    if len(tail) >= size or any(not 0x80 <= byte <= 0xBF for byte in tail[1:]):
        return range(0)
    point = lead & (0xFF >> (size + 1))
    for byte in tail[1:]:
        point = point << 6 | byte & 0x3F
    missing = 6 * (size - len(tail))
    first, last = point << missing, ((point + 1) << missing) - 1
    first = max(first, (0, 0, 0x80, 0x800, 0x10000)[size])
    last = min(last, 0x10FFFF)
    if 0xD800 <= first <= 0xDFFF:
        first = 0xE000
    if 0xD800 <= last <= 0xDFFF:
        last = 0xD7FF
    return range(first, last + 1)


@cache
def _classes() -> tuple[frozenset[str], frozenset[str]]:
    """Return digits and white space beyond ASCII."""
    everything = "".join(map(chr, (*range(0x80, 0xD800), *range(0xE000, 0x110000))))
    return frozenset(regex.findall(r"\d", everything)), frozenset(regex.findall(r"\s", everything))


@cache
def _samples(tail: bytes, known: frozenset[str]) -> tuple[str, ...]:
    """Return characters that begin with the tail: one of each class that a language may tell apart."""
    points = _range(tail)
    found = [sign for sign in known if ord(sign) in points]
    special = known.union(*_classes())
    for group in _classes():
        found += [sign for sign in group if ord(sign) in points and sign not in known][:1]
    found += [
        chr(point) for point in points[:2_000] if chr(point) not in special and not 0xD800 <= point < 0xE000
    ][:1]
    return tuple(found)
