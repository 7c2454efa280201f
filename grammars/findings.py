"""What is said about a shape before its first token: findings, and the rewrites that were made.

Values only; who finds them stands in `lint`, `satisfiable` and `rewrite`.
"""

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know about a shape.

    An `error` means that the shape cannot be used, a `warning` that it may not mean what its author thinks, a
    `note` that something is worth knowing. `where` is a JSON path, a position (`line:column`) or empty; `code` is
    the keyword or a stable word for the kind of finding; `why` and `suggestion` are sentences for the person.
    """

    level: Level
    where: str
    code: str
    why: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A part of a schema that was put in other words for the grammar; the schema itself stays as it is.

    `before` holds the keywords that were taken away at `path` and `after` what stands in their place; `why` says
    why both accept the same documents.
    """

    path: str
    before: dict[str, Any]
    after: Any
    why: str
