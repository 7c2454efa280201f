"""Every preset on every temperature: the reply ends properly and passes judges of another make."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from data import vocabulary
from judge import judge
from tiny import write_tiny_model

from engine.events import Finished
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.presets import Preset, presets

TEMPERATURES = (0.0, 0.7, 1.5)


@pytest.fixture(scope="module")
def smollm2_engine(smollm2: Path) -> Iterator[Engine]:
    yield load_engine(Load(model=str(smollm2), context=2048))[0]


@pytest.fixture(scope="module")
def tiny_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", vocabulary("llama-spm"))
    yield load_engine(Load(model=str(path), context=2048, threads=1))[0]


def reply(engine: Engine, preset: Preset, temperature: float, seed: int) -> str:
    shape = preset.spec()
    *_, end = engine.generate(
        Generate(
            turn=1,
            messages=(Message(role="user", content=preset.example_prompt, shape=shape),),
            shape=shape,
            sampling=Sampling(temperature=temperature, seed=seed),
        )
    )
    assert isinstance(end, Finished), end
    assert end.finish == "stop", end.text
    return end.text


@pytest.mark.proof
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", presets())
def test_smollm2_fits_every_preset(smollm2_engine: Engine, name: str, temperature: float) -> None:
    for seed in range(3 if temperature else 1):  # at temperature 0 the seed has no say
        judge(presets()[name], reply(smollm2_engine, presets()[name], temperature, seed))


@pytest.mark.proof
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", presets())
def test_a_random_model_fits_every_preset(tiny_engine: Engine, name: str, temperature: float) -> None:
    for seed in range(20 if temperature else 1):
        judge(presets()[name], reply(tiny_engine, presets()[name], temperature, seed))
