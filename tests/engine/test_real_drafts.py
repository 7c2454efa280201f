"""Drafts on real weights and exact numerics: all sources, and one that only does harm, give the naive stream."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakestream import RandomDrafts

from engine.decoding.decoder import Committed, Decoder, Round
from engine.decoding.naive import naive
from engine.decoding.processor import Bits
from engine.decoding.sampler import Sampler
from engine.drafting.source import DraftSource
from engine.loading import load_engine
from engine.protocol import Load, Message, Sampling
from engine.turn import Engine
from grammars.presets import presets

BUDGET = 48
SHORT = "List three cities of Italy with their rivers, again and again."
LONG = f"{'The river stood at five feet and the town counted its houses. ' * 55}\n\n{SHORT}"


class Harm(RandomDrafts):
    """Proposes any id of a real vocabulary, illegal ones included."""

    name = "harm"

    def guess(self, mask: Bits | None) -> tuple[int, float] | None:
        return int(self._random.integers(49152)), 0.9


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    yield load_engine(Load(model=str(smollm2), context=2048, threads=1, numerics="exact"))[0]


@pytest.mark.proof
@pytest.mark.parametrize("name", ["todo", None])
@pytest.mark.parametrize("source", ["all", "harm"])
@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "above-600"])
def test_drafted_replies_equal_the_naive_loop(
    engine: Engine, text: str, source: str, name: str | None
) -> None:
    shape = None if name is None else presets()[name].spec()
    prompt = engine.prompt([Message(role="user", content=text)]).ids
    assert (len(prompt) > 600) == (text is LONG)
    for seed in range(3 if text is SHORT else 1):
        drafts: DraftSource = engine.drafts.sources if source == "all" else Harm(seed)
        assert drafted(engine, prompt, shape, seed, drafts) == plain(engine, prompt, shape, seed)


def sampler(engine: Engine, prompt: list[int], shape: object, seed: int) -> tuple[Sampler, object]:
    constraint = None if shape is None else engine.constraint(shape)  # type: ignore[arg-type]
    made = Sampler(
        Sampling(temperature=0.8), seed=seed, history=prompt, processors=[constraint] if constraint else []
    )
    return made, constraint


def drafted(
    engine: Engine, prompt: list[int], shape: object, seed: int, drafts: DraftSource
) -> tuple[list[int], str]:
    chooses, constraint = sampler(engine, prompt, shape, seed)
    kept = 0
    while kept < len(prompt) - 1 and engine.context.tokens[kept : kept + 1] == prompt[kept : kept + 1]:
        kept += 1
    engine.context.keep(kept)
    decoder = Decoder(
        engine.context,
        chooses,
        structure=constraint,  # type: ignore[arg-type]
        source=drafts,
        end_ids=engine.vocabulary.end_ids,
        budget=BUDGET,
    )
    tokens = [each.token for step in decoder.run() if isinstance(step, Round) for each in step.tokens]
    return tokens, str(decoder.finish)


def plain(engine: Engine, prompt: list[int], shape: object, seed: int) -> tuple[list[int], str]:
    chooses, constraint = sampler(engine, prompt, shape, seed)
    engine.context.keep(len(prompt))
    *tokens, finish = naive(
        engine.context,
        chooses,
        structure=constraint,  # type: ignore[arg-type]
        end_ids=engine.vocabulary.end_ids,
        budget=BUDGET,
    )
    return [each.token for each in tokens if isinstance(each, Committed)], str(finish)
