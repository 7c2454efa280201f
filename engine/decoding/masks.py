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
    words = np.flatnonzero(mask)
    if 4 * words.size > mask.size:
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    places, bits = np.nonzero(np.unpackbits(mask[words].view(np.uint8), bitorder="little").reshape(-1, 32))
    return 32 * words[places] + bits


def only_legal(mask: Bits) -> int | None:
    """Return the one id that a mask allows; None if it allows none or several."""
    if np.count_nonzero(mask) != 1:
        return None
    place = int(mask.argmax())
    word = int(mask[place])
    return None if word & (word - 1) else 32 * place + word.bit_length() - 1


def count_legal(mask: Bits) -> int:
    """Return how many ids a mask allows."""
    return int(np.bitwise_count(mask).sum())
