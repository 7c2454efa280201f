"""Write what is said of the elements of an array.

llguidance knows the first elements and the rest; that elements differ, or that one of them is of a kind, is written by
naming arrays or places where there are few.
"""

import itertools
import math
from typing import Any

from grammars.complement import any_of
from grammars.keywords import words
from grammars.overlap import values
from grammars.rewrite.writer import Own, Rewriter, all_but
from grammars.schema import Schema, step

_MOST_ARRAYS = 400  # that a uniqueItems array is expanded to
_COST = 15  # steps for each array: about 2,600 in a document, of which llguidance takes no more
_MOST_CONTAINS = 8  # places at which the element that `contains` asks for may stand
_REPEATED = "repeated elements are not noticed while writing"
_COUNTED = words("items minItems maxItems")


def first(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write the first elements."""
    return Own({"prefixItems": _listed(writer, path, key, node)}) if writer.document.draft >= 2020 else True


def items(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Own:
    """Write the elements; a list of schemas is what `prefixItems` is called in older drafts."""
    if isinstance(node[key], list):
        return Own({"prefixItems": _listed(writer, path, key, node)})
    return Own({key: writer.over(step(path, key), node[key])})


def rest(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write the elements behind the first, as older drafts call them."""
    if not isinstance(node.get("items"), list):
        return True
    return Own({"items": writer.over(step(path, key), node[key])})


def _listed(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> list[Schema]:
    return [writer.over(step(step(path, key), at), part) for at, part in enumerate(node[key])]


def unique(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema | Own:
    """Write that no element stands there twice, by naming the arrays where there are few."""
    if node[key] is False:
        writer.rewrote(path, {key: False}, True, "it asks for nothing")
        return True
    least, most = int(node.get("minItems", 0)), node.get("maxItems")
    if most is not None and most <= 1:
        writer.rewrote(path, {key: True}, True, "one element cannot be there twice")
        return True
    plain = "prefixItems" not in node and not isinstance(node.get("items"), list)
    elements = values(node["items"], writer.document) if plain and "items" in node else None
    if elements is None:
        return writer.later(path, key, _REPEATED)
    most = min(int(most) if most is not None else len(elements), len(elements))
    sizes = range(least, most + 1)
    if (
        count := sum(math.perm(len(elements), size) for size in sizes)
    ) > _MOST_ARRAYS or not writer.document.spend(_COST * count):
        return writer.later(path, key, _REPEATED, {"maxItems": most})
    arrays = [list(some) for size in sizes for some in itertools.permutations(elements, size)]
    why = f"there are {count} such arrays"
    if node.get("type") == "array":  # the arrays say all that their elements and their number say
        before = {name: node[name] for name in node if name == key or name in _COUNTED}
        writer.rewrote(path, before, {"enum": arrays}, why)
        return Own({"enum": arrays}, instead=_COUNTED)
    after = any_of([all_but("array"), {"enum": arrays} if arrays else False])
    writer.rewrote(path, {key: True}, after, why)
    return after


def contains(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    """Write that an element of a kind is there, by the places at which it may stand."""
    least, most = node.get("minContains", 1), node.get("maxItems")
    if writer.document.draft < 2019:
        least = 1
    limited = writer.document.draft >= 2019 and "maxContains" in node
    if node[key] is False and least > 0:
        writer.rewrote(path, {key: False}, all_but("array"), "no array has such an element")
        return all_but("array")
    if least == 0 and not limited:
        writer.rewrote(path, {key: node[key]}, True, "none needs to be there")
        return True
    if least == 1 and not limited and most is not None and most <= _MOST_CONTAINS:
        inner, exact = writer.quietly(step(path, key), node[key])
        places: list[Schema] = [
            {"type": "array", "prefixItems": [*[True] * at, inner], "minItems": at + 1}
            for at in range(int(most))
        ]
        after = any_of([all_but("array"), *places])
        if exact:
            writer.rewrote(path, {key: node[key]}, after, "it stands at one of the places")
            return after
        return writer.later(path, key, "what it asks for cannot be written exactly", after)
    wider = {"minItems": int(least)} if least and node[key] is not False else True
    return writer.later(path, key, "an element of one kind among others is not waited for", wider)


def unevaluated(writer: Rewriter, path: str, key: str, node: dict[str, Any]) -> Schema:
    """Leave what holds for elements that nothing else looks at."""
    if node[key] is True:
        return True
    return writer.later(path, key, "what other parts look at is not known while writing")
