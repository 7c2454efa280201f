"""Several turns in one batch: every forward carries what each of them waits for.

Knows turns and a cache for several sequences; choosing, stop rules and events are those of `Engine.generate`, which
runs unchanged, once for each stream, over a context that stands for one sequence of the batch. A decoder asks for its
rows deep inside calls, so each turn has a thread, used as a coroutine: the driver lets one run at a time, until it asks
for a forward or has ended. Invariants: every stream is token for token the same turn alone, on exact numerics, since
neither its sampler nor its cache knows of the others; the order of events depends on the streams alone, never on
threads; streams that ended have left the batch. Drafts are off: the batch is filled by the streams.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import NamedTuple

from engine.decoding.decoder import Context
from engine.decoding.processor import Row
from engine.decoding.streams import Part, Streams
from engine.drafting.drafts import Drafts
from engine.errors import Aborted, EngineError, TurnRefused
from engine.events import Event, Failed, Finished, Notice, PromptRead, Started, Tokens
from engine.gguf import ModelFileError
from engine.protocol import Generate
from engine.turn import Engine, seed_of
from engine.verify import verify

_SEEDS = 2**63
_MARKERS = 64
"""Room for the markers of a region and the blanks around them."""


def generate(engine: Engine, request: Generate) -> Iterator[Event]:
    """Yield the events of `request.streams` replies to one path, each with the number of its stream.

    Every reply ends with its own `Finished`; a turn that cannot be started is one `Failed`.
    """
    seed = seed_of(request.sampling)
    requests = [
        replace(
            request,
            streams=1,
            verify=False,
            sampling=replace(request.sampling, seed=(seed + stream) % _SEEDS),
        )
        for stream in range(request.streams)
    ]
    try:
        prompt = engine.prompt(request.messages, think=request.think, prefix=request.prefix)
        reasoning = 0 if engine.region is None else request.think_tokens + _MARKERS
        length = len(prompt.ids) + request.max_tokens + reasoning
        streams = engine.context.streams(request.streams, min(length, engine.context.length))
    except TurnRefused as refusal:
        yield Failed(kind=refusal.kind, message=str(refusal), turn=request.turn)
        return
    except ModelFileError as error:
        yield Failed(kind="model", message=str(error), turn=request.turn)
        return
    written: list[list[int]] = [[] for _ in requests]
    ended: list[Finished] = []
    for stream, event in lockstep(engine, requests, streams):
        if isinstance(event, Failed):  # the same for all of them
            yield event
            return
        if isinstance(event, Tokens):
            written[stream].extend(token.id for token in event.tokens)
        if isinstance(event, Started | PromptRead | Tokens | Notice | Finished):
            event = replace(event, stream=stream)
        if isinstance(event, Finished) and request.verify:
            ended.append(event)
        else:
            yield event
    for event in ended:  # replays wait until no stream waits for them
        tokens = written[event.stream]
        yield replace(
            event,
            verification=verify(
                engine, requests[event.stream], seed=event.seed, tokens=tokens, finish=event.finish
            ),
        )


def lockstep(engine: Engine, requests: Sequence[Generate], streams: Streams) -> Iterator[tuple[int, Event]]:
    """Yield the events of several turns with the number of the turn; `streams` has one stream for each, and is closed.

    Prompts and shapes may differ. What all prompts begin with is read once. A turn that is given a
    processor of another one fails (`SharedProcessor`). When the generator is closed early, the turns are cancelled.
    """
    turns = [_Turn(engine, request, streams, number) for number, request in enumerate(requests)]
    living = list(turns)
    try:
        _read_common_prefix(engine, requests, streams)
        while living:
            for turn in list(living):
                for event in turn.run():
                    yield turn.number, event
                if turn.ended:
                    living.remove(turn)
                    streams.drop(turn.slot)
                    for moved in living:
                        if moved.slot == len(living):
                            moved.slot = turn.slot
            if living:
                _forward(streams, living)
    finally:
        for turn in living:
            turn.close()
        streams.close()


def _read_common_prefix(engine: Engine, requests: Sequence[Generate], streams: Streams) -> None:
    """Read what all prompts have in common into the first stream and copy it; each turn reuses it like any cache."""
    try:
        prompts = [engine.prompt(request.messages, think=request.think).ids for request in requests]
    except TurnRefused:
        return  # its turn will say so
    shortest = min(prompts, key=len)
    common = next(
        (
            place
            for place, token in enumerate(shortest[:-1])
            if any(prompt[place] != token for prompt in prompts)
        ),
        len(shortest) - 1,
    )
    try:
        for at in range(0, common, streams.batch):
            streams.decode([Part(0, shortest[at : min(at + streams.batch, common)], ())])
    except EngineError:
        return  # a cancel or a failed forward: every turn meets it in its own first forward
    for stream in range(1, len(requests)):
        streams.copy(0, stream)


def _forward(streams: Streams, turns: Sequence["_Turn"]) -> None:
    """Read what the turns wait for in one batch and give each its rows, or the error."""
    turns = sorted(turns, key=lambda turn: turn.slot)
    try:
        rows = streams.decode([Part(turn.slot, *turn.wish) for turn in turns])
    except Exception as error:  # every turn ends with it, as it would alone
        for turn in turns:
            turn.answer = error
    else:
        for turn, mine in zip(turns, rows, strict=True):
            turn.answer = mine


class _Wish(NamedTuple):
    tokens: Sequence[int]
    wanted: Sequence[int]


class _End(NamedTuple):
    error: BaseException | None


class _Turn:
    """One turn in its thread. `slot` is its sequence in the batch, `wish` what it waits for, `answer` what it gets."""

    def __init__(self, engine: Engine, request: Generate, streams: Streams, number: int) -> None:
        self.number = number
        self.slot = number
        self.ended = False
        self.wish = _Wish((), ())
        self.answer: list[Row] | Exception | None = None
        self._said: SimpleQueue[Event | _Wish | _End] = SimpleQueue()
        self._answers: SimpleQueue[list[Row] | Exception] = SimpleQueue()
        # No drafts, and a gate of its own: what the turn's forwards take is the time of all streams.
        self._engine = replace(engine, context=_Sequence(self, streams, engine.context), drafts=Drafts())
        self._request = replace(request, speculate=False)
        self._thread: threading.Thread | None = None

    def run(self) -> Iterator[Event]:
        """Hand over the answer and yield events until the turn waits for a forward or has ended."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._generate, name=f"stream {self.number}", daemon=True)
            self._thread.start()
        elif self.answer is not None:
            self._answers.put(self.answer)
            self.answer = None
        while True:
            said = self._said.get()
            if isinstance(said, _Wish):
                self.wish = said
                return
            if isinstance(said, _End):
                self.ended = True
                self._thread.join()
                if said.error is not None:
                    raise said.error
                return
            yield said

    def close(self) -> None:
        """Cancel the turn and wait for the end of its thread."""
        if self._thread is None:
            return
        with suppress(EngineError):  # the driver is leaving already, with an error of its own or without
            while not self.ended:
                self.answer = Aborted()
                for _ in self.run():
                    pass

    def forward(self, wish: _Wish) -> list[Row]:
        """Wait for the rows of a forward; called in the thread."""
        self._said.put(wish)
        answer = self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _generate(self) -> None:
        error = None
        try:
            for event in self._engine.generate(self._request):
                self._said.put(event)
        except BaseException as raised:  # raised again by the driver
            error = raised
        self._said.put(_End(error))


class _Sequence:
    """One sequence of the batch as a context of its own, beside the engine's `own`."""

    def __init__(self, turn: _Turn, streams: Streams, own: Context) -> None:
        self._turn = turn
        self._streams = streams
        self._own = own
        self.length = streams.length
        self.batch = max(1, streams.batch // len(streams.tokens))
        self.can_rollback = streams.can_rollback

    @property
    def tokens(self) -> list[int]:
        return self._streams.tokens[self._turn.slot]

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[Row]:
        return self._turn.forward(_Wish(tuple(tokens), tuple(wanted)))

    def keep(self, count: int) -> int:
        return self._streams.keep(self._turn.slot, count)

    def abort(self) -> None:
        """Nothing to do: the flag belongs to the engine's own context."""

    def clear_abort(self) -> None:
        """As `abort`."""

    def twin(self, length: int) -> Context:
        return self._own.twin(length)

    def streams(self, count: int, length: int) -> Streams:
        return self._own.streams(count, length)

    def close(self) -> None:
        """Nothing to do: the driver gives back the memory of all."""
