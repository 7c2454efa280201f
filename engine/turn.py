"""One assistant turn: from a path of messages and a shape to a stream of events.

Knows the model, its template and its cache; nothing of chats, pipes or screens. Every turn arms its own constraint
and reuses the longest common token prefix with what is in the cache.
"""

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from engine.arming import Armed, CompiledShape, arm, take_prefix
from engine.cache import Settings
from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Committed, Context, Decoder, Reading
from engine.decoding.region import Region
from engine.decoding.sampler import Sampler
from engine.decoding.tokens import token_table
from engine.drafting.drafts import Drafts
from engine.drafting.source import NoDrafts
from engine.errors import EngineError, TurnRefused
from engine.events import (
    Event,
    Exactness,
    Failed,
    Finished,
    ModelInfo,
    Notice,
    PromptRead,
    Started,
    Stats,
)
from engine.gguf import ModelFileError
from engine.numerics import NumericsPlan
from engine.protocol import Generate, Message, Sampling
from engine.reply import Reply
from engine.template import ChatTemplate, Prompt, PromptMessage, TemplateError
from engine.verify import verify
from engine.vocabulary import Vocabulary
from grammars.describe import describe
from grammars.spec import GrammarSpec, ShapeError

_LOG = logging.getLogger(__name__)
_SEED_BITS = 48  # a random seed stays exact in JSON readers whose numbers are doubles
_SHAPES_KEPT = 8
SOURCES_S = 1.0
"""How often the figures of the drafts are told while a reply is written."""


@dataclass(slots=True, kw_only=True)
class Engine:
    """A loaded model that answers turns, one at a time."""

    model: ModelInfo
    vocabulary: Vocabulary
    context: Context
    template: ChatTemplate
    exact: Exactness
    drafts: Drafts = field(default_factory=Drafts)
    numerics: NumericsPlan | None = None
    """How it computes; None for a fake."""
    settings: Settings | None = None
    """What anything that is kept of it between runs depends on; None for a fake."""
    _shapes: OrderedDict[str, CompiledShape] = field(default_factory=OrderedDict)
    _earlier: dict[str, list[int]] = field(default_factory=dict)
    _region: Region | None = None

    def generate(self, request: Generate) -> Iterator[Event]:
        """Yield the events of one turn; the last one is `Finished` or `Failed`. See `engine.lockstep` for several."""
        if request.streams > 1:
            from engine import lockstep  # which runs one engine like this for each of them

            yield from lockstep.generate(self, request)
            return
        try:
            yield from self._turn(request)
        except TurnRefused as refusal:
            yield Failed(kind=refusal.kind, message=str(refusal), turn=request.turn)
        except (ModelFileError, EngineError) as error:
            yield Failed(kind="model", message=f"The turn could not be started: {error}", turn=request.turn)
        except Exception as error:  # one turn fails, the process and its next turn go on
            _LOG.exception("a turn failed")
            yield Failed(kind="internal", message=_internal(error), turn=request.turn)

    def warm_up(self) -> None:
        """Build what the first turn would otherwise wait for: views and tables of the vocabulary."""
        _ = self.vocabulary.tokenizer
        token_table(self.vocabulary)
        _ = self.region

    @property
    def region(self) -> Region | None:
        """The tables of the model's reasoning, built on first use; None if it is not known to reason."""
        markers = self.template.markers
        if markers is None:
            return None
        if self._region is None or self._region.markers is not markers:
            self._region = Region(markers, self.vocabulary)
        return self._region

    def abort(self) -> None:
        """Stop the running forward and the turn; safe from any thread."""
        self.context.abort()
        self.drafts.abort()

    def clear_abort(self) -> None:
        """Make ready for the next turn after an abort."""
        self.context.clear_abort()
        self.drafts.clear_abort()

    def compiled(self, shape: GrammarSpec) -> CompiledShape:
        """Return a shape compiled for the vocabulary; the last few are kept. Raises `TurnRefused`."""
        known = self._shapes.get(shape.hash)
        if known is None:
            known = self._shapes[shape.hash] = CompiledShape.of(shape, self.vocabulary)
            if len(self._shapes) > _SHAPES_KEPT:
                self._shapes.popitem(last=False)
        self._shapes.move_to_end(shape.hash)
        return known

    def constraint(self, shape: GrammarSpec) -> Constraint:
        """Return a fresh constraint for a shape. Raises `TurnRefused`."""
        return self.compiled(shape).constraint.clone()

    def prompt(
        self, messages: Sequence[Message], *, think: bool | None = None, prefix: Sequence[int] = ()
    ) -> Prompt:
        """Return the token ids of a path, the reply's opening included. Raises `TurnRefused`.

        `think` is the template's switch; there must be room for a reply that begins with `prefix`.
        """
        prompt = self.render(messages, think=think)
        count = len(prompt.ids) + len(prefix)
        if count > self.context.length - 1:
            raise TurnRefused(
                "usage",
                f"The prompt has {count} tokens and the context holds {self.context.length}; "
                "shorten it or ask for a larger context.",
            )
        return prompt

    def render(self, messages: Sequence[Message], *, think: bool | None = None) -> Prompt:
        """Return the token ids of a path as `prompt` does, however many. Raises `TurnRefused`."""
        if not messages or messages[-1].role != "user":
            raise TurnRefused("usage", "The last message must be the person's.")
        if not messages[-1].content.strip():
            raise TurnRefused("usage", "The prompt is empty.")
        try:
            prompt = self.template.render(
                [self._prompt_message(message) for message in messages], think=think
            )
        except TemplateError as error:
            raise TurnRefused(
                "model", f"The model's chat template cannot render this chat: {error}"
            ) from error
        if not prompt.ids:
            raise TurnRefused("model", "The model's chat template writes no prompt for this chat.")
        return prompt

    def _prompt_message(self, message: Message) -> PromptMessage:
        content = message.content
        if message.shape is not None:
            with suppress(ShapeError):  # of an earlier turn: a shape nobody can use needs no description
                content = f"{content}\n\n{describe(message.shape)}"
        ids = message.tokens if self._spell(message.tokens, message) else ()
        return PromptMessage(role=message.role, content=content, tokens=ids, reasoning=message.reasoning)

    def _spell(self, ids: Sequence[int], message: Message) -> bool:
        """Tell whether ids are those of a reply of this model: its text, and no control token among them."""
        return (
            message.role == "assistant"
            and message.vocabulary == self.vocabulary.fingerprint
            and all(0 <= token < self.vocabulary.size and self.vocabulary.piece(token) for token in ids)
            and self.vocabulary.text(ids) == message.content
        )

    def arm(self, request: Generate, prompt: Prompt) -> Armed:
        """Return what a turn is held to. Raises `TurnRefused`."""
        return arm(self, request, prompt, length=self.context.length)

    def reuse(self, history: Sequence[int]) -> int:
        """Drop from the cache what is not the beginning of a history; return how many tokens are left.

        Its last token is never among them: it is always read again, for its row is the first to choose from.
        """
        return self.context.keep(min(_common_prefix(self.context.tokens, history), len(history) - 1))

    def _turn(self, request: Generate) -> Iterator[Event]:
        if request.shape is not None and request.stop:
            raise TurnRefused(
                "usage", "Stop texts end free replies only; a shape says itself where a reply ends."
            )
        prompt = self.prompt(request.messages, think=request.think, prefix=request.prefix)
        armed = self.arm(request, prompt)
        seed = seed_of(request.sampling)
        sampler = Sampler(
            request.sampling,
            seed=seed,
            history=prompt.ids,
            processors=armed.processors,
            wrapped=armed.wrapped,
        )
        reply = Reply(self.vocabulary, request, armed)
        if request.speculate:
            self._earlier = {
                earlier: self._earlier.get(earlier) or self.vocabulary.tokenize(earlier)
                for earlier in request.earlier
            }
            self.drafts.remember(list(self._earlier.values()))
        before = self.drafts.statistics()
        decoder = Decoder(
            self.context,
            sampler,
            structure=armed.structure,
            source=self.drafts.sources if request.speculate else NoDrafts(),
            gate=self.drafts.gate,
            end_ids=self.vocabulary.end_ids,
            budget=armed.budget,
            watch=reply.watch,
            apart=armed.apart,
        )
        take_prefix(armed, sampler, request.prefix, self.vocabulary, watch=reply.watch)
        history = sampler.history
        kept = self.reuse(history)
        turn, total = request.turn, len(prompt.ids)
        reused = min(kept, total)
        yield Started(
            turn=turn, prompt_tokens=total, reused_tokens=reused, seed=seed, notices=tuple(prompt.notices)
        )
        yield PromptRead(turn=turn, done=reused, total=total)
        if request.prefix:
            reply.extend([Committed(token, "given", None) for token in request.prefix])
            yield reply.event(decoder)
        error = None
        reading = True
        told = time.monotonic()
        try:
            for step in decoder.run():
                if isinstance(step, Reading):
                    yield PromptRead(turn=turn, done=step.done, total=step.total)
                    continue
                if reading and len(self.context.tokens) >= total:
                    reading = False
                    yield PromptRead(turn=turn, done=total, total=total)
                reply.extend(step.tokens)
                sources: dict[str, dict[str, float]] = {}
                if time.monotonic() - told >= SOURCES_S:
                    told, sources = time.monotonic(), self.drafts.since(before)
                yield replace(reply.event(decoder), sources=sources)
                while reply.notices:
                    yield Notice(turn=turn, message=reply.notices.pop(0))
        except EngineError as fault:
            decoder.finish = "error"
            error = str(fault)
        except Exception as fault:  # fails closed: what stands was committed properly, nothing is added to it
            _LOG.exception("a turn failed")
            decoder.finish = "error"
            error = _internal(fault)
        finish = decoder.finish
        assert finish is not None  # `run` ends with a reason or an exception
        if rest := reply.close(decoder):
            yield rest
        yield Finished(
            turn=turn,
            finish="landed" if finish == "stop" and armed.landed else finish,
            text=reply.text.whole,
            tokens=() if reply.text.cut else tuple(reply.ids),
            seed=seed,
            stats=_stats(decoder, total, reused, self.exact, self.drafts.since(before), reply, armed),
            reasoning=reply.reasoning.whole
            if reply.reasoning is not None and reply.reasoning.begun
            else None,
            error=error,
            verification=verify(self, request, seed=seed, tokens=reply.committed, finish=finish)
            if request.verify
            else None,
        )


def seed_of(sampling: Sampling) -> int:
    """Return the seed that was asked for, or a random one."""
    return secrets.randbits(_SEED_BITS) if sampling.seed is None else sampling.seed


def _common_prefix(cached: Sequence[int], wanted: Sequence[int]) -> int:
    for place, (left, right) in enumerate(zip(cached, wanted, strict=False)):
        if left != right:
            return place
    return min(len(cached), len(wanted))


def _stats(
    decoder: Decoder,
    prompt: int,
    reused: int,
    exact: Exactness,
    sources: dict[str, dict[str, float]],
    reply: Reply,
    armed: Armed,
) -> Stats:
    figures = decoder.figures
    written = figures.forced + figures.sampled + figures.accepted + figures.landed
    thoughts = reply.thoughts
    return Stats(
        prompt_tokens=prompt,
        reused_tokens=reused,
        reply_tokens=written - thoughts,
        reasoning_tokens=thoughts,
        forced_tokens=figures.forced,
        sampled_tokens=figures.sampled,
        drafted_tokens=figures.drafted,
        accepted_tokens=figures.accepted,
        landed_tokens=figures.landed,
        rebuilt=armed.rebuilds,
        forwards=figures.forwards,
        masked_mean=round(figures.masked / figures.choices, 1)
        if figures.choices and figures.masked
        else None,
        prefill_s=round(figures.prefill_s, 6),
        decode_s=round(figures.decode_s, 6),
        tokens_per_s=round(written / figures.decode_s, 3) if figures.decode_s > 0 else 0.0,
        tokens_per_forward=round(written / max(1, figures.forwards), 3),
        exact=exact,
        sources=sources,
    )


def _internal(error: Exception) -> str:
    """Return a sentence on a fault that nobody foresaw."""
    return f"The engine failed on its own account: {type(error).__name__}: {error}"
