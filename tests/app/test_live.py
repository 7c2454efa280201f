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
    assert live.tokens_per_s == pytest.approx(8.0)
    assert live.tokens_per_forward == pytest.approx(2.0)
    assert live.text == "abcd"


def test_a_free_reply_masks_nothing():
    live = reply(shape=None)
    live.apply(tokens("sampled", allowed=100))
    assert live.masked == []


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


def test_what_the_model_thinks_grows_beside_the_reply_and_never_in_it():
    live = reply()
    thought = Token(id=5, text="hm", origin="sampled", allowed=98, part="reasoning")
    live.apply(Tokens(turn=3, tokens=(thought,), text="", reasoning="hm", forwards=1, elapsed_s=0.1))
    assert (live.thoughts, live.text, live.masked) == ("hm", "", [])
    live.apply(Tokens(turn=3, tokens=(), text="a", reasoning=", yes", forwards=1, elapsed_s=0.1))
    assert (live.thoughts, live.text, len(live.tokens)) == ("hm, yes", "a", 1)
    live.apply(
        Finished(turn=3, finish="stop", text="a", tokens=(1,), seed=5, stats=Stats(), reasoning="hm, yes!")
    )
    assert (live.thoughts, live.text) == ("hm, yes!", "a")


def test_landed_tokens_are_counted_apart():
    live = reply()
    live.apply(tokens("sampled", "landed", "landed", text="abc"))
    assert (live.sampled, live.landed) == (1, 2)


def test_the_field_that_is_being_filled_follows_the_text_of_json_replies_only():
    live = reply(GrammarSpec(kind="json_schema", text="{}"))
    assert live.filling == ""
    live.apply(tokens("forced", text='{"a": ['))
    assert live.filling == "$.a[0]"
    live.apply(tokens("sampled", text='1, {"b'))
    assert live.filling == "$.a[1]"
    live.apply(Finished(turn=3, finish="stop", text="", tokens=(), seed=5, stats=Stats()))
    assert live.filling == ""
    chosen = reply()
    chosen.apply(tokens("sampled", text='{"a": ['))
    assert chosen.filling == ""


def test_thoughts_are_counted_and_the_latest_figures_of_the_sources_are_kept():
    live = reply()
    thought = Token(id=5, text="hm", origin="sampled", part="reasoning")
    figures = {"suffix": {"submitted": 3.0, "accepted": 2.0}}
    live.apply(
        Tokens(turn=3, tokens=(thought,), text="", reasoning="hm", forwards=1, elapsed_s=0.1, sources=figures)
    )
    live.apply(tokens("sampled"))
    assert (live.thought_tokens, live.sources) == (1, figures)
    live.apply(Finished(turn=3, finish="stop", text="", tokens=(), seed=5, stats=Stats()))
    assert live.sources == {}
