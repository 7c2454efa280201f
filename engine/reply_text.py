"""The texts of a reply while they grow: the reply itself, and the reasoning before it.

Knows tokens' bytes and markers. Invariants: what was handed out stays as it is; the parts add up to the whole; only
whole characters are handed out before the end, and nothing that may turn out to be a stop text or a marker.
"""

import codecs
from collections.abc import Callable, Sequence

from engine.events import Finish
from engine.markers import Markers
from engine.vocabulary import Vocabulary


class ReplyText:
    """The text of a reply while it grows: whole characters only, and nothing that may begin a stop text."""

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str]) -> None:
        self.whole = ""
        self.cut = False
        self._vocabulary = vocabulary
        self._stop = tuple(text for text in stop if text)
        self._longest = max(map(len, self._stop), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sent = 0

    def add(self, token: int) -> Finish | None:
        """Take the next token; return `stop_text` when a stop text is complete, which is then cut off."""
        before = len(self.whole)
        self.whole += self._decoder.decode(self._vocabulary.piece(token))
        if not self._stop:
            return None
        places = [self.whole.find(text, max(0, before - self._longest + 1)) for text in self._stop]
        found = [place for place in places if place >= 0]
        if not found:
            return None
        self.whole = self.whole[: min(found)]
        self.cut = True
        return "stop_text"

    def ready(self) -> str:
        """Return what can be shown now and was not yet."""
        return self._take(len(self.whole) - self._held())

    def close(self) -> str:
        """Return the rest; half a character at the end becomes U+FFFD."""
        if not self.cut:
            self.whole += self._decoder.decode(b"", final=True)
        return self._take(len(self.whole))

    def _take(self, upto: int) -> str:
        text = self.whole[self._sent : upto]
        self._sent = max(self._sent, upto)
        return text

    def _held(self) -> int:
        """Return the length of the longest end of the text that a stop text begins with."""
        if self.cut:
            return 0
        sizes = range(min(self._longest - 1, len(self.whole)), 0, -1)
        held = (size for size in sizes if any(text.startswith(self.whole[-size:]) for text in self._stop))
        return next(held, 0)


class ReasoningText:
    """The text of a region while it grows, without its markers and the blanks at both ends.

    `spell` gives the bytes of a token with special tokens told from text, as `markers` has them.
    """

    def __init__(self, markers: Markers, spell: Callable[[int], bytes]) -> None:
        self.whole = ""
        self.begun = False
        """True once there was a token of the region."""
        self._opener, self._closer = markers.opener.pattern, markers.closer.pattern
        self._spell = spell
        self._held = b""
        self._inside = False
        self._closed = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._blank = ""
        self._sent = 0

    def add(self, token: int) -> None:
        """Take the next token of the region; what follows its end marker is left out."""
        self.begun = True
        if not self._closed:
            self._held += self._spell(token)
            self._read()

    def ready(self) -> str:
        """Return what can be shown now and was not yet."""
        text, self._sent = self.whole[self._sent :], len(self.whole)
        return text

    def close(self) -> str:
        """Return the rest: of a region that was cut, also what might have become a marker."""
        if not self._closed:
            self._take(self._held, final=True)
            self._closed = True
        return self.ready()

    def _read(self) -> None:
        if not self._inside:
            begun = self._held.lstrip()
            if self._opener.startswith(begun) and begun != self._opener:
                return  # it may become the opening marker
            self._held = begun.removeprefix(self._opener)
            self._inside = True
        before, marker, _ = self._held.partition(self._closer)
        if marker:
            self._take(before, final=True)
            self._closed = True
            return
        sizes = range(min(len(self._closer) - 1, len(self._held)), 0, -1)
        kept = next((size for size in sizes if self._closer.startswith(self._held[-size:])), 0)
        upto = len(self._held) - kept
        self._take(self._held[:upto])
        self._held = self._held[upto:]

    def _take(self, data: bytes, *, final: bool = False) -> None:
        """Take bytes into the text; blanks wait until something follows them."""
        data = data.replace(b"\xfe", b"").replace(b"\xff", b"")  # special tokens that mean nothing here
        text = self._blank + self._decoder.decode(data, final)
        if not self.whole:
            text = text.lstrip()
        self._blank = text[len(text.rstrip()) :]
        self.whole += text.rstrip()
