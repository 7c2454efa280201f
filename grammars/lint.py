"""Tell what there is to know about a shape before its first token: errors, warnings and notes, each by its place.

Knows no model. Invariant: there is an error if and only if `compile_grammar` refuses the shape, because errors
are what it says; the rest is what a validator or llguidance would silently ignore, what is only checked when
the reply is complete, and what a person may not expect. Quick enough to be called while a shape is typed.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from grammars.compile import Grammar, choices, compile_grammar
from grammars.faults import MAX_PARTS, faults
from grammars.findings import Finding
from grammars.habits import habits
from grammars.lark import definitions, inline_schemas
from grammars.rewrite import rewrite
from grammars.schema import Document, Schema, read_json, step
from grammars.spec import GrammarSpec, ShapeError

_RANK = {"error": 0, "warning": 1, "note": 2}


def lint(spec: GrammarSpec) -> tuple[Finding, ...]:
    """Return everything there is to know about a shape, errors first."""
    found: list[Finding] = []
    grammar = refused = None
    try:
        grammar = compile_grammar(spec)
    except ShapeError as error:
        refused = Finding(level="error", where=error.where, code="unusable", why=error.why)
    inspect: dict[str, Callable[[GrammarSpec, Grammar | None], Iterator[Finding]]] = {
        "json_schema": _json_schema,
        "lark": _lark,
        "regex": _regex,
        "choice": _choice,
    }
    with suppress(ShapeError):  # a text that cannot be read, which `refused` says
        found += inspect[spec.kind](spec, grammar)
    found += [refused] if refused else []
    distinct: dict[tuple[str, str], Finding] = {}
    for finding in found:
        distinct.setdefault((finding.where, finding.why), finding)
    return tuple(sorted(distinct.values(), key=lambda finding: _RANK[finding.level]))


def summary(grammar: Grammar) -> tuple[str, ...]:
    """Return what a person should be told when a shape is used: nothing where all of it is enforced."""
    sentences = []
    if grammar.afterwards:
        told = [f"`{finding.code}` at {finding.where}" for finding in grammar.afterwards]
        more = f" and {len(told) - 3} more" if len(told) > 3 else ""
        sentences.append(
            f"Enforced while writing, but for {', '.join(told[:3])}{more}: checked when the reply is complete."
        )
    for first, *others in [grammar.endless] if grammar.endless else []:
        more = f" and {len(others)} more" if others else ""
        sentences.append(f"{first}{more} can never be written: it needs itself without an end.")
    return tuple(sentences)


def _json_schema(spec: GrammarSpec, grammar: Grammar | None) -> Iterator[Finding]:
    schema = read_json(spec.text)
    if isinstance(schema, dict | bool):
        yield from _inspect(schema, spec, grammar)


def _inspect(schema: Schema, spec: GrammarSpec, grammar: Grammar | None) -> Iterator[Finding]:
    """Yield findings about a schema; `grammar` is None where it does not compile or is a part of another."""
    document = Document(schema)
    errors = list(faults(document))
    yield from errors
    if errors:
        if len(document.parts()) <= MAX_PARTS:
            yield from habits(document, spec.guards)
        return
    made = grammar or rewrite(document)
    yield from made.afterwards
    for path in grammar.endless if grammar else ():
        yield Finding(
            level="warning",
            where=path,
            code="$ref",
            why="can never be written: it needs itself without an end",
            suggestion="make a member optional, or add an alternative that does not refer back",
        )
    for change in made.rewrites:
        yield Finding(
            level="note",
            where=change.path,
            code=next(iter(change.before)),
            why=f"is enforced in other words: {change.why}",
        )
    yield from habits(document, spec.guards)


def _lark(spec: GrammarSpec, grammar: Grammar | None) -> Iterator[Finding]:
    for inline, where in inline_schemas(spec.text):
        for finding in _inspect(inline.value, spec, None):
            yield replace(finding, where=where, why=f"in %json, {finding.where}: {finding.why}")
    rules = definitions(spec.text)
    reached: set[str] = set()
    waiting = ["start"]
    while waiting:
        name = waiting.pop()
        if name in rules and name not in reached:
            reached.add(name)
            waiting += rules[name].uses
    for name, rule in rules.items():
        if name not in reached and "start" in rules:
            yield Finding(
                level="warning", where=rule.where, code=name, why=f"nothing that start leads to uses {name}"
            )
    if "%ignore" in rules or re.search(r"^\s*%ignore\b", spec.text, re.MULTILINE):
        yield Finding(
            level="note",
            where="",
            code="%ignore",
            why="what is ignored may be written between any two terminals",
        )


def _regex(spec: GrammarSpec, grammar: Grammar | None) -> Iterator[Finding]:
    pattern = spec.text

    def finding(level: str, code: str, why: str, suggestion: str | None = None) -> Finding:
        return Finding(
            level="warning" if level == "warning" else "note",
            where="",
            code=code,
            why=why,
            suggestion=suggestion,
        )

    plain = re.sub(r"\\.", "", pattern, flags=re.DOTALL)
    if plain.startswith("^") or plain.endswith("$"):
        yield finding(
            "note", "anchor", "the whole reply matches anyway: `^` and `$` around it change nothing"
        )
    if re.search(r"\\d", pattern):
        yield finding("note", "\\d", "`\\d` takes the digits of every script", "write [0-9] for 0 to 9")
    if re.search(r"\\w", pattern):
        yield finding(
            "note", "\\w", "`\\w` takes the letters of every script", "write [A-Za-z0-9_] for ASCII"
        )
    if re.match(r"\^?\.\*", plain) or re.search(r"\.\*\$?$", plain):
        yield finding(
            "note", ".*", "begins or ends with `.*`: the reply may be any text around the rest of a line"
        )
    unbounded = re.sub(
        r"\[(?:\\.|[^\]\\])*\]", "x", re.sub(r"\\.", "x", pattern, flags=re.DOTALL), flags=re.DOTALL
    )
    if re.search(r"[*+]|\{\d+,\}", unbounded):
        yield finding(
            "note",
            "unbounded",
            "has no longest match: only the budget of tokens ends it",
            "bound it, as in {0,80}",
        )


def _choice(spec: GrammarSpec, grammar: Grammar | None) -> Iterator[Finding]:
    texts = choices(spec)
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        alike = " ".join(text.split()).casefold()
        if alike in seen:
            yield Finding(
                level="warning",
                where=step("$", index),
                code="choice",
                why=f"differs from {step('$', seen[alike])} in case or white space only",
            )
        elif text != text.strip():
            yield Finding(
                level="warning", where=step("$", index), code="choice", why="begins or ends with white space"
            )
        seen.setdefault(alike, index)
    ordered = sorted((text, index) for index, text in enumerate(texts))
    for (shorter, index), (longer, _) in itertools.pairwise(ordered):
        if longer.startswith(shorter):
            yield Finding(
                level="note",
                where=step("$", index),
                code="choice",
                why=f"begins {json.dumps(longer, ensure_ascii=False)}; both can be chosen",
            )
