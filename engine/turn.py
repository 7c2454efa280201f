"""One assistant turn: from a path of messages and a shape to a stream of events.

Knows the model, its template and its cache; nothing of chats, pipes or screens. Every turn arms its own constraint
and reuses the longest common token prefix with what is in the cache.
"""

import codecs
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from engine.decoding.bias import BannedTokens, LogitBias
from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Context, Decoder, Figures, Reading, Round
from engine.decoding.processor import LogitProcessor
from engine.decoding.sampler import Sampler
from engine.drafting.drafts import Drafts
from engine.drafting.source import NoDrafts
from engine.errors import ConstraintError, EngineError, TurnRefused
from engine.events import (
    Event,
    Exactness,
    Failed,
    Finish,
    Finished,
    ModelInfo,
    Notice,
    PromptRead,
    Started,
    Stats,
    Token,
    Tokens,
)
from engine.gguf import ModelFileError
from engine.protocol import Generate, Message, Sampling
from engine.template import ChatTemplate, Prompt, PromptMessage, TemplateError
from engine.verify import verify
from engine.vocabulary import Vocabulary
from grammars.compile import compile_grammar
from grammars.describe import describe
from grammars.spec import GrammarSpec, ShapeError

_SEED_BITS = 48  # a random seed stays exact in JSON readers whose numbers are doubles
_CONSTRAINTS_KEPT = 8


@dataclass(slots=True, kw_only=True)
class Engine:
    """A loaded model that answers turns, one at a time."""

    model: ModelInfo
    vocabulary: Vocabulary
    context: Context
    template: ChatTemplate
    exact: Exactness
    drafts: Drafts = field(default_factory=Drafts)
    _constraints: OrderedDict[str, Constraint] = field(default_factory=OrderedDict)
    _earlier: dict[str, list[int]] = field(default_factory=dict)

    def generate(self, request: Generate) -> Iterator[Event]:
        """Yield the events of one turn; the last one is `Finished` or `Failed`."""
        try:
            yield from self._turn(request)
        except TurnRefused as refusal:
            yield Failed(kind=refusal.kind, message=str(refusal), turn=request.turn)
        except (ModelFileError, EngineError) as error:
            yield Failed(kind="model", message=f"The turn could not be started: {error}", turn=request.turn)

    def warm_up(self) -> None:
        """Build what the first turn would otherwise wait for: the grammar library's view of the vocabulary."""
        _ = self.vocabulary.tokenizer

    def abort(self) -> None:
        """Stop the running forward and the turn; safe from any thread."""
        self.context.abort()
        self.drafts.abort()

    def clear_abort(self) -> None:
        """Make ready for the next turn after an abort."""
        self.context.clear_abort()
        self.drafts.clear_abort()

    def constraint(self, shape: GrammarSpec) -> Constraint:
        """Return a fresh constraint for a shape; the last few compiled ones are kept. Raises `TurnRefused`."""
        known = self._constraints.get(shape.hash)
        if known is None:
            try:
                known = Constraint(compile_grammar(shape), self.vocabulary.tokenizer, self.vocabulary.end_ids)
            except (ShapeError, ConstraintError) as error:
                raise TurnRefused("shape", str(error)) from error
            self._constraints[shape.hash] = known
            if len(self._constraints) > _CONSTRAINTS_KEPT:
                self._constraints.popitem(last=False)
        self._constraints.move_to_end(shape.hash)
        return known.clone()

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """Return the token ids of a path, the reply's opening included. Raises `TurnRefused`."""
        if not messages or messages[-1].role != "user":
            raise TurnRefused("usage", "The last message must be the person's.")
        if not messages[-1].content.strip():
            raise TurnRefused("usage", "The prompt is empty.")
        try:
            prompt = self.template.render([self._prompt_message(message) for message in messages])
        except TemplateError as error:
            raise TurnRefused(
                "model", f"The model's chat template cannot render this chat: {error}"
            ) from error
        if not prompt.ids:
            raise TurnRefused("model", "The model's chat template writes no prompt for this chat.")
        if len(prompt.ids) > self.context.length - 1:
            raise TurnRefused(
                "usage",
                f"The prompt has {len(prompt.ids)} tokens and the context holds {self.context.length}; "
                "shorten it or ask for a larger context.",
            )
        return prompt

    def _prompt_message(self, message: Message) -> PromptMessage:
        content = message.content
        if message.shape is not None:
            with suppress(ShapeError):  # of an earlier turn: a shape nobody can use needs no description
                content = f"{content}\n\n{describe(message.shape)}"
        ids = message.tokens if self._spell(message.tokens, message) else ()
        return PromptMessage(role=message.role, content=content, tokens=ids)

    def _spell(self, ids: Sequence[int], message: Message) -> bool:
        """Tell whether ids are those of a reply of this model: its text, and no control token among them."""
        return (
            message.role == "assistant"
            and message.vocabulary == self.vocabulary.fingerprint
            and all(0 <= token < self.vocabulary.size and self.vocabulary.piece(token) for token in ids)
            and self.vocabulary.text(ids) == message.content
        )

    def _processors(self, sampling: Sampling, constraint: Constraint | None) -> list[LogitProcessor]:
        """Return bias, bans and the constraint, in the order in which they bend a row."""
        ids = [*sampling.logit_bias, *sampling.banned]
        if ids and not 0 <= min(ids) <= max(ids) < self.vocabulary.size:
            raise TurnRefused("usage", f"Token ids of this model go from 0 to {self.vocabulary.size - 1}.")
        processors: list[LogitProcessor] = []
        if sampling.logit_bias:
            processors.append(LogitBias(sampling.logit_bias))
        if sampling.banned:
            processors.append(BannedTokens(sampling.banned))
        if constraint is not None:
            processors.append(constraint)
        return processors

    def _turn(self, request: Generate) -> Iterator[Event]:
        if request.shape is not None and request.stop:
            raise TurnRefused(
                "usage", "Stop texts end free replies only; a shape says itself where a reply ends."
            )
        notices: list[str] = []
        constraint = None if request.shape is None else self.constraint(request.shape)
        if constraint is not None:
            constraint.notice = notices.append
        prompt = self.prompt(request.messages)
        seed = request.sampling.seed
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        processors = self._processors(request.sampling, constraint)
        sampler = Sampler(request.sampling, seed=seed, history=prompt.ids, processors=processors)
        # The last token is always read again: its row is the first to choose from.
        reused = self.context.keep(min(_common_prefix(self.context.tokens, prompt.ids), len(prompt.ids) - 1))
        if request.speculate:
            self._earlier = {
                reply: self._earlier.get(reply) or self.vocabulary.tokenize(reply)
                for reply in request.earlier
            }
            self.drafts.remember(list(self._earlier.values()))
        before = self.drafts.statistics()
        text = _ReplyText(self.vocabulary, request.stop)
        decoder = Decoder(
            self.context,
            sampler,
            structure=constraint,
            source=self.drafts.sources if request.speculate else NoDrafts(),
            gate=self.drafts.gate,
            end_ids=self.vocabulary.end_ids,
            budget=request.max_tokens,
            watch=text.add,
        )
        turn = request.turn
        total = len(prompt.ids)
        yield Started(
            turn=turn, prompt_tokens=total, reused_tokens=reused, seed=seed, notices=tuple(prompt.notices)
        )
        yield PromptRead(turn=turn, done=reused, total=total)
        error = None
        tokens: list[int] = []
        reading = True
        try:
            for step in decoder.run():
                if isinstance(step, Reading):
                    yield PromptRead(turn=turn, done=step.done, total=step.total)
                    continue
                if reading and len(self.context.tokens) >= total:
                    reading = False
                    yield PromptRead(turn=turn, done=total, total=total)
                tokens.extend(committed.token for committed in step.tokens)
                yield self._tokens_event(turn, step, text.ready(), decoder.figures)
                while notices:
                    yield Notice(turn=turn, message=notices.pop(0))
        except EngineError as fault:
            decoder.finish = "error"
            error = str(fault)
        rest = text.close()
        if rest:
            yield self._tokens_event(turn, Round(tokens=()), rest, decoder.figures)
        finish = decoder.finish
        assert finish is not None  # `run` ends with a reason or an exception
        yield Finished(
            turn=turn,
            finish=finish,
            text=text.whole,
            tokens=() if text.cut else tuple(tokens),
            seed=seed,
            stats=_stats(decoder, total, reused, self.exact, self.drafts.since(before)),
            error=error,
            verification=verify(self, request, seed=seed, tokens=tokens, finish=finish)
            if request.verify
            else None,
        )

    def _tokens_event(self, turn: int, step: Round, text: str, figures: Figures) -> Tokens:
        return Tokens(
            turn=turn,
            tokens=tuple(
                Token(
                    id=committed.token,
                    text=self.vocabulary.piece(committed.token).decode("utf-8", "replace"),
                    origin=committed.origin,
                    allowed=committed.allowed,
                )
                for committed in step.tokens
            ),
            text=text,
            forwards=figures.forwards,
            elapsed_s=figures.decode_s,
        )


class _ReplyText:
    """The text of a reply while it grows: whole characters only, and nothing that may begin a stop text."""

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str]) -> None:
        self.whole = ""
        self.cut = False
        self._vocabulary = vocabulary
        self._stop = tuple(text for text in stop if text)
        self._longest = max(map(len, self._stop), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sent = 0

    def add(self, token: int) -> Finish | None:
        """Take the next token; return `stop_text` when a stop text is complete, which is then cut off."""
        before = len(self.whole)
        self.whole += self._decoder.decode(self._vocabulary.piece(token))
        if not self._stop:
            return None
        places = [self.whole.find(text, max(0, before - self._longest + 1)) for text in self._stop]
        found = [place for place in places if place >= 0]
        if not found:
            return None
        self.whole = self.whole[: min(found)]
        self.cut = True
        return "stop_text"

    def ready(self) -> str:
        """Return what can be shown now and was not yet."""
        return self._take(len(self.whole) - self._held())

    def close(self) -> str:
        """Return the rest; half a character at the end becomes U+FFFD."""
        if not self.cut:
            self.whole += self._decoder.decode(b"", final=True)
        return self._take(len(self.whole))

    def _take(self, upto: int) -> str:
        text = self.whole[self._sent : upto]
        self._sent = max(self._sent, upto)
        return text

    def _held(self) -> int:
        """Return the length of the longest end of the text that a stop text begins with."""
        for size in range(min(self._longest - 1, len(self.whole)), 0, -1):
            if (
                self._stop
                and not self.cut
                and any(text.startswith(self.whole[-size:]) for text in self._stop)
            ):
                return size
        return 0


def _common_prefix(cached: Sequence[int], wanted: Sequence[int]) -> int:
    for place, (left, right) in enumerate(zip(cached, wanted, strict=False)):
        if left != right:
            return place
    return min(len(cached), len(wanted))


def _stats(
    decoder: Decoder, prompt: int, reused: int, exact: Exactness, sources: dict[str, dict[str, float]]
) -> Stats:
    figures = decoder.figures
    reply = figures.forced + figures.sampled + figures.accepted
    return Stats(
        prompt_tokens=prompt,
        reused_tokens=reused,
        reply_tokens=reply,
        forced_tokens=figures.forced,
        sampled_tokens=figures.sampled,
        drafted_tokens=figures.drafted,
        accepted_tokens=figures.accepted,
        forwards=figures.forwards,
        masked_mean=round(figures.masked / figures.choices, 1)
        if figures.choices and figures.masked
        else None,
        prefill_s=round(figures.prefill_s, 6),
        decode_s=round(figures.decode_s, 6),
        tokens_per_s=round(reply / figures.decode_s, 3) if figures.decode_s > 0 else 0.0,
        tokens_per_forward=round(reply / max(1, figures.forwards), 3),
        exact=exact,
        sources=sources,
    )
