"""Coroutines that wait, and may find their screen closed when they go on.

Textual ends the work of a node only after the widgets in it are gone: what comes to its end in between, because
someone pressed Escape or quit at that moment, looks for widgets in vain, which would end the program.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from textual.css.query import NoMatches
from textual.message_pump import MessagePump
from textual.widget import MountError

Node = TypeVar("Node", bound=MessagePump)
P = ParamSpec("P")


def until_closed(
    work: Callable[Concatenate[Node, P], Awaitable[None]],
) -> Callable[Concatenate[Node, P], Awaitable[None]]:
    """Decorate a coroutine method of a screen or widget: what it would still show when that is closed is let go.

    A node that no longer runs, or whose program ends, has lost its widgets or is losing them, and takes no new ones.
    """

    @wraps(work)
    async def run(node: Node, /, *given: P.args, **named: P.kwargs) -> None:
        try:
            await work(node, *given, **named)
        except (NoMatches, MountError):
            if node.is_running and node.is_attached:
                raise

    return run
