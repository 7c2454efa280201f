"""A hundred random turns: each is its replay on a fresh engine, and nothing grows. tests/bench/soak.py plays longer."""

from pathlib import Path

import pytest
from data import vocabulary
from soaking import soak
from tiny import write_tiny_model


@pytest.mark.proof
@pytest.mark.timeout(400)
async def test_a_hundred_turns_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPO_HOME", str(tmp_path))
    model = write_tiny_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"), layers=2)
    report = await soak(model, 100)
    assert report.turns == 100
    assert report.differences == []
    assert min(report.cancelled, report.edits, report.restarts) > 0
    calm = slice(20, 85)
    assert report.growth(report.interface, 20, 85) < 0.05
    assert report.growth(report.worker, 20, 85) < 0.05
    assert len(set(report.files[calm])) == 1
