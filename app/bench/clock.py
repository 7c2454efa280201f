"""Where the seconds go: objects that stand in for others and account the time spent in them.

Knows no engine. Seconds are processor time of the calling thread. Invariant: a second is accounted once, to the
innermost part that was at work. Standing in costs about a microsecond a call, which is part of what is measured: the
figures are upper bounds.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any


class Clock:
    """Seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = 0.0

    def part(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that does the same and is accounted to a part."""

        def timed(*arguments: Any, **named: Any) -> Any:
            outer, self._inner = self._inner, 0.0
            started = time.thread_time()
            try:
                return call(*arguments, **named)
            finally:
                whole = time.thread_time() - started
                self.seconds[name] += whole - self._inner
                self._inner = outer + whole

        return timed


class Timed:
    """Stands in for an object; what is asked of it is accounted to a part.

    What the methods named in `opens` return is stood in for as well.
    """

    def __init__(self, inner: Any, clock: Clock, part: str, opens: Collection[str] = ()) -> None:
        self._inner = inner
        self._clock = clock
        self._part = part
        self._opens = opens

    def __getattr__(self, name: str) -> Any:
        value = self._clock.part(self._part, getattr)(self._inner, name)
        if not callable(value):
            return value
        timed = self._clock.part(self._part, value)
        if name not in self._opens:
            return timed
        return lambda *arguments: Timed(timed(*arguments), self._clock, self._part)
