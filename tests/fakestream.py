"""Streams over the fake model: shapes, draft sources that know too much or nothing, the naive loop and the real one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.arming import bent
from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Committed, Decoder, Round
from engine.decoding.naive import naive
from engine.decoding.processor import Bits
from engine.decoding.sampler import Sampler
from engine.drafting.cost import Gate
from engine.drafting.source import DraftSource, NoDrafts
from engine.fake import FakeContext, FakeVocabulary
from engine.protocol import Sampling
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec

VOCABULARY = FakeVocabulary()
PROMPT = VOCABULARY.tokenize("Describe the city of Paris. " * 8)

SHAPES: dict[str, GrammarSpec | None] = {
    "none": None,
    "schema": GrammarSpec(
        kind="json_schema",
        text="""{"type": "object", "additionalProperties": false, "required": ["name", "tags", "large"], "properties": {
            "name": {"type": "string", "maxLength": 12},
            "mood": {"enum": ["calm", "tense", "calmer"]},
            "tags": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2000}, "maxItems": 4},
            "large": {"type": "boolean"}}}""",
    ),
    "regex": GrammarSpec(kind="regex", text=r"(yes|no): [a-z]{2,9}( the city)?, 20[0-9]{2}"),
    "lark": GrammarSpec(
        kind="lark", text='start: "SELECT " NAME ("," NAME)* " FROM the city"\nNAME: /[a-z]{1,4}/'
    ),
    "choice": GrammarSpec(kind="choice", text='["car", "cart", "carton", "the city 😀"]'),
}


class RandomDrafts:
    """Proposes anything: legal or not, far past the end, and sometimes what comes next."""

    name = "random"
    wants_topk = False

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.heard: list[tuple[int, int]] = []
        self.seen: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self.seen.extend(prompt)

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        self.seen.extend(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        raise AssertionError("it was not asked for")

    def walk(self) -> "RandomDrafts":
        return self

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        if mask is not None and self._random.random() < 0.7:
            legal = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            legal = legal[legal < VOCABULARY.size]
            if legal.size:
                return int(self._random.choice(legal)), 0.5
        if mask is not None:
            return None
        return int(self._random.integers(VOCABULARY.size)), 0.5

    def advance(self, token: int) -> None:
        pass

    def feedback(self, submitted: int, accepted: int) -> None:
        self.heard.append((submitted, accepted))


class Oracle:
    """Knows the reply beforehand and is wrong about every seventh token."""

    name = "oracle"
    wants_topk = False

    def __init__(self, reply: Sequence[int]) -> None:
        self._reply = list(reply)
        self._at = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._at = 0

    def observe(self, tokens: Sequence[int], *, certain: bool = False) -> None:
        self._at += len(tokens)

    def observe_topk(self, token: int, successors: Sequence[int]) -> None:
        raise AssertionError("it was not asked for")

    def walk(self) -> "OracleWalk":
        return OracleWalk(self._reply, self._at)

    def feedback(self, submitted: int, accepted: int) -> None:
        assert 0 <= accepted <= submitted


class OracleWalk:
    def __init__(self, reply: list[int], at: int) -> None:
        self._reply = reply
        self._at = at

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        if not 0 <= self._at < len(self._reply):
            return None
        token = self._reply[self._at]
        if self._at % 7 == 6:
            token = (token + 1) % 256
        if mask is not None and not mask[token // 32] >> np.uint32(token % 32) & np.uint32(1):
            return None
        return token, 0.9

    def advance(self, token: int) -> None:
        self._at += 1


def stream(
    shape: GrammarSpec | None, sampling: Sampling, seed: int, **context: Any
) -> tuple[FakeContext, Sampler, Constraint | None]:
    """Return what a reply is decoded with: a fresh context, a sampler at the prompt, and its constraint."""
    constraint = (
        None
        if shape is None
        else Constraint(compile_grammar(shape), VOCABULARY.tokenizer, VOCABULARY.end_ids)
    )
    processors = [*bent(sampling, VOCABULARY), *filter(None, [constraint])]
    sampler = Sampler(sampling, seed=seed, history=PROMPT, processors=processors)
    return FakeContext(VOCABULARY.size, **context), sampler, constraint


def run_naive(
    shape: GrammarSpec | None, sampling: Sampling, seed: int, budget: int = 120, **context: Any
) -> tuple[list[int], str]:
    """Decode one reply naively; return its tokens and how it finished."""
    model, sampler, constraint = stream(shape, sampling, seed, **context)
    *tokens, finish = naive(model, sampler, structure=constraint, end_ids=VOCABULARY.end_ids, budget=budget)
    return [committed.token for committed in tokens if isinstance(committed, Committed)], str(finish)


def run_loop(
    shape: GrammarSpec | None,
    sampling: Sampling,
    seed: int,
    source: DraftSource | None = None,
    budget: int = 120,
    gate: Gate | None = None,
    **context: Any,
) -> tuple[list[int], str, Decoder, FakeContext]:
    """Decode one reply; return its tokens, how it finished, the decoder and the context."""
    model, sampler, constraint = stream(shape, sampling, seed, **context)
    decoder = Decoder(
        model,
        sampler,
        structure=constraint,
        source=source or NoDrafts(),
        gate=gate,
        end_ids=VOCABULARY.end_ids,
        budget=budget,
    )
    tokens: list[int] = []
    for step in decoder.run():
        assert model.tokens == sampler.history[: len(model.tokens)], "the cache holds what was not committed"
        if isinstance(step, Round):
            tokens.extend(committed.token for committed in step.tokens)
    assert decoder.finish is not None
    return tokens, decoder.finish, decoder, model
