"""The live reply counts what events tell, and only those of its own turn."""

import pytest

from app.live import LiveReply
from engine.events import Failed, Finished, Notice, PromptRead, Started, Stats, Token, Tokens
from grammars.spec import GrammarSpec

SHAPE = GrammarSpec(kind="choice", text='["a","b"]')


def reply(shape: GrammarSpec | None = SHAPE) -> LiveReply:
    return LiveReply(turn=3, chat=1, reply=2, shape=shape, vocab_size=100)


def tokens(*origins: str, text: str = "x", allowed: int | None = 4, turn: int = 3) -> Tokens:
    made = tuple(
        Token(id=i, text="x", origin=origin, allowed=None if origin == "forced" else allowed)
        for i, origin in enumerate(origins)
    )
    return Tokens(turn=turn, tokens=made, text=text, forwards=2, elapsed_s=0.5)


def test_a_turn_goes_through_its_phases():
    live = reply()
    assert live.phase == "waiting"
    live.apply(Started(turn=3, prompt_tokens=50, reused_tokens=10, seed=5))
    assert (live.phase, live.read, live.seed) == ("reading", 10, 5)
    live.apply(PromptRead(turn=3, done=30, total=50))
    assert (live.read, live.prompt_tokens) == (30, 50)
    live.apply(tokens("forced", "sampled"))
    assert live.phase == "writing"
    live.apply(
        Finished(turn=3, finish="stop", text="xx", tokens=(0, 1), seed=5, stats=Stats(tokens_per_s=9.0))
    )
    assert (live.phase, live.finish, live.text, live.tokens_per_s) == ("done", "stop", "xx", 9.0)


def test_tokens_are_counted_by_origin_and_their_masks_by_what_was_forbidden():
    live = reply()
    live.apply(tokens("forced", "forced", "sampled", "accepted", text="abcd"))
    assert (live.forced, live.sampled, live.accepted) == (2, 1, 1)
    assert live.masked == [96, 96]
    assert live.masked_share == pytest.approx(0.96)
    assert live.tokens_per_s == pytest.approx(8.0)
    assert live.tokens_per_forward == pytest.approx(2.0)
    assert live.text == "abcd"


def test_a_free_reply_masks_nothing():
    live = reply(shape=None)
    live.apply(tokens("sampled", allowed=100))
    assert live.masked == []
    assert live.masked_share is None


def test_events_of_another_turn_and_after_the_end_do_not_count():
    live = reply()
    assert not live.apply(tokens("sampled", turn=2))
    live.fail("gone")
    assert not live.apply(tokens("sampled"))
    assert live.tokens == []


def test_a_failed_turn_keeps_its_text_and_says_why():
    live = reply()
    live.apply(tokens("sampled", text="half"))
    live.apply(Failed(kind="internal", message="No.", turn=3))
    assert (live.phase, live.finish, live.error, live.text) == ("done", "error", "No.", "half")


def test_a_stopped_turn_is_no_error():
    live = reply()
    live.apply(Failed(kind="cancelled", message="Stopped.", turn=3))
    assert live.finish == "cancelled"


def test_notices_are_kept():
    live = reply()
    live.apply(Notice(turn=3, message="The constraint was rebuilt."))
    assert live.notices == ["The constraint was rebuilt."]
