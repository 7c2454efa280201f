"""What a turn has written so far, told apart: reply and reasoning, tokens and texts.

Knows committed tokens and what the turn is held to; chooses nothing. Invariants: a token is told once, in order, as
soon as it is decided what it belongs to; the texts of the events add up to the whole.
"""

from collections.abc import Sequence
from dataclasses import replace

from engine.arming import Armed
from engine.decoding.decoder import Committed, Decoder
from engine.decoding.loop import LoopDetector
from engine.events import Finish, Part, Token, Tokens
from engine.protocol import Generate
from engine.reply_text import ReasoningText, ReplyText
from engine.vocabulary import Vocabulary


class Reply:
    """The account of one reply while it grows."""

    def __init__(self, vocabulary: Vocabulary, request: Generate, armed: Armed) -> None:
        self.text = ReplyText(vocabulary, request.stop)
        self.reasoning: ReasoningText | None = None
        self.committed: list[int] = []
        self.ids: list[int] = []
        self.notices = armed.notices
        self._turn = request.turn
        self._vocabulary = vocabulary
        self._thinking = armed.thinking
        if armed.thinking is not None:
            self.reasoning = ReasoningText(armed.thinking.region.markers, armed.thinking.region.spell)
        self._given = len(request.prefix)
        self._loops = LoopDetector() if request.shape is None and request.stop_loops else None
        self._parts: list[Part] = []
        """What each committed token belongs to, as far as that is decided."""
        self._undecided: list[int] = []
        self._waiting: list[Committed] = []

    @property
    def thoughts(self) -> int:
        """How many tokens of the reasoning were written, those given as a prefix left out."""
        return self._parts[self._given :].count("reasoning")

    def watch(self, token: int) -> Finish | None:
        """Take a token right after its commit; return how it ends the reply, if it does."""
        self._undecided.append(token)
        part = "reply" if self._thinking is None else self._thinking.part
        return None if part == "undecided" else self._decide(part)

    def extend(self, committed: Sequence[Committed]) -> None:
        """Take the account of tokens that were watched."""
        self.committed.extend(each.token for each in committed)
        self._waiting.extend(committed)

    def event(self, decoder: Decoder) -> Tokens:
        """Return what is decided and was not told yet."""
        told = len(self.committed) - len(self._waiting)
        decided = self._waiting[: len(self._parts) - told]
        del self._waiting[: len(decided)]
        return Tokens(
            turn=self._turn,
            tokens=tuple(
                Token(
                    id=each.token,
                    text=self._vocabulary.piece(each.token).decode("utf-8", "replace"),
                    origin=each.origin,
                    allowed=each.allowed,
                    part=part,
                )
                for each, part in zip(decided, self._parts[told:], strict=False)
            ),
            text=self.text.ready(),
            forwards=decoder.figures.forwards,
            elapsed_s=decoder.figures.decode_s,
            reasoning="" if self.reasoning is None else self.reasoning.ready(),
        )

    def close(self, decoder: Decoder) -> Tokens | None:
        """Return the rest, if there is any; what might have opened a region is the reply's."""
        self._decide("reply")
        rest = self.event(decoder)
        text = rest.text + self.text.close()
        thought = rest.reasoning + ("" if self.reasoning is None else self.reasoning.close())
        return replace(rest, text=text, reasoning=thought) if rest.tokens or text or thought else None

    def _decide(self, part: Part) -> Finish | None:
        finish: Finish | None = None
        decided, self._undecided = self._undecided, []
        for token in decided:
            self._parts.append(part)
            if part == "reasoning":
                assert self.reasoning is not None
                self.reasoning.add(token)
                continue
            self.ids.append(token)
            finish = finish or self.text.add(token)
            if self._loops is not None and self._loops.add(token):
                finish = finish or "loop"
        return finish
