"""What can be done when a path and its reply do not fit into the context: the choices, before anything is sent.

Pure: knows token counts, no messages, no engine and no screen. Invariants: the system prompt and the new message are
never dropped; what is dropped are whole turns, the oldest first, so that roles still alternate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST_REPLY = 16
_STEP = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOldest:
    """Leave out the oldest `turns` of the path, `messages` in all; `tokens` of the path are left."""

    turns: int
    messages: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShorterReply:
    """Ask for at most `tokens` of reply."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LargerContext:
    """Load the model again with a context of `tokens`."""

    tokens: int


Choice = DropOldest | ShorterReply | LargerContext


def choices(
    path: Sequence[int], *, system: int = 0, reply: int, context: int, largest: int
) -> tuple[Choice, ...]:
    """Return what would make a path fit; empty if it does already, or if nothing helps.

    `path` counts the tokens of each message from the oldest to the new one, user and reply in turn, without the
    `system` prompt, which is counted apart. `reply` is the wanted budget, `context` the length of the loaded context,
    `largest` the longest that memory and the model allow (`engine.memory.Need.largest_context`).
    """
    total = system + sum(path)
    if total + reply <= context:
        return ()
    found: list[Choice] = []
    left = total
    for place in range(2, len(path), 2):  # a turn is a message and its reply
        left -= path[place - 2] + path[place - 1]
        if left + reply <= context:
            found.append(DropOldest(turns=place // 2, messages=place, tokens=left))
            break
    if context - total >= SHORTEST_REPLY:
        found.append(ShorterReply(tokens=context - total))
    wanted = -(-(total + reply) // _STEP) * _STEP
    if wanted <= largest:
        found.append(LargerContext(tokens=wanted))
    return tuple(found)
