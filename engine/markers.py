"""Where a model's reasoning begins and ends: the pair of markers that its chat template and vocabulary speak of.

Knows texts and token ids; nothing of turns. Covered are simple pairs: one text opens the region and one closes it, each
a special token, plain text, or both in a row. Not covered are formats in which reasoning is a message of its own
(gpt-oss), and those whose reply has markers too (Kimi K3, Granite's `<response>`).

A token is spelled as bytes in which a special token is not mistaken for its text: special tokens that are part of a
marker begin with the byte FF, others that have no text are FE alone; neither byte is ever part of UTF-8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.specials import Special, partition

Start = Literal["outside", "inside", "behind", "past"]
"""Where a reply begins: no region yet, inside one, right behind its end marker, or behind that and what follows it."""

_PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<thinking>", "</thinking>"),
)


class MarkedVocabulary(Protocol):
    """What markers need of a vocabulary."""

    @property
    def specials(self) -> tuple[Special, ...]: ...
    def tokenize(self, text: str) -> list[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A marker: its text, the ids that write it, and how these are spelled."""

    text: str
    ids: tuple[int, ...]
    pattern: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The two markers of a region. `marked` are the special tokens that are parts of them, with their spelling."""

    opener: Marker
    closer: Marker
    marked: dict[int, bytes]

    def spell(self, token: int, piece: bytes) -> bytes:
        """Return a token as bytes that tell special tokens from text; `piece` is what it adds to a text."""
        return self.marked.get(token) or piece or b"\xfe"

    def start(self, opening: str) -> Start:
        """Return where a reply begins, by the text that the template writes in front of it."""
        opened, closed = opening.rfind(self.opener.text), opening.rfind(self.closer.text)
        if closed > opened:
            return "behind" if opening.endswith(self.closer.text) else "past"
        return "inside" if opened >= 0 else "outside"


def find_markers(source: str, vocabulary: MarkedVocabulary) -> Markers | None:
    """Return the markers of a model, or None if it is not known to reason.

    They are known where the template's `source` names the end marker, or where both are special tokens.
    """
    texts = {special.text for special in vocabulary.specials}
    for opener, closer in _PAIRS:
        if closer in source or (opener in texts and closer in texts):
            marked: dict[int, bytes] = {}
            return Markers(
                opener=_marker(opener, vocabulary, marked),
                closer=_marker(closer, vocabulary, marked),
                marked=marked,
            )
    return None


def _marker(text: str, vocabulary: MarkedVocabulary, marked: dict[int, bytes]) -> Marker:
    ids: list[int] = []
    pattern = b""
    parts: Sequence[str | int] = partition(text, vocabulary.specials, strip=False)
    spelled = {special.id: special.text for special in vocabulary.specials}
    for part in parts:
        if isinstance(part, int):
            ids.append(part)
            marked[part] = b"\xff" + spelled[part].encode("utf-8", "surrogateescape")
            pattern += marked[part]
        else:
            ids += vocabulary.tokenize(part)
            pattern += part.encode()
    return Marker(text=text, ids=tuple(ids), pattern=pattern)
