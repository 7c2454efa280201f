"""The reply being written: the one place that turns events into what panel, transcript and store read.

Knows nothing of screens, processes or files. Invariants: `pieces` and `thought_pieces` only grow, so a reader keeps
an index into them; what the model thinks never gets into the reply's text; counts are those of the committed tokens
seen so far, reasoning included; after the end nothing changes.
"""

from dataclasses import dataclass, field
from typing import Literal

from engine.events import Event, Failed, Finish, Finished, Notice, PromptRead, Started, Stats, Token, Tokens
from grammars.progress import Progress
from grammars.spec import GrammarSpec

Phase = Literal["waiting", "reading", "writing", "done"]


@dataclass(slots=True, kw_only=True)
class LiveReply:
    """One turn as it happens. `chat` and `reply` are the store's numbers, `vocab_size` is the model's."""

    turn: int
    chat: int
    reply: int
    shape: GrammarSpec | None
    vocab_size: int
    phase: Phase = "waiting"
    stopping: bool = False
    pieces: list[str] = field(default_factory=list)
    thought_pieces: list[str] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    masked: list[int] = field(default_factory=list)
    """Masked ids at each free choice, in order; free replies have none."""
    forced: int = 0
    accepted: int = 0
    sampled: int = 0
    landed: int = 0
    given: int = 0
    sources: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each source of drafts guessed, as of about a second ago."""
    thought_tokens: int = 0
    """Those of the reasoning, markers included; each has an origin, too."""
    prompt_tokens: int = 0
    reused_tokens: int = 0
    read: int = 0
    forwards: int = 0
    elapsed_s: float = 0.0
    seed: int | None = None
    notices: list[str] = field(default_factory=list)
    finish: Finish | None = None
    error: str | None = None
    stats: Stats | None = None
    final: str | None = None
    ids: tuple[int, ...] = ()
    reasoning: str | None = None
    _progress: Progress = field(default_factory=Progress)

    @property
    def filling(self) -> str:
        """The path of the member of a JSON reply that is being written; empty where there is none."""
        writing = self.phase == "writing" and self.shape is not None and self.shape.kind == "json_schema"
        return self._progress.field if writing and self.pieces else ""

    @property
    def text(self) -> str:
        """The reply so far, or in the end the engine's own account of it."""
        return "".join(self.pieces) if self.final is None else self.final

    @property
    def thoughts(self) -> str:
        """The reasoning so far, or in the end the engine's own account of it; empty if there was none."""
        return "".join(self.thought_pieces) if self.reasoning is None else self.reasoning

    @property
    def tokens_per_s(self) -> float:
        """Reply tokens a second of decoding; 0 before the first forward."""
        if self.stats is not None:
            return self.stats.tokens_per_s
        return self._written / self.elapsed_s if self.forwards and self.elapsed_s else 0.0

    @property
    def tokens_per_forward(self) -> float:
        """Reply tokens for each forward, prompt reading left out."""
        if self.stats is not None:
            return self.stats.tokens_per_forward
        return self._written / self.forwards if self.forwards else 0.0

    @property
    def _written(self) -> int:
        return len(self.tokens) - self.given

    @property
    def positions(self) -> int:
        """Positions of the context in use, prompt included."""
        return self.prompt_tokens + len(self.tokens)

    def apply(self, event: Event) -> bool:
        """Take an event of this turn and return whether it counted; after the end none does."""
        if self.phase == "done" or getattr(event, "turn", None) != self.turn:
            return False
        if isinstance(event, Started):
            self.phase = "reading"
            self.prompt_tokens, self.reused_tokens = event.prompt_tokens, event.reused_tokens
            self.read, self.seed = event.reused_tokens, event.seed
            self.notices.extend(event.notices)
        elif isinstance(event, PromptRead):
            self.read, self.prompt_tokens = event.done, event.total
        elif isinstance(event, Tokens):
            self._take(event)
        elif isinstance(event, Notice):
            self.notices.append(event.message)
        elif isinstance(event, Finished):
            self.finish, self.error, self.stats = event.finish, event.error, event.stats
            self.final, self.ids, self.seed = event.text, event.tokens, event.seed
            self.reasoning, self.sources = event.reasoning, event.stats.sources
            self.phase = "done"
        elif isinstance(event, Failed):
            self.fail(event.message, "cancelled" if event.kind == "cancelled" else "error")
        return True

    def fail(self, message: str, finish: Finish = "error") -> None:
        """End the reply from outside: the engine refused it or is gone. What was written stays."""
        if self.phase != "done":
            self.finish, self.error, self.phase = finish, message, "done"

    def _take(self, event: Tokens) -> None:
        self.forwards, self.elapsed_s = event.forwards, event.elapsed_s
        self.sources = event.sources or self.sources
        if (
            event.forwards
        ):  # before the first forward there is only what the shape forces; the prompt is not read
            self.phase = "writing"
        self.tokens.extend(event.tokens)
        if event.text:
            self.pieces.append(event.text)
            if self.shape is not None and self.shape.kind == "json_schema":
                self._progress.append(event.text)
        if event.reasoning:
            self.thought_pieces.append(event.reasoning)
        for token in event.tokens:
            self.thought_tokens += token.part == "reasoning"
            if token.origin == "forced":
                self.forced += 1
            elif token.origin == "accepted":
                self.accepted += 1
            elif token.origin == "landed":
                self.landed += 1
            elif token.origin == "given":
                self.given += 1
            else:
                self.sampled += 1
            if self.shape is not None and token.allowed is not None and token.part == "reply":
                self.masked.append(self.vocab_size - token.allowed)
