"""Find in a usable JSON Schema what is ignored, what never comes to pass, and what a person may not expect.

Knows the keywords, the order of a reply and the guards; errors are told elsewhere.
"""

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

from grammars.findings import Finding
from grammars.fixes import renamed
from grammars.keywords import CHECKED_FORMATS, FOREIGN, KEYWORDS, in_draft, malformed, nearest, words
from grammars.literals import fits
from grammars.overlap import conjuncts, types_of
from grammars.schema import Document, below, step
from grammars.spec import Guards

_ABOUT = {
    "a text": ({"string"}, words("minLength maxLength pattern format")),
    "a number": (
        {"integer", "number"},
        words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    ),
    "a list": (
        {"array"},
        words("items prefixItems additionalItems minItems maxItems uniqueItems contains unevaluatedItems"),
    ),
    "an object": (
        {"object"},
        words(
            "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
            "dependentRequired dependentSchemas unevaluatedProperties"
        ),
    ),
}
_MANY = 500  # values of an enum that are looked at
_NEEDS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_DRAFTS = {2019: "2019-09", 2020: "2020-12"}


def habits(document: Document, guards: Guards) -> Iterator[Finding]:
    """Yield warnings and notes about every part that the root reaches; of a schema with broken parts only the words."""
    found = [(path, node) for path, node, _ in document.parts() if isinstance(node, dict)]
    sound = [(path, node) for path, node in found if not any(map(malformed, node, node.values()))]
    for path, node in sound:
        yield from _words(path, node, document)
        if len(sound) == len(found):
            yield from _never(path, node, document)
            yield from _order(path, node)
            yield from _unbounded(path, node, guards)
    if len(sound) == len(found):
        yield from _recursion(document, guards)


def _warning(where: str, code: str, why: str, suggestion: str | None = None) -> Finding:
    return Finding(level="warning", where=where, code=code, why=why, suggestion=suggestion)


def _note(where: str, code: str, why: str, suggestion: str | None = None) -> Finding:
    return Finding(level="note", where=where, code=code, why=why, suggestion=suggestion)


def _words(path: str, node: dict[str, Any], document: Document) -> Iterator[Finding]:
    draft = _DRAFTS.get(document.draft, str(document.draft))
    alone = document.draft <= 7 and "$ref" in node
    for key, value in node.items():
        where = step(path, key)
        if key == "x-guidance":
            yield _note(where, key, "is left out: white space and guards are options of the shape")
        elif key == "nullable":
            why = FOREIGN[key] if value is True else "is OpenAPI 3.0 and says nothing here"
            yield _warning(
                where, key, f"`nullable` {why}", _null_too(node) if value is True else "leave it out"
            )
        elif key in FOREIGN:
            meant = nearest(key)
            yield _warning(where, key, f"`{key}` {FOREIGN[key]}", f"use {meant}" if meant else None)
        elif key not in KEYWORDS and not key.startswith("x-"):
            meant = (renamed(node, key) or nearest(key)) if document.spend(100) else None
            ignored = f"`{key}` is no keyword of JSON Schema and is ignored"
            yield (
                _warning(where, key, ignored, f"did you mean `{meant}`?")
                if meant
                else _note(where, key, ignored)
            )
        elif not in_draft(key, document.draft):
            yield _warning(where, key, f"`{key}` means nothing in draft {draft} and is ignored")
        elif alone and key not in (
            "$ref",
            "$defs",
            "definitions",
            "$schema",
            "$id",
            "id",
            "title",
            "description",
            "$comment",
        ):
            yield _warning(
                where, key, f"beside `$ref` nothing counts in draft {draft}", "put the $ref into `allOf`"
            )
        elif key in _NEEDS and _NEEDS[key] not in node:
            yield _warning(where, key, f"`{key}` says nothing without `{_NEEDS[key]}`")
        elif key == "format" and value not in CHECKED_FORMATS:
            yield _warning(where, key, f"the format {value} is not known: it is neither enforced nor checked")
        elif (
            key == "pattern"
            and isinstance(value, str)
            and not (value.startswith("^") and value.endswith("$"))
        ):
            yield _note(
                where, key, "may match anywhere in the text", "anchor it with ^ and $ to mean the whole text"
            )
    kinds = types_of(node, document)
    for what, (about, keys) in _ABOUT.items():
        if "type" in node and kinds and kinds.isdisjoint(about):
            for key in [key for key in node if key in keys and not alone]:
                yield _warning(
                    step(path, key), key, f"`{key}` is about {what}, which `type` does not allow here"
                )


def _null_too(node: dict[str, Any]) -> str:
    kinds = node.get("type")
    if isinstance(kinds, str | list):
        named = [kinds] if isinstance(kinds, str) else kinds
        return f'write "type": {json.dumps([*named, "null"])}'
    return 'write "anyOf" with {"type": "null"}'


def _never(path: str, node: dict[str, Any], document: Document) -> Iterator[Finding]:
    """Find values and branches that can never be chosen."""
    others = {key: value for key, value in node.items() if key not in ("enum", "$ref")}
    for index, value in enumerate(node.get("enum", ())[:_MANY]):
        if fits(value, others, document) is False:
            where = step(step(path, "enum"), index)
            yield _warning(where, "enum", "this value is never chosen: the rest of the schema excludes it")
    closed = [
        part
        for part in conjuncts(
            {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}, document
        )
        if part.get("additionalProperties") is False and not part.get("patternProperties")
    ]
    if not closed:
        return
    known = set.intersection(*(set(part.get("properties", ())) for part in closed))
    for key in ("anyOf", "oneOf"):
        for index, branch in enumerate(node.get(key, ())):
            missing = [
                name
                for part in conjuncts(branch, document)
                for name in part.get("required", ())
                if name not in known
            ]
            if missing and types_of(branch, document) & types_of(node, document) <= {"object"}:
                yield _shut_out(step(step(path, key), index), key, missing[0])


def _shut_out(where: str, key: str, name: str) -> Finding:
    return _warning(
        where,
        key,
        f"this branch is never chosen: it requires `{name}`, which `additionalProperties: false` beside it shuts out",
        f"name `{name}` under `properties` beside the branches, or use `unevaluatedProperties`",
    )


def _order(path: str, node: dict[str, Any]) -> Iterator[Finding]:
    named, required = node.get("properties"), node.get("required")
    if not isinstance(named, dict):
        return
    required = required if isinstance(required, list) else []
    both = [name for name in required if name in named]
    written = [name for name in named if name in both]
    if both != written:
        yield _note(
            step(path, "required"),
            "required",
            f"the reply writes {_listed(written)} in this order, that of `properties` and not of `required`",
        )
    for name in [name for name in required if name not in named]:
        near = difflib.get_close_matches(name, [key for key in named if key not in required], n=1)
        tell = _warning if near else _note
        yield tell(
            step(path, "required"),
            "required",
            f"`{name}` is required but not under `properties`: anything may stand there, behind the named members",
            f"did you mean `{near[0]}`?" if near else f"describe `{name}` under `properties`",
        )
    if numeric := [name for name in named if re.fullmatch(r"0|[1-9]\d*", name)]:
        yield _note(
            step(path, "properties"),
            "properties",
            f"the key {numeric[0]} looks like a number: some readers, such as JavaScript, move it to the front",
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _unbounded(path: str, node: dict[str, Any], guards: Guards) -> Iterator[Finding]:
    if {"enum", "const", "$ref"} & node.keys():
        return
    kinds = node.get("type")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds) if isinstance(kinds, list) else set()
    if "string" in kinds and not {"maxLength", "pattern", "format"} & node.keys():
        yield _open(path, "maxLength", "a text of any length", guards.string, "characters")
    low = {"minimum", "exclusiveMinimum"} & node.keys()
    high = {"maximum", "exclusiveMaximum"} & node.keys()
    if kinds & {"integer", "number"} and not (low and high):
        yield _open(
            path,
            "maximum" if low or not high else "minimum",
            "a number of any size",
            guards.digits,
            "digits in a row",
        )
    if "array" in kinds and "maxItems" not in node and node.get("items") is not False:
        yield _open(path, "maxItems", "a list of any length", guards.items, "elements")
    if "object" in kinds and {"additionalProperties", "unevaluatedProperties", "maxProperties"}.isdisjoint(
        node
    ):
        yield _open(path, "additionalProperties", "members of its own may be added", guards.items, "members")


def _open(path: str, key: str, what: str, guard: int | None, unit: str) -> Finding:
    if guard is None:
        return _warning(path, key, f"{what}, and no guard ends it", None if key == "$ref" else f"add `{key}`")
    return _note(path, key, f"{what}; the guard ends it after {guard:,} {unit}")


def _recursion(document: Document, guards: Guards) -> Iterator[Finding]:
    """Find the parts that lead back to themselves through references."""
    leads: dict[str, set[str]] = {}
    waiting: list[tuple[str, Any]] = [("$", document.root)]
    while waiting:
        place, part = waiting.pop()
        if place in leads:
            continue
        targets = [
            document.target(node, node["$ref"])
            for node in below(part)
            if isinstance(node, dict) and isinstance(node.get("$ref"), str)
        ]
        leads[place] = {target[0] for target in targets if target}
        waiting += [target for target in targets if target]
    for place in leads:
        seen: set[str] = set()
        open_ = list(leads[place])
        while open_ and document.spend():
            if (target := open_.pop()) not in seen:
                seen.add(target)
                open_ += leads[target]
        if place in seen:
            yield _open(place, "$ref", "refers to itself, to any depth", guards.depth, "levels")
