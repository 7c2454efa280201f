"""The decode loop: forced spans without a forward, drafts verified in one batch, one place that chooses.

Knows token ids, rows of logits and one context; nothing of text, shapes or messages. Invariants: the stream is token
for token what one forward a token gives; every token is committed once; at every yield the cache holds a prefix of
the history, also when the consumer leaves early.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.decoding.processor import Row, Structured
from engine.decoding.sampler import Sampler
from engine.decoding.streams import Streams
from engine.drafting.constrained import Draft, cross
from engine.drafting.cost import Gate
from engine.drafting.recycling import top_successors
from engine.drafting.source import DraftSource, NoDrafts
from engine.errors import Aborted
from engine.events import Finish, Origin

LONGEST_DRAFT = 16


class Context(Protocol):
    """A model with its key-value cache, real or fake."""

    length: int
    """Positions in all."""
    batch: int
    """The largest number of tokens in one `decode`."""

    @property
    def tokens(self) -> list[int]:
        """What is in the cache; not to be changed."""
        ...

    @property
    def can_rollback(self) -> bool:
        """True if the memory can drop a tail; found by a probe."""
        ...

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[Row]:
        """Append tokens; return the rows of logits at the `wanted` indices, valid until the next decode."""
        ...

    def keep(self, count: int) -> int:
        """Drop what follows the first `count` tokens; return how many are left, 0 if a tail cannot be dropped."""
        ...

    def abort(self) -> None:
        """Make the running and every later `decode` raise `Aborted`; safe from any thread."""
        ...

    def clear_abort(self) -> None:
        """Let `decode` work again."""
        ...

    def twin(self, length: int) -> "Context":
        """Return an empty context of the same model, with a length and an abort flag of its own."""
        ...

    def streams(self, count: int, length: int) -> Streams:
        """Return an empty cache for `count` sequences of at least `length` positions, aborted together with this."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


class Committed(NamedTuple):
    """A token of the reply. `allowed` counts the ids that were legal at a free choice; None where all were.

    From a token on that a processor put in the place of the chosen one, the origin is `landed`.
    """

    token: int
    origin: Origin
    allowed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Prompt tokens in the cache so far."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round committed; empty when it only chose the end marker."""

    tokens: tuple[Committed, ...]


@dataclass(slots=True, kw_only=True)
class Figures:
    """Counts and seconds of one reply, filled while it is decoded."""

    forced: int = 0
    sampled: int = 0
    drafted: int = 0
    accepted: int = 0
    forwards: int = 0
    landed: int = 0
    choices: int = 0
    masked: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0


class Decoder:
    """Decodes one reply.

    `gate` decides how much of a draft is worth its rows; without one whole drafts are submitted. A context that
    cannot take tokens back gets no guesses.

    `sampler.history` is the prompt, of which `context.tokens` must be a prefix; what is taken before `run` belongs to
    the reply. `watch` is asked after every token of the reply and may end it. `apart` counts the tokens so far that
    the budget does not. `finish` says how it ended once `run` is exhausted.
    """

    def __init__(
        self,
        context: Context,
        sampler: Sampler,
        *,
        structure: Structured | None,
        source: DraftSource,
        gate: Gate | None = None,
        end_ids: AbstractSet[int],
        budget: int,
        watch: Callable[[int], Finish | None] = lambda _token: None,
        apart: Callable[[], int] = lambda: 0,
    ) -> None:
        self.finish: Finish | None = None
        self.figures = Figures()
        self._context = context
        self._sampler = sampler
        self._structure = structure
        self._source = source if context.can_rollback else NoDrafts()
        self._gate = gate
        self._end_ids = end_ids
        self._budget = budget
        self._watch = watch
        self._apart = apart
        self._landing = False
        self._prompt = len(sampler.history)
        self._round: list[Committed] = []

    def run(self) -> Iterator[Round | Reading]:
        """Yield rounds until the reply ends; an abort ends it as `cancelled`.

        Raises what the processors and the context raise, after what was committed before has been yielded.
        """
        self._source.begin(self._sampler.history)
        try:
            while self.finish is None:
                self._take_forced()
                if self._round:
                    yield self._close_round()
                if self.finish is None and len(self._sampler.history) > self._context.length:
                    self.finish = "context_full"
                if self.finish is None:
                    if len(self._context.tokens) >= len(self._sampler.history):
                        self._context.keep(len(self._sampler.history) - 1)
                    yield from self._read_batches()
                    self._forward_and_verify()
                    yield self._close_round()
        except Exception as error:  # also what nobody foresaw: what was committed is told first
            if self._round:
                yield self._close_round()
            if not isinstance(error, Aborted):
                raise
            self.finish = "cancelled"

    def _close_round(self) -> Round:
        committed, self._round = tuple(self._round), []
        return Round(tokens=committed)

    def _take_forced(self) -> None:
        """Commit everything the structure forces, then see whether it is complete."""
        started = time.perf_counter()
        while self._structure is not None and self.finish is None:
            ahead = self._structure.ahead()
            span = ahead.forced()
            if not span:
                if ahead.ended:
                    self.finish = "stop"
                break
            for token in span:
                self._sampler.take(token)
                self._record(Committed(token, "forced", None))
                if self.finish is not None:
                    break
        self.figures.decode_s += time.perf_counter() - started

    def _read_batches(self) -> Iterator[Reading]:
        """Read what is pending in whole batches, leaving at most one batch for the forward that chooses."""
        history = self._sampler.history
        while len(history) - len(self._context.tokens) > self._context.batch:
            at = len(self._context.tokens)
            self._forward(history[at : at + self._context.batch], ())
            if at < self._prompt:
                yield Reading(done=min(len(self._context.tokens), self._prompt), total=self._prompt)

    def _forward_and_verify(self) -> None:
        """Read what is pending and a draft in one forward; choose row by row; drop what was not accepted."""
        at = len(self._context.tokens)
        pending = self._sampler.history[at:]
        draft = self._draft(len(pending))
        wanted = [
            len(pending) - 1 + place
            for place in range(len(draft) + 1)
            if place == len(draft) or not draft[place].certain
        ]
        rows = iter(self._forward(pending + [drafted.token for drafted in draft], wanted))
        started = time.perf_counter()
        try:
            self._verify(draft, rows)
        finally:
            self._drop_rejected(at + len(pending))
            self.figures.decode_s += time.perf_counter() - started

    def _forward(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[Row]:
        """Run one forward and count it: as prompt reading if it reads any of the prompt, else as decoding."""
        reads_prompt = len(self._context.tokens) < self._prompt
        started = time.perf_counter()
        rows = self._context.decode(tokens, wanted)
        seconds = time.perf_counter() - started
        if reads_prompt:
            self.figures.prefill_s += seconds
        else:
            self.figures.forwards += 1
            self.figures.decode_s += seconds
            if self._gate is not None:
                self._gate.learn(len(tokens), len(wanted), seconds)
        return rows

    def _draft(self, pending: int) -> list[Draft]:
        room = min(
            LONGEST_DRAFT,
            self._context.batch - pending,
            self._context.length - len(self._sampler.history),
            self._budget - self._reply_length() - 1,
        )
        if room <= 0:
            return []
        ahead = None if self._structure is None else self._structure.ahead()
        started = time.perf_counter()
        least = 0.0 if self._gate is None else self._gate.least(pending, room)
        draft = cross(self._source.walk(), ahead, room, least=least)
        if self._gate is not None:
            draft = draft[: self._gate.choose(draft, pending)]
        self.figures.decode_s += time.perf_counter() - started
        return draft

    def _verify(self, draft: Sequence[Draft], rows: Iterator[Row]) -> None:
        """Sample and compare: row i is sampled after the rows before it; the first mismatch is the correction."""
        submitted = accepted = 0
        for drafted in [*draft, None]:
            if drafted is not None and drafted.certain:
                self._sampler.take(drafted.token)
                self._record(Committed(drafted.token, "forced", None))
                matched = True
            elif drafted is None and draft and self._leaves_no_choice():
                break  # the draft ended with the reply, or was cut inside a forced span
            else:
                row = next(rows)
                if self._source.wants_topk:
                    self._source.observe_topk(self._sampler.history[-1], top_successors(row))
                token = self._sampler.next(row)
                matched = drafted is not None and token == drafted.token
                submitted += drafted is not None
                accepted += matched
                self._record(Committed(token, "accepted" if matched else "sampled", self._sampler.allowed))
            if self.finish is not None or not matched:
                break
        self.figures.drafted += submitted
        if submitted:
            self._source.feedback(submitted, accepted)

    def _record(self, committed: Committed) -> None:
        """Count a token that was just committed, and apply the stop rules to it."""
        token, origin, _ = committed
        figures = self.figures
        if origin != "forced":
            figures.choices += 1
            figures.masked += self._sampler.masked
            self._landing = self._landing or self._sampler.replaced
            if token in self._end_ids:
                self.finish = "stop"
                return
        if self._landing:
            figures.landed += 1
            committed = committed._replace(origin="landed")
        elif origin == "forced":
            figures.forced += 1
        elif origin == "accepted":
            figures.accepted += 1
        else:
            figures.sampled += 1
        self._round.append(committed)
        self._source.observe((token,), certain=origin == "forced")
        self.finish = self._watch(token)
        if self.finish is None and self._reply_length() >= self._budget and not self._complete():
            self.finish = "length"

    def _leaves_no_choice(self) -> bool:
        if self._structure is None:
            return False
        ahead = self._structure.ahead()
        return ahead.ended or len(ahead.forced()) > 0

    def _complete(self) -> bool:
        return self._structure is not None and self._structure.ahead().ended

    def _reply_length(self) -> int:
        return len(self._sampler.history) - self._prompt - self._apart()

    def _drop_rejected(self, certain: int) -> None:
        """Leave in the cache only what the history also holds: `certain` tokens and what was accepted after them."""
        tokens, history = self._context.tokens, self._sampler.history
        at = certain
        while at < len(tokens) and at < len(history) and tokens[at] == history[at]:
            at += 1
        if at < len(tokens):
            self._context.keep(at)
