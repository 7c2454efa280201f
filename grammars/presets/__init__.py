"""The shapes that come with the program, and the file format they share with a person's own shapes.

One JSON file a shape: `name`, `title`, `description`, `tags`, `example_prompt`, exactly one of
`json_schema`, `regex`, `lark` and `choices`, and optionally `whitespace` and `guards` (how far JSON without bounds may
go: `{"digits": 20, "blanks": 12, "string": 2000, "items": 200, "depth": 24}`, null takes one away). Key order of a
schema is kept: replies follow it. Every shipped preset is bounded: its longest compact reply has under 600 characters.
Their letters are Latin, so that no character takes more than two bytes and even one token a byte fits the
default budget.
"""

import json
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from grammars.schema import read_json, step
from grammars.spec import GrammarSpec, Guards, Kind, ShapeError, Whitespace

_BODIES: dict[str, Kind] = {
    "json_schema": "json_schema",
    "regex": "regex",
    "lark": "lark",
    "choices": "choice",
}


class Preset(BaseModel):
    """A named shape with what a person needs to choose it; `compile_grammar` checks its text, not this."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    title: Annotated[str, Field(min_length=1, max_length=200)]
    description: Annotated[str, Field(max_length=2_000)] = ""
    tags: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=100)] = []
    example_prompt: Annotated[str, Field(max_length=10_000)] = ""
    json_schema: dict[str, Any] | bool | None = None
    regex: str | None = None
    lark: str | None = None
    choices: list[str] | None = None
    whitespace: Whitespace = "compact"
    guards: Guards = Guards()

    @model_validator(mode="after")
    def _one_body(self) -> "Preset":
        given = [key for key in _BODIES if getattr(self, key) is not None]
        if len(given) != 1:
            found = f"both {' and '.join(given)}" if given else "none"
            raise ValueError(f"exactly one of {', '.join(_BODIES)} is needed; there is {found}")
        return self

    def spec(self) -> GrammarSpec:
        """Return the shape, named after the preset."""
        key = next(key for key in _BODIES if getattr(self, key) is not None)
        body = getattr(self, key)
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        return GrammarSpec(
            kind=_BODIES[key], text=text, whitespace=self.whitespace, guards=self.guards, name=self.name
        )


def parse_preset(text: str, name: str) -> Preset:
    """Read one preset file; `name` (of the file) must be the name inside.

    Raises ShapeError with the JSON path or `line:column`.
    """
    value = read_json(text)
    if not isinstance(value, dict):
        raise ShapeError("a preset is a JSON object", "$")
    try:
        preset = Preset.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "$"
        for key in first["loc"]:
            where = step(where, key)
        raise ShapeError(first["msg"].removeprefix("Value error, "), where) from None
    if preset.name != name:
        raise ShapeError(f"the name is {preset.name}, but the file is named {name}", "$.name")
    return preset


@cache
def _shipped() -> dict[str, Preset]:
    files = sorted(
        (file for file in resources.files(__name__).iterdir() if file.name.endswith(".json")),
        key=lambda file: file.name,
    )
    found = [
        parse_preset(file.read_text(encoding="utf-8"), file.name.removesuffix(".json")) for file in files
    ]
    return {preset.name: preset for preset in found}


def presets() -> dict[str, Preset]:
    """Return the shipped presets by name, in alphabetical order."""
    return dict(_shipped())
