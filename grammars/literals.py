"""Tell whether a literal value fits a schema, without the validator: yes, no, or not known.

The lint asks this while a person types, and `jsonschema` takes a second to load. What cannot be decided here
(formats, references that go round, keywords of no draft) is None, and whoever asks must treat it so.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from grammars.keywords import in_draft, words
from grammars.patterns import found_in
from grammars.schema import Document
from grammars.spec import ShapeError

# Keywords that say nothing about a value, or that another keyword reads.
_SILENT = words(
    "$anchor $comment $defs $dynamicAnchor $id $recursiveAnchor $schema $vocabulary additionalItems contentEncoding "
    "contentMediaType contentSchema default definitions deprecated description else examples id maxContains "
    "minContains readOnly then title writeOnly x-guidance nullable example discriminator"
)


def same(left: Any, right: Any) -> bool:
    """Tell whether two JSON values are equal: `1` is `1.0`, but `true` is not `1`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def is_number(value: Any) -> bool:
    """Tell whether a value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_type(value: Any, name: Any) -> bool | None:
    """Tell whether a value is of a JSON Schema type; None for a type that there is not."""
    if name == "integer":
        return is_number(value) and value == int(value)
    if name == "number":
        return is_number(value)
    kinds = {"null": type(None), "boolean": bool, "string": str, "array": list, "object": dict}
    return isinstance(value, kinds[name]) if isinstance(name, str) and name in kinds else None


def fits(value: Any, schema: Any, document: Document) -> bool | None:
    """Tell whether a value fits a schema of the document, None where that is not known."""
    return _Judge(document).fits(value, schema)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    known: bool | None = True
    for verdict in verdicts:
        if verdict is False:
            return False
        known = known and verdict
    return known


def _not(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _any(verdicts: Iterable[bool | None]) -> bool | None:
    return _not(_all(_not(verdict) for verdict in verdicts))


class _Judge:
    def __init__(self, document: Document) -> None:
        self._document = document

    def fits(self, value: Any, schema: Any) -> bool | None:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or not self._document.spend():
            return None
        alone = self._document.draft <= 7 and "$ref" in schema
        keys = (
            ["$ref"]
            if alone
            else [key for key in schema if key not in _SILENT and in_draft(key, self._document.draft)]
        )
        try:
            return _all(self._keyword(value, key, schema) for key in keys)
        except (TypeError, ValueError, AttributeError, ShapeError, RecursionError):
            return None  # a keyword whose value is not what it should be, or a limit; others refuse those

    def _keyword(self, value: Any, key: str, schema: dict[str, Any]) -> bool | None:
        given = schema[key]
        if key == "type":
            return _any(is_type(value, name) for name in (given if isinstance(given, list) else [given]))
        if key == "enum" and not self._document.spend(len(given) // 20):
            return None
        if key in ("const", "enum"):
            return any(same(value, other) for other in (given if key == "enum" else [given]))
        if key in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = (
                self._document.target(schema, given)
                if key == "$ref"
                else self._document.dynamic_target(schema)
            )
            return self.fits(value, target[1]) if target else None
        if key == "allOf":
            return _all(self.fits(value, part) for part in given)
        if key == "anyOf":
            return _any(self.fits(value, part) for part in given)
        if key == "oneOf":
            found = [self.fits(value, part) for part in given]
            return False if found.count(True) > 1 else None if None in found else found.count(True) == 1
        if key == "not":
            return _not(self.fits(value, given))
        if key == "if":
            holds = self.fits(value, given)
            branches = [self.fits(value, schema.get(branch, True)) for branch in ("then", "else")]
            return (
                (branches[0] if branches[0] is branches[1] else None)
                if holds is None
                else branches[not holds]
            )
        if is_number(value):
            return self._number(value, key, schema)
        if isinstance(value, str):
            return self._string(value, key, given)
        if isinstance(value, list):
            return self._array(value, key, schema)
        if isinstance(value, dict):
            return self._object(value, key, schema)
        return True if key in _KNOWN else None

    def _number(self, value: Any, key: str, schema: dict[str, Any]) -> bool | None:
        given = schema[key]
        if key == "minimum":
            return value > given if schema.get("exclusiveMinimum") is True else value >= given
        if key == "maximum":
            return value < given if schema.get("exclusiveMaximum") is True else value <= given
        if key in ("exclusiveMinimum", "exclusiveMaximum"):
            return isinstance(given, bool) or (value > given if key == "exclusiveMinimum" else value < given)
        if key == "multipleOf":
            return Fraction(str(value)) % Fraction(str(given)) == 0
        return True if key in _KNOWN else None

    def _string(self, value: str, key: str, given: Any) -> bool | None:
        if key in ("minLength", "maxLength"):
            return len(value) >= given if key == "minLength" else len(value) <= given
        if key == "pattern":
            return found_in(given, value)
        return True if key in _KNOWN and key != "format" else None

    def _array(self, value: list[Any], key: str, schema: dict[str, Any]) -> bool | None:
        given = schema[key]
        if key in ("minItems", "maxItems"):
            return len(value) >= given if key == "minItems" else len(value) <= given
        if key == "prefixItems" or (key == "items" and isinstance(given, list)):
            more = value[len(given) :] if key == "items" else []
            return _all(
                [
                    *(self.fits(item, part) for item, part in zip(value, given, strict=False)),
                    *(self.fits(item, schema.get("additionalItems", True)) for item in more),
                ]
            )
        if key == "items":
            start = len(schema.get("prefixItems", ())) if self._document.draft >= 2020 else 0
            return _all(self.fits(item, given) for item in value[start:])
        if key == "contains":
            found = [self.fits(item, given) for item in value]
            least, most = found.count(True), len(found) - found.count(False)
            low, high = schema.get("minContains", 1), schema.get("maxContains", len(found))
            return True if least >= low and most <= high else False if most < low or least > high else None
        if key == "uniqueItems":
            return not given or not any(
                same(item, other) for at, item in enumerate(value) for other in value[:at]
            )
        return True if key in _KNOWN and not key.startswith("unevaluated") else None

    def _object(self, value: dict[str, Any], key: str, schema: dict[str, Any]) -> bool | None:
        given = schema[key]
        if key == "required":
            return given is True or all(name in value for name in given)
        if key in ("minProperties", "maxProperties"):
            return len(value) >= given if key == "minProperties" else len(value) <= given
        if key == "properties":
            return _all(self.fits(value[name], part) for name, part in given.items() if name in value)
        if key == "patternProperties":
            return _all(
                _any([_not(found_in(pattern, name)), self.fits(member, part)])
                for pattern, part in given.items()
                for name, member in value.items()
            )
        if key == "additionalProperties":
            return _all(
                _any([self._named(name, schema), self.fits(member, given)]) for name, member in value.items()
            )
        if key == "propertyNames":
            return _all(self.fits(name, given) for name in value)
        if key in ("dependentRequired", "dependentSchemas", "dependencies"):
            return _all(
                all(other in value for other in need) if isinstance(need, list) else self.fits(value, need)
                for name, need in given.items()
                if name in value
            )
        return True if key in _KNOWN and not key.startswith("unevaluated") else None

    def _named(self, name: str, schema: dict[str, Any]) -> bool | None:
        patterns = schema.get("patternProperties", {})
        return _any([name in schema.get("properties", {}), *(found_in(each, name) for each in patterns)])


_KNOWN = words(
    "additionalProperties contains dependencies dependentRequired dependentSchemas exclusiveMaximum "
    "exclusiveMinimum format items maxItems maxLength maxProperties maximum minItems minLength minProperties "
    "minimum multipleOf pattern patternProperties prefixItems properties propertyNames required "
    "unevaluatedItems unevaluatedProperties uniqueItems"
)
