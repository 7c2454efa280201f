"""Landing: within every budget from the first ending on a reply ends properly, and the same on every path."""

from typing import Any

import numpy as np
import pytest
from fakestream import PROMPT, VOCABULARY, Oracle, RandomDrafts
from shapes import HARD, record, schema

from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Committed, Decoder, Round
from engine.decoding.endings import Endings
from engine.decoding.guards import RunGuard
from engine.decoding.landing import Landing
from engine.decoding.masks import is_legal
from engine.decoding.naive import naive
from engine.decoding.processor import Bits, Shaped, ShapedLookahead
from engine.decoding.sampler import Sampler
from engine.decoding.tokens import Scan, token_table
from engine.drafting.source import DraftSource, NoDrafts
from engine.errors import BudgetTooSmall, ConstraintError
from engine.fake import FakeContext
from engine.protocol import Sampling
from grammars.check import check
from grammars.compile import compile_grammar
from grammars.guards import soft_guards
from grammars.presets import presets
from grammars.samples import samples
from grammars.spec import GrammarSpec

PRESETS = {name: preset.spec() for name, preset in presets().items()}
SHAPES = HARD | PRESETS
MORE = (0, 1, 2, 5, 20)


def guarded(shape: GrammarSpec) -> Shaped:
    inner = Constraint(compile_grammar(shape), VOCABULARY.tokenizer, VOCABULARY.end_ids)
    guards = soft_guards(shape)
    return inner if guards is None else RunGuard(inner, guards=guards, vocabulary=VOCABULARY)


def landing(shape: GrammarSpec, budget: int) -> Landing:
    return Landing(guarded(shape), budget=budget, endings=Endings(token_table(VOCABULARY), samples(shape)))


def first_ending(shape: GrammarSpec) -> int:
    with pytest.raises(BudgetTooSmall) as caught:
        landing(shape, 0)
    return caught.value.needed


def naively(
    shape: GrammarSpec, budget: int, seed: int, temperature: float, spread: float
) -> tuple[list[int], str, bool]:
    structure = landing(shape, budget)
    sampler = Sampler(Sampling(temperature=temperature), seed=seed, history=PROMPT, processors=[structure])
    *tokens, finish = naive(
        FakeContext(VOCABULARY.size, spread=spread),
        sampler,
        structure=structure,
        end_ids=VOCABULARY.end_ids,
        budget=budget,
    )
    said = [committed.token for committed in tokens if isinstance(committed, Committed)]
    return said, str(finish), structure.landed


def drafted(
    shape: GrammarSpec, budget: int, seed: int, temperature: float, spread: float, source: DraftSource
) -> tuple[list[int], str, bool]:
    structure = landing(shape, budget)
    sampler = Sampler(Sampling(temperature=temperature), seed=seed, history=PROMPT, processors=[structure])
    decoder = Decoder(
        FakeContext(VOCABULARY.size, spread=spread),
        sampler,
        structure=structure,
        source=source,
        end_ids=VOCABULARY.end_ids,
        budget=budget,
    )
    said = [committed.token for step in decoder.run() if isinstance(step, Round) for committed in step.tokens]
    # How a decoder calls the end of a landed reply is its own business.
    return said, str(decoder.finish).replace("landed", "stop"), structure.landed


def assert_lands(shape: GrammarSpec, budget: int, seed: int, temperature: float, spread: float) -> bool:
    said, finish, landed = naively(shape, budget, seed, temperature, spread)
    text = b"".join(map(VOCABULARY.piece, said)).decode()
    assert finish == "stop", text
    assert len(said) <= budget
    verdict = check(shape, text)
    assert verdict.fits, (verdict.problem, text)
    for source in (NoDrafts(), Oracle(said), RandomDrafts(seed)):
        assert drafted(shape, budget, seed, temperature, spread, source) == (said, finish, landed)
    return landed


@pytest.mark.parametrize("name", SHAPES)
def test_every_budget_from_the_first_ending_on_gives_a_reply_that_fits(name: str) -> None:
    """Naive, with forced spans only, drafted by one who knows the reply, and by one who does not."""
    first = first_ending(SHAPES[name])
    assert_lands(SHAPES[name], first, 0, 0.0, 6.0)
    assert_lands(SHAPES[name], first + 5, 1, 1.5, 6.0)


@pytest.mark.proof
@pytest.mark.parametrize("name", SHAPES)
def test_every_budget_temperature_and_spread(name: str) -> None:
    first = first_ending(SHAPES[name])
    for more in MORE:
        for temperature in (0.0, 0.8, 1.5):
            for spread in (6.0, 1.0):
                assert_lands(SHAPES[name], first + more, 7 * more, temperature, spread)


@pytest.mark.parametrize("name", SHAPES)
def test_from_any_state_there_is_an_ending_and_the_invariant_holds(name: str) -> None:
    """Walk anywhere with a budget that runs out on the way; what is admitted always ends in time."""
    first = first_ending(SHAPES[name])
    for seed in range(2):
        dice = np.random.default_rng(seed)
        budget = first + int(dice.integers(25))
        structure = landing(SHAPES[name], budget)
        said: list[int] = []
        while not structure.ahead().ended:
            span = structure.ahead().forced()
            if span:
                token = span[0]
            else:
                legal = np.flatnonzero(
                    np.unpackbits(structure.ahead().mask().view(np.uint8), bitorder="little")
                )
                token = structure.admit(int(dice.choice(legal)))
            if token in VOCABULARY.end_ids:
                break
            structure.commit(token)
            said.append(token)
            assert len(said) <= budget
        text = b"".join(map(VOCABULARY.piece, said)).decode()
        assert check(SHAPES[name], text).fits, text


def test_a_reply_that_ends_by_itself_is_not_called_landed_even_with_its_last_token() -> None:
    shape = schema(record({"ok": {"type": "boolean"}}))
    said, finish, landed = naively(shape, 50, 0, 0.0, 6.0)
    assert (finish, landed) == ("stop", False)
    assert naively(shape, len(said), 0, 0.0, 6.0) == (said, "stop", False)


def test_a_reply_that_might_have_gone_on_is_called_landed() -> None:
    shape = GrammarSpec(kind="regex", text="[a-z]+")
    said, finish, landed = naively(shape, 5, 0, 0.0, 6.0)
    assert (len(said), finish, landed) == (5, "stop", True)


def test_a_budget_below_the_first_ending_is_refused_with_the_number() -> None:
    shape = schema(record({"notes": {"type": "string"}, "ok": {"type": "boolean"}}))
    first = first_ending(shape)
    assert landing(shape, first).landed is False
    with pytest.raises(BudgetTooSmall, match=rf"{first} tokens; the budget is {first - 1}\.") as caught:
        landing(shape, first - 1)
    assert caught.value.kind == "usage"


def test_a_choice_behind_which_nothing_can_follow_is_replaced_far_from_the_budget() -> None:
    """The mask looks one token ahead, and this dead end is two tokens behind a legal one."""
    structure = landing(HARD["dead end"], 500)
    letter = VOCABULARY.tokenize("x")[0]
    assert is_legal(structure.ahead().mask(), letter)
    assert structure.admit(letter) != letter
    assert structure.landed


def test_a_choice_that_costs_too_much_is_replaced_long_before_the_end() -> None:
    """One token opens an object that takes more than is left, while most of the budget is still there."""
    heavy = record({f"field number {number}": {"type": "boolean"} for number in range(20)})
    shape = schema({"type": "array", "items": {"anyOf": [heavy, {"type": "null"}]}, "maxItems": 9})
    structure = landing(shape, 60)
    structure.commit(VOCABULARY.tokenize("[")[0])
    brace = VOCABULARY.tokenize("{")[0]
    assert structure.ahead().mask()[brace >> 5] >> np.uint32(brace & 31) & np.uint32(1)
    assert structure.admit(brace) == VOCABULARY.tokenize("]")[0]
    assert structure.landed


@pytest.mark.parametrize("name", SHAPES)
def test_far_from_the_budget_hardly_any_ending_is_looked_for(name: str) -> None:
    """What stands in no ending that was known, as the text of a query, leaves its rest to be written all the same."""
    structure = landing(SHAPES[name], 2000)
    sampler = Sampler(Sampling(temperature=0), seed=0, history=PROMPT, processors=[structure])
    steps = list(
        naive(
            FakeContext(VOCABULARY.size),
            sampler,
            structure=structure,
            end_ids=VOCABULARY.end_ids,
            budget=2000,
        )
    )
    assert structure.searched <= 2 + len(steps) / 20


@pytest.mark.parametrize("name", HARD)
def test_a_reply_given_its_own_beginning_goes_on_and_lands_the_same(name: str) -> None:
    """What is given was once chosen: it must not cost the ending that was known behind the choice."""
    budget = first_ending(HARD[name]) + 12
    said, finish, _ = naively(HARD[name], budget, 7, 1.5, 6.0)
    for given in range(len(said) + 1):
        structure = landing(HARD[name], budget)
        sampler = Sampler(Sampling(temperature=1.5), seed=7, history=PROMPT, processors=[structure])
        for token in said[:given]:
            sampler.take(token)
        *rest, end = naive(
            FakeContext(VOCABULARY.size),
            sampler,
            structure=structure,
            end_ids=VOCABULARY.end_ids,
            budget=budget,
            given=given,
        )
        went_on = [committed.token for committed in rest if isinstance(committed, Committed)]
        assert (said[:given] + went_on, end) == (said, finish)


def test_a_token_behind_which_no_ending_fits_ends_with_an_error_where_it_was_not_chosen() -> None:
    heavy = record({f"field number {number}": {"type": "boolean"} for number in range(20)})
    shape = schema({"type": "array", "items": {"anyOf": [heavy, {"type": "null"}]}, "maxItems": 9})
    structure = landing(shape, 60)
    structure.commit(VOCABULARY.tokenize("[")[0])
    with pytest.raises(ConstraintError, match="no ending"):
        structure.commit(VOCABULARY.tokenize("{")[0])


class Lost(Endings):
    """Knows no way out any more, from a moment on."""

    lost = False

    def fitting(self, ahead: ShapedLookahead, most: int, place: Scan) -> list[int] | None:
        return None if self.lost else super().fitting(ahead, most, place)

    def takes(self, ahead: ShapedLookahead, data: bytes) -> bool:
        return not self.lost and super().takes(ahead, data)

    def likely(self, *arguments: Any) -> bytes | None:
        return None if self.lost else super().likely(*arguments)

    def begin(self, mask: Bits, data: bytes) -> tuple[int, ...]:
        return () if self.lost else super().begin(mask, data)


def test_where_the_known_ending_cannot_be_begun_no_token_is_let_through() -> None:
    endings = Lost(token_table(VOCABULARY))
    structure = Landing(guarded(HARD["cut"]), budget=40, endings=endings)
    letter = VOCABULARY.tokenize("z")[0]
    for token in [*VOCABULARY.tokenize('{"notes":"'), letter]:
        structure.commit(token)
    assert structure.admit(letter) == letter
    endings.lost = True
    with pytest.raises(ConstraintError, match="no ending"):
        structure.admit(letter)


def test_a_clone_lands_by_itself() -> None:
    structure = landing(HARD["cut"], 20)
    for token in VOCABULARY.tokenize('{"notes":"'):
        structure.commit(token)
    twin = structure.clone()
    letter = VOCABULARY.tokenize("z")[0]
    while structure.admit(letter) == letter:
        structure.commit(letter)
    assert structure.landed
    assert not twin.landed
    assert twin.admit(letter) == letter


def test_a_reset_gives_the_whole_budget_back() -> None:
    structure = landing(HARD["regex"], 12)
    said = []
    for _ in range(2):
        structure.reset()
        letter = VOCABULARY.tokenize("q")[0]
        count = 0
        while structure.admit(letter) == letter:
            structure.commit(letter)
            count += 1
        said.append(count)
    assert said[0] == said[1] > 0
