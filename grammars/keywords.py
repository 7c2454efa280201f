"""The words of JSON Schema: which there are, what their values look like, and what people write instead.

Knows all drafts from 4 to 2020-12. A word that no draft has is ignored by every validator, so a misspelt one
silently allows everything; here it gets the nearest real one.
"""

import difflib
from collections.abc import Callable
from functools import lru_cache
from typing import Any


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

ANNOTATIONS = words(
    "$anchor $comment $defs $dynamicAnchor $id $recursiveAnchor $schema $vocabulary contentEncoding "
    "contentMediaType contentSchema default definitions deprecated description examples format id readOnly title "
    "writeOnly"
)
ASSERTIONS = words(
    "$dynamicRef $recursiveRef $ref additionalItems additionalProperties allOf anyOf const contains dependencies "
    "dependentRequired dependentSchemas else enum exclusiveMaximum exclusiveMinimum format if items maxContains "
    "maxItems maxLength maxProperties maximum minContains minItems minLength minProperties minimum multipleOf not "
    "oneOf pattern patternProperties prefixItems properties propertyNames required then type unevaluatedItems "
    "unevaluatedProperties uniqueItems"
)
KEYWORDS = ANNOTATIONS | ASSERTIONS

# What OpenAPI, form generators and editors add; none of it says anything to a JSON Schema validator.
FOREIGN = {
    "nullable": "is OpenAPI 3.0 and no JSON Schema: null is not allowed by it",
    "discriminator": "is OpenAPI and only a hint there: the branches are told apart by their constants",
    "example": "is OpenAPI; JSON Schema has `examples`, a list",
    "xml": "is OpenAPI and says nothing about JSON",
    "externalDocs": "is OpenAPI and says nothing about a reply",
    "optional": "is no keyword: a member is optional unless `required` names it",
    "min": "is no keyword",
    "max": "is no keyword",
    "length": "is no keyword",
    "values": "is no keyword",
    "choices": "is no keyword",
    "options": "is no keyword",
    "regex": "is no keyword",
    "extends": "is no keyword since draft 4",
    "divisibleBy": "is no keyword since draft 4",
    "disallow": "is no keyword since draft 4",
}
_MEANT = {
    "min": "minimum, minLength or minItems",
    "max": "maximum, maxLength or maxItems",
    "length": "minLength and maxLength",
    "values": "enum",
    "choices": "enum",
    "options": "enum",
    "regex": "pattern",
    "extends": "allOf",
    "divisibleBy": "multipleOf",
    "disallow": "not",
    "example": "examples",
    "optional": "required",
}

# Formats that llguidance writes, and those that can only be checked afterwards.
WRITTEN_FORMATS = words("date date-time duration email hostname ipv4 ipv6 time uri uuid")
CHECKED_FORMATS = WRITTEN_FORMATS | words(
    "idn-email idn-hostname iri iri-reference json-pointer regex relative-json-pointer uri-reference "
    "uri-template"
)

_number = (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number")
_count = (
    lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)
    ),
    "a whole number from 0 on",
)
_bound = (lambda value: isinstance(value, int | float), "a number")
_text = (lambda value: isinstance(value, str), "a text")
_schema = (lambda value: isinstance(value, dict | bool), "a schema")
_schemas = (
    lambda value: isinstance(value, list) and all(isinstance(item, dict | bool) for item in value),
    "a list of schemas",
)
_map = (
    lambda value: isinstance(value, dict) and all(isinstance(item, dict | bool) for item in value.values()),
    "an object of schemas",
)
_names = (
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "a list of names",
)
_list = (lambda value: isinstance(value, list), "a list")

_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("minimum", "maximum"), _number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _bound),
    **dict.fromkeys(
        words("minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains"),
        _count,
    ),
    **dict.fromkeys(words("pattern format $ref $dynamicRef $recursiveRef"), _text),
    **dict.fromkeys(
        words(
            "additionalItems additionalProperties contains if then else not propertyNames unevaluatedItems "
            "unevaluatedProperties"
        ),
        _schema,
    ),
    **dict.fromkeys(words("allOf anyOf oneOf prefixItems"), _schemas),
    **dict.fromkeys(words("properties patternProperties dependentSchemas"), _map),
    "multipleOf": (lambda value: _number[0](value) and value > 0, "a number above zero"),
    "items": (lambda value: _schema[0](value) or _schemas[0](value), "a schema or a list of schemas"),
    "required": _names,
    "enum": _list,
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "type": (
        lambda value: (
            value in TYPES
            if isinstance(value, str)
            else isinstance(value, list) and all(t in TYPES for t in value)
        ),
        f"one of {', '.join(TYPES)}, or a list of them",
    ),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(_names[0](item) for item in value.values()),
        "an object of lists of names",
    ),
    "dependencies": (
        lambda value: (
            isinstance(value, dict) and all(_names[0](item) or _schema[0](item) for item in value.values())
        ),
        "an object of schemas and lists of names",
    ),
}


def malformed(key: str, value: Any) -> str | None:
    """Return what a keyword's value should be if it is something else."""
    form = _FORMS.get(key)
    return None if form is None or form[0](value) else form[1]


@lru_cache(maxsize=4_096)
def nearest(word: str) -> str | None:
    """Return the keyword that a word is probably meant to be."""
    if word in _MEANT:
        return _MEANT[word]
    plain = {key.lower().lstrip("$"): key for key in sorted(KEYWORDS)}
    squeezed = word[:64].lower().lstrip("$").replace("_", "").replace("-", "")
    found = difflib.get_close_matches(squeezed, plain, n=1, cutoff=0.8)
    return plain[found[0]] if found else None


_SINCE = {
    6: words("const contains propertyNames"),
    7: words("if then else"),
    2019: words(
        "dependentRequired dependentSchemas minContains maxContains unevaluatedItems "
        "unevaluatedProperties $recursiveRef"
    ),
    2020: words("prefixItems $dynamicRef"),
}
_UNTIL = {7: words("dependencies"), 2019: words("additionalItems $recursiveRef")}


def in_draft(key: str, draft: int) -> bool:
    """Tell whether a keyword means something in a draft; validators ignore it in the others."""
    return not any(draft < first and key in keys for first, keys in _SINCE.items()) and not any(
        draft > last and key in keys for last, keys in _UNTIL.items()
    )
