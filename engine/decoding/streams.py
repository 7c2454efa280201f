"""The contract of a cache for several sequences that share every forward. Knows token ids only."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.decoding.processor import Row


class Part(NamedTuple):
    """What one stream adds to a forward; `wanted` are indices of `tokens` whose logits are to be read."""

    stream: int
    tokens: Sequence[int]
    wanted: Sequence[int]


class Streams(Protocol):
    """Several sequences in one memory, numbered from 0 without gaps."""

    tokens: list[list[int]]
    """What is in the cache of each stream."""
    length: int
    """Positions of one stream."""
    batch: int
    """The largest number of tokens in one `decode`, of all streams together."""
    can_rollback: bool
    """Whether `keep` can drop a tail."""

    def decode(self, parts: Sequence[Part]) -> list[list[Row]]:
        """Append tokens to streams in ascending order; return the rows of each part, valid until the next decode."""
        ...

    def keep(self, stream: int, count: int) -> int:
        """Drop what follows the first `count` tokens of a stream; return how many are left."""
        ...

    def copy(self, source: int, target: int) -> None:
        """Make the cache of `target` equal to that of `source`."""
        ...

    def drop(self, stream: int) -> None:
        """Forget a stream; the last one takes its number."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...
