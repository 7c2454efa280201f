"""Counting tokens: what a turn would read, without reading it."""

from engine.counting import count
from engine.events import Counted, Failed, Started
from engine.fake import fake_engine
from engine.protocol import (
    Count,
    Generate,
    Message,
    decode_command,
    decode_event,
    encode_command,
    encode_event,
)

PATH = (Message(role="system", content="s"), Message(role="user", content="How many tokens are these?"))


def test_a_count_is_what_a_turn_then_reads() -> None:
    engine = fake_engine()
    counted = count(engine, Count(turn=-1, messages=PATH, texts=("", "abc def")))
    assert isinstance(counted, Counted)
    started = next(
        event
        for event in engine.generate(Generate(turn=1, messages=PATH, max_tokens=1))
        if isinstance(event, Started)
    )
    assert (counted.turn, counted.prompt) == (-1, started.prompt_tokens)
    assert counted.texts == (0, len(engine.vocabulary.tokenize("abc def")))


def test_counting_leaves_the_cache_alone_and_knows_no_limit() -> None:
    engine = fake_engine()
    long = (Message(role="user", content="word " * 20_000),)
    counted = count(engine, Count(turn=-1, messages=long))
    assert isinstance(counted, Counted)
    assert counted.prompt is not None
    assert counted.prompt > engine.context.length
    assert list(engine.context.tokens) == []
    assert count(engine, Count(turn=-2, texts=("a",))).prompt is None


def test_what_no_turn_could_be_asked_with_is_not_counted() -> None:
    refused = count(fake_engine(), Count(turn=-3, messages=(Message(role="user", content=" "),)))
    assert isinstance(refused, Failed)
    assert refused.turn == -3


def test_questions_and_answers_survive_the_pipe() -> None:
    for command in (Count(turn=-1, messages=PATH, texts=("a",), think=False), Count(turn=-2)):
        assert decode_command(encode_command(command)) == command
    answer = Counted(turn=-1, prompt=3, texts=(1, 2))
    assert decode_event(encode_event(answer)) == answer
