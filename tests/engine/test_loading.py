"""Loading a model with a draft model beside it."""

from pathlib import Path

import pytest
from data import vocabulary
from tiny import write_tiny_model, write_tiny_recurrent_model

from engine.events import Finished
from engine.gguf import ModelFileError
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_model(folder / "large.gguf", vocabulary("llama-spm"), layers=2)
    write_tiny_model(folder / "small.gguf", vocabulary("llama-spm"), seed=3, padded_to=32064)
    write_tiny_model(folder / "foreign.gguf", vocabulary("gpt-2"))
    write_tiny_recurrent_model(folder / "state.gguf", vocabulary("llama-spm"))
    return folder


def load(folder: Path, model: str, draft: str | None) -> Load:
    return Load(
        model=str(folder / model),
        draft_model=None if draft is None else str(folder / draft),
        context=512,
        threads=1,
    )


def test_a_draft_model_is_loaded_described_and_asked(folder: Path) -> None:
    heard: list[float] = []
    engine, ready = load_engine(
        load(folder, "large.gguf", "small.gguf"), progress=lambda fraction: heard.append(fraction) is None
    )
    assert ready.draft is not None
    assert (ready.model.vocab_size, ready.draft.vocab_size) == (32000, 32064)
    assert ready.draft.path.endswith("small.gguf")
    assert heard == sorted(heard)
    plain, without = load_engine(load(folder, "large.gguf", None))
    assert without.draft is None
    request = Generate(
        turn=1,
        messages=(Message(role="user", content="Tell me."),),
        sampling=Sampling(temperature=0.8, seed=5),
        max_tokens=20,
    )
    ends = [list(each.generate(request))[-1] for each in (engine, plain)]
    assert isinstance(ends[0], Finished)
    assert isinstance(ends[1], Finished)
    assert ends[0].tokens == ends[1].tokens


def test_a_draft_model_with_another_vocabulary_is_refused_before_the_large_one_is_read(folder: Path) -> None:
    heard: list[float] = []
    with pytest.raises(ModelFileError, match=r"^foreign\.gguf cannot draft for large\.gguf: Its tokenizer"):
        load_engine(
            load(folder, "large.gguf", "foreign.gguf"),
            progress=lambda fraction: heard.append(fraction) is None,
        )
    assert set(heard) == {0.0}


@pytest.mark.parametrize("draft", ["missing.gguf", "notes.gguf"])
def test_a_draft_model_that_is_no_model_is_refused_by_name(folder: Path, draft: str) -> None:
    (folder / "notes.gguf").write_text("buy bread")
    with pytest.raises(ModelFileError, match=draft):
        load_engine(load(folder, "large.gguf", draft))


def test_a_draft_model_that_cannot_take_tokens_back_is_refused(folder: Path) -> None:
    with pytest.raises(ModelFileError, match=r"^state\.gguf cannot draft: its memory"):
        load_engine(load(folder, "large.gguf", "state.gguf"))


def test_a_model_that_cannot_take_tokens_back_goes_without_a_draft_model_and_says_so(folder: Path) -> None:
    engine, ready = load_engine(load(folder, "state.gguf", "small.gguf"))
    assert ready.draft is None
    assert any("draft model is not used" in notice for notice in ready.notices)
    assert "draft-model" not in engine.drafts.statistics()


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("a\n{% if %}", "line 2"),
        ("{{ raise_exception('no chat, please\\n') }}", "no chat, please)"),
        ("{{ messages[0].content.missing.attribute }}", "no attribute"),
        ("{% for i in range(99999) %}{{ 'x' * 1000000 }}{% endfor %}", "characters"),
    ],
)
def test_a_template_that_fails_is_told_and_a_plain_one_takes_its_place(
    tmp_path: Path, template: str, reason: str
) -> None:
    path = write_tiny_model(tmp_path / "odd.gguf", vocabulary("llama-spm"), template=template)
    engine, ready = load_engine(Load(model=str(path), context=256, threads=1))
    (notice,) = [notice for notice in ready.notices if "template" in notice]
    assert reason in notice
    assert "a plain one" in notice
    message = Message(role="user", content="Tell me.")
    end = list(engine.generate(Generate(turn=1, messages=(message,), max_tokens=3)))[-1]
    assert isinstance(end, Finished)
    assert end.error is None
