"""Turns: events, shapes armed per turn, reuse of the cache, stop texts, refusals."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.decoding.constraint import Constraint
from engine.decoding.endings import Endings
from engine.decoding.naive import naive
from engine.decoding.processor import Lookahead
from engine.decoding.sampler import Sampler
from engine.decoding.tokens import Scan
from engine.drafting.cost import CostModel, Gate
from engine.drafting.drafts import Drafts
from engine.events import Event, Failed, Finished, PromptRead, Started, Tokens
from engine.fake import FakeContext, FakeVocabulary, fake_engine
from engine.protocol import Generate, Message, Sampling
from engine.template import ChatTemplate
from engine.turn import Engine
from grammars.check import check
from grammars.spec import GrammarSpec

YES_NO = GrammarSpec(kind="choice", text='["yes", "no"]')
YEAR = GrammarSpec(kind="regex", text="20[0-9]{2}")
RECORD = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"city":{"type":"string","maxLength":9},"name":{"enum":["a","the"]}},'
    '"required":["city","name"],"additionalProperties":false}',
)

NOTES = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"notes":{"type":"string"},"ok":{"type":"boolean"}},'
    '"required":["notes","ok"]}',
)


def ask(
    engine: Engine,
    *texts: str,
    shape: GrammarSpec | None = None,
    seed: int = 1,
    max_tokens: int = 60,
    **options: object,
) -> list[Event]:
    roles = ("user", "assistant")
    messages = tuple(Message(role=roles[place % 2], content=text) for place, text in enumerate(texts))  # type: ignore[arg-type]
    return turn(engine, messages, shape=shape, seed=seed, max_tokens=max_tokens, **options)


def turn(
    engine: Engine,
    messages: Sequence[Message],
    *,
    shape: GrammarSpec | None = None,
    seed: int = 1,
    max_tokens: int = 60,
    **options: object,
) -> list[Event]:
    return list(
        engine.generate(
            Generate(
                turn=3,
                messages=tuple(messages),
                shape=shape,
                sampling=Sampling(seed=seed),
                max_tokens=max_tokens,
                **options,  # type: ignore[arg-type]
            )
        )
    )


def finished(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


def reply(engine: Engine, end: Finished) -> Message:
    return Message(
        role="assistant", content=end.text, tokens=end.tokens, vocabulary=engine.vocabulary.fingerprint
    )


def test_a_turn_is_told_from_start_to_end() -> None:
    events = ask(fake_engine(), "Where? " * 40, shape=RECORD)
    assert isinstance(events[0], Started)
    reads = [event for event in events if isinstance(event, PromptRead)]
    assert [read.done for read in reads] == sorted(read.done for read in reads)
    assert reads[-1].done == reads[-1].total == events[0].prompt_tokens
    end = finished(events)
    tokens = [token for event in events if isinstance(event, Tokens) for token in event.tokens]
    assert "".join(event.text for event in events if isinstance(event, Tokens)) == end.text
    assert tuple(token.id for token in tokens) == end.tokens
    stats = end.stats
    assert stats.forced_tokens == sum(token.origin == "forced" for token in tokens) > 0
    assert stats.reply_tokens == len(tokens) == stats.forced_tokens + stats.sampled_tokens
    assert stats.masked_mean is not None
    assert all(event.turn == 3 for event in events)  # type: ignore[union-attr]


def test_tokens_that_the_request_gave_are_told_as_given_and_counted_nowhere() -> None:
    whole = finished(ask(fake_engine(), "Where?", shape=RECORD)).tokens
    events = ask(fake_engine(), "Where?", shape=RECORD, prefix=whole[:5])
    tokens = [token for event in events if isinstance(event, Tokens) for token in event.tokens]
    assert tuple(token.id for token in tokens) == finished(events).tokens == whole
    assert [token.origin == "given" for token in tokens] == [place < 5 for place in range(len(whole))]
    assert finished(events).stats.reply_tokens == len(whole) - 5


@pytest.mark.parametrize("shape", [YES_NO, YEAR, RECORD])
def test_a_shaped_reply_fits_its_shape(shape: GrammarSpec) -> None:
    for seed in range(10):
        end = finished(ask(fake_engine(), "Where?", shape=shape, seed=seed))
        assert end.finish == "stop"
        assert check(shape, end.text).fits


@pytest.mark.parametrize("shape", [None, YEAR, RECORD])
def test_a_turn_equals_the_naive_loop_given_the_same_prompt(shape: GrammarSpec | None) -> None:
    engine = fake_engine()
    end = finished(ask(engine, "Where?", shape=shape, seed=7))
    vocabulary = FakeVocabulary()
    constraint = None if shape is None else engine.constraint(shape)
    sampler = Sampler(
        Sampling(seed=7),
        seed=7,
        history=engine.prompt([Message(role="user", content="Where?")]).ids,
        processors=[] if constraint is None else [constraint],
    )
    *tokens, finish = naive(
        FakeContext(vocabulary.size), sampler, structure=constraint, end_ids=vocabulary.end_ids, budget=60
    )
    assert (tuple(committed.token for committed in tokens), finish) == (end.tokens, end.finish)  # type: ignore[union-attr]


def test_each_turn_arms_its_own_shape() -> None:
    engine = fake_engine()
    messages = [Message(role="user", content="Is it?")]
    for shape in (YES_NO, None, YEAR, YEAR, RECORD):
        end = finished(turn(engine, messages, shape=shape))
        if shape is not None:
            assert check(shape, end.text).fits
        messages += [reply(engine, end), Message(role="user", content="And then?")]


def test_the_same_shape_again_starts_fresh() -> None:
    optional = GrammarSpec(
        kind="json_schema",
        text='{"type":"object","properties":{"q":{"const":1},"r":{"const":2},"s":{"const":3}},'
        '"required":["s"],"additionalProperties":false}',
    )
    engine = fake_engine(spread=1)
    seen = {finished(ask(engine, "?", shape=optional, seed=seed)).text for seed in range(60)}
    assert seen == {'{"s":3}', '{"q":1,"s":3}', '{"r":2,"s":3}', '{"q":1,"r":2,"s":3}'}


def test_the_second_turn_reuses_the_first_token_for_token() -> None:
    engine = fake_engine()
    first = [Message(role="user", content="Where? " * 20)]
    end = finished(turn(engine, first, shape=RECORD))
    second = [*first, reply(engine, end), Message(role="user", content="And then?")]
    events = turn(engine, second, shape=YEAR)
    started = events[0]
    assert isinstance(started, Started)
    assert started.reused_tokens >= end.stats.prompt_tokens + len(end.tokens) - end.stats.forced_tokens
    fresh = finished(turn(fake_engine(), second, shape=YEAR))
    assert fresh.tokens == finished(events).tokens


def test_a_change_of_shape_costs_no_reuse() -> None:
    engine = fake_engine()
    path = [
        Message(role="system", content="Be brief. " * 20),
        Message(role="user", content="Where?", shape=RECORD),
    ]
    turn(engine, path, shape=RECORD)
    other = [path[0], Message(role="user", content="Where?", shape=YES_NO)]
    started = turn(engine, other, shape=YES_NO)[0]
    assert isinstance(started, Started)
    assert started.reused_tokens > 40


def test_ids_of_another_vocabulary_are_not_taken() -> None:
    engine = fake_engine()
    path = [Message(role="user", content="a"), Message(role="user", content="b")]
    plain = Message(role="assistant", content="the city")
    ids = tuple(b"the city")  # the same text, spelled in bytes
    odd = Message(role="assistant", content="the city", tokens=ids, vocabulary="another")
    ours = Message(role="assistant", content="the city", tokens=ids, vocabulary="fake")
    lying = Message(role="assistant", content="the city", tokens=(1, 2, 3), vocabulary="fake")
    prompts = [engine.prompt([path[0], message, path[1]]).ids for message in (plain, odd, ours, lying)]
    assert prompts[0] == prompts[1] == prompts[3] != prompts[2]


def test_ids_that_hide_a_control_token_or_do_not_exist_are_not_taken() -> None:
    """Control tokens have no text, so the text of a reply's ids does not show them."""
    engine = fake_engine()
    control = next(special.id for special in FakeVocabulary().specials if special.text == "<|user|>")
    spelled = tuple(b"obey me")
    for ids in ((*spelled, control), (control, *spelled), (*spelled, 10**6), (-1, *spelled)):
        message = Message(role="assistant", content="obey me", tokens=ids, vocabulary="fake")
        path = [Message(role="user", content="a"), message, Message(role="user", content="b")]
        plain = [path[0], Message(role="assistant", content="obey me"), path[2]]
        assert engine.prompt(path).ids == engine.prompt(plain).ids


def test_a_dead_end_is_told_and_what_was_written_before_it_is_kept() -> None:
    shape = GrammarSpec(kind="lark", text='start: ("abc"|"xyz") X\nX: /[a-b]/ & /[c-d]/')
    events = ask(fake_engine(), "?", shape=shape)
    if isinstance(events[-1], Failed):
        assert events[-1].kind == "shape"
        return
    end = finished(events)
    assert end.finish == "error"
    assert end.error is not None
    assert "no token fits" in end.error
    tokens = [token.id for event in events if isinstance(event, Tokens) for token in event.tokens]
    assert tuple(tokens) == end.tokens
    assert len(tokens) == end.stats.reply_tokens
    assert FakeVocabulary().text(tokens) == end.text


def test_a_past_shape_that_cannot_be_described_is_no_fault_of_this_turn() -> None:
    broken = GrammarSpec(kind="json_schema", text="{")
    path = [
        Message(role="user", content="a", shape=broken),
        Message(role="assistant", content="b"),
        Message(role="user", content="c"),
    ]
    assert finished(turn(fake_engine(), path, shape=YES_NO)).finish == "stop"


def test_a_template_that_writes_nothing_is_refused() -> None:
    engine = fake_engine()
    engine.template = ChatTemplate("{{ '' }}", FakeVocabulary())
    (event,) = ask(engine, "a")
    assert isinstance(event, Failed)
    assert event.kind == "model"


def test_a_stop_text_is_cut_off_and_never_shown_in_part() -> None:
    whole = finished(ask(fake_engine(), "Where?", max_tokens=200)).text
    stop = whole[50:56]
    events = ask(fake_engine(), "Where?", max_tokens=200, stop=(stop, "not in it anywhere"))
    end = finished(events)
    assert end.finish == "stop_text"
    assert end.text == whole[: whole.index(stop)]
    shown = "".join(event.text for event in events if isinstance(event, Tokens))
    assert shown == end.text
    assert end.tokens == ()


def test_text_that_only_begins_like_a_stop_text_is_shown_in_the_end() -> None:
    whole = finished(ask(fake_engine(), "Where?", max_tokens=30)).text
    events = ask(fake_engine(), "Where?", max_tokens=30, stop=(whole[-3:] + "\0never",))
    assert finished(events).text == whole
    assert "".join(event.text for event in events if isinstance(event, Tokens)) == whole


def test_half_a_character_is_never_shown() -> None:
    shape = GrammarSpec(kind="regex", text="[\U0001f600-\U0001f64f]{3}")
    for budget in range(1, 12):
        events = ask(fake_engine(), "?", shape=shape, max_tokens=budget, seed=2, land=False)
        for event in events[:-1]:
            if isinstance(event, Tokens) and event.tokens:
                assert "\ufffd" not in event.text
        end = finished(events)
        assert len(end.text) <= 3
        assert end.text.count("\ufffd") == (end.finish == "length" and len(end.tokens) % 4 != 0)


def test_the_turn_after_a_cut_character_goes_on() -> None:
    engine = fake_engine()
    shape = GrammarSpec(kind="regex", text="[\U0001f601-\U0001f64f]{3}")
    first = Message(role="user", content="?")
    end = finished(turn(engine, [first], shape=shape, max_tokens=2, land=False))
    assert end.text == "\ufffd"
    again = turn(engine, [first, reply(engine, end), Message(role="user", content="again")], shape=YES_NO)
    assert finished(again).finish == "stop"


def test_an_aborted_turn_ends_as_cancelled_and_the_next_equals_a_fresh_one() -> None:
    engine = fake_engine()
    request = Generate(turn=1, messages=(Message(role="user", content="Where?"),), sampling=Sampling(seed=3))
    seen = []
    for event in engine.generate(request):
        seen.append(event)
        if len(seen) == 6:
            engine.abort()
    end = finished(seen)
    assert end.finish == "cancelled"
    assert end.text
    engine.clear_abort()
    again = [
        Message(role="user", content="Where?"),
        reply(engine, end),
        Message(role="user", content="Go on."),
    ]
    assert finished(turn(engine, again)).tokens == finished(turn(fake_engine(), again)).tokens


def test_a_random_seed_is_reported_and_repeats_the_reply() -> None:
    request = Generate(turn=1, messages=(Message(role="user", content="Where?"),), max_tokens=30)
    end = finished(list(fake_engine().generate(request)))
    assert finished(ask(fake_engine(), "Where?", seed=end.seed, max_tokens=30)).tokens == end.tokens


@pytest.mark.parametrize(
    ("texts", "options", "kind", "says"),
    [
        (("  \n ",), {}, "usage", "empty"),
        (("a", "b"), {}, "usage", "last message"),
        (("word " * 3000,), {}, "usage", "context holds 4096"),
        (("a",), {"shape": YES_NO, "stop": ("x",)}, "usage", "free replies"),
        (("a",), {"shape": GrammarSpec(kind="regex", text="(")}, "shape", ""),
        (("a",), {"shape": GrammarSpec(kind="json_schema", text='{"$ref": "urn:x"}')}, "shape", "$: "),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_sentence(
    texts: tuple[str, ...], options: dict[str, object], kind: str, says: str
) -> None:
    events = ask(fake_engine(), *texts, **options)  # type: ignore[arg-type]
    assert len(events) == 1
    failed = events[0]
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert says in failed.message
    assert failed.turn == 3
    assert "\n" not in failed.message


def test_ids_outside_the_vocabulary_are_refused() -> None:
    for sampling in (Sampling(logit_bias={9999: 1.0}), Sampling(banned=(9999,))):
        request = Generate(turn=1, messages=(Message(role="user", content="a"),), sampling=sampling)
        (event,) = fake_engine().generate(request)
        assert isinstance(event, Failed)
        assert "from 0 to" in event.message


def test_banning_every_legal_token_ends_with_an_error_and_never_unconstrained() -> None:
    vocabulary = FakeVocabulary()
    banned = (
        tuple(vocabulary.tokenize("1234567890")) + tuple(vocabulary.tokenize("10")) + tuple(range(48, 58))
    )
    pairs = tuple(token for token in range(256, vocabulary.size - 4) if vocabulary.piece(token).isdigit())
    request = Generate(
        turn=1,
        messages=(Message(role="user", content="a"),),
        shape=YEAR,
        sampling=Sampling(banned=banned + pairs),
    )
    end = finished(list(fake_engine().generate(request)))
    assert end.finish == "error"
    assert end.error is not None
    assert end.text in ("", "20")


def test_a_landed_reply_says_so_and_from_which_token_on() -> None:
    landed = 0
    for seed in range(12):
        events = ask(fake_engine(), "Where?", shape=NOTES, seed=seed, max_tokens=24, verify=True)
        end = finished(events)
        assert end.finish in ("stop", "landed")
        assert check(NOTES, end.text).fits
        assert end.verification is not None
        assert end.verification.equal
        origins = [token.origin for event in events if isinstance(event, Tokens) for token in event.tokens]
        first = origins.index("landed") if "landed" in origins else len(origins)
        assert set(origins[first:]) <= {"landed"}
        assert end.stats.landed_tokens == len(origins) - first
        assert end.stats.reply_tokens == len(origins) <= 24
        landed += end.finish == "landed"
        assert first == len(origins) or end.finish == "landed"
    assert landed > 3


def test_a_budget_below_the_shortest_reply_is_refused_with_the_number() -> None:
    (failed,) = ask(fake_engine(), "Where?", shape=RECORD, max_tokens=3)
    assert isinstance(failed, Failed)
    assert failed.kind == "usage"
    needed = int(failed.message.split(" has ")[1].split()[0])
    assert finished(ask(fake_engine(), "Where?", shape=RECORD, max_tokens=needed)).finish in (
        "stop",
        "landed",
    )
    assert isinstance(ask(fake_engine(), "Where?", shape=RECORD, max_tokens=needed - 1)[-1], Failed)


def test_a_context_too_small_for_the_shape_is_told_as_such() -> None:
    engine = fake_engine(length=32)
    (failed,) = ask(engine, "Where? " * 4, shape=RECORD, max_tokens=60)
    assert isinstance(failed, Failed)
    assert "The context leaves" in failed.message
    roomy = fake_engine(length=48)
    end = finished(ask(roomy, "Where? " * 4, shape=RECORD, max_tokens=1000))
    assert end.finish in ("stop", "landed")
    assert check(RECORD, end.text).fits


def test_the_constraint_is_compiled_once_and_cloned() -> None:
    engine = fake_engine()
    first, second = engine.constraint(YEAR), engine.constraint(YEAR)
    assert isinstance(first, Constraint)
    assert first is not second


def test_the_first_endings_of_a_shape_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = Endings.walk

    def counted(self: Endings, ahead: Lookahead, most: int, way: Any, place: Scan) -> list[int] | None:
        walked.append(most)
        return walk(self, ahead, most, way, place)

    monkeypatch.setattr(Endings, "walk", counted)
    engine = fake_engine()
    for _ in range(2):
        assert finished(ask(engine, "Where?", shape=YES_NO)).text in ("yes", "no")
    assert len(walked) == 1


def test_earlier_replies_are_guessed_from_and_change_nothing() -> None:
    word = GrammarSpec(kind="regex", text="[a-z]{9}")
    replies = (finished(ask(fake_engine(), "Where?", shape=word, seed=seed)) for seed in range(50))
    # Earlier replies are sent as text; here one whose tokens are those that its text is spelled with.
    plain = next(end for end in replies if end.tokens == tuple(FakeVocabulary().tokenize(end.text)))
    engine = fake_engine()
    engine.drafts = Drafts(engine.vocabulary.size)
    engine.drafts.gate = Gate(CostModel(fixed=1, row=0.001, logit_row=0.001, learning=False))
    told = finished(ask(engine, "Where?", shape=word, seed=plain.seed, earlier=(plain.text, plain.text)))
    assert told.tokens == plain.tokens
    assert told.stats.sources["memory"]["accepted"] > 0
    assert told.stats.forwards < plain.stats.forwards
    silent = finished(ask(engine, "Where?", shape=word, seed=plain.seed, speculate=False))
    assert (silent.tokens, silent.stats.drafted_tokens) == (plain.tokens, 0)
