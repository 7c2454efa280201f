"""What loading refuses or says of the context's length."""

from pathlib import Path

import pytest

from engine.gguf import ModelFileError
from engine.llama.library import physical_cores
from engine.loading import load_engine
from engine.memory import available_memory
from engine.protocol import Load


def test_a_context_that_does_not_fit_into_memory_is_refused_with_the_numbers(smollm2: Path) -> None:
    if available_memory() is None:
        pytest.fail("this system does not tell how much memory is free")
    with pytest.raises(
        ModelFileError, match=r"2,000,000,000 tokens .* about [0-9.]+ GB.*free.*--context [0-9]+"
    ):
        load_engine(Load(model=str(smollm2), context=2_000_000_000, threads=1))


def test_a_context_longer_than_trained_for_or_not_as_asked_is_told(smollm2: Path) -> None:
    _, ready = load_engine(Load(model=str(smollm2), context=10_000, threads=1))
    assert any("longer than the 8192" in notice for notice in ready.notices)
    _, ready = load_engine(Load(model=str(smollm2), context=17, threads=1))
    assert ready.context >= 17
    assert any(f"{ready.context} tokens long" in notice for notice in ready.notices)


def test_physical_cores_are_at_least_one() -> None:
    assert physical_cores() >= 1
