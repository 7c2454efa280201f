"""A small model that guesses: it may only change how many forwards a reply takes, and its cache follows the text."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from data import vocabulary
from numpy.typing import NDArray
from tiny import write_tiny_model

from engine.decoding.constraint import Constraint
from engine.decoding.decoder import Committed, Decoder, Round
from engine.decoding.naive import naive
from engine.decoding.processor import Bits
from engine.decoding.sampler import Sampler
from engine.drafting.constrained import cross
from engine.drafting.draft_model import LEAST_CONFIDENCE, DraftModelSource
from engine.errors import Aborted, DecodeFailed
from engine.fake import FakeContext, FakeVocabulary
from engine.llama.context import LlamaContext
from engine.llama.vocabulary import LlamaVocabulary
from engine.llama.weights import Weights
from engine.numerics import NumericsPlan
from engine.protocol import Sampling
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec

FAKE = FakeVocabulary()
PROMPT = FAKE.tokenize("Describe the city of Paris. " * 4)
EXACT = NumericsPlan(exact=True, reason="", tiled=True, extra_buffers=True)
RECORD = GrammarSpec(
    kind="json_schema",
    text="""{"type": "object", "additionalProperties": false, "required": ["name", "mood", "size"], "properties": {
        "name": {"type": "string", "maxLength": 30}, "mood": {"enum": ["calm", "tense", "calmer"]},
        "size": {"type": "integer", "minimum": 0, "maximum": 2000}}}""",
)


class CountingContext(FakeContext):
    """Counts the tokens it reads and fails when told to."""

    def __init__(self, *, can_drop: bool = True, spread: float = 6.0) -> None:
        super().__init__(FAKE.size, length=512, batch=16, can_drop=can_drop, spread=spread)
        self.read = 0
        self.fails = False

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[NDArray[np.float32]]:
        if self.fails:
            if not self.can_rollback:
                self.keep(0)  # as the real one must
            raise DecodeFailed("llama.cpp could not decode")
        self.read += len(tokens)
        return super().decode(tokens, wanted)


def drafter(context: FakeContext | None = None, confidence: float = 0.0) -> DraftModelSource:
    return DraftModelSource(
        context or CountingContext(), vocab_size=FAKE.size, end_ids=FAKE.end_ids, confidence=confidence
    )


def row_after(tokens: Sequence[int], spread: float = 6.0) -> NDArray[np.float32]:
    context = FakeContext(FAKE.size, batch=4096, spread=spread)
    return context.decode(tokens, (len(tokens) - 1,))[0]


def only(*tokens: int) -> Bits:
    mask = np.zeros((FAKE.size + 31) // 32, np.uint32)
    for token in tokens:
        mask[token // 32] |= np.uint32(1 << token % 32)
    return mask


def test_a_guess_is_the_likeliest_token_and_its_softmax_probability() -> None:
    source = drafter()
    source.begin(PROMPT)
    guess = source.walk().guess(None)
    row = row_after(PROMPT).astype(np.float64)
    assert guess is not None
    assert guess[0] == row.argmax()
    assert guess[1] == pytest.approx(np.exp(row[guess[0]]) / np.exp(row).sum(), rel=1e-5)


def test_under_a_mask_it_is_the_likeliest_legal_token_and_its_share_among_the_legal() -> None:
    source = drafter()
    source.begin(PROMPT)
    legal = [3, 77, 200]
    guess = source.walk().guess(only(*legal))
    row = row_after(PROMPT).astype(np.float64)
    assert guess is not None
    assert guess[0] == max(legal, key=lambda token: row[token])
    assert guess[1] == pytest.approx(np.exp(row[guess[0]]) / np.exp(row[legal]).sum(), rel=1e-5)
    assert source.walk().guess(only()) is None


def test_a_draft_stops_where_the_small_model_is_not_sure() -> None:
    stopped = 0
    for start in range(12):
        source = drafter(confidence=LEAST_CONFIDENCE)
        source.begin(PROMPT[start:])
        draft = cross(source.walk(), None, 8)
        assert all(drafted.p >= LEAST_CONFIDENCE for drafted in draft)
        if len(draft) < 8:
            stopped += 1
            row = row_after([*PROMPT[start:], *(drafted.token for drafted in draft)]).astype(np.float64)
            assert row.argmax() in FAKE.end_ids or np.exp(row - row.max()).sum() > 1 / LEAST_CONFIDENCE
    assert stopped > 3


def test_a_model_that_is_never_sure_never_drafts() -> None:
    source = drafter(CountingContext(spread=0.1), LEAST_CONFIDENCE)
    source.begin(PROMPT)
    assert cross(source.walk(), None, 8) == []
    eager = drafter(CountingContext(spread=0.1))
    eager.begin(PROMPT)
    assert len(cross(eager.walk(), None, 8)) == 8


def test_an_end_marker_is_never_guessed() -> None:
    source = drafter()
    source.begin(PROMPT)
    assert source.walk().guess(only(*FAKE.end_ids)) is None


def test_nothing_is_read_before_a_guess_is_asked_for() -> None:
    context = CountingContext()
    source = drafter(context)
    source.begin(PROMPT)
    source.observe([1, 2, 3])
    source.walk().advance(4)
    assert context.read == 0


def test_what_was_guessed_right_is_not_read_again() -> None:
    context = CountingContext()
    source = drafter(context)
    source.begin(PROMPT)
    draft = [drafted.token for drafted in cross(source.walk(), None, 5)]
    read = context.read
    assert read == len(PROMPT) + 4  # the last guess was made, not read
    source.observe(draft)
    source.walk().guess(None)
    assert context.read == read + 1


def test_what_was_guessed_wrong_leaves_the_cache() -> None:
    context = CountingContext()
    source = drafter(context)
    source.begin(PROMPT)
    draft = [drafted.token for drafted in cross(source.walk(), None, 5)]
    read = context.read
    wrong = (draft[2] + 1) % 256
    source.observe([draft[0], draft[1], wrong])
    guess = source.walk().guess(None)
    assert context.tokens == [*PROMPT, draft[0], draft[1], wrong]
    assert context.read == read + 1
    assert guess is not None
    assert guess[0] == row_after(context.tokens).argmax()


def test_a_new_turn_reads_only_what_is_new() -> None:
    context = CountingContext()
    source = drafter(context)
    source.begin(PROMPT)
    source.walk().guess(None)
    source.observe([65, 66])
    read = context.read
    source.begin([*PROMPT, 65, 66, 67, 68])
    source.walk().guess(None)
    assert context.read == read + 4
    source.begin([*PROMPT[:10], 1])
    source.walk().guess(None)
    assert context.tokens == [*PROMPT[:10], 1]
    assert context.read == read + 5


def test_ids_the_small_model_does_not_know_are_passed_over() -> None:
    context = CountingContext()
    source = DraftModelSource(context, vocab_size=200, end_ids=FAKE.end_ids, confidence=0)
    source.begin([70, 250, 71])
    walk = source.walk()
    walk.advance(FAKE.size - 1)
    guess = walk.guess(None)
    assert context.tokens == [70, 71]
    assert guess is not None
    assert guess[0] == row_after([70, 71])[:200].argmax()
    assert walk.guess(only(250)) is None
    source.begin([250])
    assert source.walk().guess(None) is None


def test_a_full_context_ends_the_guessing() -> None:
    context = CountingContext()
    source = drafter(context)
    source.begin([65] * (context.length - 1))
    walk = source.walk()
    for _ in range(2):  # one token fits, and the one behind it needs no place
        assert walk.guess(only(66)) == (66, 1.0)
        walk.advance(66)
    assert walk.guess(only(66)) is None
    assert len(context.tokens) == context.length


@pytest.mark.parametrize("can_drop", [True, False])
def test_whatever_happens_a_guess_is_that_of_a_model_that_read_the_text_afresh(can_drop: bool) -> None:
    random = np.random.default_rng(5)
    context = CountingContext(can_drop=can_drop)
    source = drafter(context)
    text = PROMPT[:20]
    source.begin(text)
    failures = 0
    for _ in range(300):
        walk = source.walk()
        path: list[int] = []
        for _ in range(random.integers(0, 5)):
            fault = random.random()
            context.fails = fault < 0.05
            if fault > 0.95:
                source.abort()
            try:
                guess = walk.guess(None)
            except (Aborted, DecodeFailed):
                failures += 1
                context.fails = False
                source.clear_abort()
                continue
            row = row_after([*text, *path])
            if guess is None:
                assert row.argmax() in FAKE.end_ids
            else:
                assert guess[0] == row.argmax()
            for _ in range(random.integers(0, 3)):
                path.append(int(random.integers(256)) if guess is None or path else guess[0])
                walk.advance(path[-1])
        if random.random() < 0.1:
            text = [*text[: random.integers(1, len(text))], *random.integers(256, size=3).tolist()]
            source.begin(text)
        else:
            new = [*path[: random.integers(0, len(path) + 1)], int(random.integers(256))][:2]
            text = [*text, *new][:400]
            if len(text) == 400:
                text = text[:20]
                source.begin(text)
            else:
                source.observe(new)
    assert failures > 20


def test_one_that_fails_in_a_run_raises_and_can_be_asked_again() -> None:
    context = CountingContext()
    source = drafter(context)
    source.begin(PROMPT)
    walk = source.walk()
    first = walk.guess(None)
    assert first is not None
    walk.advance(first[0])
    context.fails = True
    with pytest.raises(DecodeFailed):
        walk.guess(None)
    context.fails = False
    source.observe([first[0], 65])
    assert source.walk().guess(None) == drafted_afresh([*PROMPT, first[0], 65])


def drafted_afresh(text: Sequence[int]) -> tuple[int, float] | None:
    source = drafter()
    source.begin(text)
    return source.walk().guess(None)


class Models:
    """A tiny model, its twin, and one with other weights around the same vocabulary."""

    def __init__(self, folder: Path) -> None:
        self._opened: list[Weights] = []
        self.main = self._open(write_tiny_model(folder / "main.gguf", vocabulary("llama-spm"), layers=2))
        self.twin = self._open(folder / "main.gguf")
        self.other = self._open(write_tiny_model(folder / "other.gguf", vocabulary("llama-spm"), seed=9))
        self.vocabulary = LlamaVocabulary(
            self._opened[0].vocabulary_pointer, owner=self._opened[0], size=self._opened[0].vocab_size
        )

    def _open(self, path: Path) -> LlamaContext:
        self._opened.append(Weights(path))
        return LlamaContext(self._opened[-1], length=512, threads=1, numerics=EXACT)

    def close(self) -> None:
        for context in (self.main, self.twin, self.other):
            context.close()
        for weights in self._opened:
            weights.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    models = Models(tmp_path_factory.mktemp("models"))
    yield models
    models.close()


def stream(
    models: Models, shape: GrammarSpec | None, temperature: float
) -> tuple[Sampler, Constraint | None]:
    words = models.vocabulary
    constraint = None if shape is None else Constraint(compile_grammar(shape), words.tokenizer, words.end_ids)
    sampler = Sampler(
        Sampling(temperature=temperature),
        seed=3,
        history=words.tokenize("Describe the city of Paris. " * 20),
        processors=[] if constraint is None else [constraint],
    )
    models.main.keep(0)
    return sampler, constraint


def expected(models: Models, shape: GrammarSpec | None, temperature: float) -> tuple[list[int], str]:
    sampler, constraint = stream(models, shape, temperature)
    *tokens, finish = naive(
        models.main, sampler, structure=constraint, end_ids=models.vocabulary.end_ids, budget=60
    )
    return [committed.token for committed in tokens if isinstance(committed, Committed)], str(finish)


def drafted(
    models: Models, small: LlamaContext, shape: GrammarSpec | None, temperature: float
) -> tuple[list[int], Decoder]:
    sampler, constraint = stream(models, shape, temperature)
    small.keep(0)
    words = models.vocabulary
    source = DraftModelSource(small, vocab_size=words.size, end_ids=words.end_ids, confidence=0)
    decoder = Decoder(
        models.main, sampler, structure=constraint, source=source, end_ids=words.end_ids, budget=60
    )
    tokens: list[int] = []
    for step in decoder.run():
        if isinstance(step, Round):
            tokens.extend(committed.token for committed in step.tokens)
    return tokens, decoder


@pytest.mark.parametrize("shape", [None, RECORD])
def test_a_draft_model_with_the_same_weights_is_always_right(
    models: Models, shape: GrammarSpec | None
) -> None:
    tokens, decoder = drafted(models, models.twin, shape, 0.0)
    assert (tokens, decoder.finish) == expected(models, shape, 0.0)
    assert decoder.figures.accepted == decoder.figures.drafted > len(tokens) / 3
    assert decoder.figures.forwards < len(tokens) / 3


@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.5])
@pytest.mark.parametrize("shape", [None, RECORD])
def test_a_draft_model_with_other_weights_changes_nothing(
    models: Models, shape: GrammarSpec | None, temperature: float
) -> None:
    tokens, decoder = drafted(models, models.other, shape, temperature)
    assert (tokens, decoder.finish) == expected(models, shape, temperature)
    assert decoder.figures.accepted < decoder.figures.drafted
    assert models.main.tokens == decoder._sampler.history[: len(models.main.tokens)]
