"""Walk a compiled grammar byte by byte: what it accepts, and replies drawn from its masks."""

import json
import random

import numpy as np
from llguidance import LLMatcher

from grammars.compile import Grammar, compile_grammar
from grammars.matcher import byte_tokenizer, limits
from grammars.spec import GrammarSpec


def compiled(kind, text, **options) -> Grammar:
    """Compile a text, or anything else as JSON."""
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return compile_grammar(GrammarSpec(kind=kind, text=text, **options))


def matcher(grammar: Grammar) -> LLMatcher:
    fresh = LLMatcher(byte_tokenizer(), grammar.text, log_level=0, limits=limits())
    assert not fresh.is_error(), fresh.get_error()
    return fresh


def allowed(walked: LLMatcher) -> list[int]:
    """Return the ids that the mask allows; 0 to 255 are bytes."""
    mask = np.frombuffer(walked.compute_bitmask(), np.uint8)
    assert not walked.is_error(), walked.get_error()
    return np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist()


def accepts(grammar: Grammar, reply: str) -> bool:
    """Tell whether every byte of the reply is in the mask before it and the reply may end there."""
    walked = matcher(grammar)
    for byte in reply.encode():
        if byte not in allowed(walked) or not walked.consume_token(byte):
            return False
    return byte_tokenizer().eos_token in allowed(walked)


def draw(grammar: Grammar, seed: int, longest: int) -> str:
    """Return a reply of uniformly drawn bytes; fails above `longest` bytes."""
    dice, walked, reply = random.Random(seed), matcher(grammar), bytearray()
    while True:
        tokens = allowed(walked)
        assert tokens, "no legal byte"
        token = dice.choice(tokens)
        if token == byte_tokenizer().eos_token:
            return reply.decode()
        reply.append(token)
        assert len(reply) <= longest, reply[:100]
        assert walked.consume_token(token)
