"""Walk a schema and write it anew, part by part.

Knows references and the keywords that only hold other schemas; every other keyword is a function that is handed in.
Invariant: no part is written narrower than it is. What several conditions of one part multiply to is bounded: a
condition that goes beyond is left for afterwards.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grammars.complement import Complement, all_of, complement
from grammars.findings import Finding, Rewrite
from grammars.keywords import ASSERTIONS, TYPES, in_draft, words
from grammars.overlap import values
from grammars.schema import Document, Schema, step

MOST_ALTERNATIVES = 64  # that one condition may multiply to
_MOST_TOGETHER = 256  # that the conditions of one part may; llguidance gives up at about 2,000

# What llguidance does not take; beside `enum` or `const` it decides which of the values are left.
_UNWRITTEN = words(
    "not if oneOf uniqueItems contains propertyNames dependentRequired dependentSchemas dependencies "
    "unevaluatedItems unevaluatedProperties"
)
_LITERAL = frozenset({"enum", "const"})
# Conditions that bring members of their own: where they stand before `properties`, theirs come first.
_ORDERING = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


class Own(dict[str, Any]):
    """Keywords that belong into the schema itself, because they and their neighbours read each other.

    `instead` names neighbours that they make superfluous.
    """

    def __init__(self, members: Mapping[str, Any], instead: frozenset[str] = frozenset()) -> None:
        super().__init__(members)
        self.instead = instead


Keyword = Callable[["Rewriter", str, str, dict[str, Any]], Schema | Own]
"""Writes one keyword: takes the rewriter, the path of the part, the keyword and the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A schema in the words of llguidance. `places` tells where each part of the original went, by its path."""

    schema: Schema
    rewrites: tuple[Rewrite, ...]
    afterwards: tuple[Finding, ...]
    places: dict[str, Schema]


class Rewriter:
    """What a keyword needs to be written: the document, the other parts, and a place to say what was done."""

    def __init__(self, document: Document, keywords: Mapping[str, Keyword], leave: frozenset[str]) -> None:
        self.document = document
        self._keywords = keywords
        self._leave = leave
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, Iterator[int]] = {}
        self._waiting: list[tuple[str, Any]] = []
        self._places: dict[str, Schema] = {}
        self._loose: set[str] = set()  # paths of parts whose conditions are all left for afterwards
        self._quiet = False
        self._rewrites: dict[tuple[str, str], Rewrite] = {}
        self._afterwards: dict[tuple[str, str], Finding] = {}

    def run(self) -> Rewritten:
        """Write the whole document."""
        schema = self.over("$", self.document.root)
        definitions: dict[str, Schema] = {}
        while self._waiting:
            path, node = self._waiting.pop()
            definitions[self._names[path]] = self.over(path, node)
        if definitions and isinstance(schema, dict):
            schema = {**schema, "$defs": definitions}
        return Rewritten(
            schema=schema,
            rewrites=tuple(self._rewrites.values()),
            afterwards=tuple(self._afterwards.values()),
            places=self._places,
        )

    def over(self, path: str, node: Any) -> Schema:
        """Return a schema that every document fits which fits this one."""
        if not isinstance(node, dict):
            return node
        if path not in self._places:
            if self._quiet and not self.document.spend():
                return self.later(path, "$", "the schema has too many conditions inside conditions")
            self._places[path] = self._over(path, node)
        return self._places[path]

    def quietly(self, path: str, node: Any) -> tuple[Schema, bool]:
        """Return a schema rewritten as one side of a condition, and whether it is exact."""
        kept = self._places, self._rewrites, self._afterwards, self._quiet
        self._places, self._rewrites, self._afterwards, self._quiet = {}, {}, {}, True
        try:
            return self.over(path, node), not self._afterwards
        finally:
            self._places, self._rewrites, self._afterwards, self._quiet = kept

    def outside(self, path: str, node: Any, domain: dict[str, Any]) -> tuple[Schema, bool]:
        """Return the complement of a schema, and whether it is exact."""

        def inside(part: Any) -> Complement:
            written, exact = self.quietly(f"{path} not", part)
            return Complement(schema=written, exact=exact)

        found = complement(node, domain, self.document, inside)
        return found.schema, found.exact

    def rewrote(self, path: str, before: dict[str, Any], after: Any, why: str) -> None:
        """Say that keywords were put in other words."""
        self._rewrites.setdefault(
            (path, ",".join(before)), Rewrite(path=path, before=before, after=after, why=why)
        )

    def later(self, path: str, key: str, why: str, wider: Schema = True) -> Schema:
        """Say that a keyword is checked afterwards; return what stands for it meanwhile."""
        where = step(path, key)
        self._afterwards.setdefault(
            (where, key), Finding(level="warning", where=where, code=key, why=why, suggestion=None)
        )
        return wider

    def _over(self, path: str, node: dict[str, Any]) -> Schema:
        if self.document.draft <= 7 and "$ref" in node:
            return self._reference(path, node, self.document.target(node, node["$ref"]))
        given = {key for key in node if key in ASSERTIONS and in_draft(key, self.document.draft)}
        if not given.isdisjoint(_LITERAL) and not given.isdisjoint(_UNWRITTEN):
            left = values(node, self.document)
            if left is not None:
                taken = {key: node[key] for key in node if key in given & (_UNWRITTEN | _LITERAL)}
                after: Schema = {"enum": left}
                self.rewrote(path, taken, after, "the values that are left can be named one by one")
                return after
        own: dict[str, Any] = {}
        superfluous: set[str] = set()
        before: list[Schema] = []
        behind: list[Schema] = []
        together = 1
        for key in node:
            if key not in given:
                continue
            said = self._said()
            written = self._keyword(path, key, node)
            if isinstance(written, Own):
                superfluous |= written.instead
                for name, value in written.items():
                    if name in own:  # a pattern beside the pattern of a format
                        behind.append({name: value})
                    else:
                        own[name] = value
                continue
            together *= alternatives(written)
            if together > _MOST_TOGETHER and key in _UNWRITTEN:
                together //= alternatives(written)
                self._unsay(said)
                written = self._too_many(path, key)
            if key in _ORDERING and "properties" in node and "properties" not in own:
                before.append(written)
            else:
                behind.append(written)
        for key in superfluous:
            own.pop(key, None)
        for key in _LITERAL:  # last: nothing may stand between keywords that read each other
            if key in own:
                own[key] = own.pop(key)
        return _joined(before, own, behind)

    def _keyword(self, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
        """Return what stands for one keyword: keywords of the schema itself, or a condition beside it."""
        given = node[key]
        if key in self._leave:
            return self.later(path, key, "cannot be joined with the rest of the schema while writing")
        if key in _UNWRITTEN and path in self._loose:
            return self._too_many(path, key)
        if key in ("type", "required") or key in _LITERAL:
            return Own({key: given})
        if key == "allOf":
            return self._all(path, given)
        if key == "anyOf":
            here = step(path, key)
            return {"anyOf": [self.over(step(here, at), part) for at, part in enumerate(given)]}
        if key == "$ref":
            return self._reference(path, node, self.document.target(node, given))
        if key in ("$dynamicRef", "$recursiveRef"):
            return self._dynamic(path, key, node)
        return self._keywords[key](self, path, key, node) if key in self._keywords else True

    def _all(self, path: str, given: list[Any]) -> Schema:
        """Write a conjunction; parts whose conditions would multiply beyond the bound lose them."""
        parts: list[Schema] = []
        together = 1
        for at, part in enumerate(given):
            here = step(step(path, "allOf"), at)
            if path in self._loose:
                self._loose.add(here)
            said = self._said()
            written = self.over(here, part)
            if together * alternatives(written) > _MOST_TOGETHER:
                self._unsay(said)
                self._loose.add(here)
                written = self.over(here, part)
            together *= alternatives(written)
            parts.append(written)
        return all_of(parts)

    def _too_many(self, path: str, key: str) -> Schema:
        return self.later(
            path, key, "has more alternatives with its neighbours than are followed while writing"
        )

    def _said(self) -> tuple[int, int, int]:
        return len(self._rewrites), len(self._afterwards), len(self._places)

    def _unsay(self, said: tuple[int, int, int]) -> None:
        """Forget what was written and said since."""
        for told, count in zip((self._rewrites, self._afterwards, self._places), said, strict=True):
            while len(told) > count:
                told.popitem()

    def _reference(self, path: str, node: dict[str, Any], target: tuple[str, Any] | None) -> Schema:
        if target is None:
            return self.later(path, "$ref", "leads nowhere")
        place, part = target
        if place == "$":
            return {"$ref": "#"}
        if place not in self._names:
            name = self._names[place] = self._new_name(place)
            self._waiting.append((place, part))
            if not re.fullmatch(r"\$\.(?:\$defs|definitions)\.[\w-]+", place):
                self.rewrote(
                    path,
                    {"$ref": node.get("$ref", "#")},
                    {"$ref": f"#/$defs/{name}"},
                    f"what stands at {place} is one definition",
                )
        return {"$ref": f"#/$defs/{self._names[place]}"}

    def _new_name(self, place: str) -> str:
        base = re.sub(r"\W+", "_", place.rpartition(".")[2]).strip("_") or "part"
        numbers = self._numbers.setdefault(base, itertools.count(2))
        name = base
        while name in self._taken:
            name = f"{base}_{next(numbers)}"
        self._taken.add(name)
        return name

    def _dynamic(self, path: str, key: str, node: dict[str, Any]) -> Schema:
        target = self.document.dynamic_target(node)
        if target is None:
            return self.later(path, key, "what it leads to depends on where the check comes from")
        written = self._reference(path, {"$ref": node[key]}, target)
        self.rewrote(path, {key: node[key]}, written, "only one part of the schema answers to that name")
        return written


def _joined(before: list[Schema], own: dict[str, Any], behind: list[Schema]) -> Schema:
    """Return the conjunction, in the order in which its members are to come."""
    before, behind = ([part for part in side if part is not True] for side in (before, behind))
    if False in [part for part in [*before, *behind] if isinstance(part, bool)]:
        return False
    sides = [part for part in [*before, *behind] if isinstance(part, dict)]
    keys = [key for part in sides for key in part]
    if set(keys) <= {"$ref", "allOf", "anyOf"} and len(set(keys)) == len(keys):
        merged: dict[str, Any] = {}
        for part in [*before, own, *behind]:
            merged |= part if isinstance(part, dict) else {}
        return merged
    return all_of([*before, own, *behind]) or True


def all_but(kind: str) -> Schema:
    """Return the schema of everything that is not of a type."""
    return {"type": [name for name in TYPES if name not in (kind, "integer")]}


def alternatives(schema: Schema) -> int:
    """Return how many alternatives a schema multiplies to at its own level."""
    if not isinstance(schema, dict):
        return 1
    found = sum(map(alternatives, schema["anyOf"])) if "anyOf" in schema else 1
    return found * math.prod(map(alternatives, schema.get("allOf", ())))
