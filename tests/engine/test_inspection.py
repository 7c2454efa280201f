"""Inspecting a place of a reply: the model's row as it is, what the shape leaves of it, and no trace in later turns."""

from dataclasses import replace

import numpy as np
import pytest

from engine.events import Event, Failed, Finished, Inspected, Token, Tokens
from engine.fake import FakeContext, fake_engine
from engine.inspection import inspect
from engine.protocol import Generate, Inspect, Message, Sampling, decode_command, encode_command
from engine.turn import Engine
from grammars.spec import GrammarSpec

RECORD = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"city":{"type":"string","maxLength":9},"name":{"enum":["a","the"]}},'
    '"required":["city","name"],"additionalProperties":false}',
)


def asked(text: str = "Where?", shape: GrammarSpec | None = RECORD, **options: object) -> Generate:
    return Generate(
        turn=1,
        messages=(Message(role="user", content=text),),
        shape=shape,
        sampling=Sampling(seed=5),
        max_tokens=60,
        **options,  # type: ignore[arg-type]
    )


def tokens(events: list[Event]) -> list[Token]:
    return [token for event in events if isinstance(event, Tokens) for token in event.tokens]


def look(engine: Engine, generate: Generate, **options: object) -> Inspected:
    fingerprint = engine.vocabulary.fingerprint
    (event,) = inspect(engine, Inspect(generate=generate, vocabulary=fingerprint, **options))  # type: ignore[arg-type]
    assert isinstance(event, Inspected), event
    return event


def refusal(engine: Engine, request: Inspect) -> Failed:
    (event,) = inspect(engine, request)
    assert isinstance(event, Failed), event
    assert event.turn == request.generate.turn
    return event


def prefix(reply: list[Token], place: int) -> tuple[int, ...]:
    return tuple(token.id for token in reply[:place])


def test_every_place_of_a_reply_shows_the_models_row_and_what_the_shape_leaves_of_it() -> None:
    engine = fake_engine()
    request = asked("Where? " * 30)
    reply = tokens(list(engine.generate(request)))
    fresh = FakeContext(engine.vocabulary.size)
    prompt = engine.prompt(request.messages).ids
    assert {token.origin for token in reply} == {"forced", "sampled"}
    for place, token in enumerate(reply):
        told = look(engine, replace(request, prefix=prefix(reply, place)), token=token.id)
        fresh.keep(0)
        for at in range(0, len(prompt), fresh.batch):
            row = fresh.decode(prompt[at : at + fresh.batch], (len(prompt[at : at + fresh.batch]) - 1,))[0]
        for before in reply[:place]:
            row = fresh.decode([before.id], (0,))[0]
        weights = np.exp(row.astype(np.float64))
        expected = weights / weights.sum()
        assert told.forced == (token.origin == "forced")
        assert told.allowed == (1 if told.forced else token.allowed)
        assert told.allowed + told.masked == engine.vocabulary.size
        found = {each.id: each for each in told.alternatives}
        assert found[token.id].legal
        assert all(each.probability == pytest.approx(expected[each.id]) for each in told.alternatives)
        ranked = [each.probability for each in told.alternatives]
        assert ranked == sorted(ranked, reverse=True)
        assert {each.id for each in told.alternatives if each.rank <= 10} == set(np.argsort(-expected)[:10])
        legal = [each for each in told.alternatives if each.legal]
        if told.allowed <= 10:
            assert len(legal) == told.allowed
            assert sum(each.share for each in legal) == pytest.approx(1)
        assert all(each.share == 0 for each in told.alternatives if not each.legal)


@pytest.mark.parametrize("shape", [None, RECORD])
def test_the_next_turn_is_the_same_with_and_without_inspections(shape: GrammarSpec | None) -> None:
    def second(engine: Engine, first: list[Event]) -> list[Event]:
        end = first[-1]
        assert isinstance(end, Finished)
        replied = Message(
            role="assistant",
            content=end.text,
            tokens=end.tokens,
            vocabulary=engine.vocabulary.fingerprint,
        )
        question = Message(role="user", content="And then?")
        request = asked(shape=shape)
        return list(engine.generate(replace(request, messages=(*request.messages, replied, question))))

    plain, inspected = fake_engine(), fake_engine()
    request = asked(shape=shape)
    expected = second(plain, list(plain.generate(request)))
    first = list(inspected.generate(request))
    reply = tokens(first)
    for place in (len(reply) - 1, 0, len(reply) // 2):
        look(inspected, replace(request, prefix=prefix(reply, place)))
    found = second(inspected, first)
    assert tokens(found) == tokens(expected)
    assert isinstance(found[-1], Finished)
    assert isinstance(expected[-1], Finished)
    assert found[-1].text == expected[-1].text


def test_places_from_left_to_right_cost_one_row_each() -> None:
    engine = fake_engine()
    request = asked("Where? " * 40)
    reply = tokens(list(engine.generate(request)))
    look(engine, request)
    context = engine.context
    assert isinstance(context, FakeContext)
    before = context.decoded
    for place in range(1, 6):
        look(engine, replace(request, prefix=prefix(reply, place)))
    assert context.decoded - before == 5


def test_bias_and_bans_decide_what_is_legal_and_leave_the_models_own_row() -> None:
    engine = fake_engine()
    request = asked(shape=None)
    free = look(engine, request)
    best = free.alternatives[0]
    assert best.legal
    banned = replace(request, sampling=replace(request.sampling, banned=(best.id,)))
    told = look(engine, banned)
    assert told.alternatives[0] == replace(best, legal=False, share=0.0)
    assert (told.allowed, told.masked) == (engine.vocabulary.size - 1, 1)


def test_a_place_behind_the_end_is_refused() -> None:
    engine = fake_engine()
    request = asked()
    reply = tokens(list(engine.generate(request)))
    whole = replace(request, prefix=prefix(reply, len(reply)))
    failed = refusal(engine, Inspect(generate=whole, vocabulary=engine.vocabulary.fingerprint))
    assert failed.kind == "usage"
    assert "complete" in failed.message


def test_ids_of_another_vocabulary_and_ids_out_of_range_are_refused() -> None:
    engine = fake_engine()
    failed = refusal(engine, Inspect(generate=asked(), vocabulary="another"))
    assert "other tokens" in failed.message
    fingerprint = engine.vocabulary.fingerprint
    failed = refusal(engine, Inspect(generate=asked(), vocabulary=fingerprint, token=10**6))
    assert "Token ids" in failed.message
    wrong = asked(prefix=(engine.vocabulary.tokenize("x")[0],))
    assert "number 1" in refusal(engine, Inspect(generate=wrong, vocabulary=fingerprint)).message


def test_an_inspection_can_be_stopped_and_the_next_one_works() -> None:
    engine = fake_engine()
    fingerprint = engine.vocabulary.fingerprint
    engine.abort()
    assert refusal(engine, Inspect(generate=asked(), vocabulary=fingerprint)).kind == "cancelled"
    engine.clear_abort()
    assert look(engine, asked()).forced


def test_an_inspection_survives_the_pipe() -> None:
    command = Inspect(generate=asked(prefix=(1, 2)), vocabulary="v", token=3)
    assert decode_command(encode_command(command)) == command
