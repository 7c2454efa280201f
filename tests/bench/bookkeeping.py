"""What the draft sources without a model cost: microseconds a committed token, and their memory.

    python tests/bench/bookkeeping.py [--tokens N] [--vocabulary N]

After conversations of 1,000, 10,000 and 30,000 tokens every source commits N more tokens, and for each of them does
all it ever does: learn the token, learn the likeliest successors from a row of logits, walk 4 guesses under a mask
that allows half of the vocabulary, hear how they did. Texts: prose-like (Zipf ids, a third of it copied from before),
and one token repeated, which has the longest chains of suffixes. A decoder walks once a forward, not once a token, so
this is an upper bound. Medians of batches of 50 tokens, the worst batch beside them; times are processor time of the
thread, which other programs disturb less.
"""

import argparse
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np

from engine.decoding.processor import Bits
from engine.drafting.memory import SchemaMemory
from engine.drafting.recycling import RecyclingSource, top_successors
from engine.drafting.source import DraftSource
from engine.drafting.suffix import TEXT_TOKENS, SuffixSource

LENGTHS = (1_000, 10_000, 30_000)
GUESSES = 4
BATCH = 50


def prose(count: int, vocabulary: int, seed: int = 1) -> list[int]:
    """Return ids with a Zipf distribution, about a third of them in spans copied from earlier."""
    random = np.random.default_rng(seed)
    text: list[int] = []
    while len(text) < count:
        if len(text) > 100 and random.random() < 0.3:
            at = int(random.integers(len(text) - 50))
            text += text[at : at + int(random.integers(5, 50))]
        else:
            text += (random.zipf(1.2, size=60) % vocabulary).tolist()
    return text[:count]


def run(count: int, _vocabulary: int) -> list[int]:
    """Return one id repeated."""
    return [7] * count


def walk(source: DraftSource, mask: Bits) -> None:
    """Walk as a draft does; a place without a guess is stepped over as a certain token."""
    steps = source.walk()
    submitted = 0
    for place in range(GUESSES):
        guess = steps.guess(mask)
        submitted += guess is not None
        steps.advance(place if guess is None else guess[0])
    source.feedback(submitted, submitted // 2)


def microseconds(work: Callable[[int], None], tokens: Sequence[int]) -> tuple[float, float]:
    """Return the median and the worst time a token over batches of tokens."""
    times = []
    for at in range(0, len(tokens), BATCH):
        batch = tokens[at : at + BATCH]
        started = time.thread_time()
        for token in batch:
            work(token)
        times.append((time.thread_time() - started) / len(batch) * 1e6)
    return statistics.median(times), max(times)


def bench(
    text: Callable[[int, int], list[int]], length: int, tokens: int, vocabulary: int
) -> list[tuple[str, float, float]]:
    """Return name, median and worst of every part."""
    random = np.random.default_rng(length)
    rows = (random.standard_normal((16, vocabulary)) * 4).astype(np.float32)
    mask = random.integers(0, 1 << 32, size=(vocabulary + 31) // 32, dtype=np.uint32)
    everything = text(length + tokens, vocabulary)
    past, new = everything[:length], everything[length:]
    suffix, recycling, memory = SuffixSource(), RecyclingSource(vocabulary), SchemaMemory()
    memory.remember([past[at : at + 300] for at in range(0, length, 300)])
    for source in (suffix, recycling, memory):
        source.begin(past)
    for token in set(past):
        recycling.observe_topk(token, random.integers(0, vocabulary, size=8).tolist())

    def learn_row(token: int) -> None:
        recycling.observe_topk(token, top_successors(rows[token % len(rows)]))

    parts: list[tuple[str, Callable[[int], None]]] = [("successors of a row", learn_row)]
    for source in (suffix, recycling, memory):

        def follow(token: int, source: DraftSource = source) -> None:
            source.observe((token,))
            walk(source, mask)

        parts.append((source.name, follow))
    return [(name, *microseconds(work, new)) for name, work in parts]


def megabytes(make: Callable[[], object]) -> float:
    """Return the memory that an object holds."""
    tracemalloc.start()
    kept = make()
    size = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    del kept
    return size


def filled_suffix(text: list[int]) -> SuffixSource:
    source = SuffixSource()
    source.observe(text)
    return source


def filled_memory(text: list[int]) -> SchemaMemory:
    source = SchemaMemory()
    replies = [text[at : at + 300] for at in range(0, len(text), 300)]
    source.remember(replies[: len(replies) // 2])
    source.remember(replies)
    return source


def filled_recycling(vocabulary: int) -> RecyclingSource:
    source = RecyclingSource(vocabulary)
    source.observe_topk(0, (1,))
    return source


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--vocabulary", type=int, default=49_152)
    arguments = parser.parse_args()
    vocabulary = arguments.vocabulary
    print(
        f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"vocabulary {vocabulary}, {arguments.tokens} tokens a line, {GUESSES} guesses a walk"
    )
    for text in (prose, run):
        for length in LENGTHS:
            parts = bench(text, length, arguments.tokens, vocabulary)
            total = sum(median for _, median, _ in parts)
            print(f"{text.__name__:5} after {length:6}: {total:6.1f} us a token = ", end="")
            print(", ".join(f"{name} {median:.1f} (worst {worst:.1f})" for name, median, worst in parts))
    for text in (prose, run):
        learned = text(30_000, vocabulary)
        started = time.thread_time()
        filled_suffix(learned)
        print(f"{text.__name__:5} prompt of 30,000 tokens learned in {time.thread_time() - started:.3f} s")
    full = prose(TEXT_TOKENS - TEXT_TOKENS // 64, vocabulary)
    print(
        f"memory at the bounds: suffix {megabytes(lambda: filled_suffix(full)):.1f} MB, "
        f"memory {megabytes(lambda: filled_memory(full)):.1f} MB, "
        f"recycling {megabytes(lambda: filled_recycling(vocabulary)):.1f} MB"
    )


if __name__ == "__main__":
    main()
