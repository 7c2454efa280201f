"""The vocabulary of a loaded model: ids, their bytes, and the bridge to the grammar library.

Knows nothing of contexts, chats or templates. Invariants: text never becomes a control or end-of-generation
token (an unknown token only where a character cannot be spelled); `text(tokens)` is what `piece` gives,
joined; `text(tokenize(t)) == t` wherever the vocabulary can spell `t` (a tokenizer's own normalisation
excepted). The bytes of a reply are what the grammar sees: a leading space that a SentencePiece model writes
is part of it.
"""

import ctypes
import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from llguidance import LLTokenizer

from engine.gguf import ModelFileError
from engine.llama.library import llama_cpp
from engine.specials import Special, partition

_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
_SPECIAL = _CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
_SIZES_APART = 128
_FIRST_COMPARED = 5
_SENTINELS = ("\x02", "\n", "\x1f", "~", "a")
_Tokenize = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int32),
    ctypes.c_int32,
    ctypes.c_bool,
    ctypes.c_bool,
)


class VocabularyError(ModelFileError):
    """A vocabulary that cannot be used for generation."""


class LlamaVocabulary:
    """A llama.cpp vocabulary; see `engine.vocabulary.Vocabulary`.

    `owner` is whatever keeps the pointer alive and is held for as long as this object lives. `size` is the
    number of logits in a row; ids from the number of tokens up to it are padding and have empty bytes. Reads
    every token once (about 0.2 seconds at 100,000). Raises `VocabularyError` where there is no vocabulary.
    """

    def __init__(self, vocab_pointer: llama_cpp.llama_vocab_p, *, owner: object, size: int) -> None:
        if llama_cpp.llama_vocab_type(vocab_pointer) == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
            raise VocabularyError("This model file carries no vocabulary, so it cannot read or write text.")
        self._pointer = vocab_pointer
        self._owner = owner
        self._count = llama_cpp.llama_vocab_n_tokens(vocab_pointer)
        self._size = size
        if size < self._count:
            raise VocabularyError(
                f"Rows of {size} logits are smaller than the vocabulary of {self._count} tokens."
            )
        self._attributes = [llama_cpp.llama_vocab_get_attr(vocab_pointer, i) for i in range(self._count)]
        self._end_ids = frozenset(
            i for i in range(self._count) if llama_cpp.llama_vocab_is_eog(vocab_pointer, i)
        )
        # Unknown tokens stand for text that cannot be spelled; llama.cpp treats them like control tokens.
        self._control_ids = self._end_ids | {i for i, a in enumerate(self._attributes) if a & _CONTROL}
        self._spellings = _read_pieces(vocab_pointer, self._count)
        self._pieces = [b"" if i in self._control_ids else p for i, p in enumerate(self._spellings)]
        self._specials = self._read_specials()
        self._plain_specials = tuple(s for s in self._specials if not s.control)
        self._spaced = self._decode(self._raw(b"a")) != b"a"
        self._stripping = any(s.lstrip or s.rstrip for s in self._plain_specials)
        # User-defined tokens that end the generation are matched in plain text, which must not happen.
        self._dangerous = tuple(s for s in self._specials if s.id in self._end_ids and not self._hidden(s.id))

    @property
    def size(self) -> int:
        """Number of logits in a row."""
        return self._size

    @property
    def count(self) -> int:
        """Number of tokens; ids from here to `size` are padding."""
        return self._count

    @property
    def end_ids(self) -> frozenset[int]:
        """Every id that ends a generation."""
        return self._end_ids

    @property
    def control_ids(self) -> frozenset[int]:
        """Ids that text never becomes: control, unknown and end-of-generation tokens."""
        return self._control_ids

    @property
    def specials(self) -> tuple[Special, ...]:
        """Tokens that are matched as whole texts, longest text first."""
        return self._specials

    @property
    def bos_id(self) -> int | None:
        """The id that begins a text, if there is one."""
        return _present(llama_cpp.llama_vocab_bos(self._pointer))

    @property
    def eos_id(self) -> int | None:
        """The id that ends a text, if there is one; `end_ids` has them all."""
        return _present(llama_cpp.llama_vocab_eos(self._pointer))

    @property
    def bos_text(self) -> str:
        """The text of `bos_id` as templates write it; empty if there is none."""
        return "" if self.bos_id is None else self._text_of(self.bos_id)

    @property
    def eos_text(self) -> str:
        """The text of `eos_id` as templates write it; empty if there is none."""
        return "" if self.eos_id is None else self._text_of(self.eos_id)

    @property
    def adds_bos(self) -> bool:
        """True when a prompt must begin with `bos_id`."""
        return self.bos_id is not None and bool(llama_cpp.llama_vocab_get_add_bos(self._pointer))

    @property
    def fingerprint(self) -> str:
        """SHA-256 over type, begin and end rules, every token's bytes and attributes; not over padding."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        rules = (
            llama_cpp.llama_vocab_type(self._pointer),
            self.bos_id,
            self.eos_id,
            self.adds_bos,
            bool(llama_cpp.llama_vocab_get_add_eos(self._pointer)),
            self._spaced,
            sorted(self._end_ids),
        )
        digest.update(repr(rules).encode())
        for spelling, attribute in zip(self._spellings, self._attributes, strict=True):
            digest.update(b"%d %d " % (attribute, len(spelling)) + spelling)
        return digest.hexdigest()

    @property
    def tokenizer(self) -> LLTokenizer:
        """The grammar library's view; built on first use. It points into the model: keep this object as long.

        Only ids that text never becomes are marked as special (0xFF in front). `llguidance.llamacpp` marks
        user-defined tokens such as `</think>` too: llama.cpp matches those in plain text, and the mask would
        then demand a token that the matcher refuses.
        """
        return self._bridge

    @cached_property
    def _bridge(self) -> LLTokenizer:
        if not self._end_ids:
            raise VocabularyError("This vocabulary has no end-of-generation token, so it cannot fill shapes.")
        marked = [b"\xff" + s if i in self._control_ids else s for i, s in enumerate(self._spellings)]
        marked += [b""] * (self._size - self._count)
        function = llama_cpp.llama_cpp._lib.llama_tokenize
        if self._dangerous or (self._plain_specials and (self._spaced or self._stripping)):
            # llama.cpp puts a space behind (or strips blanks around) a token matched inside plain text, so
            # its ids no longer spell the text they were made from. Ours do.
            self._callback = _Tokenize(self._tokenize_for_bridge)
            function = self._callback
        address = ctypes.cast(function, ctypes.c_void_p).value
        return LLTokenizer.from_llamacpp(  # pyright: ignore[reportAttributeAccessIssue]
            tokens=marked, vocab_ptr=self._pointer, tokenize_fptr=address, eos_token=sorted(self._end_ids)
        )

    def incompatible_with(self, draft: "LlamaVocabulary") -> str | None:
        """Say in a sentence why a model with the vocabulary `draft` cannot draft for this one, or return None.

        llama.cpp's conditions (`common/speculative.cpp`): the same type, the same begin and end rules, sizes at most
        128 apart, and the same text for every id from 5 on, as far as both go.
        """
        mine, its = self._pointer, draft._pointer
        if llama_cpp.llama_vocab_type(mine) != llama_cpp.llama_vocab_type(its):
            return "Its tokenizer is of another type."
        for what, adds, marker in (
            ("begins", llama_cpp.llama_vocab_get_add_bos, llama_cpp.llama_vocab_bos),
            ("ends", llama_cpp.llama_vocab_get_add_eos, llama_cpp.llama_vocab_eos),
        ):
            if adds(mine) != adds(its) or (adds(mine) and marker(mine) != marker(its)):
                return f"It {what} a text by another rule."
        if abs(self._count - draft._count) > _SIZES_APART:
            return f"It has {draft._count} tokens and not {self._count}."
        for token in range(_FIRST_COMPARED, min(self._count, draft._count)):
            texts = draft._text_of(token), self._text_of(token)
            if texts[0] != texts[1]:
                return f"Its token {token} is {texts[0]!a} and not {texts[1]!a}."
        return None

    def tokenize(self, text: str) -> list[int]:
        """Return the ids that spell plain text, with nothing added; lone surrogates count as U+FFFD."""
        text = _SURROGATES.sub("\ufffd", text)
        if not self._spaced and not self._stripping:
            return self._guarded(text, fresh=True)
        ids: list[int] = []
        for part in partition(text, self._safe_specials, strip=False):
            ids += [part] if isinstance(part, int) else self._guarded(part, fresh=False)
        return ids

    def tokenize_fragment(self, text: str) -> list[int]:
        """Return the ids of plain text at the start of a prompt or behind a special token.

        Like `tokenize`, but SentencePiece vocabularies put their space in front, as llama.cpp does there.
        """
        return self._guarded(_SURROGATES.sub("\ufffd", text), fresh=True)

    def tokenize_special(self, text: str, *, add_special: bool = False) -> list[int]:
        """Return llama.cpp's own ids of trusted text in which special texts become special tokens."""
        return self._raw(
            _SURROGATES.sub("\ufffd", text).encode(), add_special=add_special, parse_special=True
        )

    def piece(self, token: int) -> bytes:
        """Return the bytes a token adds to a reply; empty for control tokens and padding.

        Raises `IndexError` for ids outside the vocabulary.
        """
        if not 0 <= token < self._size:
            raise IndexError(f"Token {token} is outside the vocabulary of {self._size}.")
        return self._pieces[token] if token < self._count else b""

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of a reply's tokens, broken characters replaced by U+FFFD."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    @cached_property
    def _safe_specials(self) -> tuple[Special, ...]:
        return tuple(s for s in self._plain_specials if s.id not in self._end_ids)

    def _hidden(self, token: int) -> bool:
        """Tell whether llama.cpp leaves this special token alone when special parsing is off."""
        return bool(self._attributes[token] & _CONTROL)

    def _guarded(self, text: str, *, fresh: bool) -> list[int]:
        """Tokenize without control tokens; text that would become one is cut after its first character."""
        ids = self._raw(text.encode()) if fresh else self._continued(text)
        leaked = self._control_ids.intersection(ids)
        for token in leaked:
            spelling = self._text_of(token)
            at = text.find(spelling) if len(spelling) > 1 else -1
            if at >= 0:
                head, tail = text[: at + 1], text[at + 1 :]
                return self._guarded(head, fresh=fresh) + self._guarded(tail, fresh=False)
        return ids

    def _continued(self, text: str) -> list[int]:
        """Tokenize text as it continues a fragment, without the space that SentencePiece puts first."""
        data = text.encode()
        if self._spaced:
            for sentinel in _SENTINELS:
                first = self._raw(sentinel.encode())
                ids = self._raw(sentinel.encode() + data)
                if ids[: len(first)] == first:
                    return ids[len(first) :]
        return self._raw(data)

    def _raw(self, data: bytes, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        if not data and not add_special:
            return []
        room = len(data) + 8
        while True:
            buffer = (llama_cpp.llama_token * room)()
            count = llama_cpp.llama_tokenize(
                self._pointer, data, len(data), buffer, room, add_special, parse_special
            )
            if count >= 0:
                return buffer[:count]
            if -count <= room or count == -(2**31):
                raise VocabularyError(f"llama.cpp could not tokenize a text of {len(data)} bytes.")
            room = -count

    def _tokenize_for_bridge(
        self, _vocab: int, text: int, length: int, out: Any, room: int, *_flags: bool
    ) -> int:
        """Stand in for `llama_tokenize`, special parsing off; same arguments, same result."""
        ids = self.tokenize(ctypes.string_at(text, length).decode("utf-8", "replace"))
        if len(ids) > room:
            return -len(ids)
        out_array = ctypes.cast(out, ctypes.POINTER(ctypes.c_int32 * len(ids))).contents
        out_array[:] = ids
        return len(ids)

    def _decode(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self._pieces[t] for t in tokens)

    def _text_of(self, token: int) -> str:
        text = llama_cpp.llama_vocab_get_text(self._pointer, token)
        # A text that is no UTF-8 can never be met in a prompt; surrogates keep it so.
        return text.decode("utf-8", "surrogateescape")

    def _read_specials(self) -> tuple[Special, ...]:
        found = [
            Special(
                id=i,
                text=self._text_of(i),
                control=i in self._control_ids,
                lstrip=bool(attribute & llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP),
                rstrip=bool(attribute & llama_cpp.LLAMA_TOKEN_ATTR_RSTRIP),
            )
            for i, attribute in enumerate(self._attributes)
            if attribute & _SPECIAL
        ]
        found.sort(key=lambda s: len(s.text.encode("utf-8", "surrogateescape")), reverse=True)
        return tuple(s for s in found if s.text)


def _present(token: Any) -> int | None:
    return None if token == llama_cpp.LLAMA_TOKEN_NULL else token


def _read_pieces(pointer: llama_cpp.llama_vocab_p, count: int) -> list[bytes]:
    """Read the bytes of every token, the texts of special ones included."""
    room = 256
    buffer = ctypes.create_string_buffer(room)
    pieces: list[bytes] = []
    for token in range(count):
        length = llama_cpp.llama_token_to_piece(pointer, token, buffer, room, 0, True)
        if length < 0:
            room = -length
            buffer = ctypes.create_string_buffer(room)
            length = llama_cpp.llama_token_to_piece(pointer, token, buffer, room, 0, True)
        pieces.append(ctypes.string_at(buffer, length))
    return pieces
