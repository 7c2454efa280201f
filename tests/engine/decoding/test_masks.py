"""Reading masks: a bit a token, and nothing outside."""

import numpy as np

from engine.decoding.masks import count_legal, is_legal, legal_ids

MASK = np.array([1 << 31 | 1, 0, 1 << 5], dtype=np.uint32)


def test_bits_ids_and_count_agree() -> None:
    assert legal_ids(MASK).tolist() == [0, 31, 69]
    assert [token for token in range(-3, 200) if is_legal(MASK, token)] == [0, 31, 69]
    assert count_legal(MASK) == 3


def test_without_a_mask_every_id_is_legal() -> None:
    assert is_legal(None, 10**6)
    assert not is_legal(None, -1)
