"""Reading a mask of legal tokens: one bit a token, little-endian, in words of 32. Pure."""

import numpy as np
from numpy.typing import NDArray

from engine.decoding.processor import Bits


def is_legal(mask: Bits | None, token: int) -> bool:
    """Tell whether a mask allows a token, which is never one outside of it; without a mask every id is legal."""
    if mask is None:
        return token >= 0
    return 0 <= token < 32 * mask.size and int(mask[token >> 5]) >> (token & 31) & 1 == 1


def legal_ids(mask: Bits) -> NDArray[np.intp]:
    """Return the ids that a mask allows, ascending."""
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


def count_legal(mask: Bits) -> int:
    """Return how many ids a mask allows."""
    return int(np.bitwise_count(mask).sum())
