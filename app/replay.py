"""What to tell the person about a replayed reply. Knows the engine's account of it and nothing of screens."""

from engine.events import Exactness, Token, Verification

_NUMERICS: dict[Exactness, str] = {
    "exact": "numerics are exact, so this should not be",
    "unverified": "numerics are meant to be exact but were not verified; `stampo doctor --probe` does that",
    "fast": "numerics are fast, which do not promise equality",
}


def describe_verification(verification: Verification) -> str:
    """Return a sentence or two: equal, or the first difference, how close the choice was, and the numerics."""
    total = f"{verification.total} token{'' if verification.total == 1 else 's'}"
    if verification.error is not None:
        return (
            f"The replay ended after {verification.compared} of {total}, equal so far: {verification.error}."
        )
    if verification.equal:
        return f"Replayed token by token: all {total} are equal."
    margin = (
        "" if verification.margin is None else f"; the two likeliest were {verification.margin:.3g} apart"
    )
    return (
        f"Replayed token by token: token {verification.compared + 1} of {total} differs, "
        f"{_text(verification.replied)} in the reply and {_text(verification.replayed)} in the replay{margin}; "
        f"{_NUMERICS[verification.exact]}."
    )


def _text(token: Token | None) -> str:
    return "the end" if token is None else repr(token.text)
