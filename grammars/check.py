"""Tell whether a finished reply fits its shape, without the engine's help.

Knows nothing of how the reply was made: JSON goes through `jsonschema` with formats checked, choices are
compared, and regular expressions and Lark grammars are walked byte by byte, so that no vocabulary has a
say. Nothing is fetched, and no reply raises.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from llguidance import LLMatcher
from referencing import Registry

from grammars.compile import LIMITS, byte_tokenizer, choices, compile_grammar
from grammars.lark import position
from grammars.schema import read_json, step
from grammars.spec import GrammarSpec, ShapeError

_LONGEST = 10_000_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check found.

    `parsed` is the JSON value (also where it does not fit) or the fitting text; `problem` is one sentence,
    None if the reply fits; `where` is a JSON path or the `line:column` of the reply where it is known.
    """

    fits: bool
    parsed: Any | None = None
    problem: str | None = None
    where: str | None = None


def check(spec: GrammarSpec, reply: str) -> Verdict:
    """Check a whole reply. Raises ShapeError for a shape that does not compile, never for a reply."""
    if len(reply) > _LONGEST:
        return Verdict(fits=False, problem=f"the reply has more than {_LONGEST:,} characters")
    if spec.kind == "json_schema":
        return _check_json(read_json(spec.text), reply)
    if spec.kind == "choice":
        fits = reply in choices(spec)
        return Verdict(
            fits=fits,
            parsed=reply if fits else None,
            problem=None if fits else "the reply is none of the choices",
        )
    taken, complete = _walk(compile_grammar(spec).text, reply)
    if complete:
        return Verdict(fits=True, parsed=reply)
    ends = taken == len(reply)
    problem = "the reply ends before the shape does" if ends else "the shape ends or forbids what comes here"
    return Verdict(fits=False, problem=problem, where=position(reply, taken))


def _walk(grammar: str, text: str) -> tuple[int, bool]:
    """Return how many characters of the text the grammar takes, and whether the text is complete."""
    matcher = LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=LIMITS)
    data = text.encode(errors="surrogatepass")  # a lone surrogate is no UTF-8, so no grammar takes it
    taken = matcher.try_consume_tokens(list(data))
    if taken < len(data):
        return len(data[:taken].decode(errors="ignore")), False
    return len(text), matcher.is_accepting()


def _check_json(schema: Any, reply: str) -> Verdict:
    try:
        value = read_json(reply, deepest=None)
    except ShapeError as error:
        return Verdict(fits=False, problem=error.why, where=error.where or None)
    try:
        first = best_match(_validator(schema).iter_errors(value))
    except RecursionError:
        return Verdict(fits=False, parsed=value, problem="nested too deeply to be checked")
    except (
        Exception
    ) as error:  # what jsonschema cannot do with the schema has many classes: $ref, pattern, numbers
        reason = _shortened(str(error).split("\n", 1)[0])
        return Verdict(fits=False, parsed=value, problem=f"cannot be checked: {reason}")
    if first is None:
        return Verdict(fits=True, parsed=value)
    where = "$"
    for key in first.absolute_path:
        where = step(where, key)
    return Verdict(fits=False, parsed=value, problem=_shortened(first.message), where=where)


def _validator(schema: Any) -> Validator:
    """Return a validator of the draft that `$schema` names, by default 2020-12, that fetches nothing."""
    draft = validator_for(schema, default=Draft202012Validator)
    kind = extend(draft, {"pattern": _pattern})
    return kind(schema, registry=Registry(), format_checker=draft.FORMAT_CHECKER)


def _pattern(_: Validator, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """Search as `jsonschema` does, and where Python does not know the syntax (`\\p{L}`) ask llguidance."""
    if not isinstance(value, str):
        return
    try:
        found = re.search(pattern, value) is not None
    except re.error:
        schema = {"type": "string", "pattern": pattern}
        grammar = json.dumps({"grammars": [{"json_schema": schema}]})
        found = _walk(grammar, json.dumps(value, ensure_ascii=False))[1]
    if not found:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _shortened(message: str) -> str:
    return message if len(message) <= 300 else f"{message[:200]} … {message[-80:]}"
