"""What the engine needs of a vocabulary, real or fake."""

from collections.abc import Sequence
from typing import Protocol

from llguidance import LLTokenizer


class Vocabulary(Protocol):
    """Ids, their bytes, and the bridge to the grammar library."""

    @property
    def size(self) -> int:
        """Number of logits in a row; at least the number of tokens."""
        ...

    @property
    def end_ids(self) -> frozenset[int]:
        """Every id that ends a generation."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies that give every id the same meaning."""
        ...

    @property
    def tokenizer(self) -> LLTokenizer:
        """The grammar library's view of this vocabulary; built on first use, 0.15 to 2 seconds."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of plain text; no control token, no begin or end marker is ever among them."""
        ...

    def piece(self, token: int) -> bytes:
        """Return the bytes a token adds to a reply; empty for control tokens."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of a reply's tokens, broken characters replaced by U+FFFD."""
        ...
