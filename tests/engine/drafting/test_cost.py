"""The cost model follows the machine and not its hiccups; the gate takes the prefix with the best goodput."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.constrained import Draft
from engine.drafting.cost import CostModel, Gate, Point

# Measured on SmolLM2 135M Q4_1, two threads: all rows with logits, and logits on the last row only.
SMOLLM2 = [
    (1, 1, 0.0126), (2, 2, 0.021), (4, 4, 0.034), (8, 8, 0.060), (16, 16, 0.113),
    (2, 1, 0.020), (4, 1, 0.027), (8, 1, 0.049), (16, 1, 0.090),
]  # fmt: skip


def staircase(rows: int, logit_rows: int) -> float:
    """Kernels that compute four rows at the price of one."""
    return 0.010 + 0.012 * ((rows + 3) // 4) + 0.0005 * logit_rows


STAIRCASE = [
    (rows, logit_rows, staircase(rows, logit_rows))
    for rows in range(1, 40)
    for logit_rows in range(1, min(rows, 20) + 1)
]


def guess(p: float) -> Draft:
    return Draft(7, p, certain=False)


CERTAIN = Draft(8, 1.0, certain=True)


def recorded(points: list[tuple[int, int, float]]) -> CostModel:
    return CostModel.from_points(points, learning=False)


def test_a_recorded_curve_is_given_back_and_read_between_its_points() -> None:
    model = recorded(SMOLLM2)
    for rows, logit_rows, seconds in SMOLLM2:
        assert model.seconds(rows, logit_rows) == pytest.approx(seconds, rel=0.01)
    assert model.seconds(2, 2) < model.seconds(3, 3) < model.seconds(4, 4)
    assert model.seconds(4, 1) < model.seconds(4, 2) < model.seconds(4, 4)


def test_a_curve_survives_being_stored() -> None:
    model = CostModel()
    for rows, logit_rows, seconds in SMOLLM2 * 3:
        model.learn(rows, logit_rows, seconds * 2)
    points = json.loads(json.dumps(model.points()))
    restored = CostModel.from_points(points)
    assert [Point(*point) for point in points] == model.points()
    for rows in range(1, 20):
        assert restored.seconds(rows, 1) == pytest.approx(model.seconds(rows, 1), rel=0.02)


@pytest.mark.parametrize("point", [(0, 0, 0.1), (2, 3, 0.1), (2, 1, 0.0), (2, 1, float("inf"))])
def test_what_is_no_measurement_is_refused(point: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError):
        CostModel.from_points([point])


@pytest.mark.parametrize("slower", [0.05, 1, 40])
def test_learning_converges_from_the_assumed_curve_whatever_the_machine(slower: float) -> None:
    model = CostModel()
    for _ in range(5):
        for rows in range(1, 12):
            for logit_rows in {1, min(rows, 3), rows}:
                model.learn(rows, logit_rows, slower * staircase(rows, logit_rows))
    for rows in range(1, 12):
        assert model.seconds(rows, 1) == pytest.approx(slower * staircase(rows, 1), rel=0.02)
        assert model.seconds(rows, rows) == pytest.approx(slower * staircase(rows, rows), rel=0.02)


def test_one_kind_of_forward_tells_the_scale_of_all() -> None:
    model = CostModel()
    before = model.seconds(5, 5) / model.seconds(1, 1)
    for _ in range(4):
        model.learn(1, 1, 3.0)
    assert model.seconds(1, 1) == pytest.approx(3.0)
    assert model.seconds(5, 5) / model.seconds(1, 1) == pytest.approx(before)


def test_a_stall_poisons_neither_a_known_kind_nor_a_new_one() -> None:
    model = CostModel()
    for _ in range(6):
        model.learn(1, 1, 0.011)
        model.learn(3, 1, 0.017)
    model.learn(1, 1, 5.0)
    assert model.seconds(1, 1) == pytest.approx(0.011, rel=0.02)
    expected = model.seconds(2, 2)
    model.learn(2, 2, 5.0)
    assert model.seconds(2, 2) < 1.6 * expected
    for _ in range(4):
        model.learn(2, 2, 0.016)
    assert model.seconds(2, 2) == pytest.approx(0.016, rel=0.02)


def test_a_first_forward_that_stalls_is_forgotten_after_three() -> None:
    model = CostModel()
    for seconds in (4.0, 0.011, 0.011):
        model.learn(1, 1, seconds)
    assert model.seconds(1, 1) == pytest.approx(0.011, rel=0.02)


def test_a_bad_estimate_that_is_never_measured_again_fades() -> None:
    model = CostModel()
    for _ in range(6):
        model.learn(1, 1, 0.011)
    model.learn(2, 2, 5.0)
    poisoned = model.seconds(2, 2)
    for _ in range(1500):
        model.learn(1, 1, 0.011)
        model.learn(2, 1, 0.0142)
    assert model.seconds(2, 2) < 0.75 * poisoned
    assert model.seconds(2, 2) == pytest.approx(0.0162, rel=0.1)


def test_a_machine_that_becomes_busy_is_followed() -> None:
    model = CostModel()
    for seconds in [0.011] * 50 + [0.033] * 32:
        model.learn(1, 1, seconds)
    assert model.seconds(1, 1) == pytest.approx(0.033, rel=0.02)


def test_prompts_and_clocks_that_stand_still_teach_nothing() -> None:
    model = CostModel()
    model.learn(512, 1, 9.0)
    model.learn(1, 1, 0.0)
    model.learn(1, 1, float("nan"))
    assert model.points() == []


def test_a_recorded_curve_does_not_learn() -> None:
    model = recorded(SMOLLM2)
    gate = Gate(model)
    before = model.points()
    gate.learn(1, 1, 100.0)
    assert model.points() == before


def test_improbable_guesses_are_never_drafted_where_rows_are_dear() -> None:
    gate = Gate(recorded(SMOLLM2))
    for p in (0.0, 0.1, 0.3, 0.4):
        for size in range(1, 16):
            assert gate.choose([guess(p)] * size, 1) == 0


def test_sure_guesses_are_drafted_to_the_end() -> None:
    gate = Gate(recorded(SMOLLM2))
    assert gate.choose([guess(0.99)] * 12, 1) == 12


def test_a_long_prompt_does_not_make_bad_guesses_look_cheap() -> None:
    gate = Gate(recorded(SMOLLM2))
    assert gate.choose([guess(0.2)] * 4, 500) == 0


def test_certain_tokens_behind_a_sure_guess_are_carried_and_never_cut() -> None:
    gate = Gate(recorded(SMOLLM2))
    draft = [guess(0.95), CERTAIN, CERTAIN, CERTAIN, guess(0.05)]
    assert gate.choose(draft, 1) == 4
    assert gate.choose([CERTAIN, CERTAIN], 3) == 2
    assert gate.choose([CERTAIN, guess(0.01)], 3) == 1


def test_a_long_forced_span_behind_an_unlikely_guess_is_not_bought() -> None:
    gate = Gate(recorded(SMOLLM2))
    assert gate.choose([guess(0.5)] + [CERTAIN] * 10, 1) == 0


def test_guesses_that_are_free_on_a_staircase_are_taken_and_the_next_step_is_not() -> None:
    gate = Gate(recorded(STAIRCASE))
    assert gate.choose([guess(0.5)] * 12, 1) == 3
    assert gate.choose([guess(0.5)] * 12, 3) == 1
    assert gate.choose([guess(0.3)] * 12, 4) == 0


def test_a_step_that_alone_does_not_pay_is_crossed_when_what_follows_does() -> None:
    gate = Gate(recorded(STAIRCASE), margin=0)
    assert gate.choose([guess(0.5)], 4) == 0
    assert gate.choose([guess(0.5)] * 4, 4) == 4


@given(p=st.floats(allow_nan=True, allow_infinity=True))
def test_probabilities_that_are_none_do_no_harm(p: float) -> None:
    assert 0 <= Gate(recorded(SMOLLM2)).choose([guess(p)] * 3, 1) <= 3


def goodput(model: CostModel, draft: list[Draft], pending: int, size: int) -> float:
    """Plain seconds committed a second, worked out from the definition for a draft that begins with a guess."""
    places = [place for place, drafted in enumerate(draft) if not drafted.certain]
    work = model.seconds(pending, 1)
    for place, following in pairwise([*places, len(draft)]):
        if place < size:
            reached = 1.0
            for drafted in draft[: place + 1]:
                reached *= drafted.p
            work += reached * model.seconds(following - place, 1)
    guesses = sum(place < size for place in places)
    return work / model.seconds(pending + size, guesses + 1)


drafts = st.lists(
    st.one_of(st.just(CERTAIN), st.floats(0, 1).map(guess)), min_size=0, max_size=16
)  # fmt: skip


@given(draft=drafts, pending=st.integers(1, 20), points=st.sampled_from([SMOLLM2, STAIRCASE]))
def test_the_choice_is_a_prefix_with_the_best_goodput(
    draft: list[Draft], pending: int, points: list[tuple[int, int, float]]
) -> None:
    model = recorded(points)
    chosen = Gate(model, margin=0.03).choose(draft, pending)
    assert 0 <= chosen <= len(draft)
    assert chosen == Gate(model, margin=0.03).choose(draft, pending)
    lead = next((place for place, drafted in enumerate(draft) if not drafted.certain), len(draft))
    draft, pending, chosen = draft[lead:], pending + lead, chosen - lead
    cuts = [size for size in range(1, len(draft) + 1) if size == len(draft) or not draft[size].certain]
    best = max((goodput(model, draft, pending, size) for size in cuts), default=0.0)
    if chosen == 0:
        assert best <= 1.03 * (1 + 1e-9)
    else:
        assert chosen in cuts
        assert goodput(model, draft, pending, chosen) == pytest.approx(best)
        assert best > 1.03 * (1 - 1e-9)


def test_statistics_say_why_a_round_was_not_drafted() -> None:
    muted = True
    gate = Gate(recorded(SMOLLM2), muted=lambda: muted)
    gate.choose([], 1)
    muted = False
    gate.choose([], 1)
    gate.choose([guess(0.1)], 1)
    gate.choose([guess(0.99)], 1)
    assert gate.statistics() == {
        "rounds": 4,
        "drafted": 1,
        "declined_no_guess": 1,
        "declined_not_worth_it": 1,
        "declined_muted": 1,
    }


def test_a_guess_below_the_least_probability_never_pays_whatever_stands_behind_it() -> None:
    gate = Gate(CostModel(fixed=0.006, row=0.005, logit_row=0.0015, learning=False))
    least = gate.least(1, 16)
    assert 0.4 < least < 0.7
    for p in (least - 0.01, least + 0.05):
        sure = [Draft(7, p, certain=False)] + [Draft(7, 1.0, certain=False)] * 15
        best = max(gate.choose(sure[: size + 1], 1) for size in range(16))
        assert (best > 0) == (p > least)


def test_the_least_probability_follows_what_is_learned() -> None:
    gate = Gate(CostModel())
    before = gate.least(1, 16)
    for _ in range(200):
        gate.learn(1, 1, 0.03)
        gate.learn(9, 9, 0.033)
    assert gate.least(1, 16) < before / 2
    assert gate.least(1, 16) == Gate(gate.cost).least(1, 16)


def test_where_rows_cost_nothing_nearly_every_guess_may_pay() -> None:
    gate = Gate(CostModel(fixed=1, row=0.001, logit_row=0.001, learning=False))
    assert gate.least(1, 16) < 0.05


def test_recorded_forwards_bring_the_proportions_of_their_machine() -> None:
    recorded = [(1, 1, 0.0126), (2, 2, 0.021), (8, 8, 0.06), (16, 16, 0.113), (8, 1, 0.049), (16, 1, 0.09)]
    model = CostModel.from_points(recorded, learning=False)
    for rows, logit_rows, seconds in recorded:
        assert model.seconds(rows, logit_rows) == pytest.approx(seconds, rel=0.02)
    assert 0.053 < model.seconds(8, 4) < 0.055  # between one row of logits and eight
    assert model.seconds(12, 12) == pytest.approx(0.0865, rel=0.03)
