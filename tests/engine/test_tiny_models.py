"""The engine end to end around other vocabularies: SentencePiece, byte pairs, padding, user-defined tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from data import template, vocabulary
from gguf import TokenType
from tiny import write_tiny_model

from engine.decoding.decoder import Committed
from engine.decoding.naive import naive
from engine.decoding.sampler import Sampler
from engine.events import Finished
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.check import check
from grammars.spec import GrammarSpec

ODD_KEYS = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"</think>":{"enum":["<table>","</think>","ü"]},'
    '"<table>":{"type":"string","maxLength":6},"n":{"type":"integer","minimum":0,"maximum":99}},'
    '"required":["</think>","<table>","n"],"additionalProperties":false}',
)
YEAR = GrammarSpec(kind="regex", text="(19|20)[0-9]{2}")

MODELS = {
    "phi-3": {"template": "microsoft-Phi-3.5-mini-instruct"},
    "llama-spm": {"padded_to": 32064, "added": {"</think>": TokenType.USER_DEFINED}},
    "qwen2": {
        "padded_to": 152064,
        "added": {"</think>": TokenType.USER_DEFINED, "<table>": TokenType.USER_DEFINED},
        "template": "Qwen-Qwen2.5-7B-Instruct",
    },
}


@pytest.fixture(scope="module", params=MODELS)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    options = dict(MODELS[request.param])
    source = template(str(options.pop("template"))) if "template" in options else None
    path: Path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny_model(path, vocabulary(request.param), template=source, **options)  # type: ignore[arg-type]
    engine, ready = load_engine(Load(model=str(path), context=1024, threads=1, numerics="exact"))
    assert ready.model.vocab_size == options.get("padded_to", ready.model.vocab_size)
    yield engine


def turn(
    engine: Engine, messages: list[Message], shape: GrammarSpec, temperature: float, seed: int
) -> Finished:
    *_, end = engine.generate(
        Generate(
            turn=1,
            messages=tuple(messages),
            shape=shape,
            sampling=Sampling(temperature=temperature, seed=seed, min_p=0, top_p=1),
            max_tokens=200,
        )
    )
    assert isinstance(end, Finished), end
    return end


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_replies_fit_and_equal_the_naive_loop(engine: Engine, temperature: float) -> None:
    messages = [Message(role="user", content="Tell me.", shape=ODD_KEYS)]
    for seed in range(4):
        end = turn(engine, messages, ODD_KEYS, temperature, seed)
        assert end.finish == "stop"
        assert check(ODD_KEYS, end.text).fits, end.text
        constraint = engine.constraint(ODD_KEYS)
        sampling = Sampling(temperature=temperature, seed=seed, min_p=0, top_p=1)
        sampler = Sampler(sampling, seed=seed, history=engine.prompt(messages).ids, processors=[constraint])
        *tokens, finish = naive(
            engine.context,
            sampler,
            structure=constraint,
            end_ids=engine.vocabulary.end_ids,
            budget=200,
        )
        assert finish == "stop"
        assert tuple(each.token for each in tokens if isinstance(each, Committed)) == end.tokens


def test_the_text_of_a_reply_is_the_text_of_its_tokens_and_goes_into_the_next_turn(engine: Engine) -> None:
    messages = [Message(role="user", content="When? </think> <table> ü")]
    for shape in (ODD_KEYS, YEAR, ODD_KEYS):
        end = turn(engine, messages, shape, 1.0, 3)
        assert end.text == engine.vocabulary.text(end.tokens)
        assert check(shape, end.text).fits
        answer = Message(
            role="assistant", content=end.text, tokens=end.tokens, vocabulary=engine.vocabulary.fingerprint
        )
        messages += [answer, Message(role="user", content="And then?")]
        prompt = engine.prompt(messages).ids
        assert any(tuple(prompt[at : at + len(end.tokens)]) == end.tokens for at in range(len(prompt))), (
            "the reply's own ids stand in the next prompt"
        )
