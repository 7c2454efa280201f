"""A finished reply is written again by the naive loop and compared; what differs is found and measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.events import Finished
from engine.fake import FakeContext, fake_engine
from engine.protocol import Generate, Message, Sampling
from engine.turn import Engine
from engine.verify import verify
from grammars.spec import GrammarSpec

SHAPES: dict[str, GrammarSpec | None] = {
    "free": None,
    "schema": GrammarSpec(
        kind="json_schema", text='{"type":"array","items":{"enum":["name","city"]},"maxItems":5}'
    ),
    "regex": GrammarSpec(kind="regex", text=r"(yes|no): [a-z]{2,9}( the city)?, 20[0-9]{2}"),
}


def request(shape: GrammarSpec | None = None, **options: Any) -> Generate:
    return Generate(
        turn=1,
        messages=(Message(role="user", content="Describe the city of Paris."),),
        shape=shape,
        sampling=Sampling(temperature=0.8, seed=3),
        **{"max_tokens": 40, **options},
    )


def finished(engine: Engine, generate: Generate) -> Finished:
    *_, end = engine.generate(generate)
    assert isinstance(end, Finished)
    return end


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(
    "options", [{}, {"max_tokens": 3, "land": False}, {"max_tokens": 13}, {"speculate": False}]
)
def test_a_reply_equals_its_replay(shape: GrammarSpec | None, options: dict[str, Any]) -> None:
    end = finished(fake_engine(spread=3), request(shape, verify=True, **options))
    check = end.verification
    assert check is not None
    assert check.equal
    assert check.compared == check.total == len(end.tokens) > 0
    assert (check.at, check.margin, check.exact) == (None, None, "exact")


def test_nothing_is_replayed_unasked() -> None:
    assert finished(fake_engine(), request()).verification is None


def test_a_reply_cut_by_a_stop_text_is_compared_as_far_as_it_goes() -> None:
    engine = fake_engine(spread=3)
    text = finished(engine, request()).text
    end = finished(fake_engine(spread=3), request(stop=(text[6:8],), verify=True))
    assert end.finish == "stop_text"
    assert end.verification is not None
    assert end.verification.equal
    assert end.verification.compared == end.verification.total > 0


@pytest.mark.parametrize("place", [0, 5, 11])
def test_the_first_difference_is_named_with_its_margin(place: int) -> None:
    engine = fake_engine(spread=3)
    generate = request()
    tokens = list(finished(engine, generate).tokens)
    wrong = list(tokens)
    wrong[place] = (wrong[place] + 1) % 256
    check = verify(engine, generate, seed=3, tokens=wrong, finish="length")
    assert not check.equal
    assert (check.at, check.compared, check.total) == (place, place, len(tokens))
    assert check.replied is not None
    assert check.replayed is not None
    assert (check.replied.id, check.replayed.id) == (wrong[place], tokens[place])
    prefix = [*engine.prompt(generate.messages).ids, *tokens[:place]]
    fresh = FakeContext(engine.vocabulary.size, spread=3)
    for at in range(0, len(prefix), fresh.batch):
        rows = fresh.decode(prefix[at : at + fresh.batch], (min(fresh.batch, len(prefix) - at) - 1,))
    second, first = np.sort(rows[0])[-2:]
    assert check.margin == pytest.approx(float(first - second))


def test_a_forced_token_has_no_margin() -> None:
    engine = fake_engine()
    shape = GrammarSpec(kind="choice", text='["the city"]')
    generate = request(shape)
    tokens = list(finished(engine, generate).tokens)
    check = verify(engine, generate, seed=3, tokens=[65, *tokens[1:]], finish="stop")
    assert (check.equal, check.at, check.margin) == (False, 0, None)


@pytest.mark.parametrize(("cut", "replayed"), [(slice(0, -1), False), (slice(0, None), True)])
def test_replies_that_end_too_early_or_too_late_differ_at_the_end(cut: slice, replayed: bool) -> None:
    engine = fake_engine(spread=3)
    generate = request(SHAPES["regex"])
    tokens: Sequence[int] = finished(engine, generate).tokens
    if replayed:
        tokens = (*tokens, 65)
    check = verify(engine, generate, seed=3, tokens=tokens[cut], finish="stop")
    assert not check.equal
    assert check.at == check.compared
    assert (check.replied is None, check.replayed is None) == (not replayed, replayed)


class Rounding(FakeContext):
    """A context whose rows depend on the size of the batch: two tokens that are all but equal change places."""

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> Any:
        rows = super().decode(tokens, wanted)
        for row in rows:
            first, second = np.argsort(row)[[-1, -2]]
            row[second] = np.nextafter(row[first], np.float32(np.inf if len(self.tokens) % 16 else -np.inf))
        return rows


def test_numerics_that_depend_on_the_batch_are_caught_and_named() -> None:
    engine = fake_engine()
    engine.context = Rounding(engine.vocabulary.size)
    engine.exact = "fast"
    generate = request(verify=False)
    tokens = finished(engine, generate).tokens
    engine.context = FakeContext(engine.vocabulary.size)
    check = verify(engine, generate, seed=3, tokens=tokens, finish="length")
    assert not check.equal
    assert check.exact == "fast"


def test_an_abort_ends_the_replay_and_says_how_far_it_came() -> None:
    engine = fake_engine()
    generate = request()
    tokens = finished(engine, generate).tokens
    engine.abort()
    check = verify(engine, generate, seed=3, tokens=tokens, finish="length")
    assert (check.equal, check.compared, check.total) == (True, 0, len(tokens))
    assert check.error is not None


def test_the_prompt_is_read_cold() -> None:
    engine = fake_engine()
    context = engine.context
    generate = request(max_tokens=1)
    tokens = finished(engine, generate).tokens
    context.tokens[3] = 1  # a cache that is not what it says
    kept: list[int] = []
    keep = context.keep
    context.keep = lambda count: kept.append(count) or keep(count)  # type: ignore[method-assign]
    assert verify(engine, generate, seed=3, tokens=tokens, finish="length").equal
    assert kept[0] == 0
