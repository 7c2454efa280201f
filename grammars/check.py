"""Tell whether a finished reply fits its shape, without the engine's help.

Knows nothing of how the reply was made: JSON goes through `jsonschema` with formats checked, choices are
compared, and regular expressions (patterns of a schema included) and Lark grammars are walked byte by byte,
so that no vocabulary has a say. Nothing is fetched, no reply raises, and none can keep a check busy for ever.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    ValidationError,
)
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry

from grammars.compile import choices, compile_grammar
from grammars.lark import position
from grammars.matcher import walk
from grammars.patterns import found_in, pythons
from grammars.schema import Document, read_json, step
from grammars.spec import GrammarSpec, ShapeError

_LONGEST = 10_000_000  # characters
_SEARCH_S = 2.0  # for one search with `re`
_DRAFTS: dict[int, Any] = {
    4: Draft4Validator,
    6: Draft6Validator,
    7: Draft7Validator,
    2019: Draft201909Validator,
    2020: Draft202012Validator,
}


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
    grammar = compile_grammar(spec).text
    try:
        taken, complete = walk(grammar, reply)
    except ShapeError as error:  # the grammar is well; this reply takes more than the limits allow
        return Verdict(fits=False, problem=f"cannot be checked: {_shortened(error.why)}")
    if complete:
        return Verdict(fits=True, parsed=reply)
    ends = taken == len(reply)
    problem = "the reply ends before the shape does" if ends else "the shape ends or forbids what comes here"
    return Verdict(fits=False, problem=problem, where=position(reply, taken))


def _check_json(schema: Any, reply: str) -> Verdict:
    try:
        value = read_json(reply, deepest=None, repeats=True)  # the mask lets open objects repeat a key
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
    """Return a validator of the draft that `$schema` names or that its keywords tell; it fetches nothing."""
    draft = validator_for(schema, default=_DRAFTS[Document(schema).draft])
    kind = extend(
        draft,
        {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "multipleOf": _multiple_of,
        },
    )
    return kind(schema, registry=Registry(), format_checker=draft.FORMAT_CHECKER)


def _multiple_of(_: Validator, multiple: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    """Divide exactly: for the floats that `jsonschema` divides 74.54 is no multiple of 0.01."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (Fraction(str(value)) / Fraction(str(multiple))).denominator != 1
    ):
        yield ValidationError(f"{value!r} is not a multiple of {multiple!r}")


# The keywords that hold regular expressions. `jsonschema` searches with Python's `re`, which is no JSON Schema:
# its `$` matches before a last newline, its `\d` any Unicode digit, and it may backtrack for ever.


def _pattern(_: Validator, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], value: Any, _: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for pattern, schema in patterns.items():
        for key, member in value.items():
            if _matches(pattern, key):
                yield from validator.descend(member, schema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, schema: Any, value: Any, whole: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    patterns = whole.get("patternProperties", ())
    for key, member in value.items():
        if key in whole.get("properties", ()) or any(_matches(pattern, key) for pattern in patterns):
            continue
        if schema is False:
            yield ValidationError(f"{key!r} is no property that the schema allows")
        else:
            yield from validator.descend(member, schema, path=key)


def _matches(pattern: str, value: str) -> bool:
    """Tell whether a pattern matches anywhere in a text; `re` is asked only for what llguidance refuses."""
    found = found_in(pattern, value)
    return _matches_backtracking(pattern, value) if found is None else found


def _matches_backtracking(pattern: str, value: str) -> bool:
    """Search with `re` in a process of its own, because a search that backtracks for ever cannot be stopped."""
    if (searched := pythons(pattern)) is None:
        raise ShapeError(f"{pattern!r} is no pattern that can be searched for")
    # The alarm ends the search where this process is killed and cannot.
    script = (
        "import json, re, signal, sys; hasattr(signal, 'alarm') and signal.alarm(5); "
        "sys.exit(0 if re.search(*json.load(sys.stdin), re.ASCII) else 9)"
    )
    try:
        code = subprocess.run(
            [sys.executable, "-I", "-S", "-c", script],
            input=json.dumps([searched, value]).encode(),
            timeout=_SEARCH_S,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        raise ShapeError(f"searching for {pattern!r} takes too long") from None
    if code not in (0, 9):
        raise ShapeError(f"{pattern!r} cannot be searched for")
    return code == 0


def _shortened(message: str) -> str:
    return message if len(message) <= 300 else f"{message[:200]} … {message[-80:]}"
