"""What a shape forces, with a mark wherever the model is free: a look at a reply before there is one.

Knows no model: the grammar is walked byte by byte, what it forces is taken, and where several bytes are allowed
one of them is followed so that what comes behind is seen, too. Invariants: what is not marked as free is what the
grammar writes on the way that was followed (white space that a model may add is left out); the walk is bounded, so
an endless shape ends in a mark.
"""

import string
from collections.abc import Iterator
from dataclasses import dataclass

from llguidance import LLMatcher

from grammars.compile import Grammar
from grammars.matcher import pristine
from grammars.schema import read_json
from grammars.spec import ShapeError

_BRANCHES = 8  # alternatives that are written out
_LONGEST = 40  # characters of one alternative
_STEPS = 2_000  # bytes on the way
_CHOICES = 60  # on a way through a grammar that is not JSON; a recursive one takes longer at each step
_PARTS = 200
_DEPTH = 6  # brackets inside one another, below which lists stay empty

_BLANKS = frozenset(b" \t\n\r")
_DIGITS = frozenset(string.digits.encode())
_LETTERS = frozenset(string.ascii_letters.encode())
_NUMBER = _DIGITS | frozenset(b"-+.eE")
_ENDS = frozenset(b",]}")
_FILLERS = (string.ascii_lowercase + string.digits + string.ascii_uppercase).encode()
# The byte that begins a value tells its kind.
_KINDS = {
    "null": frozenset(b"n"),
    "true": frozenset(b"t"),
    "false": frozenset(b"f"),
    "number": _DIGITS | frozenset(b"-"),
    "text": frozenset(b'"'),
    "list": frozenset(b"["),
    "object": frozenset(b"{"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of a reply: the text that is forced, or, where it is `free`, words for what may stand there."""

    text: str
    free: bool


def skeleton(grammar: Grammar) -> tuple[Part, ...]:
    """Return the parts of a reply in their order. Raises ShapeError where a limit of llguidance stops the walk."""
    walk = _JsonWalk(grammar) if grammar.spec.kind == "json_schema" else _Walk(grammar)
    parts: list[tuple[bytes, str]] = []  # what is forced and, behind it, what is free
    for forced, free in walk.parts():
        last = parts[-1] if parts else None
        if last and not last[1]:
            parts[-1] = (last[0] + forced, free)
        elif not (last and not forced and free == last[1]):  # digits after digits are digits
            parts.append((forced, free))
        if len(parts) == _PARTS:
            parts.append((b"", "…"))
            break
    found: list[Part] = []
    for forced, free in parts:
        found += [Part(text=forced.decode(errors="replace"), free=False)] if forced else []
        found += [Part(text=free, free=True)] if free else []
    return tuple(found)


class _Walk:
    """A way through any grammar. `parts` yields bytes that are forced and what is free behind them."""

    def __init__(self, grammar: Grammar) -> None:
        self._spec = grammar.spec
        self._matcher = pristine(grammar.text).deep_copy()
        self._steps = self._choices = 0
        self._half = b""  # of a character

    def parts(self) -> Iterator[tuple[bytes, str]]:
        """Yield until the reply is complete or the walk is long enough."""
        while not self._matcher.is_stopped():
            if forced := self._forced():
                yield forced, ""
            elif self._steps >= _STEPS or self._choices >= _CHOICES:
                yield b"", "…"
                return
            elif allowed := self._allowed():
                self._choices += 1
                plain = {byte for byte in allowed if byte < 0x80}
                if plain and plain <= _DIGITS:
                    words, taken = "digits", _first(allowed, _FILLERS)
                elif len(allowed) > _BRANCHES or len(branches := self._branches(b"")) > _BRANCHES:
                    words = "letters" if plain and plain <= _LETTERS else "text"
                    taken = _first(allowed, _FILLERS)
                else:
                    words, taken = " | ".join(self._shown(data) for data in branches), branches[0]
                yield b"", words
                if self._matcher.is_accepting():
                    return
                self._take(taken)
                self._half = b""
            else:
                return

    def _branches(self, data: bytes) -> list[bytes]:
        """Return the ways to go on, each as far as it is certain; a few too many where there are many."""
        found: list[bytes] = []
        for byte in sorted(self._allowed(self._ahead(data)[1])):
            way, copy = self._ahead(data + bytes([byte]))
            if self._open_end(self._half + way) and not copy.is_stopped():
                found += self._branches(way)
            else:
                found.append(way)
            if len(found) > _BRANCHES:
                break
        return found

    def _shown(self, data: bytes) -> str:
        """Return a way to go on as text, with a mark where it goes on itself."""
        text = (self._half + data).decode(errors="replace")
        if len(text) > _LONGEST:
            return text[:_LONGEST] + "…"
        _, copy = self._ahead(data)
        return text if copy.is_stopped() or copy.is_accepting() else text + "…"

    def _forced(self) -> bytes:
        """Take what is forced from here; half a character at its end waits for the choice of the other."""
        forced = bytes(self._matcher.compute_ff_bytes())
        self._take(forced)
        data = self._half + forced
        self._half = self._open_end(data) if forced else self._half
        return data[: len(data) - len(self._half)] if forced else b""

    def _open_end(self, data: bytes) -> bytes:
        return _half(data)

    def _take(self, data: bytes) -> None:
        self._steps += len(data)
        self._matcher.try_consume_tokens(list(data))
        self._check(self._matcher)

    def _allowed(self, matcher: LLMatcher | None = None) -> frozenset[int]:
        matcher = matcher or self._matcher
        mask = matcher.compute_bitmask()
        self._check(matcher)
        return frozenset(byte for byte in range(256) if mask[byte >> 3] >> (byte & 7) & 1)

    def _ahead(self, data: bytes) -> tuple[bytes, LLMatcher]:
        """Return bytes with those they force, and a matcher that has taken them."""
        copy = self._matcher.deep_copy()
        copy.try_consume_tokens(list(data))
        if not copy.is_stopped():
            forced = bytes(copy.compute_ff_bytes())
            copy.try_consume_tokens(list(forced))
            data += forced
        self._check(copy)
        return data, copy

    @staticmethod
    def _check(matcher: LLMatcher) -> None:
        if matcher.is_error():
            raise ShapeError(matcher.get_error().split("\n", 1)[0])


class _JsonWalk(_Walk):
    """A way through a grammar of JSON: texts and numbers are closed, lists are looked into once."""

    def __init__(self, grammar: Grammar) -> None:
        super().__init__(grammar)
        self._scan = _Scan()
        self._number = False  # a number was just written, and might go on
        self._order = _names(read_json(self._spec.text))

    def parts(self) -> Iterator[tuple[bytes, str]]:
        """Yield until the reply is complete or the walk is long enough."""
        while not self._matcher.is_stopped():
            forced = self._forced()
            if forced:
                yield forced, ""
            elif self._steps >= _STEPS:
                yield b"", "…"
                return
            elif self._scan.inside:
                yield from self._text()
            else:
                allowed = self._allowed() - _BLANKS
                if self._number:
                    allowed &= _ENDS
                self._number = False
                if not allowed:
                    return
                yield from self._place(allowed)

    def _place(self, allowed: frozenset[int]) -> Iterator[tuple[bytes, str]]:
        """Go on from a place between texts and numbers."""
        if len(allowed) == 1:
            yield self._put(*allowed), ""
        elif ord("}") in allowed:  # a further member, or the end
            before = b"," if ord(",") in allowed else b""
            known = self._has_known_names(before)
            yield b"", "optional" if known else "any members"
            yield self._put(_first(allowed, before or b'"')[0] if known else ord("}")), ""
        elif ord("]") in allowed and (allowed <= _ENDS or self._scan.depth > _DEPTH):
            yield b"", "and so on" if allowed <= _ENDS else "a list"
            yield self._put(ord("]")), ""
        else:
            if ord("]") in allowed:
                yield b"", "any number of"
            yield from self._value(allowed - {ord("]")})

    def _value(self, allowed: frozenset[int]) -> Iterator[tuple[bytes, str]]:
        """Say what kinds of value may stand here, and write a short one."""
        kinds = [kind for kind, starts in _KINDS.items() if allowed & starts]
        words = [
            "whole number" if kind == "number" and not self._has_fractions(allowed) else kind
            for kind in kinds
        ]
        if len(kinds) == len(_KINDS):
            words = ["anything"]
        if len(kinds) > 1 or kinds == ["number"]:
            yield b"", " | ".join(words)
        start = _first(allowed & _KINDS[kinds[0]], _FILLERS)
        if kinds[0] in ("list", "object") or kinds == ["text"]:
            yield self._put(start[0]), ""
            return
        yield self._written(kinds[0], start)[1], ""

    def _text(self) -> Iterator[tuple[bytes, str]]:
        """Say what the text that was begun may be, and close it."""
        allowed = self._allowed()
        branches = self._branches(b"") if len(allowed) <= _BRANCHES else []
        branches.sort(key=lambda data: self._order.get(self._word(data), len(self._order)))
        certain = [_end_of_text(self._half + data) is not None or len(data) > 1 for data in branches]
        if any(certain) and len(branches) <= _BRANCHES:
            words = " | ".join(dict.fromkeys(map(self._word, branches)))  # an escape spells the same
            _, rest = self._written("text", branches[0][:1])
        else:
            written, rest = self._written("text", _first(allowed, b'"' + _FILLERS))
            like = f" like {written.decode(errors='replace')[:_LONGEST]}" if len(set(written)) > 1 else ""
            words = f"text{like}"
        yield b"", words
        yield rest, ""

    def _word(self, data: bytes) -> str:
        """Return what a text may be, as far as it is certain."""
        data = self._half + data
        end = _end_of_text(data)
        text = data[:end].decode(errors="replace")
        return f"{text[:_LONGEST]}…" if end is None or len(text) > _LONGEST else text

    def _written(self, kind: str, start: bytes) -> tuple[bytes, bytes]:
        """Write the rest of a text, number or literal; return it and what is forced behind it.

        A text that was begun ends before its closing quote, which then belongs to what is behind.
        """
        begun, half = self._scan.inside, self._half
        self._half = b""
        self._take(start)
        data = start
        while self._steps < _STEPS:
            end = _end_of_value(kind, half + data, begun=begun)
            if end is not None:
                return data[: end - len(half)], data[end - len(half) :]
            forced = b"" if self._matcher.is_stopped() else self._forced()
            if not forced:
                allowed = frozenset() if self._matcher.is_stopped() else self._allowed()
                if kind == "number" and (allowed & _ENDS or self._matcher.is_accepting()):
                    self._number = True
                    return data, b""
                if not allowed:
                    break
                preferred = b'"' + _FILLERS if kind == "text" else string.digits.encode()
                chosen = _first(allowed, preferred)
                self._take(chosen)
                forced, self._half = self._half + chosen, b""
            data += forced
        return data, b""

    def _open_end(self, data: bytes) -> bytes:
        backslashes = len(data) - len(data.rstrip(b"\\"))
        return b"\\" if backslashes % 2 else _half(data)

    def _put(self, byte: int) -> bytes:
        self._take(bytes([byte]))
        return bytes([byte])

    def _take(self, data: bytes) -> None:
        super()._take(data)
        self._scan.read(data)

    def _has_fractions(self, allowed: frozenset[int]) -> bool:
        _, copy = self._ahead(_first(allowed & _DIGITS or allowed & _NUMBER, b"1"))
        return not copy.is_stopped() and ord(".") in self._allowed(copy)

    def _has_known_names(self, before: bytes) -> bool:
        """Tell whether the next member, if there is one, has one of a few names."""
        data, copy = self._ahead(before)
        if b'"' not in data:
            data, copy = self._ahead(data + b'"')
        name = data.partition(b'"')[2]
        if _end_of_text(name) is not None:
            return True
        allowed = self._allowed(copy)
        if len(allowed) > _BRANCHES:
            return False
        ahead = (self._ahead(data + bytes([byte]))[0].partition(b'"')[2] for byte in allowed)
        return all(_end_of_text(rest) is not None for rest in ahead)


class _Scan:
    """Where in a JSON text its end is."""

    def __init__(self) -> None:
        self.inside = False  # a text
        self.depth = 0
        self._escaped = False

    def read(self, data: bytes) -> None:
        for byte in data:
            if self._escaped:
                self._escaped = False
            elif self.inside:
                self._escaped = byte == ord("\\")
                self.inside = byte != ord('"')
            else:
                self.inside = byte == ord('"')
                self.depth += (byte in b"{[") - (byte in b"}]")


def _end_of_value(kind: str, data: bytes, *, begun: bool) -> int | None:
    """Return where a value ends, or None if it may go on."""
    if kind == "text":
        end = _end_of_text(data if begun else data[1:])
        return end if end is None or begun else end + 2
    if kind == "number":
        return next((place for place, byte in enumerate(data) if byte not in _NUMBER), None)
    return len(kind) if len(data) >= len(kind) else None


def _end_of_text(data: bytes) -> int | None:
    """Return the place of the quote that closes a text."""
    escaped = False
    for place, byte in enumerate(data):
        if byte == ord('"') and not escaped:
            return place
        escaped = byte == ord("\\") and not escaped
    return None


def _half(data: bytes) -> bytes:
    """Return the beginning of a character that the end of some bytes is."""
    for length in range(1, min(4, len(data) + 1)):
        byte = data[-length]
        if byte >= 0xC0:
            whole = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return data[-length:] if length < whole else b""
        if byte < 0x80:
            break
    return b""


def _first(allowed: frozenset[int], order: bytes) -> bytes:
    return bytes([next((byte for byte in order if byte in allowed), min(allowed))])


def _names(schema: object) -> dict[str, int]:
    """Return the names of members in the order in which the schema has them."""
    names: dict[str, int] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, dict):
            members = part.get("properties")
            for name in members if isinstance(members, dict) else ():
                names.setdefault(name, len(names))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return names
