"""The soft run guard: bounded runs on every path, never a dead end, and all its views agree."""

import json
from dataclasses import replace

import numpy as np
import pytest
from fakestream import VOCABULARY
from shapes import HARD, record, schema

from engine.decoding.constraint import Constraint
from engine.decoding.guards import RunGuard
from engine.decoding.tokens import START, token_table
from grammars.compile import compile_grammar
from grammars.guards import soft_guards
from grammars.spec import GrammarSpec, Guards


def guard(shape: GrammarSpec, guards: Guards | None = None) -> RunGuard:
    inner = Constraint(compile_grammar(shape), VOCABULARY.tokenizer, VOCABULARY.end_ids)
    watched = guards or soft_guards(shape)
    assert watched is not None
    return RunGuard(inner, guards=watched, vocabulary=VOCABULARY)


def ids(bits: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()


def write(guarded: RunGuard, text: str) -> RunGuard:
    """Commit a text; every token must be legal."""
    for token in VOCABULARY.tokenize(text):
        assert token in ids(guarded.ahead().mask()), VOCABULARY.piece(token)
        guarded.commit(token)
    return guarded


def greedy(guarded: RunGuard, wanted: str, longest: int = 400) -> str:
    """Write the wanted texts over and over wherever they are legal, else what is forced or comes first."""
    said: list[int] = []
    turn = 0
    pieces = VOCABULARY.tokenize(wanted)
    while not guarded.ahead().ended and len(said) < longest:
        legal = ids(guarded.ahead().mask())
        token = pieces[turn % len(pieces)]
        turn += 1
        if token not in legal:
            token = next((each for each in pieces if each in legal), legal[0])
        if token in VOCABULARY.end_ids:
            break
        guarded.commit(token)
        said.append(token)
    return VOCABULARY.text(said)


def test_digits_end_after_the_limit_where_the_grammar_lets_them_go_on():
    shape = schema(record({"x": {"type": "number"}}))
    assert greedy(guard(shape), "9") == '{"x":' + "9" * 20 + "." + "9" * 20 + "E99}"
    assert greedy(guard(schema(record({"x": {"type": "integer"}}))), "9") == '{"x":' + "9" * 15 + "}"
    assert greedy(guard(shape, Guards(digits=4)), "10") == '{"x":1010.1010E10}'


def test_an_exponent_has_two_digits_so_that_every_reader_takes_the_number():
    text = greedy(guard(schema({"type": "number"})), "1e9")
    assert text.startswith("1e")
    assert np.isfinite(json.loads(text))
    for digits in ("1e100", "-2E+999", "0.5e-310"):
        with pytest.raises(AssertionError):
            write(guard(schema({"type": "number"})), digits)


def test_blanks_and_long_texts_end():
    shape = schema(record({"a": {"type": "string"}}))
    assert greedy(guard(shape, Guards(blanks=4)), " ").startswith('{"a":"    !')
    text = greedy(guard(shape, Guards(string=10)), "é")
    assert text == '{"a":"éééééééééé"}'


def test_a_text_that_must_be_longer_is():
    shape = schema(record({"a": {"type": "string", "minLength": 30}}))
    assert len(json.loads(greedy(guard(shape, Guards(string=10)), "z"))["a"]) == 30


def test_digits_and_blanks_of_a_text_are_no_number():
    write(guard(schema(record({"a": {"type": "string"}}))), '{"a":"' + "7" * 50 + '"}')


def test_depth_is_bounded_where_a_way_out_is_left():
    shape = replace(HARD["recursion"], guards=Guards(items=2))
    guarded, place, text, deepest = guard(shape, Guards(depth=6)), START, "", 0
    while not guarded.ahead().ended:
        legal = ids(guarded.ahead().mask())
        liked = VOCABULARY.tokenize('"') if place.inside else [*b"{["]
        token = next((each for each in liked if each in legal), legal[0])
        guarded.commit(token)
        place = token_table(VOCABULARY).follow(place, token)
        text += VOCABULARY.text([token])
        deepest = max(
            deepest, sum(text.count(each) for each in "{[") - sum(text.count(each) for each in "]}")
        )
        assert len(text) < 500
    assert json.loads(text)
    assert deepest == 6


def test_required_depth_is_never_refused():
    nested = {"type": "null"}
    for _ in range(6):
        nested = {"type": "array", "items": nested, "minItems": 1, "maxItems": 1}
    assert greedy(guard(schema(nested), Guards(depth=2)), "[") == "[[[[[[null]]]]]]"


def test_what_the_guard_leaves_alone_is_forced_on_every_path():
    """Naive loops see one bit in the mask, the real one a forced span: they must agree."""
    guarded = write(guard(schema(record({"x": {"type": "number"}})), Guards(digits=3)), '{"x":123')
    for token in VOCABULARY.tokenize(".456e"):
        guarded.commit(token)
    guarded.commit(VOCABULARY.tokenize("1")[0])
    guarded.commit(VOCABULARY.tokenize("2")[0])
    assert [VOCABULARY.piece(token) for token in ids(guarded.ahead().mask())] == [b"}"]
    assert VOCABULARY.text(guarded.ahead().forced()) == "}"


def test_a_number_alone_ends_where_the_guard_leaves_only_an_end():
    guarded = write(guard(schema({"type": "integer", "maximum": 10**9}), Guards(digits=3)), "123")
    assert guarded.ahead().ended
    assert not guarded.ahead().forced()


@pytest.mark.parametrize("name", [name for name, shape in HARD.items() if shape.kind == "json_schema"])
def test_row_mask_span_end_clone_and_look_ahead_agree(name):
    tight = Guards(digits=2, blanks=1, string=5, items=2, depth=2)
    for seed in range(4):
        dice = np.random.default_rng(seed)
        guarded = guard(HARD[name], tight)
        walked = guarded.ahead()
        for _ in range(80):
            mask = ids(guarded.ahead().mask())
            assert mask, "a dead end"
            row = np.zeros(VOCABULARY.size, dtype=np.float32)
            guarded.process(row, ())
            assert np.flatnonzero(row == 0).tolist() == mask == ids(guarded.clone().ahead().mask())
            assert ids(walked.mask()) == mask == ids(walked.copy().mask())
            assert walked.ended == guarded.ahead().ended == VOCABULARY.end_ids.issuperset(mask)
            if walked.ended:
                break
            span = guarded.ahead().forced()
            assert bool(span) == (len(mask) == 1)
            assert not span or list(span[:1]) == mask
            token = int(dice.choice([token for token in mask if token not in VOCABULARY.end_ids]))
            guarded.commit(token)
            walked.advance(token)


def test_reset_begins_a_new_reply():
    guarded = guard(schema({"type": "number"}))
    before = ids(guarded.ahead().mask())
    write(guarded, "1e9")
    guarded.reset()
    assert ids(guarded.ahead().mask()) == before


def test_classes_of_tokens_are_found_once_a_vocabulary():
    assert token_table(VOCABULARY) is token_table(VOCABULARY)
