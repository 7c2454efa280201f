"""Prompt lookup: the reply goes on as the prompt or the conversation went on after the longest text they share.

Holds the suffix automaton, the walk over it and the record of guesses, which the schema memory uses as well. Knows
token ids only. Sources: Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985; SAM-Decoding,
arXiv 2411.10666.

Invariants: a match is an earlier occurrence, never the end of the text itself; every guess is a token that truly
followed the match somewhere; a walk changes nothing. Costs: appending a token is amortised constant, a guess and a
step of a walk take at most `CLIMB` links, whatever the length of the text. Memory: at most `TEXT_TOKENS` tokens of
text and two states a token, 33 MB for prose, and about 48 MB for the worst text known.
"""

from collections.abc import Iterable, Sequence

from engine.decoding.masks import is_legal
from engine.decoding.processor import Bits

TEXT_TOKENS = 65_536
"""The longest text an automaton holds."""

CLIMB = 64
"""How many suffix links one operation follows at most; natural text has about ten to the root."""

_OVERLAP = 32
"""How many known tokens before a branch are read again, so that the match stands where the branch does."""


class SuffixAutomaton:
    """Every substring of a growing text, with the latest place at which it was followed by something.

    Ids below 0 are boundaries: text like any other, but never a continuation. The lists are for reading: `text`, and by
    state `length` (of its longest string), `link` (the state of its longest proper suffix in another state, -1 for the
    root 0) and `latest` (the index in `text` of the token after an occurrence, -1 if nothing follows).

    A string's occurrence at the end of the text also is one of all its suffixes, and a text may have as many of those
    as tokens. `append` notes it in the `CLIMB` longest states only. So `latest` always is a true occurrence, and it is
    the latest one of every state that was among the `CLIMB` longest wherever it occurred.
    """

    __slots__ = ("_last", "_next", "latest", "length", "link", "text")

    def __init__(self) -> None:
        self.text: list[int] = []
        self.length = [0]
        self.link = [-1]
        self.latest = [-1]
        self._next: list[dict[int, int]] = [{}]
        self._last = 0

    def append(self, token: int) -> None:
        """Let the text grow by a token. Amortised constant (Blumer et al.)."""
        follow, link, length, latest = self._next, self.link, self.length, self.latest
        if token >= 0:
            # Only now has the old end of the text a continuation, so that `matched` never finds that end itself.
            at = len(self.text)
            state = self._last
            for _ in range(CLIMB):
                if state <= 0:
                    break
                latest[state] = at
                state = link[state]
        self.text.append(token)
        new = self._new_state(length[self._last] + 1, {}, 0, -1)
        state = self._last
        self._last = new
        while state >= 0 and token not in follow[state]:
            follow[state][token] = new
            state = link[state]
        if state < 0:
            return
        target = follow[state][token]
        if length[target] != length[state] + 1:
            # The shorter strings of `target` have one occurrence more than its longer ones: split them off.
            clone = self._new_state(length[state] + 1, follow[target].copy(), link[target], latest[target])
            link[target] = clone
            while state >= 0 and follow[state].get(token) == target:
                follow[state][token] = clone
                state = link[state]
            target = clone
        link[new] = target

    def matched(self) -> int:
        """Return the state of the longest suffix of the text that also occurs before its end; 0 if none does.

        This is the match of a cursor that moves before the automaton grows: the suffix link of the whole text.
        """
        return max(0, self.link[self._last])

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Return state and length of the longest match after a match (state, length) and one more token."""
        follow = self._next
        for _ in range(CLIMB):
            if token in follow[state]:
                return follow[state][token], length + 1
            state = self.link[state]
            if state < 0:
                return 0, 0
            length = self.length[state]
        state = follow[0].get(token, 0)
        return state, min(state, 1)

    def _new_state(self, length: int, follow: dict[int, int], link: int, latest: int) -> int:
        self.length.append(length)
        self._next.append(follow)
        self.link.append(link)
        self.latest.append(latest)
        return len(self.length) - 1


class Record:
    """How often guesses of a kind were right: a moving average for each kind, begun at a prior."""

    _PRIOR_WEIGHT = 6
    _SLOWEST = 1 / 32

    def __init__(self, priors: Iterable[float]) -> None:
        self._p = list(priors)
        self._heard = [0] * len(self._p)

    def p(self, kind: int) -> float:
        """Return the probability that a guess of this kind is right."""
        return self._p[kind]

    def learn(self, kinds: Sequence[int], submitted: int, accepted: int) -> None:
        """Hear that of guesses in a row the first `submitted` were verified and the first `accepted` were right.

        The first wrong guess is the last one that tells something: what follows it was guessed for another text.
        """
        judged = min(submitted, accepted + 1, len(kinds))
        for place in range(judged):
            kind = kinds[place]
            self._heard[kind] += 1
            rate = max(1 / (self._PRIOR_WEIGHT + self._heard[kind]), self._SLOWEST)
            self._p[kind] += rate * ((place < accepted) - self._p[kind])


class Choices:
    """Which tokens of a growing text were chosen: those that were forced are no evidence that a match goes on."""

    def __init__(self) -> None:
        self.counts = [0]
        """How many of the first n tokens were chosen, by n."""

    def add(self, count: int, *, certain: bool) -> None:
        """Hear of tokens that were chosen, or of certain ones."""
        chosen = self.counts[-1]
        if certain:
            self.counts += [chosen] * count
        else:
            self.counts += range(chosen + 1, chosen + 1 + count)

    def keep(self, count: int) -> None:
        """Forget all but the last `count` tokens."""
        self.counts = self.counts[-1 - count :]  # walks keep the old one


_FREE = (0.1, 0.17, 0.45, 0.8, 0.95, 0.97, 0.98)
_MASKED = (0.85, 0.5, 0.75, 0.91, 0.95, 0.97, 0.98)
"""By chosen tokens in the match, without and with a mask, which weeds out most of what is wrong.

Measured with a 135M model on records, lists, prose, extraction and code edits: one token 0.14 without a mask and 0.55
with one, two to three tokens 0.45 and 0.75, from eight on 0.95 and more in both. Where all of the match was forced,
most masks leave a few tokens that open a value, and what opened the last one is right.
"""


def record_by_evidence() -> Record:
    """Return a record by chosen tokens in a match, 0, 1, 2-3, 4-7 and so on to 32 and more, without and with a mask."""
    return Record((*_FREE, *_MASKED))


class MatchWalk:
    """A walk that guesses what followed the latest occurrence of the match. `kinds` are those of followed guesses.

    `choices` are those of the text before the walk. A token before which no guess was asked for is a certain one.
    """

    def __init__(
        self, automaton: SuffixAutomaton, state: int, length: int, choices: Choices, record: Record
    ) -> None:
        self.kinds: list[int] = []
        self._automaton = automaton
        self._state = state
        self._length = length
        self._before = choices.counts
        self._stands = len(self._before) - 1
        self._path = [0]
        self._record = record
        self._guessed: tuple[int, int] | None = None

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        """Return the continuation of the longest match that has a legal one, and its probability.

        None once more of that match was guessed than known: a short match gives few tokens, a long one many.
        """
        text, latest, link, lengths = (
            self._automaton.text,
            self._automaton.latest,
            self._automaton.link,
            self._automaton.length,
        )
        state, length = self._state, self._length
        self._guessed = (-1, 0)
        refused = -1
        for _ in range(CLIMB):
            if length <= 2 * len(self.kinds):
                return None
            at = latest[state]
            token = text[at] if at >= 0 else refused
            if token != refused:
                if is_legal(mask, token):
                    break
                refused = token
            state = link[state]
            length = lengths[state]
        else:
            return None
        evidence = self._evidence(length)
        if self.kinds and evidence <= 2 * len(self.kinds):
            return None
        kind = min(evidence.bit_length(), len(_FREE) - 1)
        if mask is not None:
            kind += len(_FREE)
        self._guessed = (token, kind)
        return token, self._record.p(kind)

    def advance(self, token: int) -> None:
        """Step over a token; one that the match never went on with shortens the match."""
        self._path.append(self._path[-1] + (self._guessed is not None))
        if self._guessed is not None and token == self._guessed[0] >= 0:
            self.kinds.append(self._guessed[1])
        self._guessed = None
        self._state, self._length = self._automaton.step(self._state, self._length, token)

    def _evidence(self, length: int) -> int:
        """Return how many of the last `length` tokens were chosen."""
        path, before = self._path, self._before
        earlier = length - (len(path) - 1)
        if earlier <= 0:
            return path[-1] - path[-1 - length]
        return path[-1] + before[self._stands] - before[max(0, self._stands - earlier)]


class SuffixSource:
    """Guesses from prompt and conversation, across turns.

    `limit` bounds the text in tokens; at the bound the source starts again from the newest half of it. The last
    `template` tokens of a prompt count as forced: they end every prompt, so a match with them is no evidence.
    """

    name = "suffix"
    wants_topk = False

    def __init__(self, limit: int = TEXT_TOKENS, *, template: int = 10) -> None:
        self._limit = limit
        self._template = template
        self._automaton = SuffixAutomaton()
        self._choices = Choices()
        self._turn: list[int] = []
        self._record = record_by_evidence()
        self._walk: MatchWalk | None = None

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a turn: learn what is new in the prompt since the prefix that it shares with the last turn."""
        common = _common_prefix(self._turn, prompt)
        fresh = common
        if common < len(self._turn):
            self._learn((-1,))
            fresh = max(0, common - _OVERLAP)
        del self._turn[common:]
        self._remember_turn(prompt[common:])
        content = max(fresh, len(prompt) - self._template)
        self._learn(prompt[fresh:content])
        self._learn(prompt[content:], certain=True)
        self._walk = None

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        """Learn from committed tokens."""
        self._remember_turn(tokens)
        self._learn(tokens, certain=certain)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        """Learn nothing: only what was committed is text."""

    def walk(self) -> MatchWalk:
        """Open a walk at the end of what was observed."""
        state = self._automaton.matched()
        length = self._automaton.length[state]
        self._walk = MatchWalk(self._automaton, state, length, self._choices, self._record)
        return self._walk

    def feedback(self, submitted: int, accepted: int) -> None:
        """Update the record from the guesses of the last walk."""
        if self._walk is not None:
            self._record.learn(self._walk.kinds, submitted, accepted)
            self._walk = None

    def _remember_turn(self, tokens: Sequence[int]) -> None:
        self._turn.extend(tokens[: max(0, self._limit - len(self._turn))])

    def _learn(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        self._choices.add(len(tokens), certain=certain)
        if len(self._automaton.text) + len(tokens) > self._limit:
            tokens = [*self._automaton.text, *tokens]
            tokens = tokens[len(tokens) - self._limit // 2 :]
            self._choices.keep(len(tokens))
            self._automaton = SuffixAutomaton()
        append, text = self._automaton.append, self._automaton.text
        for token in tokens:
            # A boundary occurs once, so nothing that crosses it ever matches.
            append(int(token) if token >= 0 else ~len(text))


def _common_prefix(known: Sequence[int], wanted: Sequence[int]) -> int:
    for place, (left, right) in enumerate(zip(known, wanted, strict=False)):
        if left != right:
            return place
    return min(len(known), len(wanted))
