"""A grammar as a processor: llguidance's matcher behind the `Structured` contract.

Knows one vocabulary and one grammar. State only goes forward: never `rollback()` or `reset()` (their bias cache
outlives them in llguidance 1.5.1 and later), every fresh start is a deep copy of a pristine matcher. An error of the
matcher is raised, never taken for freedom. One legal token is forced; the mask and the span agree on it.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from engine.decoding.masks import legal_ids, only_legal
from engine.decoding.processor import Bits, Row
from engine.errors import AllTokensMasked, ConstraintError
from grammars.compile import Grammar
from grammars.matcher import limits


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
        self._state = _State(self._pristine.deep_copy(), _Mask(), self._tokenizer.vocab_size)
        self._committed: list[int] = []

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Set the logits of illegal tokens to -inf. Raises `ConstraintError`."""
        bits = self._state.mask().bits
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
        if not self._state.advance(token):
            self._rebuild(token)
        self._committed.append(token)

    def ahead(self) -> "ConstraintLookahead":
        """Open a look-ahead at the current state."""
        return ConstraintLookahead(self._state.copy(), self._end_ids)

    def clone(self) -> "Constraint":
        """Return an independent constraint in the same state."""
        twin = object.__new__(Constraint)
        twin._grammar = self._grammar
        twin._tokenizer = self._tokenizer
        twin._end_ids = self._end_ids
        twin.notice = self.notice
        twin._pristine = self._pristine
        twin._state = self._state.copy()
        twin._committed = list(self._committed)
        return twin

    def _rebuild(self, token: int) -> None:
        reason = self._state.matcher.get_error()
        matcher = _matcher(self._tokenizer, self._grammar.without_forcing().text)
        if not matcher.consume_tokens([*self._committed, token]):
            raise ConstraintError(
                f"the constraint refused a token that it had allowed: {_first_line(reason)}"
            )
        self._state = _State(matcher, _Mask(), self._tokenizer.vocab_size)
        self.notice(
            "The constraint was rebuilt without forced spans, because it refused a token it had allowed."
        )


class ConstraintLookahead:
    """A walk over a copy of a constraint's matcher."""

    def __init__(self, state: "_State", end_ids: frozenset[int]) -> None:
        self._state = state
        self._end_ids = end_ids

    @property
    def ended(self) -> bool:
        """True when the grammar is complete and nothing but an end marker may follow. Raises `ConstraintError`."""
        matcher = self._state.matcher
        if matcher.is_stopped():
            _raise_error(matcher)
            return True
        if not matcher.is_accepting():
            return False
        mask = self._state.mask()
        if np.count_nonzero(mask.bits) > len(self._end_ids):
            return False
        return self._end_ids.issuperset(legal_ids(mask.bits).tolist())

    def forced(self) -> Sequence[int]:
        """Return a span with exactly one legal token at each place; empty at a free choice."""
        if self._state.matcher.is_stopped():
            return ()
        mask = self._state.mask()  # shared and needed at a free place anyway
        if mask.only is None:
            return ()
        if span := self._state.matcher.compute_ff_tokens():
            return span
        return () if mask.only in self._end_ids else (mask.only,)

    def mask(self) -> Bits:
        """Return the legal next tokens. Raises `ConstraintError`."""
        return self._state.mask().bits

    def follow(self, tokens: Sequence[int]) -> int:
        """Return how many tokens may follow, the end of the reply counting as one; see `ShapedLookahead`."""
        matcher = self._state.matcher
        if matcher.is_stopped():
            return int(not tokens and not matcher.is_error())
        # On a copy, because what asks the matcher about a future may leave something behind in it.
        return matcher.deep_copy().validate_tokens([*tokens, min(self._end_ids)])

    def advance(self, token: int) -> None:
        """Step over a legal token. Raises `ConstraintError` if it is refused."""
        if not self._state.advance(token):
            _raise_error(self._state.matcher)

    def copy(self) -> "ConstraintLookahead":
        """Return an independent walk at the same place; the masks it computes are its own."""
        return ConstraintLookahead(self._state.copy(apart=True), self._end_ids)


class _Mask:
    """The mask of one state, computed at most once and never changed after.

    `after` is the mask behind the token that some matcher went on with from here: what a look-ahead computed is
    there when its owner follows the same way.
    """

    __slots__ = ("after", "bits", "only")

    bits: Bits
    only: int | None

    def __init__(self) -> None:
        self.after: tuple[int, _Mask] | None = None

    def twin(self) -> "_Mask":
        """Return the same mask without a way on, for walks that its owner is not likely to follow."""
        twin = _Mask()
        if hasattr(self, "bits"):
            twin.bits, twin.only = self.bits, self.only
        return twin


class _State:
    """A matcher and the mask of where it stands; a copy shares the mask until one of them moves on."""

    __slots__ = ("_mask", "_vocab_size", "matcher")

    def __init__(self, matcher: LLMatcher, mask: _Mask, vocab_size: int) -> None:
        self.matcher = matcher
        self._mask = mask
        self._vocab_size = vocab_size

    def copy(self, *, apart: bool = False) -> "_State":
        mask = self._mask.twin() if apart else self._mask
        return _State(self.matcher.deep_copy(), mask, self._vocab_size)

    def advance(self, token: int) -> bool:
        if self._mask.after is None or self._mask.after[0] != token:
            self._mask.after = (token, _Mask())
        self._mask = self._mask.after[1]
        return self.matcher.consume_token(token)

    def mask(self) -> _Mask:
        mask = self._mask
        if not hasattr(mask, "bits"):
            bits = np.empty((self._vocab_size + 31) // 32, dtype=np.uint32)
            self.matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
            _raise_error(self.matcher)
            mask.only = only_legal(bits)
            mask.bits = bits
        return mask


def _matcher(tokenizer: LLTokenizer, text: str) -> LLMatcher:
    matcher = LLMatcher(tokenizer, text, log_level=0, limits=limits())
    _raise_error(matcher)
    return matcher


def _raise_error(matcher: LLMatcher) -> None:
    if not matcher.is_error():
        return
    reason = _first_line(matcher.get_error())
    if reason.startswith("NoExtension"):  # the library's word for it; its stop reason is only InternalError
        raise AllTokensMasked("no token fits the shape here: it leads into a dead end")
    large = (
        "too many" in reason or "too large" in reason
    )  # met only while writing, since states are made as needed
    hint = "; the shape is too large to follow, as with repetitions inside repetitions" if large else ""
    raise ConstraintError(f"the constraint failed: {reason}{hint}")


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0] or "the grammar library reported an error"
