"""A grammar as a processor: llguidance's matcher behind the `Structured` contract.

Knows one vocabulary and one grammar. State only goes forward: never `rollback()` or `reset()` (their bias cache
outlives them in llguidance 1.5.1 and later), every fresh start is a deep copy of a pristine matcher. An error of the
matcher is raised, never taken for freedom. One legal token is forced; the mask and the span agree on it.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from engine.decoding.processor import Bits, Row
from engine.errors import ConstraintError
from grammars.compile import LIMITS, Grammar

LONGEST_SPAN = 4096
"""Forced spans are walked in pieces of at most this many tokens, so that a grammar cannot hold the engine."""


class Constraint:
    """Restricts replies to a grammar.

    `end_ids` are the vocabulary's end-of-generation ids. `notice` hears a sentence when the constraint had to be
    rebuilt without forcing. Raises `ConstraintError` if the grammar does not compile for this vocabulary.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokenizer: LLTokenizer,
        end_ids: Collection[int],
        notice: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._grammar = grammar
        self._tokenizer = tokenizer
        self._end_ids = frozenset(end_ids)
        self.notice = notice
        self._pristine = _matcher(tokenizer, grammar.text)
        self.reset()

    def reset(self) -> None:
        """Start again from a fresh copy of the pristine matcher."""
        self._matcher = self._pristine.deep_copy()
        self._buffer = _MaskBuffer(self._tokenizer.vocab_size)
        self._committed: list[int] = []

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Set the logits of illegal tokens to -inf. Raises `ConstraintError`."""
        bits = self._buffer.fill(self._matcher)
        count = self._tokenizer.vocab_size
        legal = np.unpackbits(bits.view(np.uint8), count=count, bitorder="little").view(np.bool_)
        np.copyto(row[:count], -np.inf, where=~legal)
        row[count:] = -np.inf

    def admit(self, token: int) -> int:
        """Return the token: whatever the mask leaves is admitted."""
        return token

    def commit(self, token: int) -> None:
        """Advance over a committed token.

        If the matcher refuses a token that its own mask allowed (llguidance issue 366), it is rebuilt from what was
        committed, without forcing. Raises `ConstraintError` if that does not help either.
        """
        if not self._matcher.consume_token(token):
            self._rebuild(token)
        self._committed.append(token)

    def ahead(self) -> "ConstraintLookahead":
        """Open a look-ahead at the current state."""
        return ConstraintLookahead(self._matcher.deep_copy(), self._buffer.sibling(), self._end_ids)

    def clone(self) -> "Constraint":
        """Return an independent constraint in the same state."""
        twin = object.__new__(Constraint)
        twin._grammar = self._grammar
        twin._tokenizer = self._tokenizer
        twin._end_ids = self._end_ids
        twin.notice = self.notice
        twin._pristine = self._pristine
        twin._matcher = self._matcher.deep_copy()
        twin._buffer = self._buffer.sibling()
        twin._committed = list(self._committed)
        return twin

    def _rebuild(self, token: int) -> None:
        reason = self._matcher.get_error()
        matcher = _matcher(self._tokenizer, self._grammar.without_forcing().text)
        if not matcher.consume_tokens([*self._committed, token]):
            raise ConstraintError(
                f"the constraint refused a token that it had allowed: {_first_line(reason)}"
            )
        self._matcher = matcher
        self.notice(
            "The constraint was rebuilt without forced spans, because it refused a token it had allowed."
        )


class ConstraintLookahead:
    """A walk over a copy of a constraint's matcher."""

    def __init__(self, matcher: LLMatcher, buffer: "_MaskBuffer", end_ids: frozenset[int]) -> None:
        self._matcher = matcher
        self._buffer = buffer
        self._end_ids = end_ids

    @property
    def ended(self) -> bool:
        """True when the grammar is complete and nothing but an end marker may follow. Raises `ConstraintError`."""
        if self._matcher.is_stopped():
            _raise_error(self._matcher)
            return True
        if not self._matcher.is_accepting():
            return False
        only = self._buffer.fill(self._matcher)
        count = int(np.bitwise_count(only).sum())
        return count <= len(self._end_ids) and set(_set_bits(only)) <= self._end_ids

    def forced(self) -> Sequence[int]:
        """Return the span with exactly one legal token at each place, at most `LONGEST_SPAN` long."""
        matcher = self._matcher.deep_copy()
        span: list[int] = []
        while len(span) < LONGEST_SPAN and not matcher.is_stopped():
            found = matcher.compute_ff_tokens()
            if not found:
                bits = self._buffer.fill(matcher)
                if int(np.bitwise_count(bits).sum()) != 1:
                    break
                found = _set_bits(bits)
                if found[0] in self._end_ids:
                    break
            taken = matcher.try_consume_tokens(found)
            if taken < len(found):  # the owner will meet the same refusal, and rebuild
                span.extend(found[: taken + 1])
                break
            span.extend(found)
        return span

    def mask(self) -> Bits:
        """Return the legal next tokens; the array is reused. Raises `ConstraintError`."""
        return self._buffer.fill(self._matcher)

    def advance(self, token: int) -> None:
        """Step over a legal token. Raises `ConstraintError` if it is not."""
        if not self._matcher.consume_token(token):
            _raise_error(self._matcher)


class _MaskBuffer:
    """One mask and its address; computing the address for every mask would cost more than the mask."""

    __slots__ = ("_address", "_bits", "_bytes", "_size")

    def __init__(self, vocab_size: int) -> None:
        self._size = vocab_size
        self._bits: Bits = np.zeros((vocab_size + 31) // 32, dtype=np.uint32)
        self._address = self._bits.ctypes.data
        self._bytes = self._bits.nbytes

    def fill(self, matcher: LLMatcher) -> Bits:
        matcher.unsafe_compute_mask_ptr(self._address, self._bytes)
        if matcher.is_error():
            _raise_error(matcher)
        return self._bits

    def sibling(self) -> "_MaskBuffer":
        return _MaskBuffer(self._size)


def _matcher(tokenizer: LLTokenizer, text: str) -> LLMatcher:
    matcher = LLMatcher(tokenizer, text, log_level=0, limits=LIMITS)
    _raise_error(matcher)
    return matcher


def _raise_error(matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise ConstraintError(_first_line(matcher.get_error()))


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0] or "the grammar library reported an error"


def _set_bits(bits: NDArray[np.uint32]) -> list[int]:
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
