"""A model without weights: logits are a hash of the prefix. For tests, of this project and of its users.

The vocabulary is small, byte-level, and has multi-byte tokens, two end markers and a control token, so that it shows
the same edges as a real one.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from llguidance import LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from engine.decoding.streams import Part
from engine.errors import Aborted
from engine.events import ModelInfo
from engine.specials import Special
from engine.template import ChatTemplate
from engine.turn import Engine

_WORDS = (
    '{"', '":"', '","', '":', ',"', '"}', '"]', '["', "true", "false", "null", "name", "city", "the", " the", "ing",
    "er", "on", "in", " a", "00", "10", "19", "20", "é", "😀", "ü", "\n\n", "  ", "yes", "no", "car", "cart",
)  # fmt: skip
_CONTROLS = ("<|end|>", "<|eot|>", "<|user|>", "<|assistant|>")
_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message.role + '|>' if message.role != 'system' else '' }}"
    "{{ message.content }}{{ '<|end|>' if message.role != 'system' else '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class FakeVocabulary:
    """256 byte tokens, some words, and four control tokens of which two end a generation.

    `words` and `controls` are more of both, for templates that need them.
    """

    def __init__(self, words: Sequence[str] = (), controls: Sequence[str] = ()) -> None:
        self._controls = (*_CONTROLS, *controls)
        self._pieces = [bytes((byte,)) for byte in range(256)]
        self._pieces += [word.encode() for word in (*_WORDS, *words)]
        self.fingerprint = "\0".join(("fake", *words, *controls))
        """The same for every instance with the same words and controls."""
        self._first_control = len(self._pieces)
        self._ids = {piece: token for token, piece in enumerate(self._pieces)}
        self._longest = max(map(len, self._pieces))

    @property
    def size(self) -> int:
        """Number of logits in a row."""
        return self._first_control + len(self._controls)

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end a generation."""
        return frozenset((self._first_control, self._first_control + 1))

    @property
    def specials(self) -> tuple[Special, ...]:
        """The control tokens, longest text first, as a chat template needs them."""
        found = (
            Special(id=self._first_control + place, text=text, control=True)
            for place, text in enumerate(self._controls)
        )
        return tuple(sorted(found, key=lambda special: -len(special.text)))

    adds_bos = False
    bos_id: int | None = None
    bos_text = ""
    eos_text = _CONTROLS[0]

    @property
    def tokenizer(self) -> LLTokenizer:
        """The grammar library's view; built on first use."""
        return self._bridge

    @cached_property
    def _bridge(self) -> LLTokenizer:
        return LLTokenizer(TokenizerWrapper(_Wrapped(self)), eos_token=sorted(self.end_ids))

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of plain text by longest match."""
        return self.tokenize_bytes(text.encode("utf-8", "replace"))

    def tokenize_fragment(self, text: str) -> list[int]:
        """Return the ids of text behind a control token; the same as elsewhere."""
        return self.tokenize(text)

    def tokenize_bytes(self, data: bytes) -> list[int]:
        """Return the ids of bytes by longest match."""
        ids: list[int] = []
        at = 0
        while at < len(data):
            size = next(size for size in range(self._longest, 0, -1) if data[at : at + size] in self._ids)
            size = min(size, len(data) - at)
            ids.append(self._ids[data[at : at + size]])
            at += size
        return ids

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for control tokens. Raises `IndexError` outside the vocabulary."""
        if not 0 <= token < self.size:
            raise IndexError(f"Token {token} is outside the vocabulary of {self.size}.")
        return self._pieces[token] if token < self._first_control else b""

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")


class _Wrapped:
    """What `TokenizerWrapper` asks of a tokenizer."""

    def __init__(self, vocabulary: FakeVocabulary) -> None:
        first = min(vocabulary.end_ids)
        self.eos_token_id = first
        self.bos_token_id = None
        controls = sorted(vocabulary.specials, key=lambda special: special.id)
        self.tokens = [vocabulary.piece(token) for token in range(first)] + [
            c.text.encode() for c in controls
        ]
        self.special_token_ids = list(range(first, len(self.tokens)))
        self._vocabulary = vocabulary

    def __call__(self, data: bytes) -> list[int]:
        return self._vocabulary.tokenize_bytes(data)


class FakeContext:
    """A cache whose rows depend on the whole prefix and on nothing else.

    `spread` is the standard deviation of the logits: small values make every choice likely. `can_drop` False
    behaves like a recurrent memory. `decoded` counts the forwards, `rows` the rows of logits asked for.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        length: int = 4096,
        batch: int = 64,
        spread: float = 6.0,
        can_drop: bool = True,
    ) -> None:
        self.tokens: list[int] = []
        self.length = length
        self.batch = batch
        self.decoded = 0
        self.rows = 0
        self.aborted = False
        self._vocab_size = vocab_size
        self._spread = np.float32(spread)
        self.can_rollback = can_drop
        self._states: list[int] = [0x5EED]

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        """Append tokens and return rows of shape [vocabulary size]."""
        if not 0 < len(tokens) <= self.batch or len(self.tokens) + len(tokens) > self.length:
            raise ValueError("a batch outside the bounds of the context")
        if self.aborted:
            raise Aborted
        start = len(self.tokens)
        for token in tokens:
            self._states.append(
                (self._states[-1] * 6364136223846793005 + token + 1442695040888963407) % 2**64
            )
        self.tokens.extend(tokens)
        self.decoded += 1
        self.rows += len(wanted)
        return [self._row(self._states[start + index + 1]) for index in wanted]

    def keep(self, count: int) -> int:
        """Drop what follows the first `count` tokens; everything if a tail cannot be dropped."""
        if count < len(self.tokens):
            count = count if self.can_rollback else 0
            del self.tokens[count:]
            del self._states[count + 1 :]
        return len(self.tokens)

    def twin(self, length: int) -> "FakeContext":
        """Return an empty context of the same model, with a length of its own."""
        return FakeContext(
            self._vocab_size,
            length=length,
            batch=self.batch,
            spread=float(self._spread),
            can_drop=self.can_rollback,
        )

    def streams(self, count: int, length: int) -> "FakeStreams":
        """Return an empty cache for several sequences, aborted together with this one."""
        return FakeStreams([self.twin(length) for _ in range(count)], self)

    def close(self) -> None:
        """Nothing to give back."""

    def take_over(self, other: "FakeContext") -> None:
        """Take over what is in the cache of another."""
        self.tokens = list(other.tokens)
        self._states = list(other._states)

    def abort(self) -> None:
        """Make every later `decode` raise `Aborted`."""
        self.aborted = True

    def clear_abort(self) -> None:
        """Let `decode` work again."""
        self.aborted = False

    def _row(self, state: int) -> NDArray[np.float32]:
        generator = np.random.Generator(np.random.Philox(key=state))
        return generator.standard_normal(self._vocab_size, dtype=np.float32) * self._spread


class FakeStreams:
    """Several fake caches that share every forward; `decoded` counts those. Aborted together with `owner`."""

    def __init__(self, contexts: list[FakeContext], owner: FakeContext) -> None:
        self.length = contexts[0].length
        self.batch = owner.batch
        self.can_rollback = owner.can_rollback
        self.decoded = 0
        self.closed = False
        self._contexts = contexts
        self._owner = owner

    @property
    def tokens(self) -> list[list[int]]:
        """What is in the cache of each stream."""
        return [context.tokens for context in self._contexts]

    def decode(self, parts: Sequence[Part]) -> list[list[NDArray[np.float32]]]:
        """Append tokens to streams in ascending order and return the rows of each part."""
        streams = [part.stream for part in parts]
        if (
            not streams
            or streams != sorted(set(streams))
            or not 0 <= streams[0] <= streams[-1] < len(self._contexts)
        ):
            raise ValueError("streams are ascending numbers without gaps")
        if sum(len(part.tokens) for part in parts) > self.batch:
            raise ValueError("a batch outside the bounds of the context")
        if self._owner.aborted:
            raise Aborted
        self.decoded += 1
        return [self._contexts[part.stream].decode(part.tokens, part.wanted) for part in parts]

    def keep(self, stream: int, count: int) -> int:
        """Drop what follows the first `count` tokens of a stream; everything if a tail cannot be dropped."""
        return self._contexts[stream].keep(count)

    def copy(self, source: int, target: int) -> None:
        """Make the cache of a stream equal to that of another."""
        self._contexts[target].take_over(self._contexts[source])

    def drop(self, stream: int) -> None:
        """Forget a stream; the last one takes its number."""
        last = self._contexts.pop()
        if stream < len(self._contexts):
            self._contexts[stream] = last

    def close(self) -> None:
        """Note that the caches were given back."""
        self.closed = True


def fake_engine(
    *,
    length: int = 4096,
    spread: float = 6.0,
    vocabulary: FakeVocabulary | None = None,
    template: str = _TEMPLATE,
) -> Engine:
    """Return an engine over the fake vocabulary, context and a template with control tokens."""
    vocabulary = vocabulary or FakeVocabulary()
    return Engine(
        model=ModelInfo(
            name="Fake",
            path="",
            architecture="fake",
            parameters=0,
            quantization="none",
            vocab_size=vocabulary.size,
            context_length=length,
            size_bytes=0,
            fingerprint="fake",
            vocabulary=vocabulary.fingerprint,
            template_hash="fake",
            has_template=True,
        ),
        vocabulary=vocabulary,
        context=FakeContext(vocabulary.size, length=length, spread=spread),
        template=ChatTemplate(template, vocabulary),
        exact="exact",
    )
