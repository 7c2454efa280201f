"""What a shape is: a value with a kind, a text and a content hash.

Knows nothing about models, tokens or files. Two specs with equal hashes force the same replies.
"""

import hashlib
import json
from contextlib import suppress
from typing import Literal

from pydantic import ConfigDict
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
class GrammarSpec:
    """A shape for one reply.

    `text` is a JSON Schema (key order is the order of the reply), a regular expression in Rust syntax that the
    whole reply matches, a Lark grammar in llguidance's dialect, or a JSON list of choices. `whitespace` applies to
    JSON only: `compact` writes none, `spaced` writes `, ` and `: `, `flexible` lets the model choose within a bound.
    `name` is a label for people and no part of the hash.
    """

    kind: Kind
    text: str
    whitespace: Whitespace = "compact"
    name: str | None = None

    @property
    def hash(self) -> str:
        """Return the SHA-256 (hex) of what decides the language; equal for schemas that differ in layout only."""
        text = self.text
        if self.kind in ("json_schema", "choice"):
            # What is no JSON is refused when it is compiled; here its raw text identifies it.
            with suppress(json.JSONDecodeError, RecursionError):
                text = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
        whitespace = self.whitespace if self.kind in ("json_schema", "lark") else ""
        return hashlib.sha256(
            f"{self.kind}\0{whitespace}\0{text}".encode("utf-8", "surrogatepass")
        ).hexdigest()
