"""Replies of random models under random schemas, and what is wrong with them by judges of another make.

A reply is at fault if it ends in another way than `stop`, `landed` or `loop`, if what parses does not validate with
formats checked, if its text leaves the language of its grammar, or if it has more tokens than its budget.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lark
from data import vocabulary
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend, validator_for
from llguidance import LLMatcher
from tiny import write_tiny_model

from engine.events import Failed, Finished
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.compile import compile_grammar
from grammars.matcher import byte_tokenizer, limits
from grammars.spec import GrammarSpec, ShapeError

MODELS: dict[str, int | None] = {"gpt-2": None, "llama-spm": None, "qwen2": 152_064}
"""Vocabularies by name and the rows they are padded to: byte pairs, SentencePiece, byte pairs above 150,000."""

_SHORTEST = re.compile(r"The shortest reply found for this shape has ([\d,]+) tokens")


@dataclass(slots=True)
class Tally:
    """How replies ended, and what was wrong with them."""

    finishes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def replies(self) -> int:
        return self.finishes.total()

    def __str__(self) -> str:
        shares = ", ".join(
            f"{finish} {count / self.replies:.1%}" for finish, count in self.finishes.most_common()
        )
        return (
            f"{self.replies} replies: {shares}; {len(self.faults)} at fault; {self.refused.total()} refused"
        )


def tiny_engine(folder: Path, name: str) -> Engine:
    """Return an engine over a random model with this vocabulary."""
    path = folder / f"{name}.gguf"
    write_tiny_model(path, vocabulary(name), padded_to=MODELS[name])
    return load_engine(Load(model=str(path), context=2048, threads=1))[0]


def run(engine: Engine, spec: GrammarSpec, *, number: int, tally: Tally, longest: int = 160) -> None:
    """Generate one reply at temperature 1.5 within a random budget and judge it.

    A budget below the first ending is refused with the number; then the reply is asked for with exactly that many.
    """
    dice = Random(f"reply {number}")
    budget = dice.choice((1, dice.randint(2, longest), longest))
    try:
        grammar = compile_grammar(spec)
    except ShapeError as error:
        tally.refused[error.why] += 1
        return
    assert not grammar.afterwards, "the schemas here are enforced whole"
    end = _end(engine, spec, number, budget)
    if isinstance(end, Failed) and (least := _SHORTEST.search(end.message)):
        budget = int(least[1].replace(",", "")) + dice.choice((0, 0, 1, 5))
        end = _end(engine, spec, number, budget)
    if isinstance(end, Failed):
        tally.faults.append(f"{end.message} (reply {number}, budget {budget}): {spec.text}")
        return
    tally.finishes[end.finish] += 1
    if problem := fault(spec, end, budget):
        tally.faults.append(f"{problem} (reply {number}, budget {budget}): {end.text!r} under {spec.text}")


def _end(engine: Engine, spec: GrammarSpec, seed: int, budget: int) -> Finished | Failed:
    *_, end = engine.generate(
        Generate(
            turn=1,
            messages=(Message(role="user", content="Write.", shape=None),),
            shape=spec,
            sampling=Sampling(temperature=1.5, seed=seed, top_p=1, min_p=0),
            max_tokens=budget,
            speculate=seed % 2 == 0,
        )
    )
    assert isinstance(end, Finished | Failed)
    return end


def fault(spec: GrammarSpec, end: Finished, budget: int) -> str | None:
    """Return what is wrong with a reply, or None."""
    if end.finish not in ("stop", "landed", "loop"):
        return f"ended {end.finish}: {end.error}"
    if len(end.tokens) > budget:
        return f"{len(end.tokens)} tokens"
    if end.finish == "loop":
        return None
    if not in_language(spec, end.text):
        return "the text leaves the language of the grammar"
    return _misfit(spec, end.text)


def _misfit(spec: GrammarSpec, text: str) -> str | None:
    if spec.kind == "regex":
        return None if re.fullmatch(spec.text, text) else "does not match"
    if spec.kind == "choice":
        return None if text in json.loads(spec.text) else "is none of the choices"
    if spec.kind == "lark":
        try:
            lark.Lark(spec.text, parser="earley").parse(text)
        except lark.UnexpectedInput as error:
            return f"does not parse: {error}"
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    found = next(validator(spec.text).iter_errors(value), None)
    return found and f"does not validate: {found.message}"


@cache
def validator(text: str) -> Any:
    schema = json.loads(text)
    draft = validator_for(schema, default=Draft202012Validator)
    draft.check_schema(schema)
    exact = extend(draft, {"multipleOf": _multiple_of})
    return exact(schema, format_checker=draft.FORMAT_CHECKER)


def _multiple_of(_: Any, multiple: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    """As `jsonschema` does, but exactly: for its floats 74.54 is no multiple of 0.01."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and Fraction(repr(value)) % Fraction(repr(multiple)) != 0:
        yield ValidationError(f"{value!r} is no multiple of {multiple!r}")


def in_language(spec: GrammarSpec, text: str) -> bool:
    """Tell whether a reply is a word of its grammar, walked over bytes."""
    matcher = LLMatcher(byte_tokenizer(), compile_grammar(spec).text, log_level=0, limits=limits())
    data = list(text.encode())
    return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()
