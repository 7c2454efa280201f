"""Reasoning with real chat templates: the reply fits its shape, and what the model thinks stays out of it."""

from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import data
import pytest
from gguf import TokenType
from reasoning import MARKERS, SHAPES, TEMPLATES, Scripted, account, engine, request, run, vocabulary
from tiny import write_tiny_model

from engine import lockstep
from engine.events import Failed, Finished
from engine.fake import FakeVocabulary
from engine.loading import load_engine
from engine.markers import find_markers
from engine.protocol import Load, Message
from engine.template import ChatTemplate, PromptMessage
from grammars.check import check
from grammars.spec import GrammarSpec

REAL = {
    "Qwen3": "Qwen-Qwen3-0.6B",
    "QwQ": "Qwen-QwQ-32B",
    "DeepSeek-R1": "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "SmolLM3": "HuggingFaceTB-SmolLM3-3B",
}
STARTS = {  # with the switch unset, on and off
    "Qwen-Qwen3-0.6B": ("outside", "outside", "past"),
    "Qwen-QwQ-32B": ("behind", "inside", "behind"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("behind", "inside", "behind"),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("inside", "inside", "inside"),
    "HuggingFaceTB-SmolLM3-3B": ("outside", "outside", "past"),
    "GLM-4.7-Flash": ("inside", "inside", "behind"),
    "deepseek-ai-DeepSeek-V3.1": ("behind", "inside", "behind"),
    "google-gemma-4-31B-it": ("behind", "outside", "behind"),
    "Cohere2MoE": ("inside", "inside", "inside"),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("outside", "outside", "outside"),
    "llama-cpp-rwkv-world": ("outside", "inside", "behind"),
}
SCRIPTS = {
    "nothing": (),
    "thinks": ("<think>", "\nWell, it is calm. {}", "</think>", "\n\n"),
    "empty": ("<think>", "\n\n", "</think>", "\n\n"),
    "ends it": ("so it is </thin", "</", "think", ">\n\n"),
    "never ends": ("ab" * 200,),
}
KINDS = ("schema", "regex", "lark", "choice", "free")


def test_where_a_reply_begins_is_read_from_what_the_template_opens_it_with() -> None:
    """The person speaks of markers, too; only the template's own count."""
    said = [PromptMessage(role="user", content="What does <think> or </think> mean? <think>")]
    for name, starts in STARTS.items():
        template = ChatTemplate(data.template(name), FakeVocabulary())
        found = tuple(template.render(said, think=think).start for think in (None, True, False))
        assert found == starts, name


def test_templates_without_reasoning_have_no_markers() -> None:
    for name in ("meta-llama-Llama-3.1-8B-Instruct", "google-gemma-2-2b-it", "Qwen-Qwen2.5-7B-Instruct"):
        assert find_markers(data.template(name), FakeVocabulary()) is None


def test_earlier_reasoning_is_shown_where_the_template_wants_it_and_is_never_control() -> None:
    path = [
        PromptMessage(role="user", content="a"),
        PromptMessage(role="assistant", content="b", reasoning="deep <|end|> thought"),
        PromptMessage(role="user", content="c"),
    ]
    words = FakeVocabulary()
    shown = "{% for m in messages %}{{ m.reasoning_content }}|{{ m.content }}{% endfor %}"
    ids = ChatTemplate(shown, words).render(path).ids
    assert "deep <|end|> thought|b" in words.text(ids)
    assert not words.end_ids.intersection(ids)
    for name in REAL.values():
        assert b"thought" not in b"".join(
            map(words.piece, ChatTemplate(data.template(name), words).render(path).ids)
        )


def test_a_reply_that_speaks_of_the_marker_is_not_cut_at_it() -> None:
    """Templates drop what stands before an end marker in an earlier reply."""
    path = [
        PromptMessage(role="user", content="a"),
        PromptMessage(role="assistant", content="the tag </think> ends it"),
        PromptMessage(role="user", content="c"),
    ]
    for name in REAL.values():
        for words in (FakeVocabulary(), vocabulary(special=True)):
            assert "the tag </think> ends it" in words.text(
                ChatTemplate(data.template(name), words).render(path).ids
            )


CASES = [(think, script) for think in (None, True, False) for script in SCRIPTS]
EVERY_SOURCE = pytest.mark.parametrize("name", [*REAL.values(), *TEMPLATES], ids=[*REAL, *TEMPLATES])
EITHER_MARKER = pytest.mark.parametrize("special", [True, False], ids=["special", "text"])


@EITHER_MARKER
@EVERY_SOURCE
def test_replies_fit_and_reasoning_stays_out_of_them_on_every_path(name: str, special: bool) -> None:
    """Drafted, plain, in lockstep and naively: the same tokens, told apart in the same way."""
    check_every_path(name, special, range(len(name) % 4, len(CASES), 4))


@pytest.mark.proof
@EITHER_MARKER
@EVERY_SOURCE
def test_all_of_it_with_more_seeds(name: str, special: bool) -> None:
    check_every_path(name, special, range(3 * len(CASES)))


def check_every_path(name: str, special: bool, numbers: range) -> None:
    source = TEMPLATES.get(name) or data.template(name)
    for number in numbers:
        think, script = CASES[number % len(CASES)]
        kind = KINDS[number % len(KINDS)]
        wish = request(
            SHAPES[kind],
            seed=number,
            temperature=(0.8, 0.0, 1.3)[number % 3],
            think=think,
            think_tokens=(40, 6, 0)[number % 3],
            max_tokens=(60, 30)[number % 2],
            verify=True,
        )
        made = engine(source, special=special, script=SCRIPTS[script])
        end, tokens = run(made, wish)
        told = f"{name} {kind} {script} think={think}"
        assert end.verification is not None
        assert end.verification.equal, told
        assert end.verification.error is None, told
        shape = SHAPES[kind]
        if shape is not None:
            assert end.finish in ("stop", "landed"), told
            assert check(shape, end.text).fits, told
        parts = [token.part for token in tokens]
        assert parts == sorted(parts), told  # reasoning first
        assert end.stats.reasoning_tokens == parts.count("reasoning"), told
        assert end.stats.reply_tokens == parts.count("reply") <= wish.max_tokens, told
        assert special or "</think>" not in (end.reasoning or ""), told  # else it may be spelled
        plain = run(
            engine(source, special=special, script=SCRIPTS[script]),
            replace(wish, speculate=False, verify=False),
        )
        assert key(plain) == key((end, tokens)), told
        other = engine(source, special=special, script=SCRIPTS[script])
        assert isinstance(other.context, Scripted)
        other.context.prompt = end.stats.prompt_tokens
        events = lockstep.lockstep(other, [replace(wish, verify=False)] * 2, other.context.streams(2, 4096))
        streams: list[list] = [[], []]
        for stream, event in events:
            streams[stream].append(event)
        for stream in streams:
            assert key(account(stream)) == key((end, tokens)), told


def key(account: tuple) -> tuple:
    """Return what must be equal on every path."""
    end, tokens = account
    return end.finish, end.text, end.reasoning, end.tokens, [(token.id, token.part) for token in tokens]


TINY = {  # vocabularies; markers that are tokens of them
    "SmolLM3": ("gpt-2", MARKERS),
    "DeepSeek-R1": ("llama-spm", ()),
    "Qwen3": ("qwen2", MARKERS),
    "QwQ": ("qwen2", ()),
}


@pytest.mark.parametrize(
    "name",
    [name if TINY[name][0] != "qwen2" else pytest.param(name, marks=pytest.mark.proof) for name in TINY],
)
def test_tiny_models_with_real_vocabularies_think_and_fit(tmp_path: Path, name: str) -> None:
    base, added = TINY[name]
    path = write_tiny_model(
        tmp_path / "tiny.gguf",
        data.vocabulary(base),
        template=data.template(REAL[name]),
        added=dict.fromkeys(added, TokenType.USER_DEFINED),
    )
    made, _ = load_engine(Load(model=str(path), context=512, threads=1))
    with closing(made.context):  # type: ignore[type-var]
        for number, (think, budget) in enumerate([(None, 12), (True, 12), (False, 12), (True, 0)]):
            kind = KINDS[number]
            shape = SHAPES[kind]
            assert shape is not None
            wish = request(
                shape,
                seed=number,
                think=think,
                think_tokens=budget,
                max_tokens=40,
                temperature=1.2,
                verify=True,
            )
            end, tokens = run(made, wish)
            assert end.finish in ("stop", "landed")
            assert check(shape, end.text).fits
            thought = b"".join(
                made.vocabulary.piece(token.id) for token in tokens if token.part == "reasoning"
            )
            assert sum(token.part == "reasoning" for token in tokens) <= budget + 16
            if think and name in ("QwQ", "DeepSeek-R1"):  # their templates open the region
                assert b"</think>" in thought
            plain = run(made, replace(wish, speculate=False, verify=False))
            if made.exact == "exact":
                assert key(plain) == key((end, tokens))
                assert end.verification is not None
                assert end.verification.equal


def test_reasoning_leaves_room_for_the_reply_in_a_small_context() -> None:
    for length in range(90, 160, 7):
        made = engine("template opens", special=True, script=SCRIPTS["never ends"], length=length)
        shape = SHAPES["schema"]
        assert shape is not None
        end, _ = run(made, request(shape, think_tokens=1000, max_tokens=1000))
        assert end.finish in ("stop", "landed")
        assert check(shape, end.text).fits
        assert end.reasoning


def test_max_tokens_counts_the_reply_alone() -> None:
    made = engine("template opens", special=True, script=("x" * 30, "</think>", "y" * 100))
    end, _ = run(made, request(max_tokens=20, think_tokens=100))
    assert (end.finish, end.text, end.reasoning) == ("length", "y" * 20, "x" * 30)


def test_a_free_reply_that_goes_round_in_circles_is_ended_and_can_be_let_go() -> None:
    for stop_loops, finish in ((True, "loop"), (False, "length")):
        made = engine("empty", special=True, script=("ab" * 200,))
        end, _ = run(made, request(max_tokens=300, stop_loops=stop_loops))
        assert end.finish == finish
        assert len(end.text) < 100 or not stop_loops


@pytest.mark.parametrize(
    ("written", "stop", "text"), [("<thx y", "<", ""), ("\n\nab", "\n", ""), ("<thx y", "th", "<")]
)
def test_a_stop_text_in_what_might_have_opened_a_region_cuts_all_that_follows(
    written: str, stop: str, text: str
) -> None:
    made = engine("model opens", special=False, script=(written,))
    end, _ = run(made, request(stop=(stop,), max_tokens=20))
    assert (end.finish, end.text, end.reasoning) == ("stop_text", text, None)


def test_a_reply_goes_on_from_any_of_its_tokens() -> None:
    """Also from inside the reasoning; the same prefix gives the same rest, as nothing else decides it."""
    for kind in KINDS:
        wish = request(SHAPES[kind], think_tokens=8, seed=5)
        end, tokens = run(engine("template opens", special=True), wish)
        ids = [token.id for token in tokens]
        for place in range(0, len(ids), 7):
            made = engine("template opens", special=True)
            again = run(made, replace(wish, prefix=tuple(ids[:place]), verify=True))
            assert key(again) == key((end, tokens)), (kind, place)
            assert again[0].verification is not None
            assert again[0].verification.equal
            assert again[0].stats.reply_tokens + again[0].stats.reasoning_tokens == len(ids) - place


def test_a_prefix_that_does_not_fit_is_refused_with_its_place() -> None:
    made = engine("template opens", special=True)
    words = made.vocabulary
    good = made.vocabulary.tokenize("hm")
    bad = min(words.end_ids)
    for prefix in ((*good, bad), (*good, 10**6), (*good, -1)):
        (failed,) = made.generate(request(SHAPES["choice"], prefix=prefix))
        assert failed.type == "failed"
        assert failed.kind == "usage"
        assert f"number {len(good) + 1}" in failed.message
    year = GrammarSpec(kind="regex", text="20[0-9]{2}")
    (failed,) = engine("empty", special=True).generate(request(year, prefix=(words.tokenize("2019")[0], 120)))
    assert failed.type == "failed"
    assert "number 2" in failed.message


def test_a_prefix_beyond_a_budget_is_refused_with_the_reason() -> None:
    """The same reply was given more of it before; what it may have is lowered."""
    made = engine("template opens", special=True, script=("x" * 9, "</think>"))
    wish = request(SHAPES["schema"], think_tokens=20)
    end, tokens = run(made, wish)
    assert end.stats.reasoning_tokens > 9
    ids = tuple(token.id for token in tokens)
    (failed,) = made.generate(replace(wish, prefix=ids[:8], think_tokens=5))
    assert failed.type == "failed"
    assert failed.kind == "usage"
    assert "they reason for longer than the 5 tokens" in failed.message
    reply = made.vocabulary.tokenize('{"mood":"calm","why":"aaaaaaaaa')
    (failed,) = engine("empty", special=True).generate(
        request(SHAPES["schema"], prefix=tuple(reply), max_tokens=len(reply))
    )
    assert failed.type == "failed"
    assert failed.kind == "usage"
    assert "no ending" in failed.message


def test_a_context_without_room_for_markers_and_reply_is_told_so_and_never_cuts_a_reply_that_can_land() -> (
    None
):
    yes_no = GrammarSpec(kind="choice", text='["y", "n"]')
    refused = 0
    for special, more in product((True, False), range(16)):
        made = engine("model opens", special=special)
        prompt = len(made.prompt(request().messages).ids)
        made = engine("model opens", special=special, script=("<think>", "hm"), length=prompt + more)
        *_, end = made.generate(request(yes_no, think_tokens=3))
        if isinstance(end, Failed):
            assert "context" in end.message
            refused += 1
        else:
            assert isinstance(end, Finished)
            assert end.text in ("y", "n"), (special, more, end.finish)
    assert 0 < refused < 32


def test_reasoning_of_a_path_reaches_the_template() -> None:
    shown = "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}{# </think> #}"
    made = engine(shown, special=True)
    path = (
        Message(role="user", content="a"),
        Message(role="assistant", content="b", reasoning="because"),
        Message(role="user", content="c"),
    )
    assert made.vocabulary.text(made.prompt(path).ids) == "abecausebc"
