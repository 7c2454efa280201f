"""Write down what a schema excludes, as a schema that llguidance can enforce.

Classical negation pushed down to the keywords: the complement of a conjunction is the alternative of the
complements, and so on. Where a keyword has no complement in JSON Schema the answer is wider than it should be
and says so; it is never too narrow. `domain` is a schema that holds anyway: the complement of one constant
among those of an `enum` is the others.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grammars.keywords import ASSERTIONS, TYPES, in_draft
from grammars.literals import is_number, same
from grammars.overlap import conjuncts, types_of, values
from grammars.schema import Document, Schema

_DEEPEST = 12
_MANY = 500  # values that are excluded one by one
_READ_BY_OTHERS = frozenset({"then", "else", "minContains", "maxContains", "additionalItems"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Complement:
    """A schema that every document outside another one fits; `exact` if no document fits both."""

    schema: Schema
    exact: bool


_EVERYTHING = Complement(schema=True, exact=False)


def any_of(options: list[Schema]) -> Schema:
    """Return the alternative of schemas in its shortest form."""
    options = [option for option in options if option is not False]
    if not options or True in [option for option in options if isinstance(option, bool)]:
        return bool(options)
    return options[0] if len(options) == 1 else {"anyOf": options}


def all_of(parts: list[Schema]) -> Schema:
    """Return the conjunction of schemas in its shortest form."""
    if any(part is False for part in parts):
        return False
    parts = [part for part in parts if part is not True and part != {}]
    return (parts[0] if parts else True) if len(parts) < 2 else {"allOf": parts}


def complement(
    node: Any, domain: Any, document: Document, over: Callable[[Any], Complement], way: tuple[int, ...] = ()
) -> Complement:
    """Return the complement of a schema within a domain.

    `over` puts a schema into the words of llguidance: what stands under a double negation is itself again.
    """
    if isinstance(node, bool):
        return Complement(schema=not node, exact=True)
    if not isinstance(node, dict) or id(node) in way or len(way) > _DEEPEST or not document.spend():
        return _EVERYTHING
    way = (*way, id(node))
    keys = ["$ref"] if document.draft <= 7 and "$ref" in node else list(node)
    options = [
        _keyword(key, node, domain, document, over, way)
        for key in keys
        if key in ASSERTIONS and key not in _READ_BY_OTHERS and in_draft(key, document.draft)
    ]
    return Complement(
        schema=any_of([option.schema for option in options]), exact=all(option.exact for option in options)
    )


def _keyword(
    key: str,
    node: dict[str, Any],
    domain: Any,
    document: Document,
    over: Callable[[Any], Complement],
    way: tuple[int, ...],
) -> Complement:
    given = node[key]
    if key == "type":
        return _types([given] if isinstance(given, str) else given, types_of(domain, document))
    if key in ("const", "enum"):
        return _literals([given] if key == "const" else given, domain, document)
    if key == "$ref":
        target = document.target(node, given)
        return complement(target[1], domain, document, over, way) if target else _EVERYTHING
    if key == "not":
        return over(given)
    if key in ("allOf", "anyOf"):
        found = [complement(part, domain, document, over, way) for part in given]
        join = any_of if key == "allOf" else all_of
        return Complement(
            schema=join([part.schema for part in found]), exact=all(part.exact for part in found)
        )
    if key == "properties":
        found = []
        for name, part in given.items():
            inner = complement(part, _member(domain, name, document), document, over, way)
            member = {"type": "object", "properties": {name: inner.schema}, "required": [name]}
            found.append(Complement(schema=False if inner.schema is False else member, exact=inner.exact))
        return Complement(
            schema=any_of([part.schema for part in found]), exact=all(part.exact for part in found)
        )
    if key == "required" and isinstance(given, list):
        absent: list[Schema] = [{"type": "object", "properties": {name: False}} for name in given]
        return Complement(schema=any_of(absent), exact=True)
    return _bound(key, given, node)


def _bound(key: str, given: Any, node: dict[str, Any]) -> Complement:
    """Return the complement of a keyword about numbers, lengths or counts; its type, where there is none."""
    draft4 = isinstance(node.get("exclusiveMinimum"), bool) or isinstance(node.get("exclusiveMaximum"), bool)
    beyond = {
        "minimum": "exclusiveMaximum",
        "maximum": "exclusiveMinimum",
        "exclusiveMinimum": "maximum",
        "exclusiveMaximum": "minimum",
    }
    if key in beyond and is_number(given) and not draft4:
        return Complement(schema={"type": "number", beyond[key]: given}, exact=True)
    for word, kind in (("Length", "string"), ("Items", "array"), ("Properties", "object")):
        if key == f"min{word}":
            below: Schema = {"type": kind, f"max{word}": int(given) - 1} if given > 0 else False
            return Complement(schema=below, exact=True)
        if key == f"max{word}":
            return Complement(schema={"type": kind, f"min{word}": int(given) + 1}, exact=True)
    if key == "uniqueItems" and given is False:
        return Complement(schema=False, exact=True)
    for kind, keys in _ABOUT.items():
        if key in keys:
            return Complement(schema={"type": kind}, exact=False)
    return _EVERYTHING


_ABOUT = {
    "string": ("pattern", "format"),
    "number": ("multipleOf",),
    "array": ("items", "prefixItems", "contains", "uniqueItems", "unevaluatedItems"),
    "object": (
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
    ),
}


def _types(given: list[str], domain: frozenset[str]) -> Complement:
    left = domain - set(given) - ({"integer"} if "number" in given else set())
    # What is left of numbers without the whole ones has no name: all numbers stay.
    exact = not ("integer" in given and "number" in left)
    if "number" in left:
        left -= {"integer"}
    if left == frozenset(TYPES) - {"integer"}:
        return Complement(schema=True, exact=exact)
    return Complement(schema=_typed(left), exact=exact)


def _typed(kinds: frozenset[str]) -> Schema:
    named = [kind for kind in TYPES if kind in kinds]
    return {"type": named[0] if len(named) == 1 else named} if named else False


def _literals(excluded: list[Any], domain: Any, document: Document) -> Complement:
    known = values(domain, document) if isinstance(domain, dict) else None
    if known is not None:
        left = [value for value in known if not any(same(value, other) for other in excluded)]
        return Complement(schema={"enum": left} if left else False, exact=True)
    kinds = types_of(domain, document)
    options: list[Schema] = []
    if len(excluded) > _MANY:
        return _EVERYTHING
    texts = [value for value in excluded if isinstance(value, str)]
    slashed = any("\\" in text for text in texts)  # llguidance takes a backslash for `[^\\]` in a pattern
    numbers = sorted({value for value in excluded if is_number(value)})
    flags = [value for value in excluded if isinstance(value, bool)]
    whole = {"string"} if texts else set()
    whole |= {"number", "integer"} if numbers else set()
    whole |= {"boolean"} if flags else set()
    whole |= {"null"} if None in excluded else set()
    plain = kinds - whole
    options.append(_typed(plain - {"integer"} if "number" in plain else plain))
    if texts and "string" in kinds:
        options.append(
            {"type": "string"} if slashed else {"type": "string", "pattern": pattern_without(texts)}
        )
    if numbers and "number" in kinds | ({"number"} if "integer" in kinds else set()):
        kind = "number" if "number" in kinds else "integer"
        edges = [None, *numbers, None]
        for low, high in itertools.pairwise(edges):
            bounds = {"exclusiveMinimum": low, "exclusiveMaximum": high}
            options.append({"type": kind} | {key: edge for key, edge in bounds.items() if edge is not None})
    if len(set(flags)) == 1 and "boolean" in kinds:
        options.append({"const": not flags[0]})
    return Complement(
        schema=any_of(options),
        exact=not slashed and not any(isinstance(value, dict | list) for value in excluded),
    )


def pattern_without(texts: list[str]) -> str:
    """Return an anchored pattern for every text but these, without look-around: a walk off the trie they form."""
    trie: dict[str, Any] = {}
    for text in texts:
        node = trie
        for letter in text:
            node = node.setdefault(letter, {})
        node[""] = {}
    return f"^(?:{_off(trie)})$"


def _off(node: dict[str, Any]) -> str:
    letters = sorted(letter for letter in node if letter)
    options = [] if "" in node else [""]
    if letters:
        options.append(f"[^{''.join(_escaped(letter) for letter in letters)}][\\s\\S]*")
        options += [f"{_escaped(letter)}(?:{_off(node[letter])})" for letter in letters]
    else:
        options.append("[\\s\\S]+")
    return "|".join(options)


def _escaped(letter: str) -> str:
    return f"\\{letter}" if re.fullmatch(r"[\\^$.*+?()\[\]{}|/&~-]", letter) else letter


def _member(domain: Any, name: str, document: Document) -> Any:
    """Return what the domain says of a member."""
    found = [
        part["properties"][name]
        for part in conjuncts(domain, document)
        if isinstance(part.get("properties"), dict) and name in part["properties"]
    ]
    return found[0] if len(found) == 1 else {"allOf": found} if found else True
