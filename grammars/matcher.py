"""Build llguidance matchers over plain bytes and walk texts through them.

Knows no model: the tokenizer's first 256 tokens are the bytes. Walking takes time linear in the text.
Matchers are cached as pristine copies and never handed out to be
changed (guidance-ai/llguidance: `reset` and `rollback` leave stale state behind).
"""

from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from grammars.spec import ShapeError

# For every matcher built, here and in the engine. Rows and items well above need; the lexer's fuel is
# llguidance's own default, because five times as much lets `a{1000000}` compute for seconds.
LIMITS = LLParserLimits(
    max_items_in_row=20_000,
    step_max_items=200_000,
    max_grammar_size=1_000_000,
    verbose_errors=False,
)


@cache
def byte_tokenizer() -> LLTokenizer:
    """Return the tokenizer whose first 256 tokens are the bytes; it stands for no model's vocabulary."""
    return LLTokenizer("byte")


@lru_cache(maxsize=64)
def pristine(grammar: str) -> LLMatcher:
    """Return a matcher to copy from. Raises ShapeError for a grammar that llguidance refuses."""
    matcher = LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=LIMITS)
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
