"""Build llguidance matchers over plain bytes and walk texts through them.

Knows no model: the tokenizer's first 256 tokens are the bytes. Walking takes time linear in the text.
Matchers are cached as pristine copies and never handed out to be
changed (guidance-ai/llguidance: `reset` and `rollback` leave stale state behind).
"""

from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from grammars.spec import ShapeError

# Rows and items well above need; the lexer's fuel is llguidance's own default, because five times as much lets
# `a{1000000}` compute for seconds.
_USUAL = LLParserLimits(max_items_in_row=20_000, step_max_items=200_000, max_grammar_size=1_000_000)
_WORK = (
    "max_items_in_row",
    "step_max_items",
    "max_grammar_size",
    "initial_lexer_fuel",
    "step_lexer_fuel",
    "max_lexer_states",
)


class _Effort:
    """How much work a shape may cost in this process, as what llguidance takes."""

    limits = LLParserLimits(**{name: getattr(_USUAL, name) for name in _WORK}, verbose_errors=False)


def limits() -> LLParserLimits:
    """Return the limits for every matcher that is built, here and in the engine."""
    return _Effort.limits


def allow_effort(times: int) -> None:
    """Let a shape cost so many times the usual work, in this process from now on; 1 answers within a second."""
    wanted = {name: min(getattr(_USUAL, name) * times, 2**31 - 1) for name in _WORK}
    if any(getattr(_Effort.limits, name) != value for name, value in wanted.items()):
        _Effort.limits = LLParserLimits(**wanted, verbose_errors=False)
        pristine.cache_clear()


@cache
def byte_tokenizer() -> LLTokenizer:
    """Return the tokenizer whose first 256 tokens are the bytes; it stands for no model's vocabulary."""
    return LLTokenizer("byte")


@lru_cache(maxsize=64)
def pristine(grammar: str) -> LLMatcher:
    """Return a matcher to copy from. Raises ShapeError for a grammar that llguidance refuses."""
    matcher = LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=limits())
    if matcher.is_error():
        raise ShapeError(matcher.get_error().split("\n", 1)[0])
    return matcher


def walk(grammar: str, text: str) -> tuple[int, bool]:
    """Return how many characters of the text the grammar takes, and whether the text is complete.

    Raises ShapeError where a limit of llguidance stops the walk.
    """
    matcher = pristine(grammar).deep_copy()
    data = text.encode(errors="surrogatepass")  # a lone surrogate is no UTF-8, so no grammar takes it
    taken = matcher.try_consume_tokens(list(data))
    if matcher.is_error():
        raise ShapeError(matcher.get_error().split("\n", 1)[0])
    if taken < len(data):
        return len(data[:taken].decode(errors="ignore")), False
    return len(text), matcher.is_accepting()
