"""Schema memory: a reply goes on as earlier replies under the same shape did.

Knows token ids only; which replies are given, and how much of their text, is the caller's business. The match begins
with the reply: prompts are no part of it. Invariants, costs and the source of the automaton stand in `suffix`; the
text of the replies is bounded by `TEXT_TOKENS` tokens.
"""

from collections.abc import Sequence

from engine.drafting.suffix import TEXT_TOKENS, Choices, MatchWalk, SuffixAutomaton, record_by_evidence

_OPENING = -1
"""Stands in front of every reply, and for the match before the first token of a new one."""

_Reply = tuple[int, ...]


class SchemaMemory:
    """Guesses from earlier replies under the shape of the turn. `limit` bounds them in tokens."""

    name = "memory"
    wants_topk = False

    def __init__(self, limit: int = TEXT_TOKENS) -> None:
        self._limit = limit
        self._held: list[_Reply] = []
        self._automaton = SuffixAutomaton()
        self._choices = Choices()
        self._record = record_by_evidence()
        self._state = self._length = 0
        self._walk: MatchWalk | None = None

    def remember(self, replies: Sequence[Sequence[int]]) -> None:
        """Take the earlier replies of this turn's shape, oldest first, and begin a reply.

        Where they go on from what is held, the new ones are added, and those that the caller no longer sends stay
        until the bound; else what is held is given up. At the bound, and for a new shape, only the newest that fit
        into half of it are kept. A reply longer than that is cut at its end.
        """
        # An id below 0 would be a boundary inside a reply.
        wanted = [tuple(int(token) for token in reply if token >= 0) for reply in replies]
        added = _added(self._held, wanted)
        if added is None or len(self._automaton.text) + _size(added) > self._limit:
            self._automaton, self._held = SuffixAutomaton(), []
            added = _newest(wanted, self._limit // 2)
        for reply in added:
            self._automaton.append(_OPENING)
            for token in reply:
                self._automaton.append(token)
        self._held += added
        self.begin(())

    def begin(self, prompt: Sequence[int]) -> None:
        """Stand before the first token of a reply, whatever the prompt."""
        self._state, self._length = self._automaton.step(0, 0, _OPENING)
        self._choices = Choices()
        self._choices.add(self._length, certain=False)
        self._walk = None

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Follow the reply; nothing is learned before it is complete and remembered."""
        self._choices.add(len(tokens), certain=certain)
        for token in tokens:
            self._state, self._length = self._automaton.step(self._state, self._length, token)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Learn nothing: only replies are remembered."""

    def walk(self) -> MatchWalk:
        """Open a walk at the end of what was observed."""
        self._walk = MatchWalk(self._automaton, self._state, self._length, self._choices, self._record)
        return self._walk

    def feedback(self, submitted: int, accepted: int) -> None:
        """Update the record from the guesses of the last walk."""
        if self._walk is not None:
            self._record.learn(self._walk.kinds, submitted, accepted)
            self._walk = None


def _added(held: list[_Reply], wanted: list[_Reply]) -> list[_Reply] | None:
    """Return what stands in `wanted` after the last one held, or None if the two differ before it."""
    if not held or held[-1] not in wanted:
        return None
    upto = len(wanted) - wanted[::-1].index(held[-1])
    shared = min(upto, len(held))
    return wanted[upto:] if wanted[upto - shared : upto] == held[-shared:] else None


def _newest(replies: list[_Reply], room: int) -> list[_Reply]:
    kept: list[_Reply] = []
    for reply in reversed(replies):
        reply = reply[: max(0, room - 1)] if not kept else reply
        room -= len(reply) + 1
        if room < 0:
            break
        kept.append(reply)
    return kept[::-1]


def _size(replies: list[_Reply]) -> int:
    return sum(len(reply) + 1 for reply in replies)
