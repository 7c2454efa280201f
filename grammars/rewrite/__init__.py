"""Put a JSON Schema into the words that llguidance enforces, without changing what it means.

The result is one schema of draft 2020-12 whose references all lead into `$defs`. Every document that fits the
schema as given fits the result (apart from formats, whose patterns leave out rare spellings). Where a keyword
has no such words the result is wider, and the keyword is among `afterwards`: it is checked when the reply is
complete. Only positions that widen with their parts are touched, so dropping never narrows: what stands under
a `not` or an `if` is either complemented exactly or left out whole.

`writer` walks the schema and knows the keywords that only hold others; what else a keyword means stands in
`scalars`, `arrays`, `names` and `conditions`.
"""

from grammars.rewrite import arrays, conditions, names, scalars
from grammars.rewrite.writer import Keyword, Rewriter, Rewritten
from grammars.schema import Document

__all__ = ["Rewritten", "rewrite"]

_KEYWORDS: dict[str, Keyword] = {
    "pattern": scalars.pattern,
    "format": scalars.format_,
    **dict.fromkeys(scalars.NUMBERS, scalars.number),
    **dict.fromkeys(scalars.LENGTHS, scalars.length),
    "minProperties": names.least,
    "maxProperties": names.most,
    "properties": names.members,
    "patternProperties": names.patterns,
    "additionalProperties": names.others,
    "propertyNames": names.names,
    "unevaluatedProperties": names.unevaluated,
    "prefixItems": arrays.first,
    "items": arrays.items,
    "additionalItems": arrays.rest,
    "uniqueItems": arrays.unique,
    "contains": arrays.contains,
    "unevaluatedItems": arrays.unevaluated,
    "oneOf": conditions.one_of,
    "not": conditions.negation,
    "if": conditions.condition,
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), conditions.dependent),
}


def rewrite(document: Document, leave: frozenset[str] = frozenset()) -> Rewritten:
    """Rewrite a well-formed schema; every local reference leads somewhere.

    The keywords in `leave` are not written at all but left for afterwards.
    """
    return Rewriter(document, _KEYWORDS, leave).run()
