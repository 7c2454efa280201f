"""The region before a reply: how it opens, how it ends, what belongs to whom, and that look-aheads agree."""

import numpy as np
import pytest
from reasoning import SHAPES, spell, vocabulary

from engine.decoding.constraint import Constraint
from engine.decoding.masks import is_legal
from engine.decoding.region import Region
from engine.decoding.thinking import LONGEST_GAP, Thinking
from engine.fake import FakeVocabulary
from engine.markers import Start, find_markers
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec

SPECIAL, TEXT = vocabulary(special=True), vocabulary(special=False)
YEAR = GrammarSpec(kind="regex", text="20[0-9]{2}")


def region(words: FakeVocabulary) -> Region:
    markers = find_markers("</think>", words)
    assert markers is not None
    return Region(markers, words)


REGIONS = {id(words): region(words) for words in (SPECIAL, TEXT)}


def thinking(
    words: FakeVocabulary, shape: GrammarSpec | None = YEAR, *, start: Start = "inside", budget: int = 50
) -> Thinking:
    inner = None if shape is None else Constraint(compile_grammar(shape), words.tokenizer, words.end_ids)
    made = Thinking(inner, REGIONS[id(words)], start=start, budget=budget)
    made.reset()
    return made


def write(made: Thinking, words: FakeVocabulary, *texts: str) -> list[str]:
    """Commit tokens, each legal where it stands; return what each belongs to."""
    parts = []
    for token in spell(words, *texts):
        assert is_legal(made.ahead().mask(), token), words.piece(token)
        made.commit(token)
        parts.append(made.part)
    return parts


def legal(made: Thinking, words: FakeVocabulary) -> set[int]:
    """Return what may follow: by the row, which must agree with the mask of a look-ahead."""
    row = np.zeros(words.size, np.float32)
    made.process(row, [])
    found = set(np.flatnonzero(row > -np.inf).tolist())
    mask = made.ahead().mask()
    assert found == {token for token in range(words.size) if is_legal(mask, token)}
    return found


def control(words: FakeVocabulary, text: str) -> int:
    return next(special.id for special in words.specials if special.text == text)


@pytest.mark.parametrize("words", [SPECIAL, TEXT], ids=["special", "text"])
def test_inside_only_end_markers_are_forbidden(words: FakeVocabulary) -> None:
    made = thinking(words)
    assert set(range(words.size)) - legal(made, words) >= words.end_ids
    assert len(legal(made, words)) >= words.size - len(words.end_ids) - 2
    assert made.ahead().forced() == ()
    assert not made.ahead().ended


def test_a_special_marker_ends_the_region_and_its_spelling_does_not() -> None:
    made = thinking(SPECIAL)
    assert set(write(made, SPECIAL, "hm </thi", "nk>", " more")) == {"reasoning"}
    assert control(SPECIAL, "<|end|>") not in legal(made, SPECIAL)
    made.commit(control(SPECIAL, "</think>"))
    assert write(made, SPECIAL, "20") == ["reply"]


@pytest.mark.parametrize(
    "pieces", [("</think", ">"), ("</", "think", ">\n\n"), tuple("</think>"), ("</th", "ink", ">\n")]
)
def test_a_marker_in_text_is_found_however_it_is_split_and_joined(pieces: tuple[str, ...]) -> None:
    made = thinking(TEXT)
    write(made, TEXT, "hm < / </ <think>", *pieces)
    assert write(made, TEXT, "20", "1", "9") == ["reply"] * 3
    assert made.ahead().ended


def test_a_token_that_runs_over_the_marker_with_something_is_forbidden_only_there() -> None:
    made = thinking(TEXT)
    over, joined, inside, whole = (TEXT.tokenize(text)[0] for text in (">x", ">\n\n", "k>yes", "</think>no"))
    assert whole not in legal(made, TEXT)
    assert {over, inside, joined} <= legal(made, TEXT)
    write(made, TEXT, "</thin")
    assert inside not in legal(made, TEXT)
    assert over in legal(made, TEXT)
    write(made, TEXT, "k")
    assert over not in legal(made, TEXT)
    assert joined in legal(made, TEXT)


def test_what_the_shape_may_begin_with_is_the_shapes_and_other_blanks_are_nobodys() -> None:
    made = thinking(TEXT, SHAPES["regex"])
    assert write(made, TEXT, "</think>")[-1] == "reasoning"
    assert write(made, TEXT, "\n\n\n") == ["reasoning"]  # too much for the shape
    assert write(made, TEXT, "\n", "yes") == ["reply", "reply"]


def test_the_gap_has_an_end() -> None:
    made = thinking(TEXT, GrammarSpec(kind="choice", text='["name"]'))
    write(made, TEXT, "</think>")
    for _ in range(LONGEST_GAP):
        assert made.ahead().forced() == ()
        assert write(made, TEXT, "\n") == ["reasoning"]
    assert TEXT.text(list(made.ahead().forced())) == "name"
    assert TEXT.tokenize("\n")[0] not in legal(made, TEXT)


@pytest.mark.parametrize("words", [SPECIAL, TEXT], ids=["special", "text"])
@pytest.mark.parametrize("budget", [0, 1, 7])
def test_at_the_end_of_the_budget_the_marker_is_forced(words: FakeVocabulary, budget: int) -> None:
    made = thinking(words, budget=budget)
    for _ in range(budget):
        assert made.ahead().forced() == ()
        write(made, words, "x")
    span = made.ahead().forced()
    assert list(span) == spell(words, "</think>")
    for place, token in enumerate(span):
        assert legal(made, words) == {token}
        assert list(made.ahead().forced()) == list(span[place:])
        made.commit(token)
    assert made.apart == budget + len(span)
    assert write(made, words, "20") == ["reply"]


def test_a_marker_half_written_at_the_end_of_the_budget_is_written_anew() -> None:
    made = thinking(TEXT, budget=2)
    write(made, TEXT, "</", "think")
    write(made, TEXT, "</think>")
    assert write(made, TEXT, "20") == ["reply"]


@pytest.mark.parametrize("words", [SPECIAL, TEXT], ids=["special", "text"])
def test_a_shaped_reply_may_open_a_region_or_begin_at_once(words: FakeVocabulary) -> None:
    opener = spell(words, "<think>")
    made = thinking(words, start="outside")
    assert legal(made, words) >= {opener[0], words.tokenize("20")[0]}
    assert made.ahead().forced() == ()
    made.commit(opener[0])
    assert list(made.ahead().forced()) == opener[1:]
    for token in opener[1:]:
        made.commit(token)
    assert set(write(made, words, "20 x", "</think>")) == {"reasoning"}
    assert write(made, words, "20") == ["reply"]
    other = thinking(words, start="outside")
    assert write(other, words, "20") == ["reply"]
    assert other.apart == 0


@pytest.mark.parametrize("words", [SPECIAL, TEXT], ids=["special", "text"])
def test_a_free_reply_is_told_from_the_region_it_opens_even_behind_blanks(words: FakeVocabulary) -> None:
    made = thinking(words, None, start="outside")
    assert write(made, words, "\n\n") == ["undecided"]
    assert write(made, words, "<think>", "a")[-1] == "reasoning"
    assert write(made, words, "</think>", "\n\n")[-1] == "reasoning"
    assert write(made, words, "b", "</think>")[-1] == "reply"
    assert made.apart == len(spell(words, "\n\n", "<think>", "a", "</think>", "\n\n"))


def test_a_free_reply_that_only_begins_like_a_region_is_a_reply() -> None:
    made = thinking(TEXT, None, start="outside")
    assert write(made, TEXT, "<th")[-1] == "undecided"
    assert write(made, TEXT, "e")[-1] == "reply"
    assert made.apart == 0
    assert len(legal(made, TEXT)) == TEXT.size


def test_reasoning_that_goes_round_in_circles_is_ended() -> None:
    made = thinking(SPECIAL, budget=1000)
    for count in range(1000):
        if made.ahead().forced():
            break
        write(made, SPECIAL, "ab"[count % 2])
    assert 64 <= count <= 70
    assert list(made.ahead().forced()) == spell(SPECIAL, "</think>")


@pytest.mark.parametrize("words", [SPECIAL, TEXT], ids=["special", "text"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("start", ["outside", "inside", "behind"])
def test_a_look_ahead_goes_where_its_owner_goes_and_moves_nothing(
    words: FakeVocabulary, shape: GrammarSpec | None, start: Start
) -> None:
    """A walk of random legal tokens, steered towards the border; at each place one look-ahead walks on ten tokens."""
    random = np.random.default_rng(7)
    border = spell(words, "</think>", "<think>") * 3 + [
        words.tokenize(text)[0] for text in ("\n", "</", "think", ">")
    ]
    for _ in range(2):
        made = thinking(words, shape, start=start, budget=12)
        ahead = made.ahead()
        for walked in range(1, 51):
            now = made.ahead()
            assert ahead.ended == now.ended
            if now.ended:
                break
            assert np.array_equal(ahead.mask(), now.mask())
            assert list(ahead.forced()) == list(now.forced())
            allowed = sorted(legal(made, words) - words.end_ids)
            if now.forced():
                assert allowed == [now.forced()[0]] or shape is not None
            steered = [token for token in border if token in allowed]
            token = int(random.choice(steered if steered and random.random() < 0.4 else allowed))
            twin = made.clone()
            made.commit(token)
            ahead.advance(token)
            twin.commit(token)
            assert np.array_equal(twin.ahead().mask(), made.ahead().mask())
            assert (twin.part, twin.apart) == (made.part, made.apart)
            if walked % 10 == 0:
                ahead = made.ahead()
