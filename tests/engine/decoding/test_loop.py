"""The loop detector: what goes round is cut where the rule says, what only looks alike is not."""

import numpy as np
import pytest

from engine.decoding.loop import LoopDetector
from engine.fake import FakeVocabulary

VOCABULARY = FakeVocabulary()


def cut(tokens) -> int | None:
    """Return after how many tokens the detector cuts, or None."""
    detector = LoopDetector()
    return next((place for place, token in enumerate(tokens, 1) if detector.add(token)), None)


def by_the_rule(tokens: list[int]) -> int | None:
    for end in range(1, len(tokens) + 1):
        for period in range(1, 17):
            size = max(64, 8 * period)
            tail = tokens[max(0, end - size) : end]
            if len(tail) == size and tail[period:] == tail[:-period]:
                return end
    return None


@pytest.mark.parametrize("period", range(1, 17))
def test_a_period_is_cut_at_eight_repeats_and_sixty_four_tokens(period):
    start = [1000, 1001]
    assert cut(start + [*range(period)] * 100) == len(start) + max(64, 8 * period)


def test_a_period_of_seventeen_is_not_cut():
    assert cut([*range(17)] * 100) is None


def test_it_is_the_rule_itself():
    dice = np.random.default_rng(3)
    found = 0
    for _ in range(60):
        tokens: list[int] = []
        while len(tokens) < 300:
            phrase = dice.integers(3, size=int(dice.integers(1, 18))).tolist()
            tokens += phrase * int(dice.integers(1, 14))
        assert cut(tokens) == by_the_rule(tokens)
        found += by_the_rule(tokens) is not None
    assert 0 < found < 60


def test_a_copy_goes_on_by_itself():
    detector = LoopDetector()
    for _ in range(63):
        assert not detector.add(7)
    twin = detector.copy()
    assert not twin.add(8)
    assert detector.add(7)


KEPT = {
    "table": "".join(f"| item {row:02} | {row * 7 % 10} | yes | 0.00 |\n" for row in range(40)),
    "code": "".join(f"    case {n}:\n        return table[{n}];\n" for n in range(40)),
    "numbers": "\n".join(str(n) for n in range(200)),
    "list": "".join(f"- [ ] task {chr(97 + n % 26)}\n" for n in range(40)),
    "refrain": "Row, row, row your boat, gently down the stream.\n" * 3
    + "Merrily, merrily, merrily, merrily, life is but a dream.\n" * 3,
    "art": "\n".join(" " * (20 - n) + "/" * n + "\\" * n for n in range(1, 21)),
    "rule": "=" * 60 + "\nTitle\n" + "-" * 60 + "\n",
    "zeros": "0" * 60 + "1",
    "matrix": "\n".join(" ".join(str(int(row == column)) for column in range(12)) for row in range(12)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_it_does_not_cut(name):
    """One token a byte, so that periods are as long as the text has them."""
    assert cut(KEPT[name].encode()) is None
    assert cut(VOCABULARY.tokenize(KEPT[name])) is None
