"""Guards and landing on real weights: the same stream as the naive loop, and always a reply that fits."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shapes import HARD

from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Committed, Decoder, Round
from engine.decoding.endings import Endings
from engine.decoding.guards import RunGuard
from engine.decoding.landing import Landing
from engine.decoding.naive import naive
from engine.decoding.processor import Structured
from engine.decoding.sampler import Sampler
from engine.decoding.tokens import token_table
from engine.drafting.suffix import SuffixSource
from engine.errors import BudgetTooSmall
from engine.loading import load_engine
from engine.protocol import Load, Message, Sampling
from engine.turn import Engine
from grammars.check import check
from grammars.compile import compile_grammar
from grammars.guards import soft_guards
from grammars.presets import presets
from grammars.samples import samples
from grammars.spec import GrammarSpec


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    yield load_engine(Load(model=str(smollm2), context=1024, threads=1, numerics="exact"))[0]


def structure(engine: Engine, shape: GrammarSpec, budget: int) -> Landing:
    inner: Structured = Constraint(
        compile_grammar(shape), engine.vocabulary.tokenizer, engine.vocabulary.end_ids
    )
    if (guards := soft_guards(shape)) is not None:
        inner = RunGuard(inner, guards=guards, vocabulary=engine.vocabulary)
    return Landing(inner, budget=budget, endings=Endings(token_table(engine.vocabulary), samples(shape)))


def stream(engine: Engine, shape: GrammarSpec, budget: int, temperature: float, *, drafts: bool) -> list[int]:
    landing = structure(engine, shape, budget)
    prompt = engine.prompt([Message(role="user", content="Describe a walk in the mountains.")]).ids
    sampler = Sampler(Sampling(temperature=temperature), seed=5, history=prompt, processors=[landing])
    engine.context.keep(0)
    if not drafts:
        *tokens, finish = naive(
            engine.context, sampler, structure=landing, end_ids=engine.vocabulary.end_ids, budget=budget
        )
        assert finish == "stop"
        return [committed.token for committed in tokens if isinstance(committed, Committed)]
    decoder = Decoder(
        engine.context,
        sampler,
        structure=landing,
        source=SuffixSource(),
        end_ids=engine.vocabulary.end_ids,
        budget=budget,
    )
    said = [committed.token for step in decoder.run() if isinstance(step, Round) for committed in step.tokens]
    assert decoder.finish in ("stop", "landed")
    return said


SHAPES = {name: HARD[name] for name in ("cut", "endless digits", "recursion", "regex")}
SHAPES["city"] = presets()["city"].spec()


@pytest.mark.parametrize(
    "name",
    [name if name in ("cut", "city") else pytest.param(name, marks=pytest.mark.proof) for name in SHAPES],
)
def test_it_lands_at_the_first_ending_and_a_little_above(engine: Engine, name: str) -> None:
    shape = SHAPES[name]
    with pytest.raises(BudgetTooSmall) as caught:
        structure(engine, shape, 0)
    for more, temperature in ((0, 0.0), (9, 0.9)):
        budget = caught.value.needed + more
        said = stream(engine, shape, budget, temperature, drafts=True)
        assert len(said) <= budget
        verdict = check(shape, engine.vocabulary.text(said))
        assert verdict.fits, verdict.problem
        assert said == stream(engine, shape, budget, temperature, drafts=False)


def test_twenty_four_tokens_are_enough_for_notes(engine: Engine) -> None:
    """Truncated JSON is what people meet without landing."""
    said = stream(engine, HARD["cut"], 24, 0.0, drafts=True)
    assert len(said) == 24
    assert check(HARD["cut"], engine.vocabulary.text(said)).fits
