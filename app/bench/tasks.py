"""The tasks of the bench: prompts, shapes and transcripts from assets/bench_tasks.json.

A turn with a transcript is decoded as if the model had written it: the choice at every free place is the transcript's
next token. Small models do not copy; what a copying model would gain is measured this way, and said so.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

import assets
from engine.decoding.processor import Row
from engine.decoding.sampler import Sampler
from engine.protocol import Generate, Message, Sampling
from engine.vocabulary import Vocabulary
from grammars.spec import GrammarSpec

GREEDY = Sampling(temperature=0, seed=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTurn:
    """One prompt, with the shape of its reply and, where the model only plays along, the reply itself."""

    prompt: str
    shape: GrammarSpec | None = None
    transcript: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Several turns of one kind."""

    name: str
    title: str
    max_tokens: int
    turns: tuple[BenchTurn, ...]

    def request(self, turn: BenchTurn) -> Generate:
        """Return the greedy request of one turn, its shape shown to the model."""
        return Generate(
            turn=1,
            messages=(Message(role="user", content=turn.prompt, shape=turn.shape),),
            shape=turn.shape,
            sampling=GREEDY,
            max_tokens=self.max_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    version: int
    tasks: tuple[Task, ...]


def load_tasks(names: Sequence[str] = ()) -> tuple[Task, ...]:
    """Return the tasks with these names, or all. Raises `ValueError` for a name there is not."""
    path = Path(assets.__file__).with_name("bench_tasks.json")
    tasks = TypeAdapter(_File).validate_json(path.read_bytes()).tasks
    unknown = set(names) - {task.name for task in tasks}
    if unknown:
        raise ValueError(f"no task is called {', '.join(sorted(unknown))}")
    return tuple(task for task in tasks if not names or task.name in names)


class TranscriptSampler(Sampler):
    """Chooses what a transcript goes on with, and an end marker behind it; masks, draws and counts as any sampler.

    `looking_s` are the seconds it took to look the tokens up, which no model that copies would need.
    """

    def __init__(self, settings: Sampling, *, vocabulary: Vocabulary, transcript: str, **rest: Any) -> None:
        super().__init__(settings, **rest)
        self._prompt = len(self.history)
        self._vocabulary = vocabulary
        self._transcript = transcript.encode()
        self._by_piece = _by_piece(vocabulary)
        self._longest = max(map(len, self._by_piece))
        self.looking_s = 0.0

    def _choose(self, row: Row) -> int:
        super()._choose(row)
        started = time.thread_time()
        try:
            return self._following(row)
        finally:
            self.looking_s += time.thread_time() - started

    def _following(self, row: Row) -> int:
        written = b"".join(map(self._vocabulary.piece, self.history[self._prompt :]))
        if not self._transcript.startswith(written):
            raise ValueError(f"the shape has left the transcript at {written[-40:]!r}")
        left = self._transcript[len(written) :]
        if not left:
            return min(self._vocabulary.end_ids)
        natural = self._vocabulary.tokenize(left[:200].decode("utf-8", "ignore"))[0]
        if row[natural] > float("-inf") and left.startswith(self._vocabulary.piece(natural)):
            return natural
        for size in range(min(self._longest, len(left)), 0, -1):
            token = self._by_piece.get(left[:size])
            if token is not None and row[token] > float("-inf"):
                return token
        raise ValueError(f"the shape forbids the transcript at {left[:40]!r}")


def _by_piece(vocabulary: Vocabulary) -> Mapping[bytes, int]:
    return {vocabulary.piece(token): token for token in range(vocabulary.size) if vocabulary.piece(token)}
