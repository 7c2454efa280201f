"""Several draft sources as one: asked in the order of their gain, muted when they lose, cut off when they fail.

Knows sources by name, what became of their guesses and what they spend on them; of a forward only its seconds and the
acceptance that pays. Invariants: a guess is accounted to the source that made it; a source that raises is never called
again and never ends a turn; while a source loses, or takes rows or forwards for guesses that nobody takes, its probes
cost a bounded number of guesses at distances that double.

The stream itself tells whether a guess was right, also one that was never submitted. Sources hear of those too, so
that one whose guesses are declined can still learn that they are better than it thought.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.decoding.processor import Bits
from engine.drafting.source import DraftSource, Spender, Walk
from engine.errors import Aborted

_log = logging.getLogger(__name__)

_EVIDENCE = 8.0
"""Verified guesses before a source is judged."""
_MEMORY = 0.9
"""Share of the record that outlives one walk."""
_IDLE = 8
"""Walks in a row without a guess that was taken, after which a source gets no rows and no forwards."""
_FIRST_MUTE = 8
_LONGEST_MUTE = 512

_HOPELESS = 0.05
"""A walk ends where its guesses so far are less likely than this: no row behind them pays."""

_Answer = TypeVar("_Answer")


@dataclass(slots=True, eq=False)
class _Member:
    """A source, its totals, its recent record and its punishment."""

    source: DraftSource
    walks: int = 0
    submitted: int = 0
    accepted: int = 0
    mutes: int = 0
    gain: float = 0.0
    recent_submitted: float = 0.0
    recent_accepted: float = 0.0
    recent_spent: float = 0.0
    asked: int = 0
    spender: Spender | None = None
    before_s: float = 0.0
    charged_s: float = 0.0
    idle: int = 0
    level: int = 0
    muted_until: int = 0
    broken: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.source, Spender):
            self.spender = self.source
            self.before_s = self.source.seconds

    def call(self, ask: Callable[[], _Answer]) -> _Answer | None:
        """Return the source's answer; None if it fails, which ends its part for good."""
        if self.broken:
            return None
        try:
            return ask()
        except Aborted:
            raise
        except Exception:  # a source may fail in any way, and the reply does not need it
            self.broken = True
            self.mutes += 1
            _log.exception("the draft source %r failed and is not asked again", self.source.name)
            return None

    @property
    def spent_s(self) -> float:
        """Seconds of forwards of its own, for this cascade so far."""
        return 0.0 if self.spender is None else self.spender.seconds - self.before_s

    def hear(self, submitted: int, accepted: int, plain_s: float, now: int, pays: float) -> None:
        """Account a walk; mute the source when its recent guesses cost more than they save.

        What it has spent on the walk counts in plain forwards, which take `plain_s`.
        """
        spent = self.spent_s
        cost, self.charged_s = (spent - self.charged_s) / plain_s, spent
        self.idle = 0 if submitted else self.idle + 1
        if self.idle >= _IDLE and (self.source.wants_topk or self.spender is not None):
            self._mute(now)
            return
        if not submitted and not cost:
            return
        self.submitted += submitted
        self.accepted += accepted
        self.gain += (1 - _MEMORY) * (accepted - pays * submitted - cost - self.gain)
        self.recent_submitted = _MEMORY * self.recent_submitted + submitted
        self.recent_accepted = _MEMORY * self.recent_accepted + accepted
        self.recent_spent = _MEMORY * self.recent_spent + cost
        if self.recent_submitted + self.recent_spent < _EVIDENCE:
            return
        if self.recent_accepted >= pays * self.recent_submitted + self.recent_spent:
            self.level = 0
        else:
            self._mute(now)

    def _mute(self, now: int) -> None:
        self.mutes += 1
        self.muted_until = now + min(_FIRST_MUTE << self.level, _LONGEST_MUTE)
        self.level = min(self.level + 1, 16)
        self.idle = 0
        # The probe is judged by itself.
        self.recent_submitted = self.recent_accepted = self.recent_spent = 0.0


class Cascade:
    """A source made of others; at equal gain the earlier one is asked first.

    `pays` tells the acceptance at which a guess costs what it saves: at each place the sources are asked in order until
    one is surer than that; if none is, the likeliest guess is taken. The source that guessed last is asked first at the
    next place. `plain_s` tells the seconds of a forward without guesses, which a source that has forwards of its own
    must save. Names must differ (`ValueError`).
    """

    name = "cascade"

    def __init__(
        self,
        sources: Sequence[DraftSource],
        *,
        pays: Callable[[], float] = lambda: 0.5,
        plain_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        if len({source.name for source in sources}) < len(sources):
            raise ValueError("draft sources need names that differ")
        self._members = [_Member(source) for source in sources]
        self._pays = pays
        self._plain_s = plain_s
        self._walks = 0
        self._last: _CascadeWalk | None = None

    @property
    def wants_topk(self) -> bool:
        """True while a source that is asked wants the likeliest successors."""
        return any(member.source.wants_topk for member in self._members if self._awake(member))

    @property
    def muted(self) -> bool:
        """True if a muted source might have had a guess for the last walk."""
        return any(not member.broken and member.muted_until > self._walks for member in self._members)

    def begin(self, prompt: Sequence[int]) -> None:
        """Tell every source that a turn starts."""
        self._settle(0, 0)
        for member in self._members:
            member.call(lambda source=member.source: source.begin(prompt))

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Tell every source; muted ones learn on."""
        if self._last is not None:
            self._last.compare(tokens)
        for member in self._members:
            member.call(lambda source=member.source: source.observe(tokens, certain=certain))

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Tell the sources that want it."""
        for member in self._members:
            if member.source.wants_topk and self._awake(member):
                member.call(lambda source=member.source: source.observe_topk(token, successors))

    def walk(self) -> Walk:
        """Open a walk over the sources that are not muted."""
        self._settle(0, 0)
        self._walks += 1
        awake = [member for member in self._members if self._awake(member)]
        awake.sort(key=lambda member: -member.gain)
        self._last = _CascadeWalk(awake, self._pays(), self._plain_s())
        return self._last

    def feedback(self, submitted: int, accepted: int) -> None:
        """Share out what became of the last walk's guesses, in the order in which they were made."""
        self._settle(submitted, accepted)

    def _awake(self, member: _Member) -> bool:
        return member.muted_until <= self._walks and not member.broken

    def _settle(self, submitted: int, accepted: int) -> None:
        """Tell the sources of the last walk what the stream, or the decoder, has verified of their guesses."""
        walk, self._last = self._last, None
        if walk is None:
            return
        makers = [(by[0],) for by in walk.guesses]
        own = {member: (count, good) for member, count, good in _shares(makers, submitted, accepted)}
        for member in walk.asked:
            member.hear(*own.get(member, (0, 0)), walk.plain_s, self._walks, walk.pays)
        seen, right = max(submitted, walk.seen), max(accepted, walk.right)
        for member, count, good in _shares(walk.guesses, seen, right):
            member.call(lambda source=member.source, count=count, good=good: source.feedback(count, good))

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return by source: walks it had a part in, guesses submitted and accepted, their ratio, and mutes."""
        return {
            member.source.name: {
                "walks": member.walks,
                "submitted": member.submitted,
                "accepted": member.accepted,
                "acceptance": member.accepted / member.submitted if member.submitted else 0.0,
                "mutes": member.mutes,
            }
            for member in self._members
        }


def _shares(
    guesses: Sequence[Sequence[_Member]], verified: int, right: int
) -> list[tuple[_Member, int, int]]:
    """Return by member how many of the verified guesses were its own, and how many of those were right."""
    shares: dict[_Member, list[int]] = {}
    for place, members in enumerate(guesses[:verified]):
        for member in members:
            share = shares.setdefault(member, [0, 0])
            share[0] += 1
            share[1] += place < right
    return [(member, count, good) for member, (count, good) in shares.items()]


class _CascadeWalk:
    """One walk over several; the inner walks are opened and moved only when they are asked."""

    def __init__(self, members: Sequence[_Member], pays: float, plain_s: float) -> None:
        self.guesses: list[tuple[_Member, ...]] = []
        """By guess that was walked over: who made it, then who was asked and had the same."""
        self.seen = 0
        """Guesses that the stream has reached, up to the first that was wrong."""
        self.right = 0
        """How many of those were right."""
        self.plain_s = plain_s
        self.pays = pays
        self._members = list(members)
        self._walks: dict[_Member, tuple[Walk, int]] = {}
        self._path: list[int] = []
        self._places: list[int] = []
        self._agreed: tuple[_Member, ...] = ()
        self._p = 1.0
        self._reached = 1.0
        self._compared = 0

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        self._agreed = ()
        if self._reached < _HOPELESS:
            return None
        best: tuple[int, float] | None = None
        asked: list[tuple[_Member, int]] = []
        for member in self._members:
            if self._too_dear(member):
                continue
            guess = member.call(lambda member=member: self._ask(member, mask))
            if guess is None:
                continue
            if best is None or guess[1] > best[1]:
                best = guess
                asked.insert(0, (member, guess[0]))
            else:
                asked.append((member, guess[0]))
            if guess[1] >= self.pays:
                break
        if best is not None:
            self._agreed = tuple(member for member, token in asked if token == best[0])
            self._p = best[1]
        return best

    def advance(self, token: int) -> None:
        agreed, self._agreed = self._agreed, ()
        if agreed:
            owner = agreed[0]
            self._reached *= self._p
            owner.walks += all(owner is not members[0] for members in self.guesses)
            self.guesses.append(agreed)
            self._places.append(len(self._path))
            if self._members[0] is not owner:
                self._members.remove(owner)
                self._members.insert(0, owner)
        self._path.append(token)
        for member in agreed:  # at once, so that it knows which of its guesses were walked over
            member.call(lambda member=member: self._opened(member))

    def compare(self, tokens: Sequence[int]) -> None:
        """Follow the stream along the path, as far as they are the same."""
        for token in tokens:
            if self._compared >= len(self._path):
                return
            same = self._path[self._compared] == token
            if self.seen < len(self._places) and self._places[self.seen] == self._compared:
                self.seen += 1
                self.right += same
            self._compared = self._compared + 1 if same else len(self._path)

    @property
    def asked(self) -> Iterable[_Member]:
        """Who was asked for guesses."""
        return self._walks.keys()

    def _too_dear(self, member: _Member) -> bool:
        """Tell whether even a sure guess here would not save what its source spends on one."""
        if member.spender is None or self._reached == 1.0 or not member.asked:
            return False
        return self._reached < self.pays + member.spent_s / member.asked / self.plain_s

    def _ask(self, member: _Member, mask: Bits | None) -> tuple[int, float] | None:
        member.asked += 1
        guess = self._opened(member).guess(mask)
        return None if guess is None else (int(guess[0]), float(guess[1]))

    def _opened(self, member: _Member) -> Walk:
        """Return the source's own walk, moved to where this one stands."""
        walk, at = self._walks.get(member) or (member.source.walk(), 0)
        for token in self._path[at:]:
            walk.advance(token)
        self._walks[member] = (walk, len(self._path))
        return walk
