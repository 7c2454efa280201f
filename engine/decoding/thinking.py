"""Reasoning before a reply: a processor that lets the model think freely and hands the rest to the shape.

Knows token ids, the spelling of the two markers and an inner processor, which hears nothing of the region; nothing of
templates, text or messages. Four phases: *outside* (no region yet; the model may open one), *free* (inside: only
end-of-turn ids are forbidden), *gap* (behind the end marker: up to four blank tokens that belong to nobody) and *armed*
(everything is the inner processor's). In a shaped reply the first id of the opening marker opens the region, also where
the shape could begin with it: reasoning must not get into a reply.

Invariants: the inner processor's first token is the first one of the reply; no token is part of both sides, so one that
would run over the end marker with something not blank is forbidden; the region ends within its budget, since the end
marker is then forced; a look-ahead goes through all phases as its owner would.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.decoding.loop import LoopDetector
from engine.decoding.masks import count_legal, is_legal
from engine.decoding.processor import Bits, Lookahead, Row, Structured
from engine.decoding.region import Region
from engine.errors import ConstraintError
from engine.markers import Start

LONGEST_GAP = 4
_LONGEST_LEAD = 16
"""Blank bytes in front of an opening marker that a free reply may begin with."""

Part = Literal["undecided", "reasoning", "reply"]
Phase = Literal["outside", "opening", "free", "gap", "armed"]


@dataclass(slots=True, kw_only=True)
class _State:
    """Where a reply stands; the same for an owner and its look-aheads.

    `tail` are the last bytes of the region, or in a free reply outside of one those that may open it. `left` is what
    the region's budget leaves. `written` counts the ids written of a marker that is being forced, None where none is.
    """

    phase: Phase
    tail: bytes
    left: int
    written: int | None
    gap: int
    loops: LoopDetector | None

    def copy(self) -> "_State":
        return _State(
            phase=self.phase,
            tail=self.tail,
            left=self.left,
            written=self.written,
            gap=self.gap,
            loops=None if self.loops is None or self.phase == "armed" else self.loops.copy(),
        )

    @property
    def part(self) -> Part:
        """What the last token belongs to, and all undecided ones before it."""
        if self.phase == "outside":
            return "undecided"
        return "reply" if self.phase == "armed" else "reasoning"


class _Walker:
    """The rules by which a state moves on, over the inner processor or a look-ahead of it."""

    def __init__(self, region: Region, state: _State) -> None:
        self._region = region
        self._state = state

    def forced_marker(self) -> Sequence[int]:
        """Return the rest of a marker that is being forced; empty where none is."""
        state = self._state
        if state.written is None:
            return ()
        markers = self._region.markers
        return (markers.opener if state.phase == "opening" else markers.closer).ids[state.written :]

    def legal(self, inner: Lookahead | None) -> Bits:
        """Return the legal next tokens."""
        region, state = self._region, self._state
        if rest := self.forced_marker():
            return region.bits(np.array(rest[:1], dtype=np.intp))
        if state.phase == "free":
            return region.forbidden(state.tail)[1]
        if inner is None:
            return region.all_bits
        mask = inner.mask()
        if state.phase == "outside":
            opener = region.markers.opener.ids[0]
            mask = mask.copy()
            mask[opener >> 5] |= np.uint32(1) << np.uint32(opener & 31)
        elif state.phase == "gap" and state.gap < LONGEST_GAP:
            mask = mask | region.blank_bits
        return mask

    def step(self, token: int, inner: Lookahead | None) -> bool:
        """Step over a token and return whether it is the inner processor's. Raises `ConstraintError`."""
        state, region = self._state, self._region
        if state.phase == "outside":
            return self._outside(token, shaped=inner is not None)
        if state.phase == "opening":
            self._write(token)
            if state.written == len(region.markers.opener.ids):
                self._enter(b"")
            return False
        if state.phase == "free":
            self._think(token)
            return False
        if state.phase == "gap" and self._is_gap(token, inner):
            state.gap += 1
            return False
        state.phase = "armed"
        return True

    def _outside(self, token: int, *, shaped: bool) -> bool:
        """Step over a token before any region: a shaped reply opens one by an id, a free one by any spelling."""
        state, region = self._state, self._region
        opener = region.markers.opener
        if shaped:
            if token != opener.ids[0]:
                state.phase = "armed"
                return True
            state.phase, state.written = "opening", 1
            if len(opener.ids) == 1:
                self._enter(b"")
            return False
        state.tail += region.spell(token)
        begun = state.tail.lstrip()
        if begun.startswith(opener.pattern):
            self._enter(begun[len(opener.pattern) :])
            return False
        if not opener.pattern.startswith(begun) or len(state.tail) - len(begun) > _LONGEST_LEAD:
            state.phase = "armed"
        return True

    def _enter(self, rest: bytes) -> None:
        """Begin the region; `rest` are its first bytes, where they came with the marker."""
        state = self._state
        state.phase, state.tail = "free", rest
        state.written = None if state.left > 0 else 0
        if self._region.markers.closer.pattern in rest:
            state.phase, state.written = "gap", None

    def _think(self, token: int) -> None:
        state, region = self._state, self._region
        closer = region.markers.closer
        forced = state.written is not None
        if forced:
            self._write(token)
        else:
            state.left -= 1
        tail = state.tail + region.spell(token)
        if closer.pattern in tail:
            state.phase, state.tail, state.written, state.gap = "gap", b"", None, 0
        elif forced and state.written == len(closer.ids):
            raise ConstraintError("the marker that ends the reasoning was written and not recognised")
        else:
            state.tail = tail[-(len(closer.pattern) - 1) :]
            looped = not forced and state.loops is not None and state.loops.add(token)
            if state.written is None and (looped or state.left <= 0):
                state.written = 0

    def _write(self, token: int) -> None:
        """Step over a token of a marker that is being forced."""
        if token != self.forced_marker()[0]:
            raise ConstraintError("a marker of the reasoning was left before its end")
        assert self._state.written is not None
        self._state.written += 1

    def _is_gap(self, token: int, inner: Lookahead | None) -> bool:
        """Tell whether a token behind the region is a blank of nobody: one that the shape does not ask for."""
        if token not in self._region.blanks or self._state.gap >= LONGEST_GAP:
            return False
        return inner is None or not is_legal(inner.mask(), token)


class Thinking(_Walker):
    """Lets the model reason before `inner`, which is None for free replies.

    `start` is where the reply begins. `budget` counts the tokens of the region without its markers; with 0 a region
    ends as it begins. `stop_loops` ends a region that repeats itself.
    """

    def __init__(
        self,
        inner: Structured | None,
        region: Region,
        *,
        start: Start,
        budget: int,
        stop_loops: bool = True,
    ) -> None:
        self._inner = inner
        self._start: Start = start
        self.budget = budget
        self._stop_loops = stop_loops
        self.region = region
        super().__init__(region, self._fresh())
        self.apart = 0
        """Committed tokens that are known not to be the reply's."""
        self._undecided = 0

    @property
    def part(self) -> Part:
        """What the last committed token belongs to, and the undecided ones before it."""
        return self._state.part

    @property
    def spent(self) -> bool:
        """True inside a region whose budget is used up: its end marker is being forced."""
        return self._state.phase == "free" and self._state.left <= 0

    def reset(self) -> None:
        """Start again before the first token of the reply."""
        if self._inner is not None:
            self._inner.reset()
        self._state = self._fresh()
        self.apart = self._undecided = 0

    def process(self, row: Row, history: Sequence[int]) -> None:
        """Set the logits of illegal tokens to -inf."""
        state, region = self._state, self._region
        if state.phase == "armed":
            if self._inner is not None:
                self._inner.process(row, history)
        elif rest := self.forced_marker():
            kept = row[rest[0]]
            row[:] = -np.inf
            row[rest[0]] = kept
        elif state.phase == "free":
            row[region.forbidden(state.tail)[0]] = -np.inf
        elif self._inner is not None:
            also = self._also()
            kept = row[also]
            self._inner.process(row, history)
            row[also] = np.maximum(row[also], kept)

    def admit(self, token: int) -> int:
        """Return the token to commit in place of the chosen one; the inner processor is asked for what is its own."""
        if self._inner is None or self._state.phase in ("opening", "free"):
            return token
        if self._state.phase == "outside" and token == self._region.markers.opener.ids[0]:
            return token
        if self._state.phase == "gap" and self._is_gap(token, self._inner.ahead()):
            return token
        return self._inner.admit(token)

    def commit(self, token: int) -> None:
        """Advance over a committed token."""
        state = self._state
        if state.phase != "armed":
            its = self.step(token, None if self._inner is None else self._inner.ahead())
            if state.phase == "outside":
                self._undecided += 1
            elif not its:
                self.apart += 1 + self._undecided
                self._undecided = 0
            if not its:
                return
        if self._inner is not None:
            self._inner.commit(token)

    def ahead(self) -> "ThinkingLookahead":
        """Open a look-ahead at the current state."""
        inner = None if self._inner is None else self._inner.ahead()
        return ThinkingLookahead(self._region, self._state.copy(), inner)

    def clone(self) -> "Thinking":
        """Return an independent processor in the same state."""
        inner = None if self._inner is None else self._inner.clone()
        twin = Thinking(
            inner, self._region, start=self._start, budget=self.budget, stop_loops=self._stop_loops
        )
        twin._state = self._state.copy()
        twin.apart, twin._undecided = self.apart, self._undecided
        return twin

    def _also(self) -> NDArray[np.intp]:
        """Return what is legal here beside what the inner processor allows."""
        if self._state.phase == "outside":
            return np.array(self._region.markers.opener.ids[:1], dtype=np.intp)
        if self._state.phase == "gap" and self._state.gap < LONGEST_GAP:
            return self._region.blank_ids
        return self._region.blank_ids[:0]

    def _fresh(self) -> _State:
        phases: dict[Start, Phase] = {
            "outside": "outside",
            "inside": "free",
            "behind": "gap",
            "past": "armed",
        }
        return _State(
            phase=phases[self._start],
            tail=b"",
            left=self.budget,
            written=0 if self._start == "inside" and self.budget <= 0 else None,
            gap=0,
            loops=LoopDetector() if self._stop_loops else None,
        )


class ThinkingLookahead(_Walker):
    """A walk from reasoning into the reply."""

    def __init__(self, region: Region, state: _State, inner: Lookahead | None) -> None:
        super().__init__(region, state)
        self._inner = inner

    @property
    def ended(self) -> bool:
        """True when nothing may follow."""
        outside = self._state.phase in ("opening", "free")
        return not outside and self._inner is not None and self._inner.ended

    def forced(self) -> Sequence[int]:
        """Return a span with one legal token at each place; empty at a free choice."""
        if rest := self.forced_marker():
            return rest
        if self._inner is None or self._state.phase == "free":
            return ()
        span = self._inner.forced()
        if self._state.phase == "armed" or not span:
            return span
        return span[:1] if count_legal(self.mask()) == 1 else ()

    def mask(self) -> Bits:
        """Return the legal next tokens."""
        return self.legal(self._inner)

    def advance(self, token: int) -> None:
        """Step over a legal token."""
        if self.step(token, self._inner) and self._inner is not None:
            self._inner.advance(token)

    def copy(self) -> "ThinkingLookahead":
        """Return an independent walk in the same state."""
        inner = None if self._inner is None else self._inner.copy()
        return ThinkingLookahead(self._region, self._state.copy(), inner)
