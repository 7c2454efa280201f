"""The independent validator, loaded when it is first needed.

`jsonschema` with its format checkers takes a second to import (one of them compiles a grammar of its own), so it is
loaded beside other work: `warm_up` starts that, `check` waits for it.
"""

import importlib
import threading
from typing import TYPE_CHECKING

from grammars.spec import GrammarSpec

if TYPE_CHECKING:
    from grammars.check import Verdict

__all__ = ["check", "warm_up"]


def warm_up() -> None:
    """Load the validator in the background; harmless when repeated."""
    threading.Thread(
        target=importlib.import_module, args=("grammars.check",), name="validator", daemon=True
    ).start()


def check(spec: GrammarSpec, reply: str) -> "Verdict":
    """Check a finished reply, as `grammars.check.check` does."""
    from grammars.check import check

    return check(spec, reply)
