"""Run the official JSON Schema suite against the compiler; write the table that a test compares with.

    python tests/bench/official_suite.py > tests/grammars/official_suite.md

For each schema that compiles, documents are written compactly in the schema's key order and walked over bytes. What
should validate must be in the language; what should not must be outside it, or be refused by the check after the
reply if the compiler said that a keyword is checked afterwards. Where the language differs on purpose the
difference has a name here and its reason in the table.
"""

import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bytewalk import accepts
from data import official_suite

from grammars.check import check
from grammars.compile import Grammar, compile_grammar
from grammars.schema import resolve
from grammars.spec import GrammarSpec, ShapeError

DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_ORDERS = 1_000  # key orders tried for one document


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One schema of the suite with its documents."""

    file: str
    title: str
    schema: Any
    tests: tuple[dict[str, Any], ...]

    @property
    def spec(self) -> GrammarSpec:
        return GrammarSpec(kind="json_schema", text=json.dumps(self.schema, ensure_ascii=False))


def cases(draft: str) -> Iterator[Case]:
    """Yield the schemas of a draft; those that name no draft are read as this one."""
    folder = official_suite(draft)
    for path in sorted(folder.rglob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": DRAFTS[draft], **schema}
            yield Case(
                file=path.relative_to(folder).with_suffix("").as_posix(),
                title=group["description"],
                schema=schema,
                tests=tuple(group["tests"]),
            )


def outcome(case: Case, grammar: Grammar, test: dict[str, Any]) -> str:
    """Return "accepted", "refused" or "afterwards", the name of an intended difference, or "WRONG"."""
    fits = any(accepts(grammar, text) for text in spellings(case.schema, test["data"]))
    if fits == test["valid"]:
        return "accepted" if fits else "refused"
    if fits and grammar.afterwards and not check(case.spec, json.dumps(test["data"])).fits:
        return "afterwards"
    text = json.dumps(test["data"], ensure_ascii=False)
    return next((name for name, (_, applies) in DIFFERENCES.items() if applies(case, text, fits)), "WRONG")


DIFFERENCES: dict[str, tuple[str, Callable[[Case, str, bool], bool]]] = {
    "format asserted": (
        "a format is enforced in every draft; the suite's default takes it for an annotation",
        lambda case, _, fits: case.file == "format" and not fits,
    ),
    "spelling of times": (
        "times are written with capital T and Z and with seconds up to 59, never with a leap second",
        lambda case, text, fits: (
            case.file in ("optional/format/time", "optional/format/date-time")
            and not fits
            and re.search(r":60|z\"", text) is not None
        ),
    ),
    "spelling of addresses": (
        "IPv6 addresses have no dotted tail; e-mail addresses no quotes and no literal IPv6 host",
        lambda case, text, fits: (
            (not fits and (case.file == "optional/format/ipv6" and "." in text))
            or (case.file == "optional/format/email" and re.search(r'\\"|\[IPv6', text) is not None)
        ),
    ),
    "digits": (
        "a number has a bounded number of digits, and a multiple no exponent",
        lambda case, text, fits: not fits and re.search(r"\d{16}|e\+\d{3}", text) is not None,
    ),
    "white space": (
        "`\\s` is Unicode's white space, without ECMA's zero-width no-break space; so is `\\S`",
        lambda case, text, _: case.file == "optional/ecmascript-regex" and "\ufeff" in text,
    ),
    "content": (
        "contentEncoding and contentMediaType are annotations",
        lambda case, _, fits: case.file == "optional/content" and fits,
    ),
    "older keyword": (
        "2020-12 has no `dependencies`; the lint says so, and the validator ignores it too",
        lambda case, _, fits: case.file == "optional/dependencies-compatibility" and fits,
    ),
    "vocabulary": (
        "every keyword is enforced, whatever vocabularies the metaschema lists",
        lambda case, _, fits: case.file == "vocabulary" and not fits,
    ),
    "format regex": (
        "the format regex is checked afterwards, as Python's",
        lambda case, _, fits: case.file == "optional/format/ecmascript-regex" and fits,
    ),
}


def spellings(schema: Any, value: Any) -> Iterator[str]:
    """Yield the document compactly, in the schema's key order first and then in others."""
    for ordered in itertools.islice(_orders(_plain(value), schema, schema), _ORDERS):
        yield json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).replace("\x7f", "\\u007f")


def _plain(value: Any) -> Any:
    """Return the value with whole numbers as integers: 1.0 and 1 are the same to a schema."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value


def _orders(value: Any, schema: Any, root: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from map(list, itertools.product(*(list(_orders(item, True, root)) for item in value)))
    elif isinstance(value, dict):
        known = list(dict.fromkeys(_keys(schema, root, set())))
        first = sorted(value, key=lambda key: known.index(key) if key in known else len(known))
        for keys in itertools.permutations(first):
            parts = (list(_orders(value[key], True, root)) for key in keys)
            yield from (dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(*parts))
    else:
        yield value


def _keys(schema: Any, root: Any, seen: set[str]) -> Iterator[str]:
    """Yield the names of properties in the order in which the schema tells them."""
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        target = resolve(root, reference)
        yield from _keys(target and target[1], root, seen)
    for key, inner in schema.items():
        if key == "properties" and isinstance(inner, dict):
            yield from inner
        elif key in ("allOf", "anyOf", "oneOf") and isinstance(inner, list):
            for branch in inner:
                yield from _keys(branch, root, seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The table, and the documents that nothing explains."""

    table: str
    wrong: tuple[str, ...]


def report() -> Report:
    """Run both drafts."""
    lines = [
        "# The official JSON Schema suite",
        "",
        "Written by `python tests/bench/official_suite.py > tests/grammars/official_suite.md`.",
        "",
        "*accepted* and *refused*: documents on which the grammar and the suite agree. *afterwards*: documents that",
        "the grammar takes and the check after the reply refuses, as the compiler had said. *different*: documents on",
        "which the grammar differs on purpose; *not compiled*: schemas that are refused; both by the reasons below.",
    ]
    wrong: list[str] = []
    for draft in DRAFTS:
        counts: dict[str, Counter[str]] = {}
        different: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        for case in cases(draft):
            row = counts.setdefault(case.file, Counter())
            row["schemas"] += 1
            try:
                grammar = compile_grammar(case.spec)
            except ShapeError as error:
                row["not compiled"] += 1
                refused[_kind(error.why)] += 1
                continue
            for test in case.tests:
                found = outcome(case, grammar, test)
                if found == "WRONG":
                    wrong.append(f"{draft} {case.file}: {case.title}: {test['description']}")
                elif found in DIFFERENCES:
                    different[found] += 1
                row[found if found in _COLUMNS or found == "WRONG" else "different"] += 1
        lines += [
            "",
            f"## {draft}",
            "",
            f"| file | {' | '.join(_COLUMNS)} |",
            "|---" * (1 + len(_COLUMNS)) + "|",
        ]
        rows = [*counts.items(), ("all", sum(counts.values(), Counter()))]
        lines += [
            f"| {file} | {' | '.join(str(row[column] or '') for column in _COLUMNS)} |" for file, row in rows
        ]
        lines += ["", "Different on purpose:", ""]
        lines += [f"- {name} ({count}): {DIFFERENCES[name][0]}" for name, count in sorted(different.items())]
        lines += ["", "Not compiled:", "", *(f"- {count}: {why}" for why, count in sorted(refused.items()))]
    lines += ["", "## Wrong", "", *(f"- {each}" for each in wrong or ["none"])]
    return Report(table="\n".join(lines) + "\n", wrong=tuple(wrong))


_COLUMNS = ("schemas", "accepted", "refused", "afterwards", "different", "not compiled")


def _kind(reason: str) -> str:
    """Return a reason without the names and numbers of one schema."""
    reason = re.sub(r"the \$ref \S+", "the $ref ...", reason)
    return re.sub(r"\(?-?[\d.]+(e[+-]?\d+)?\)?", "N", reason)


if __name__ == "__main__":
    print(report().table, end="")
