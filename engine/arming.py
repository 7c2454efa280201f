"""What bends and restricts the choices of one turn: bias, bans, DRY, and Thinking(Landing(RunGuard(Constraint))).

Knows a request, a vocabulary and how long the prompt is; nothing of drafts, of events or of how tokens are chosen. The
same for every path: a turn alone, in lockstep, and its replay. Invariant: what the budgets allow fits into the context,
so a reply that can land is never cut by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.decoding.bias import BannedTokens, LogitBias
from engine.decoding.constraint import Constraint
from engine.decoding.dry import Dry
from engine.decoding.endings import Endings
from engine.decoding.guards import RunGuard
from engine.decoding.landing import Landing
from engine.decoding.masks import is_legal
from engine.decoding.processor import LogitProcessor, Shaped, Structured
from engine.decoding.region import Region
from engine.decoding.sampler import Sampler
from engine.decoding.thinking import LONGEST_GAP, Thinking
from engine.decoding.tokens import token_table
from engine.errors import BudgetTooSmall, ConstraintError, EngineError, TurnRefused
from engine.events import Finish
from engine.markers import Start
from engine.protocol import Generate, Sampling
from engine.template import Prompt
from engine.vocabulary import Vocabulary
from grammars.compile import compile_grammar
from grammars.guards import soft_guards
from grammars.samples import samples
from grammars.spec import GrammarSpec, Guards, ShapeError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledShape:
    """What a shape comes to with one vocabulary, found out once: every turn takes a clone of the `constraint`."""

    constraint: Constraint
    guards: Guards | None
    endings: Endings

    @classmethod
    def of(cls, shape: GrammarSpec, vocabulary: Vocabulary) -> "CompiledShape":
        """Compile a shape. Raises `TurnRefused`."""
        try:
            return cls(
                constraint=Constraint(compile_grammar(shape), vocabulary.tokenizer, vocabulary.end_ids),
                guards=soft_guards(shape),
                endings=Endings(token_table(vocabulary), samples(shape)),
            )
        except (ShapeError, ConstraintError) as error:
            raise TurnRefused("shape", str(error)) from error


class Armoury(Protocol):
    """What an engine has ready for its turns."""

    vocabulary: Vocabulary

    @property
    def region(self) -> Region | None:
        """The tables of the model's reasoning; None if it does not reason."""
        ...

    def compiled(self, shape: GrammarSpec) -> CompiledShape:
        """Return a shape compiled for the vocabulary. Raises `TurnRefused`."""
        ...

    def constraint(self, shape: GrammarSpec) -> Constraint:
        """Return a fresh constraint for a shape. Raises `TurnRefused`."""
        ...


@dataclass(slots=True, kw_only=True)
class Armed:
    """The processors of one turn, those that are `wrapped` in the structure, and its budget.

    `notices` are sentences for the person that came up while it ran.
    """

    processors: list[LogitProcessor]
    wrapped: list[LogitProcessor]
    structure: Structured | None
    thinking: Thinking | None
    landing: Landing | None
    budget: int
    rebuilds: int = 0
    notices: list[str] = field(default_factory=list)

    def note_rebuilt(self, sentence: str) -> None:
        """Count a constraint that was rebuilt without forced spans."""
        self.rebuilds += 1
        self.notices.append(sentence)

    def apart(self) -> int:
        """Return how many committed tokens are not the reply's."""
        return 0 if self.thinking is None else self.thinking.apart

    @property
    def landed(self) -> bool:
        """True if the reply had to end before the model wanted to."""
        return self.landing is not None and self.landing.landed


def arm(armoury: Armoury, request: Generate, prompt: Prompt, *, length: int) -> Armed:
    """Return what a turn is held to; `length` is that of the context. Raises `TurnRefused`."""
    region, start = _region(armoury, request, prompt)
    room = length - len(prompt.ids) + 1  # the last token needs no place
    if region is not None:
        room -= len(region.markers.opener.ids) + len(region.markers.closer.ids) + LONGEST_GAP
    thoughts = 0 if region is None or request.think is False else request.think_tokens
    budget = request.max_tokens
    structure: Structured | None = None
    landing: Landing | None = None
    constraint: Constraint | None = None
    guard: Shaped | None = None
    if request.shape is not None:
        compiled = armoury.compiled(request.shape)
        constraint = structure = guard = armoury.constraint(request.shape)
        if compiled.guards is not None:
            structure = guard = RunGuard(constraint, guards=compiled.guards, vocabulary=armoury.vocabulary)
        if request.land:
            landing, budget = _landing(guard, compiled.endings, budget, room, thoughts)
            structure = landing
    thinking = None
    if region is not None:
        # Reasoning leaves the reply what it may have, or half of a context that is too small for both.
        reply = budget if landing is not None else min(budget, max(1, room // 2))
        structure = thinking = Thinking(
            structure,
            region,
            start=start,
            budget=max(0, min(thoughts, room - reply)),
            stop_loops=request.stop_loops,
        )
    processors = bent(request.sampling, armoury.vocabulary)
    if structure is not None:
        processors.append(structure)
    armed = Armed(
        processors=processors,
        wrapped=[part for part in (constraint, guard, landing) if part is not None and part is not structure],
        structure=structure,
        thinking=thinking,
        landing=landing,
        budget=budget,
    )
    if constraint is not None:
        constraint.notice = armed.note_rebuilt
    return armed


def _region(armoury: Armoury, request: Generate, prompt: Prompt) -> tuple[Region | None, Start]:
    """Return the tables of the model's reasoning if a turn may have some, and where its reply begins."""
    if request.shape is None:
        # A model may think although its template has closed the region: that is kept apart all the same.
        return armoury.region, "outside" if prompt.start == "past" else prompt.start
    asked = prompt.start != "past" and (request.think is not False or prompt.start != "outside")
    return (armoury.region if asked else None), prompt.start


def take_prefix(
    armed: Armed,
    sampler: Sampler,
    ids: Sequence[int],
    vocabulary: Vocabulary,
    *,
    watch: Callable[[int], Finish | None] = lambda _token: None,
) -> None:
    """Commit the ids that a reply begins with. Raises `TurnRefused` naming the first that may not stand there."""
    for place, token in enumerate(ids, 1):
        legal = 0 <= token < vocabulary.size and token not in vocabulary.end_ids
        if legal and armed.structure is not None:
            ahead = armed.structure.ahead()
            try:
                legal = not ahead.ended and is_legal(ahead.mask(), token)
            except EngineError:  # it leads into a dead end
                legal = False
        if not legal:
            why = (
                f"they reason for longer than the {armed.thinking.budget:,} tokens that reasoning may have; allow more"
                if armed.thinking is not None and armed.thinking.spent
                else f"number {place} may not stand there"
            )
            raise TurnRefused("usage", f"The reply cannot begin with the given tokens: {why}.")
        try:
            sampler.take(token)
        except ConstraintError as error:
            raise TurnRefused(
                "usage",
                f"The reply cannot begin with the given tokens: behind number {place}, {error}.",
            ) from error
        if watch(token) is not None:
            raise TurnRefused("usage", f"The given tokens end the reply already, with number {place}.")
    if ids and len(ids) - armed.apart() >= armed.budget and not _ended(armed):
        raise TurnRefused(
            "usage",
            f"The reply begins with {len(ids) - armed.apart():,} tokens and may have {armed.budget:,}; "
            "allow more of them.",
        )


def _ended(armed: Armed) -> bool:
    return armed.structure is not None and armed.structure.ahead().ended


def bent(sampling: Sampling, vocabulary: Vocabulary) -> list[LogitProcessor]:
    """Return bias, bans and DRY, in the order in which they bend a row. Raises `TurnRefused` for other ids."""
    size = vocabulary.size
    ids = [*sampling.logit_bias, *sampling.banned]
    if ids and not 0 <= min(ids) <= max(ids) < size:
        raise TurnRefused("usage", f"Token ids of this model go from 0 to {size - 1}.")
    processors: list[LogitProcessor] = []
    if sampling.logit_bias:
        processors.append(LogitBias(sampling.logit_bias))
    if sampling.banned:
        processors.append(BannedTokens(sampling.banned))
    if sampling.dry_multiplier and sampling.dry_last_n:
        processors.append(
            Dry(
                multiplier=sampling.dry_multiplier,
                base=sampling.dry_base,
                allowed=sampling.dry_allowed_length,
                last_n=sampling.dry_last_n,
                breakers=sampling.dry_breakers,
                piece=vocabulary.piece,
            )
        )
    return processors


def _landing(inner: Shaped, endings: Endings, asked: int, room: int, thoughts: int) -> tuple[Landing, int]:
    """Return a landing with its budget: what was asked for, or what a small context leaves beside the reasoning."""
    budget = max(1, min(asked, max(room - thoughts, room // 2)))
    try:
        landing = Landing(inner, budget=budget, endings=endings)
    except BudgetTooSmall as error:
        if error.needed > asked:
            raise BudgetTooSmall(asked, error.needed) from error
        budget = error.needed
        landing = Landing(inner, budget=budget, endings=endings)
    if budget > room:
        raise TurnRefused(
            "usage",
            f"The context leaves {max(0, room):,} tokens for the reply, and the shortest one found for this "
            f"shape has {budget:,}; shorten the prompt or ask for a larger context.",
        )
    return landing, budget
