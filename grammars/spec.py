"""What a shape is: a value with a kind, a text and a content hash.

Knows nothing about models, tokens or files. Two specs with equal hashes force the same replies.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

Kind = Literal["json_schema", "regex", "lark", "choice"]
Whitespace = Literal["compact", "spaced", "flexible"]


class ShapeError(ValueError):
    """A shape that cannot be used.

    `where` is a JSON path (`$.properties.age`), `line:column`, or empty; `why` is one sentence for the person.
    """

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where = where
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Guards:
    """How far JSON may go where its schema sets no bound; None takes a guard away.

    `digits` in a row in a number (two in an exponent), `blanks` in a row, `string` characters in a text, `items` in a
    list or members in an open object, `depth` of nested brackets. A guard never makes a reply impossible.
    """

    # Above 200 digits a number could leave what a double holds, and then no reader takes it.
    digits: Annotated[int, Field(ge=1, le=200)] | None = 20
    blanks: Annotated[int, Field(ge=1)] | None = 12
    string: Annotated[int, Field(ge=1)] | None = 2_000
    items: Annotated[int, Field(ge=1)] | None = 200
    depth: Annotated[int, Field(ge=1)] | None = 24

    @classmethod
    def off(cls) -> "Guards":
        """Return guards that guard nothing."""
        return cls(digits=None, blanks=None, string=None, items=None, depth=None)

    def own(self) -> dict[str, int | None]:
        """Return the values that are not the usual ones; `Guards(**own)` is the same again."""
        usual = asdict(Guards())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class GrammarSpec:
    """A shape for one reply.

    `text` is a JSON Schema (key order is the order of the reply), a regular expression in Rust syntax that the
    whole reply matches, a Lark grammar in llguidance's dialect, or a JSON list of choices. `whitespace` applies to
    JSON only: `compact` writes none, `spaced` writes `, ` and `: `, `flexible` lets the model choose within a bound.
    `guards` apply to JSON only. `name` is a label for people and no part of the hash.
    """

    kind: Kind
    text: str
    whitespace: Whitespace = "compact"
    guards: Guards = Guards()
    name: str | None = None

    @property
    def hash(self) -> str:
        """Return the SHA-256 (hex) of what decides the language; equal for schemas that differ in layout only."""
        text = self.text
        if self.kind in ("json_schema", "choice"):
            # What is no JSON is refused when it is compiled; here its raw text identifies it.
            with suppress(json.JSONDecodeError, RecursionError):
                text = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
        options = self.whitespace if self.kind in ("json_schema", "lark") else ""
        if options:  # the usual guards add nothing: kept chats hold hashes without them
            options += "".join(f" {name}={value}" for name, value in self.guards.own().items())
        return hashlib.sha256(f"{self.kind}\0{options}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
