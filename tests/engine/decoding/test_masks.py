"""Reading masks: a bit a token, and nothing outside."""

import numpy as np

from engine.decoding.masks import count_legal, is_legal, legal_ids, only_legal

MASK = np.array([1 << 31 | 1, 0, 1 << 5], dtype=np.uint32)


def test_bits_ids_and_count_agree() -> None:
    assert legal_ids(MASK).tolist() == [0, 31, 69]
    assert [token for token in range(-3, 200) if is_legal(MASK, token)] == [0, 31, 69]
    assert count_legal(MASK) == 3


def test_sparse_and_dense_masks_are_read_alike() -> None:
    dice = np.random.default_rng(0)
    for share in (0, 0.001, 0.01, 0.3, 1):
        flags = dice.random(32 * 40) < share
        mask = np.packbits(flags, bitorder="little").view(np.uint32)
        assert legal_ids(mask).tolist() == np.flatnonzero(flags).tolist()


def test_the_only_legal_id_is_the_one_that_all_ids_come_to() -> None:
    for ids in ([], [0], [31], [64], [95], [3, 4], [3, 40], list(range(96))):
        flags = np.zeros(96, dtype=np.bool_)
        flags[ids] = True
        mask = np.packbits(flags, bitorder="little").view(np.uint32)
        assert only_legal(mask) == (ids[0] if len(ids) == 1 else None)


def test_without_a_mask_every_id_is_legal() -> None:
    assert is_legal(None, 10**6)
    assert not is_legal(None, -1)
