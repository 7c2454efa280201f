"""What forwards cost outlives the process, for the same file and settings, and damage only means learning again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cache import Settings
from engine.drafting.cost import CostModel
from engine.drafting.cost_cache import keep, recall
from engine.numerics import plan

HERE = Settings.of(plan({}, "fast"), fingerprint="f", threads=2)


def learned() -> CostModel:
    cost = CostModel()
    for _ in range(5):
        cost.learn(1, 1, 0.040)
        cost.learn(4, 4, 0.044)
        cost.learn(8, 1, 0.046)
    return cost


def test_costs_are_recalled_for_the_same_settings_only(tmp_path: Path) -> None:
    keep(tmp_path, HERE, learned())
    again = recall(tmp_path, HERE)
    assert again.points() == learned().points()
    assert again.seconds(4, 4) == pytest.approx(0.044)
    assert recall(tmp_path, replace(HERE, threads=4)).points() == []
    assert recall(tmp_path, replace(HERE, fingerprint="g")).points() == []


def test_recalled_costs_go_on_learning(tmp_path: Path) -> None:
    keep(tmp_path, HERE, learned())
    again = recall(tmp_path, HERE)
    for _ in range(9):
        again.learn(1, 1, 0.080)
    assert again.seconds(1, 1) == pytest.approx(0.080)


def test_nothing_is_kept_before_anything_was_learned(tmp_path: Path) -> None:
    keep(tmp_path, HERE, CostModel())
    assert not list(tmp_path.iterdir())


def test_damage_only_means_that_costs_are_learned_again(tmp_path: Path) -> None:
    keep(tmp_path, HERE, learned())
    (file,) = tmp_path.iterdir()
    whole = json.loads(file.read_text())
    for points in (
        None, 7, "x", [[1]], [["a", 1, 1]], [[0, 0, 1]], [[1, 1, -1]], [[1, 2, 1.0]], [[1, 1, 1e400]], {"a": 1},
    ):  # fmt: skip
        file.write_text(json.dumps(whole | {"points": points}))
        assert recall(tmp_path, HERE).points() == []
    for damage in (b"", b"{", b"\xff", b"[" * 100_000):
        file.write_bytes(damage)
        assert recall(tmp_path, HERE).points() == []
    keep(tmp_path / "missing", HERE, learned())
    assert recall(tmp_path / "missing", HERE).points() == []
