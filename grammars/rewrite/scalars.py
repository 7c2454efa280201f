"""Write what is said of texts and numbers, and of counts.

Bounds that llguidance cannot write are left for afterwards only where they exclude next to nothing; the others are
refused, because no reply would fit by chance.
"""

import json
import re
from functools import lru_cache
from typing import Any

from llguidance import LLMatcher

from grammars.formats import EXACT
from grammars.keywords import CHECKED_FORMATS, WRITTEN_FORMATS
from grammars.literals import is_number
from grammars.matcher import limits
from grammars.patterns import unwritten, written
from grammars.rewrite.writer import Own, Rewriter
from grammars.schema import Schema

NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
MOST_MULTIPLE = 10_000  # llguidance takes 0.7 s for 100,000
LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")


def pattern(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write a pattern, or leave it for afterwards where it uses what llguidance lacks."""
    given = node[key]
    if construct := unwritten(given):
        return writer.later(path, key, f"{construct} cannot be enforced while writing")
    if re.search(r"\[\^[^\]]*\\\\", given):
        writer.later(path, key, "a backslash that it excludes may be written all the same")
    return Own({key: written(given)})


def format_(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write a format, as a pattern where llguidance's own is too wide."""
    name = node[key]
    if name in EXACT:
        return Own(EXACT[name])
    if name in WRITTEN_FORMATS:
        return Own({key: name})
    if name not in CHECKED_FORMATS:
        return True  # nobody checks it either
    return writer.later(path, key, f"the format {name} cannot be enforced while writing")


def number(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write a bound or a factor; draft 4 has booleans beside the bounds."""
    given = node[key]
    if isinstance(given, bool):
        return True
    if key == "multipleOf" and given > MOST_MULTIPLE:
        return writer.later(path, key, "is too large to be enforced while writing")
    if not _plain(given) and _harmless(key, given) and not _taken(key, float(given)):
        return writer.later(path, key, "has too many digits to be enforced while writing")
    if key in ("minimum", "maximum") and node.get(f"exclusive{key.capitalize()}") is True:
        key = f"exclusive{key.capitalize()}"
    return Own({key: given})


def _plain(given: Any) -> bool:
    return is_number(given) and (given == 0 or 1e-6 <= abs(given) <= 1e15)


def _harmless(key: str, given: float) -> bool:
    """Tell whether a bound or factor of extreme size excludes next to nothing."""
    if key == "multipleOf":
        return given < 1
    return given < -1e15 if "inimum" in key else given > 1e15


@lru_cache(maxsize=256)
def _taken(key: str, given: float) -> bool:
    """Tell whether llguidance takes the number."""
    grammar = json.dumps({"grammars": [{"json_schema": {"type": "number", key: given}}]})
    return not LLMatcher.validate_grammar(grammar, limits=limits())


def length(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Own:
    """Write a count, which may stand there as `2.0`."""
    return Own({key: int(node[key])})
