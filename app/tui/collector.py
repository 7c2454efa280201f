"""When Python's garbage collector looks at what: a look through everything stops the interface, and no key is echoed.

Invariant: objects that die young are always collected.
"""

import gc

_NEVER = 1_000_000_000
_usual: tuple[int, int, int] | None = None


def spare_what_is_there() -> None:
    """Leave alone for good what was made so far, such as all that was imported: a fifth of a second a look."""
    gc.freeze()


def spare_old(spared: bool) -> None:
    """Leave old objects alone, or do not any more: those of a reply of a megabyte take 35 ms a look.

    Does nothing where the collector has no generations (Python 3.14 and later).
    """
    global _usual
    if spared and _usual is None:
        _usual = gc.get_threshold()
        gc.set_threshold(*_usual[:2], _NEVER)
    elif not spared and _usual is not None:
        gc.set_threshold(*_usual)
        _usual = None
