"""Endings made of those that were known: what is left of them, what stands before them, and nothing invented."""

from collections.abc import Sequence

import pytest
from fakestream import VOCABULARY

from engine.decoding.constraint import Constraint, ConstraintLookahead
from engine.decoding.recall import ends, likely, shorter
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec


def behind(pattern: str, text: str) -> ConstraintLookahead:
    """Return a look-ahead of a regular expression behind a text."""
    shape = GrammarSpec(kind="regex", text=pattern)
    ahead = Constraint(compile_grammar(shape), VOCABULARY.tokenizer, VOCABULARY.end_ids).ahead()
    for token in spelled(text):
        ahead.advance(token)
    return ahead


def spelled(text: str) -> Sequence[int]:
    return VOCABULARY.tokenize(text)


def text_of(tokens: Sequence[int] | None) -> str | None:
    return None if tokens is None else b"".join(map(VOCABULARY.piece, tokens)).decode()


@pytest.mark.parametrize(
    ("pattern", "text", "known", "earlier", "before", "ending"),
    [
        ("[a-z]{1,9} = [0-9];", "abc", "000 = 0;", [], [], " = 0;"),
        ("([a-z]+;){2}", "a;b", "x;", [], [], ";"),
        ("a(b;|'[a-z]*'c;)", "a'x", "b;", [], ["x", "'", "'c"], "'c;"),
        ("a(b;|<[a-z]+>;)", "a<", "b;", ["<q>;"], [], "q>;"),
        ("a;(b;)*", "a;", "", [], ["b"], None),
        ("a{3}", "a", "b", ["cc"], ["d"], None),
    ],
)
def test_the_rest_of_what_was_known_is_found(
    pattern: str, text: str, known: str, earlier: list[str], before: list[str], ending: str | None
) -> None:
    ahead = behind(pattern, text)
    found = likely(
        ahead, spelled(known), [spelled(each) for each in earlier], [spelled(each) for each in before]
    )
    assert text_of(found) == ending
    if found is not None:
        assert ends(ahead, found)


def test_what_can_be_left_out_of_an_ending_is() -> None:
    ahead = behind("x?[a-z]{1,9}(, [a-z]+)* = [0-9.]+;", "")
    long = spelled("abcdef, ghi, jkl = 0.000;")
    assert text_of(shorter(ahead, long, longest=100)) == "l = 0;"
    assert ends(ahead, shorter(ahead, long, longest=3))


def test_an_ending_that_needs_all_of_itself_stays() -> None:
    ahead = behind("<[a-z]{3}>", "")
    assert text_of(shorter(ahead, spelled("<abc>"), longest=100)) == "<abc>"


class Refusing:
    """A look-ahead that takes any token, but no ending; counts what it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def follow(self, tokens: Sequence[int]) -> int:
        self.asked += len(tokens)
        return len(tokens)


def test_an_ending_of_any_length_costs_a_bounded_effort() -> None:
    # An ending of 29,000 tokens once took eight seconds.
    known, ahead = range(20_000), Refusing()
    assert shorter(ahead, known, longest=32) == known
    assert likely(ahead, known, [known], [[1]]) is None
    assert ahead.asked < 20_000_000
