"""When Python's garbage collector looks at what: a look through everything stops the interface, and no key is echoed.

Invariant: objects that die young are always collected.
"""

import gc

_YOUNG, _MIDDLE, _OLD = gc.get_threshold()
_NEVER = 1_000_000_000


def spare_what_is_there() -> None:
    """Leave alone for good what was made so far, such as all that was imported: a fifth of a second a look."""
    gc.freeze()


def spare_old(spared: bool) -> None:
    """Leave old objects alone, or do not any more: those of a reply of a megabyte take 35 ms a look."""
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER if spared else _OLD)
