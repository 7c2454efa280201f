"""Random shapes of all four kinds, each with a recogniser that was built beside it and not from it.

Seeded: the same number gives the same shape. JSON Schemas are finite, with all their documents, or regular, with an
expression of what they write. Lark grammars are written twice, in the grammar library's dialect and character by
character. Lexemes of a Lark grammar are greedy, byte by byte; here no lexeme can be followed by a byte that would
lengthen it, so that this makes no difference.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from oracle import CharacterGrammar, Enumerated, Pattern, Recogniser
from schemagen import WORDS, finite_schema, regular_schema, written

from grammars.spec import GrammarSpec, Whitespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A shape, what recognises its language, and texts that vocabularies may be cut from."""

    spec: GrammarSpec
    recogniser: Recogniser
    samples: tuple[str, ...]


def shapes(count: int, seed: int = 0) -> Iterator[Shape]:
    """Yield shapes, of each kind and sort in turn."""
    makers: tuple[Callable[[Random], Shape], ...] = (
        choice_shape, regex_shape, lark_shape, finite_schema_shape, regular_schema_shape, composite_shape,
    )  # fmt: skip
    for number in range(count):
        yield makers[number % len(makers)](Random(f"{seed} {number}"))


def choice_shape(dice: Random) -> Shape:
    """Return a choice among words of which some begin others."""
    words = ["".join(dice.choices(WORDS, k=dice.randint(1, 3))) for _ in range(dice.randint(1, 8))]
    words += [word + dice.choice(WORDS) for word in words if dice.random() < 0.4]
    listed = list(dict.fromkeys(dice.sample(words, len(words))))
    return Shape(
        spec=GrammarSpec(kind="choice", text=json.dumps(listed, ensure_ascii=dice.random() < 0.5)),
        recogniser=Enumerated(listed),
        samples=tuple(listed),
    )


# Regular expressions


def regex_shape(dice: Random) -> Shape:
    """Return a regular expression in the syntax that Rust and the package `regex` share."""
    text = _expression(dice, 3)
    while re.fullmatch(text, ""):  # where nothing fits too; the empty reply cannot be told from none
        text = _atom(dice) + text
    return Shape(spec=GrammarSpec(kind="regex", text=text), recogniser=Pattern(text), samples=WORDS)


def _expression(dice: Random, depth: int) -> str:
    roll = dice.random()
    if depth == 0 or roll < 0.2:
        return _atom(dice)
    if roll < 0.6:
        return "".join(_expression(dice, depth - 1) for _ in range(dice.randint(2, 3)))
    if roll < 0.8:
        branches = [_expression(dice, depth - 1) for _ in range(dice.randint(2, 3))]
        return f"({'?:' if dice.random() < 0.5 else ''}{'|'.join(branches)})"
    counts = ("?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}")
    return f"(?:{_expression(dice, depth - 1)}){dice.choice(counts)}"


def _atom(dice: Random) -> str:
    return dice.choice(
        (
            lambda: re.escape(dice.choice(WORDS)).replace("\\ ", " ").replace("\\\n", "\\n"),
            lambda: dice.choice(
                ("[a-f]", "[0-9]", "[^a]", '[^"\\\\]', "[ab😀]", "[^é日x]", "[a-c0-3.-]", r"[\n ]")
            ),
            lambda: dice.choice((".", r"\d", r"\s", r"\.", r"[\d-]", r"[^\s]", "[0-9]{1,2}")),
        )
    )()


# Lark grammars


@dataclass(frozen=True, slots=True)
class _Both:
    """The same right-hand side for the grammar library and, character by character, for the package lark."""

    ours: str
    theirs: str


_FIRST = "ABCDEFGHIJKLMNOPQRSTUVWXYZ<>()=;!ΩЖ語🎉"


class _LarkMaker:
    """Writes a grammar in which every alternative, repetition and end is told by its first character."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._first = iter(dice.sample(_FIRST, len(_FIRST)))
        self.characters: set[str] = set()
        self.rules: list[_Both] = []

    def literal(self) -> _Both:
        """Return a literal whose first character no other has."""
        text = next(self._first) + "".join(self._dice.choices('abé1 "\\{,😀', k=self._dice.randint(0, 2)))
        return _Both(json.dumps(text, ensure_ascii=False), " ".join(map(self._terminal, text)))

    def class_run(self) -> _Both:
        """Return a bounded run of characters of one class; no literal begins with one."""
        signs = self._dice.choice(("01", "abc", "xyé", "7"))
        low, high = self._dice.choice(((1, 1), (1, 3), (2, 2), (0, 2)))
        one = f"({' | '.join(map(self._terminal, signs))})"
        rest = ""
        for _ in range(high - low):
            rest = f"({one} {rest})?"
        bound = f"{low},{high}" if high > low else f"{low}"
        end = self.literal()  # what ends the run
        return _Both(f"/[{signs}]{{{bound}}}/ {end.ours}", f"{' '.join([one] * low)} {rest} {end.theirs}")

    def body(self, depth: int) -> _Both:
        roll = self._dice.random()
        if depth == 0 or roll < 0.25:
            return self.literal() if roll < 0.15 else self.class_run()
        if roll < 0.5:
            parts = [self.body(depth - 1) for _ in range(2)]
            return _Both(" ".join(part.ours for part in parts), " ".join(part.theirs for part in parts))
        if roll < 0.65:
            branches = [self.led(depth) for _ in range(self._dice.randint(2, 3))]
            return _Both(
                *(
                    f"({' | '.join(texts)})"
                    for texts in zip(*((b.ours, b.theirs) for b in branches), strict=True)
                )
            )
        if roll < 0.85:
            inner, mark = self.led(depth), self._dice.choice(("?", "*", "+"))
            return _Both(f"({inner.ours}){mark}", f"({inner.theirs}){mark}")
        if self.rules:  # a rule between brackets, its own included
            left, right, name = (
                self.literal(),
                self.literal(),
                f"r{self._dice.randrange(len(self.rules) + 1)}",
            )
            return _Both(f"{left.ours} {name} {right.ours}", f"{left.theirs} {name} {right.theirs}")
        return self.literal()

    def led(self, depth: int) -> _Both:
        lead, rest = self.literal(), self.body(depth - 1)
        return _Both(f"{lead.ours} {rest.ours}", f"{lead.theirs} {rest.theirs}")

    def _terminal(self, sign: str) -> str:
        self.characters.add(sign)
        return CharacterGrammar.terminal(sign)


def lark_shape(dice: Random) -> Shape:
    """Return a context-free grammar, often recursive."""
    try:
        return _lark_shape(_LarkMaker(dice), dice)
    except StopIteration:  # it ran out of first characters
        return lark_shape(dice)


def _lark_shape(maker: _LarkMaker, dice: Random) -> Shape:
    for _ in range(dice.randint(1, 3)):  # a rule may name itself, so each has a way out
        body, out = maker.led(2), maker.literal()
        maker.rules.append(_Both(f"{body.ours} | {out.ours}", f"{body.theirs} | {out.theirs}"))
    last = len(maker.rules) - 1
    ours = [f"start: r{last}", *(f"r{number}: {rule.ours}" for number, rule in enumerate(maker.rules))]
    theirs = [f"start: r{last}", *(f"r{number}: {rule.theirs}" for number, rule in enumerate(maker.rules))]
    theirs += [f"{CharacterGrammar.terminal(sign)}: {_quoted(sign)}" for sign in sorted(maker.characters)]
    return Shape(
        spec=GrammarSpec(kind="lark", text="\n".join(ours)),
        recogniser=CharacterGrammar("\n".join(theirs), maker.characters),
        samples=tuple(dict.fromkeys(re.findall(r'"([^"\\]+)"', "\n".join(ours)))) or WORDS,
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def composite_shape(dice: Random) -> Shape:
    """Return a Lark grammar around a finite JSON Schema."""
    schema, documents = finite_schema(dice, 2)
    before, after = dice.choice(("", "x", "a {", "日 ")), dice.choice(("", "!", "}", '" '))
    text = " ".join(
        filter(None, (before and _quoted(before), f"%json {json.dumps(schema)}", after and _quoted(after)))
    )
    words = [f"{before}{written(document, 'compact')}{after}" for document in documents]
    return Shape(
        spec=GrammarSpec(kind="lark", text=f"start: {text}"),
        recogniser=Enumerated(words),
        samples=tuple(words),
    )


def finite_schema_shape(dice: Random) -> Shape:
    """Return a JSON Schema with at most a few hundred documents."""
    schema, documents = finite_schema(dice, 3)
    whitespace: Whitespace = dice.choice(("compact", "spaced"))
    words = [written(document, whitespace) for document in documents]
    return Shape(
        spec=GrammarSpec(kind="json_schema", text=json.dumps(schema), whitespace=whitespace),
        recogniser=Enumerated(words),
        samples=tuple(words),
    )


def regular_schema_shape(dice: Random) -> Shape:
    """Return a JSON Schema without recursion, and the regular expression of its replies."""
    whitespace: Whitespace = dice.choice(("compact", "spaced", "flexible"))
    schema, pattern = regular_schema(dice, 3, whitespace)
    samples = (*WORDS, *re.findall(r"[\w{}\[\]:,]+", json.dumps(schema, ensure_ascii=False)))
    return Shape(
        spec=GrammarSpec(kind="json_schema", text=json.dumps(schema), whitespace=whitespace),
        recogniser=Pattern(pattern),
        samples=samples,
    )
