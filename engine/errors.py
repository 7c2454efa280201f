"""What can go wrong in the engine, as one tree; every text is written for the person.

EngineError
├── Aborted            the abort flag was raised during a forward
├── DecodeFailed       llama.cpp could not compute a forward
├── BrokenLogits       a row holds what is no number
├── AllTokensMasked    no token is legal: never goes on unconstrained
├── ConstraintError    the grammar library reported an error
├── SharedProcessor    two streams were given one processor
└── TurnRefused        a turn that cannot be started, with the kind of fault
    └── BudgetTooSmall what is left of the budget holds no ending of the shape
"""

from engine.events import FailureKind


class EngineError(Exception):
    """Base of all."""


class Aborted(EngineError):
    """The abort flag was raised during a forward."""


class DecodeFailed(EngineError):
    """llama.cpp could not compute a forward."""


class BrokenLogits(EngineError):
    """A row of logits holds what is no number."""


class AllTokensMasked(EngineError):
    """No token is legal at a free choice."""


class ConstraintError(EngineError):
    """The grammar library reported an error; it never leaves that state."""


class SharedProcessor(EngineError):
    """One processor was given to two streams, which would mix their states."""


class TurnRefused(EngineError):
    """A turn that cannot be started."""

    kind: FailureKind

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class BudgetTooSmall(TurnRefused):
    """The budget is below the shortest ending found; `needed` is that many tokens."""

    needed: int

    def __init__(self, budget: int, needed: int) -> None:
        super().__init__(
            "usage",
            f"The shortest reply found for this shape has {needed:,} tokens; the budget is {budget:,}.",
        )
        self.needed = needed
