"""Replies of random models under random schemas are valid, complete and within their budget."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from anyschema import any_spec
from conforming import Tally, run, tiny_engine

from engine.loading import load_engine
from engine.protocol import Load
from engine.turn import Engine
from grammars.spec import GrammarSpec

OTHER_KINDS = (
    GrammarSpec(kind="regex", text=r"[A-Z][a-z]{2,40}( [0-9]+)*\."),
    GrammarSpec(kind="choice", text='["car","cart","carton","日本"]'),
    GrammarSpec(kind="lark", text='start: "SELECT " NAME ("," NAME)* ";"\nNAME: /[a-z]{1,9}/'),
)


@pytest.fixture(scope="module", params=["gpt-2", "llama-spm"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    yield tiny_engine(tmp_path_factory.mktemp("models"), request.param)


@pytest.fixture(scope="module")
def large_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    yield tiny_engine(tmp_path_factory.mktemp("models"), "qwen2")


@pytest.fixture(scope="module")
def smollm2_engine(smollm2: Path) -> Iterator[Engine]:
    yield load_engine(Load(model=str(smollm2), context=1024, threads=1))[0]


def check_replies(engine: Engine, numbers: range, *, longest: int = 160) -> Tally:
    tally = Tally()
    for number in numbers:
        run(engine, any_spec(number), number=number, tally=tally, longest=longest)
    print(tally)
    assert tally.faults == []
    assert tally.replies >= 0.95 * len(numbers), tally.refused
    return tally


def test_replies_to_random_schemas_are_valid_and_end_in_time(engine: Engine) -> None:
    tally = check_replies(engine, range(15), longest=60)
    assert {"stop", "landed"} <= set(tally.finishes)


@pytest.mark.parametrize("spec", OTHER_KINDS, ids=lambda spec: spec.kind)
def test_replies_of_the_other_kinds_end_in_time(engine: Engine, spec: GrammarSpec) -> None:
    tally = Tally()
    for number in range(3):
        run(engine, spec, number=number, tally=tally, longest=24)
    assert tally.faults == []
    assert tally.replies == 3


@pytest.mark.proof
def test_more_random_schemas(engine: Engine) -> None:
    check_replies(engine, range(15, 115))


@pytest.mark.proof
def test_random_schemas_at_a_vocabulary_of_150_000(large_engine: Engine) -> None:
    check_replies(large_engine, range(115, 175))


@pytest.mark.proof
def test_a_real_model_at_a_high_temperature(smollm2_engine: Engine) -> None:
    check_replies(smollm2_engine, range(175, 195), longest=80)
