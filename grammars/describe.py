"""Put a shape into words for the model, to stand at the end of the user turn it applies to.

Knows no model. A JSON Schema is shown as the outline of a reply, not as a schema: the shape is enforced
anyway, and a small model copied the schema's own words into its answer. The city preset costs SmolLM2
54 prompt tokens as an outline and 274 as a schema.
"""

import json
from typing import Any

from grammars.compile import choices
from grammars.schema import Schema, read_json, resolve
from grammars.spec import GrammarSpec

_SCALARS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
_WRITTEN_OUT = 4  # a list of exactly this many elements or fewer is written out
_LONGEST = 8_000  # characters; above it the outline would crowd out the conversation


def describe(spec: GrammarSpec) -> str:
    """Return the text that tells a model the shape. Raises ShapeError for JSON that cannot be read."""
    if spec.kind == "json_schema":
        schema = read_json(spec.text)
        outline = _Outline(schema).of(schema, ())
        return f"Answer in JSON like this:\n{_shortened(outline)}"
    if spec.kind == "choice":
        words = " or ".join(json.dumps(text, ensure_ascii=False) for text in choices(spec))
        return f"Answer only with {_shortened(words)}, without the quotes."
    if spec.kind == "regex":
        return f"Answer only with text that matches this regular expression:\n{_shortened(spec.text)}"
    return f"Answer only with text in this Lark grammar:\n{_shortened(spec.text.strip())}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class _Outline:
    """Write schemas as `{"name": text, "tags": [text, ...]}`, each local reference once on a way down."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._room = _LONGEST  # a schema may refer to one part from many; stop writing when nobody reads on

    def of(self, schema: Any, way: tuple[str, ...]) -> str:
        if not isinstance(schema, dict) or self._room <= 0:
            return "anything"
        text = self._shape(schema, way)
        description = schema.get("description")
        if (
            isinstance(description, str)
            and len(description) <= 100
            and way
            and not text.startswith(("{", "["))
        ):
            text = f"{text} ({' '.join(description.split())})"
        self._room -= len(text) if text[:1] not in "{[" else 0
        return text

    def _shape(self, schema: dict[str, Any], way: tuple[str, ...]) -> str:
        if "const" in schema:
            return json.dumps(schema["const"], ensure_ascii=False)
        if isinstance(schema.get("enum"), list):
            return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        if isinstance(reference := schema.get("$ref"), str):
            target = resolve(self._root, reference)
            if target is None or target[0] in way:
                return "the same again" if target else "anything"
            return self.of(target[1], (*way, target[0]))
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(key), list) and "properties" not in schema:
                return (" and " if key == "allOf" else " or ").join(
                    self.of(part, way) for part in schema[key]
                )
        kind = schema.get("type")
        if isinstance(kind, list):
            return " or ".join(self._shape({**schema, "type": name}, way) for name in kind)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, way)
        if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
            return self._array(schema, way)
        text = _SCALARS.get(kind, "anything") if isinstance(kind, str) else "anything"
        if isinstance(form := schema.get("format"), str):
            return f"{text} ({form})"
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, int) and isinstance(high, int) and max(abs(low), abs(high)) <= 1000:
            return f"{text} from {low} to {high}"
        return text

    def _object(self, schema: dict[str, Any], way: tuple[str, ...]) -> str:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        members = [
            f"{json.dumps(name, ensure_ascii=False)}: {self.of(child, (*way, 'member'))}"
            + ("" if name in required else " (optional)")
            for name, child in properties.items()
        ]
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            members.append(f"...: {self.of(more, (*way, 'member'))}")
        elif not properties and more is not False:
            members.append("...")
        return "{" + ", ".join(members) + "}"

    def _array(self, schema: dict[str, Any], way: tuple[str, ...]) -> str:
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        elements = [self.of(child, (*way, "element")) for child in first]
        items = schema.get("items", True)
        if items is not False and not isinstance(items, list):
            element = self.of(items, (*way, "element"))
            count = schema.get("minItems")
            if isinstance(count, int) and count == schema.get("maxItems") and count <= _WRITTEN_OUT:
                elements += [element] * (count - len(elements))
            else:
                elements += [element, "..."]
        return f"[{', '.join(elements)}]"
