"""Keeping what people write from being read as special tokens while a template works on it.

A character that could take part in a special token's text is replaced by a private-use character that
occurs nowhere else; after rendering it is put back. Nothing is inserted, so lengths and trimming stay as
they are. Replaced are punctuation marks that begin or end a special text (so that no template can make one
out of contents by cutting and joining), the beginning of every special text, and the edges of contents that
could complete one together with what the template writes beside them. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from engine.specials import Special

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_UNCHANGED = (
    "aZ"  # cased and no palindrome, so that a template which changes text does not leave a place intact
)


class DisguiseError(ValueError):
    """The contents use so many private-use characters that none is left."""


class Guard:
    """The special texts that contents must not become; characters of `taken` are not used for disguise."""

    def __init__(self, specials: Sequence[Special], *, taken: str) -> None:
        texts = [special.text for special in specials]
        self._taken = taken + "".join(texts)
        self._longest = max(map(len, texts), default=0)
        self._joined = "\0".join(texts)
        self._heads = {text[:size] for text in texts for size in range(1, len(text))}
        self._tails = {text[-size:] for text in texts for size in range(1, len(text))}
        ends = {text[0] for text in texts} | {text[-1] for text in texts}
        self._marks = re.compile(_any_of(mark for mark in ends if not mark.isalnum() and not mark.isspace()))
        self._starts = re.compile(f"(?={_any_of(texts)})")
        # Control tokens are not matched in plain text; user-defined ones are and must be cut.
        self._cut = re.compile(
            f"(?={_any_of(s.text for s in specials if not s.control and len(s.text) > 1)})"
        )

    def disguise(self, contents: Sequence[str]) -> "Disguise":
        """Return a disguise whose characters occur in no content. It raises `DisguiseError` if they leave none."""
        return Disguise(self, set(self._taken).union(*contents))

    def positions(self, content: str) -> set[int]:
        """Return where characters of a content must be replaced."""
        found = {match.start() for match in self._marks.finditer(content)}
        found.update(match.start() for match in self._starts.finditer(content))
        core = content.strip()
        start = content.find(core)
        for text, at in ((content, 0), (core, start)):  # a template may trim
            if text and len(text) < self._longest and text in self._joined:
                found.add(at)
            for size in range(1, min(self._longest, len(text) + 1)):
                if text[:size] in self._tails:
                    found.add(at)
                if text[-size:] in self._heads:
                    found.add(at + len(text) - size)
        return found

    def broken(self, text: str, disguise: "Disguise") -> list[str]:
        """Take off the disguise; cut behind the first character of user-defined texts that come back."""
        plain = disguise.off(text)
        if plain == text:
            return [text]
        cuts = [0, *sorted({match.start() + 1 for match in self._cut.finditer(plain)}), len(plain)]
        pieces = [plain[begin:end] for begin, end in pairwise(cuts)]
        return [piece for piece in pieces if piece]


class Disguise:
    """The replacements of one rendering, and marked places for what is put in later."""

    def __init__(self, guard: Guard, taken: set[str]) -> None:
        self._guard = guard
        self._free = (char for char in map(chr, chain(*_PRIVATE_USE)) if char not in taken)
        self._place = self._character()
        self._places = re.compile(f"{self._place}([0-9]+){_UNCHANGED}{self._place}")
        self._chosen: dict[str, str] = {}
        self._original: dict[int, str] = {}

    def content(self, content: str) -> str:
        """Return a content disguised."""
        characters = list(content)
        for position in self._guard.positions(content):
            characters[position] = self._replacement(characters[position])
        return "".join(characters)

    def off(self, text: str) -> str:
        """Return a text with the original characters."""
        return text.translate(self._original)

    def place(self, number: int) -> str:
        """Return a text that marks a place."""
        return f"{self._place}{number}{_UNCHANGED}{self._place}"

    def displaced(self, text: str, numbers: set[int]) -> set[int]:
        """Return the numbers whose place is not in the text exactly once; all if their order changed."""
        found = [int(match[1]) for match in self._places.finditer(text)]
        if text.count(self._place) != 2 * len(found):
            return set(numbers)
        missing = {number for number in numbers if found.count(number) != 1}
        return missing or (set(numbers) if found != sorted(found) else set())

    def segments(self, text: str) -> Iterator[str | int]:
        """Yield the texts between places and the numbers of the places, in order."""
        for index, part in enumerate(self._places.split(text)):
            if index % 2:
                yield int(part)
            elif part:
                yield part

    def _replacement(self, character: str) -> str:
        if character not in self._chosen:
            self._chosen[character] = self._character()
            self._original[ord(self._chosen[character])] = character
        return self._chosen[character]

    def _character(self) -> str:
        try:
            return next(self._free)
        except StopIteration:
            raise DisguiseError("the messages use every private-use character") from None


def _any_of(texts: Iterable[str]) -> str:
    """Return a pattern that matches any of the texts, longest first; nothing if there are none."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or "(?!)"
