"""What people complain of elsewhere, as whole turns: reasoning under a schema, end markers as text, stale state,
speculation past the end, and shapes that change from turn to turn. Every path is asked.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reasoning import TEMPLATES, Scripted, account, engine, request, run, spell

from engine import lockstep
from engine.decoding.constraint import Constraint
from engine.events import Finished, Token
from engine.protocol import Generate, Message
from engine.turn import Engine
from grammars.check import check
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec

MOOD = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"mood":{"enum":["calm","tense"]}},"required":["mood"]}',
)
STRING = GrammarSpec(kind="json_schema", text='{"type":"string"}')
THREE = GrammarSpec(kind="regex", text="[0-9]{3}")
OPTIONAL = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"q":{"const":1},"r":{"const":2},"s":{"const":3}},"required":["s"],'
    '"additionalProperties":false}',
)
YES_NO = GrammarSpec(kind="choice", text='["yes","no"]')


def ways(made: Engine, wish: Generate) -> list[tuple[Finished, list[Token]]]:
    """Return the reply drafted, plain and as one of two streams, after its naive replay was found equal."""
    drafted = run(made, replace(wish, verify=True))
    assert drafted[0].verification is not None
    assert drafted[0].verification.equal
    plain = run(made, replace(wish, speculate=False))
    context: Any = made.context
    events = lockstep.lockstep(made, [wish, wish], context.streams(2, context.length))
    first = [event for stream, event in events if stream == 0]
    found = [drafted, plain, account(first)]
    assert len({(end.text, end.finish, end.tokens) for end, _ in found}) == 1
    return found


def said(text: str, wish: Generate) -> Generate:
    return replace(wish, messages=(Message(role="user", content=text),))


@pytest.mark.parametrize("special", [True, False], ids=["special", "text"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_schema_does_not_break_reasoning_and_reasoning_not_the_schema(template: str, special: bool) -> None:
    thought = (
        ("<think>", "{} calm?", "</think>", "\n\n") if template == "model opens" else ("{} calm?", "</think>")
    )
    made = engine(template, special=special, script=(*thought, '{"mood":"tense"}'))
    for end, _ in ways(made, request(MOOD)):
        assert check(MOOD, end.text).fits
        assert end.finish in ("stop", "landed")
        if "opens" in template:
            assert (end.text, end.reasoning) == ('{"mood":"tense"}', "{} calm?")
        else:
            assert not end.reasoning


def test_an_end_marker_in_the_prompt_is_text_and_the_control_token_never_gets_into_a_string() -> None:
    spelled = engine("empty", special=True, script=('"a ', *"<|end|>", ' b"'))
    wish = said("Repeat <|end|> and <|eot|>.", request(STRING))
    words = spelled.vocabulary
    prompt = spelled.prompt(wish.messages).ids
    assert sum(token in words.end_ids for token in prompt) == 1  # the template's own
    for end, _ in ways(spelled, wish):
        assert end.text == '"a <|end|> b"'
        assert not words.end_ids.intersection(end.tokens)
    wanting = engine("empty", special=True, script=('"a ', "<|end|>", "<|end|>"))
    for end, _ in ways(wanting, wish):
        assert not words.end_ids.intersection(end.tokens)
        assert check(STRING, end.text).fits


def test_no_state_of_a_turn_is_left_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine("empty", special=True)
    assert isinstance(made.context, Scripted)
    whole = Constraint.process
    seen = [0]

    def process(self: Constraint, row: np.ndarray, history: Sequence[int]) -> None:
        fresh = Constraint(compile_grammar(OPTIONAL), made.vocabulary.tokenizer, made.vocabulary.end_ids)
        for token in self._committed:
            fresh.commit(token)
        assert np.array_equal(fresh.ahead().mask(), self.ahead().mask())
        seen[0] += 1
        whole(self, row, history)

    monkeypatch.setattr(Constraint, "process", process)
    words = made.vocabulary
    for text in ('{"q":1,"s":3}', '{"s":3}', '{"q":1,"r":2,"s":3}', '{"r":2,"s":3}', '{"s":3}'):
        made.context.script = tuple(spell(words, text))  # type: ignore[arg-type]
        for end, _ in ways(made, request(OPTIONAL)):
            assert check(OPTIONAL, end.text).fits
    assert seen[0] > 20


def test_drafts_do_not_write_past_the_end() -> None:
    """The prompt is full of longer numbers, so every source guesses that the number goes on."""
    made = engine("empty", special=True, spread=0.5)
    wish = said("1234567 1234567 1234567 1234567 " * 8, request(THREE, temperature=0.0))
    submitted = 0.0
    for seed in range(5):
        earlier = ("1234567", "1234567")
        for end, tokens in ways(
            made, replace(wish, sampling=replace(wish.sampling, seed=seed), earlier=earlier)
        ):
            assert len(end.text) == 3
            assert end.text.isdigit()
            assert (end.finish, len(tokens)) == ("stop", len(end.tokens))
            submitted += end.stats.drafted_tokens
    assert submitted


def test_a_free_turn_between_two_shapes_leaves_each_its_own() -> None:
    made = engine("template opens", special=True)
    path: list[Message] = []
    for shape in (MOOD, None, YES_NO, THREE, None, MOOD):
        path.append(Message(role="user", content="Go on."))
        wish = replace(request(shape), messages=tuple(path))
        found = ways(made, wish)
        for end, _ in found:
            assert shape is None or check(shape, end.text).fits
        path.append(
            Message(
                role="assistant",
                content=end.text,
                tokens=end.tokens,
                vocabulary=made.vocabulary.fingerprint,
                reasoning=end.reasoning or "",
            )
        )
