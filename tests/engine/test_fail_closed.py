"""Whatever fails inside a turn ends it with an explanation: never an unconstrained token, never an empty success."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reasoning import SHAPES, account, engine, request, run

from engine import lockstep
from engine.decoding.constraint import Constraint, ConstraintLookahead
from engine.decoding.decoder import Decoder
from engine.decoding.guards import RunGuard
from engine.decoding.landing import Landing
from engine.decoding.masks import is_legal
from engine.decoding.sampler import Sampler
from engine.decoding.thinking import Thinking, ThinkingLookahead
from engine.drafting.cascade import Cascade
from engine.drafting.cost import Gate
from engine.errors import ConstraintError, DecodeFailed
from engine.events import Failed, Finished, Token
from engine.fake import FakeContext, FakeStreams
from engine.reply_text import ReasoningText, ReplyText
from engine.turn import Engine
from grammars.check import check
from grammars.compile import compile_grammar

SHAPE = SHAPES["schema"]
assert SHAPE is not None
EARLIER = ('{"mood":"calm","why":"the city"}', '{"mood":"tense","why":"the city"}')
WISH = request(SHAPE, seed=3, think_tokens=6, max_tokens=30, earlier=EARLIER)

LAYERS: list[tuple[type, str]] = [
    *((Constraint, name) for name in ("process", "commit", "ahead")),
    *((ConstraintLookahead, name) for name in ("mask", "forced", "advance")),
    *((RunGuard, name) for name in ("process", "admit", "commit", "ahead")),
    *((Landing, name) for name in ("process", "admit", "commit", "ahead")),
    *((Thinking, name) for name in ("process", "admit", "commit", "ahead")),
    *((ThinkingLookahead, name) for name in ("mask", "forced", "advance")),
    *((Sampler, name) for name in ("next", "take", "_choose")),
    *((Cascade, name) for name in ("begin", "walk", "observe", "feedback")),
    *((Gate, name) for name in ("choose", "learn")),
    *((FakeContext, name) for name in ("decode", "keep")),
    *((Decoder, name) for name in ("_draft", "_record")),
    (ReplyText, "add"),
    (ReasoningText, "add"),
]
FAULTS = (
    ConstraintError("the grammar library gave up"),
    RuntimeError("nobody foresaw this"),
    MemoryError("no room"),
)


def break_after(
    monkeypatch: pytest.MonkeyPatch, where: type, name: str, calls: int, fault: Exception
) -> list[int]:
    """Let a method fail from a call on; the list returned holds the calls so far."""
    whole = getattr(where, name)
    count = [0]

    def failing(*arguments: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] > calls:
            raise fault
        return whole(*arguments, **named)

    monkeypatch.setattr(where, name, failing)
    return count


def judge(made: Engine, tokens: Sequence[Token]) -> None:
    """Fail unless every token of the reply is one that a fresh constraint allows there."""
    fresh = Constraint(compile_grammar(SHAPE), made.vocabulary.tokenizer, made.vocabulary.end_ids)
    for token in tokens:
        if token.part == "reply":
            assert is_legal(fresh.ahead().mask(), token.id)
            fresh.commit(token.id)


@pytest.mark.parametrize(
    ("where", "name"), LAYERS, ids=[f"{where.__name__}.{name}" for where, name in LAYERS]
)
def test_a_fault_in_any_layer_ends_the_turn_and_is_explained(
    monkeypatch: pytest.MonkeyPatch, where: type, name: str
) -> None:
    healthy = run(engine("template opens", special=True), WISH)
    reached = 0
    for number, calls in enumerate((0, 1, 4, 11, 25)):
        fault = FAULTS[number % len(FAULTS)]
        made = engine("template opens", special=True)
        with monkeypatch.context() as patch:
            count = break_after(patch, where, name, calls, fault)
            events = list(made.generate(WISH))
        end = events[-1]
        if count[0] <= calls:
            continue  # it was not called so often
        reached += 1
        if isinstance(end, Failed):
            assert str(fault) in end.message
        else:
            assert isinstance(end, Finished)
            told = account(events)[1]
            judge(made, told)
            if end.finish == "error":
                assert end.error is not None
                assert str(fault) in end.error
            else:  # a look-ahead that fails costs a guess or a search, nothing else
                assert end.finish in ("stop", "landed")
                assert check(SHAPE, end.text).fits
        again = run(made, replace(WISH, speculate=False))  # the next turn is as if nothing had been
        assert (again[0].text, again[0].finish) == (healthy[0].text, healthy[0].finish)
    assert reached


def test_what_was_committed_before_a_fault_is_kept_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy, _ = run(engine("empty", special=True), WISH)
    made = engine("empty", special=True)
    break_after(monkeypatch, Constraint, "process", 3, RuntimeError("a fault"))
    end, tokens = run(made, replace(WISH, speculate=False))
    assert end.finish == "error"
    assert end.error == "The engine failed on its own account: RuntimeError: a fault"
    assert healthy.text.startswith(end.text)
    assert end.text
    assert len(tokens) == end.stats.reply_tokens


def test_a_matcher_in_an_error_state_is_never_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its error state the library's mask holds the end marker alone, which looks like a finished reply."""
    made = engine("empty", special=True)
    whole = Constraint.process
    count = [0]

    def process(self: Constraint, row: np.ndarray, history: Sequence[int]) -> None:
        count[0] += 1
        if count[0] == 3:
            self._state.matcher.consume_token(made.vocabulary.size - 1)  # refused: the matcher never recovers
            self._state._mask = type(self._state._mask)()
            assert self._state.matcher.is_error()
        whole(self, row, history)

    monkeypatch.setattr(Constraint, "process", process)
    end, tokens = run(made, request(SHAPE, land=False))
    assert end.finish == "error"
    assert end.error is not None
    judge(made, tokens)


def test_logits_that_are_no_numbers_end_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FakeContext.decode

    def decode(self: FakeContext, tokens: Sequence[int], wanted: Sequence[int]) -> list:
        rows = whole(self, tokens, wanted)
        for row in rows:
            row[:] = np.nan
        return rows

    monkeypatch.setattr(FakeContext, "decode", decode)
    for template in ("empty", "template opens"):
        end, _ = run(engine(template, special=True), WISH)
        assert end.finish == "error"
        assert "no numbers" in (end.error or "")


def test_a_constraint_that_refuses_what_it_allowed_goes_on_without_forcing_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = engine("empty", special=True)
    healthy, _ = run(engine("empty", special=True), WISH)
    whole = Constraint.commit
    count = [0]

    def commit(self: Constraint, token: int) -> None:
        count[0] += 1
        if count[0] == 4:
            self._rebuild(token)
            self._committed.append(token)
        else:
            whole(self, token)

    monkeypatch.setattr(Constraint, "commit", commit)
    events = list(made.generate(WISH))
    end, tokens = account(events)
    assert end.finish == "stop"
    assert end.stats.rebuilt == 1
    assert check(SHAPE, end.text).fits
    judge(made, tokens[:4])
    assert [event.message for event in events if event.type == "notice"] == [
        "The constraint was rebuilt without forced spans, because it refused a token it had allowed."
    ]
    assert healthy.stats.rebuilt == 0


@pytest.mark.parametrize(
    "fault", [DecodeFailed("no"), RuntimeError("nobody foresaw this")], ids=["known", "unknown"]
)
def test_a_forward_that_fails_ends_every_stream_with_an_explanation(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    made = engine("empty", special=True)
    break_after(monkeypatch, FakeStreams, "decode", 2, fault)
    events = list(lockstep.generate(made, replace(WISH, streams=3)))
    ends = [event for event in events if isinstance(event, Finished)]
    assert sorted(end.stream for end in ends) == [0, 1, 2]
    assert all(end.finish == "error" and str(fault) in (end.error or "") for end in ends)


def test_a_replay_that_fails_leaves_the_reply_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy, _ = run(engine("empty", special=True), WISH)

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("engine.verify.naive", broken)
    end, _ = run(engine("empty", special=True), replace(WISH, verify=True))
    assert (end.finish, end.text) == (healthy.finish, healthy.text)
    assert end.verification is not None
    assert "nobody foresaw this" in (end.verification.error or "")
