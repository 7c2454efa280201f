"""The constraint: masks, forced spans, look-aheads and clones, against fresh matchers fed the same tokens."""

from collections.abc import Sequence

import numpy as np
import pytest
from llguidance import LLMatcher

from engine.decoding.constraint import Constraint, _State
from engine.decoding.processor import Structured
from engine.errors import ConstraintError, EngineError
from engine.fake import FakeVocabulary
from grammars.compile import compile_grammar
from grammars.matcher import limits
from grammars.presets import presets
from grammars.spec import GrammarSpec, ShapeError

VOCABULARY = FakeVocabulary()
SHAPES = {name: presets()[name].spec() for name in ("city", "event", "semver", "arithmetic", "yes-no")}


def constraint(shape: GrammarSpec, said: list[str] | None = None) -> Constraint:
    notice = [].append if said is None else said.append
    return Constraint(compile_grammar(shape), VOCABULARY.tokenizer, VOCABULARY.end_ids, notice)


def ids(bits: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()


def fresh_mask(shape: GrammarSpec, tokens: Sequence[int]) -> list[int]:
    """Return the legal tokens by a matcher that has never seen anything else."""
    matcher = LLMatcher(VOCABULARY.tokenizer, compile_grammar(shape).text, log_level=0, limits=limits())
    for token in tokens:
        assert matcher.consume_token(token)
    return ids(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8))


def walk(structured: Structured, dice: np.random.Generator, longest: int) -> list[int]:
    """Commit random legal tokens; return them."""
    tokens: list[int] = []
    while len(tokens) < longest and not structured.ahead().ended:
        legal = [token for token in ids(structured.ahead().mask()) if token not in VOCABULARY.end_ids]
        if not legal:
            break
        token = int(dice.choice(legal))
        structured.commit(token)
        tokens.append(token)
    return tokens


@pytest.mark.parametrize("name", SHAPES)
def test_masks_equal_those_of_fresh_matchers_also_between_look_aheads(name: str) -> None:
    dice = np.random.default_rng(1)
    live = constraint(SHAPES[name])
    tokens: list[int] = []
    for _ in range(25):
        speculative = live.ahead()
        for _ in range(int(dice.integers(6))):
            legal = [token for token in ids(speculative.mask()) if token not in VOCABULARY.end_ids]
            if speculative.ended or not legal:
                break
            speculative.advance(int(dice.choice(legal)))
            speculative.forced()
        assert ids(live.ahead().mask()) == fresh_mask(SHAPES[name], tokens)
        row = np.zeros(VOCABULARY.size, dtype=np.float32)
        live.process(row, ())
        assert np.flatnonzero(row == 0).tolist() == fresh_mask(SHAPES[name], tokens)
        step = walk(live, dice, 1)
        if not step:
            break
        tokens += step


@pytest.mark.parametrize("name", SHAPES)
def test_a_look_ahead_never_touches_its_owner_nor_its_siblings(name: str) -> None:
    live = constraint(SHAPES[name])
    walk(live, np.random.default_rng(2), 4)
    before = ids(live.ahead().mask())
    left, right = live.ahead(), live.ahead()
    for _ in range(5):
        legal = [token for token in ids(left.mask()) if token not in VOCABULARY.end_ids]
        if left.ended or not legal:
            break
        left.advance(legal[0])
    assert ids(right.mask()) == ids(live.ahead().mask()) == before


@pytest.mark.parametrize("name", SHAPES)
def test_clones_are_independent_and_start_where_the_original_stands(name: str) -> None:
    live = constraint(SHAPES[name])
    start = walk(live, np.random.default_rng(3), 3)
    twin = live.clone()
    assert ids(twin.ahead().mask()) == ids(live.ahead().mask())
    moved = walk(twin, np.random.default_rng(4), 6)
    assert ids(live.ahead().mask()) == fresh_mask(SHAPES[name], start)
    if not twin.ahead().ended:
        assert ids(twin.ahead().mask()) == fresh_mask(SHAPES[name], start + moved)
    live.reset()
    assert ids(live.ahead().mask()) == fresh_mask(SHAPES[name], [])


@pytest.mark.parametrize("name", SHAPES)
def test_forced_means_one_legal_token_at_each_place(name: str) -> None:
    live = constraint(SHAPES[name])
    dice = np.random.default_rng(5)
    spans = 0
    for _ in range(60):
        if live.ahead().ended:
            break
        span = live.ahead().forced()
        for token in span:
            spans += 1
            assert ids(live.ahead().mask()) == [token]
            live.commit(token)
        if not span:
            mask = ids(live.ahead().mask())
            assert len(mask) > 1 or set(mask) <= VOCABULARY.end_ids
            walk(live, dice, 1)
    assert spans or name in ("semver", "arithmetic", "yes-no")


def test_no_state_survives_a_reset() -> None:
    """llguidance's own reset keeps a bias cache of another state; from 1.5.1 on the mask after it allows `x`."""
    shape = GrammarSpec(
        kind="lark",
        text='start: "a" x | "b" y\nx: /[0-9]+/ "x" "end of x"\ny: /[0-9]+/ "y" "end of y"',
    )
    live = constraint(shape)
    for text in ("a", "1"):
        live.ahead().mask()
        live.commit(VOCABULARY.tokenize(text)[0])
    live.ahead().mask()
    live.reset()
    for text in ("b", "1"):
        live.ahead().mask()
        live.commit(VOCABULARY.tokenize(text)[0])
    assert ids(live.ahead().mask()) == fresh_mask(shape, VOCABULARY.tokenize("b") + VOCABULARY.tokenize("1"))
    assert VOCABULARY.tokenize("x")[0] not in ids(live.ahead().mask())


def test_control_tokens_are_never_legal_inside_a_string() -> None:
    live = constraint(GrammarSpec(kind="json_schema", text='{"type":"string"}'))
    live.commit(VOCABULARY.tokenize('"')[0])
    controls = {special.id for special in VOCABULARY.specials}
    assert not controls & set(ids(live.ahead().mask()))
    for token in VOCABULARY.tokenize("<|end|>"):  # its spelling is text like any other
        assert token in ids(live.ahead().mask())
        live.commit(token)


def test_an_end_marker_is_legal_only_where_the_reply_may_end() -> None:
    live = constraint(GrammarSpec(kind="regex", text="[0-9]{1,2}"))
    digits = VOCABULARY.tokenize("7")
    assert not VOCABULARY.end_ids & set(ids(live.ahead().mask()))
    live.commit(digits[0])
    assert set(ids(live.ahead().mask())) >= VOCABULARY.end_ids
    assert not live.ahead().ended
    live.commit(digits[0])
    assert live.ahead().ended


def test_a_token_outside_the_grammar_is_an_error_and_never_freedom() -> None:
    live = constraint(GrammarSpec(kind="choice", text='["yes","no"]'))
    with pytest.raises(ConstraintError):
        live.commit(VOCABULARY.tokenize("z")[0])
    with pytest.raises(ConstraintError):
        live.ahead().advance(VOCABULARY.tokenize("z")[0])


def test_a_refused_token_that_the_mask_allowed_rebuilds_the_constraint_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """llguidance issue 366: the mask's only token may be refused. The reply goes on, without forcing."""
    said: list[str] = []
    shape = GrammarSpec(kind="regex", text="the city, (yes|no)")
    live = constraint(shape, said)
    first = VOCABULARY.tokenize("the city, ")
    for token in first[:-1]:
        live.commit(token)
    with monkeypatch.context() as refusal:
        refusal.setattr(_State, "advance", lambda _state, _token: False)
        live.commit(first[-1])
    assert len(said) == 1
    assert "rebuilt" in said[0]
    assert {VOCABULARY.tokenize("y")[0], VOCABULARY.tokenize("yes")[0]} <= set(ids(live.ahead().mask()))
    for token in VOCABULARY.tokenize("yes"):
        live.commit(token)
    assert live.ahead().ended


def test_a_span_longer_than_any_reply_is_refused_when_the_shape_is_compiled() -> None:
    with pytest.raises(ShapeError):
        compile_grammar(GrammarSpec(kind="regex", text="a{50000}"))


@pytest.mark.parametrize("name", SHAPES)
def test_a_span_is_answered_for_as_a_walk_would(name: str) -> None:
    """The end of the reply counts as one more, also where nothing else may follow."""
    dice = np.random.default_rng(3)
    whole = constraint(SHAPES[name])
    said = walk(whole, dice, 60)
    for at in range(len(said) + 1):
        live = constraint(SHAPES[name])
        for token in said[:at]:
            live.commit(token)
        ahead = live.ahead()
        before = ids(ahead.mask()) if not ahead.ended else []
        for span in (said[at:], said[at : at + 2], [*said[at:], VOCABULARY.tokenize("\x01")[0]], []):
            step, count = ahead.copy(), 0
            try:
                for token in span:
                    step.advance(token)
                    count += 1
                count += step.ended or bool(VOCABULARY.end_ids & set(ids(step.mask())))
            except EngineError:
                pass  # refused here: what was taken before it counts
            assert ahead.follow(span) == count
        assert before == (ids(ahead.mask()) if not ahead.ended else [])
