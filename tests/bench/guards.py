"""What guards and landing cost: the engine's decode loop with them and without, interleaved.

    python tests/bench/guards.py [--rounds N] [--model GGUF]

Greedy, drafts off, SmolLM2 by default, the default budget, the same messages and the same context for all ways; the
cache is cut back to the prompt before each, so that only decoding is timed. A shape whose replies the guards change
would compare different work, so the streams are asserted to be equal. Prints seconds for a reply, and for every way
the median of the ratios to the bare constraint of the same round: that is what counts, absolute times are the
machine's. The last line times the parts alone, in microseconds a token.
"""

import argparse
import platform
import statistics
import time
from pathlib import Path

from app.models import resolve_model
from engine.decoding.decoder import Decoder, Round
from engine.decoding.guards import RunGuard
from engine.decoding.landing import Landing
from engine.decoding.processor import Structured
from engine.decoding.sampler import Sampler
from engine.decoding.tokens import TokenTable, token_table
from engine.drafting.source import NoDrafts
from engine.loading import load_engine
from engine.protocol import Load, Message, Sampling
from engine.turn import Engine
from grammars.describe import describe
from grammars.presets import presets
from grammars.spec import GrammarSpec

NAMES = ("city", "recipe", "invoice", "sql-select")
BUDGET = 1024
WAYS = ("bare", "guards", "landing", "both")


def structured(engine: Engine, shape: GrammarSpec, way: str) -> Structured:
    """Return the processor of one way; what a turn builds anew is built here."""
    known = engine.compiled(shape)
    made: Structured = engine.constraint(shape)
    if way in ("guards", "both") and known.guards is not None:
        made = RunGuard(made, guards=known.guards, vocabulary=engine.vocabulary)
    if way in ("landing", "both"):
        made = Landing(made, budget=BUDGET, endings=known.endings)
    return made


def reply(engine: Engine, shape: GrammarSpec, prompt: list[int], way: str) -> tuple[float, list[int]]:
    """Decode one reply; return the seconds from building the processor to the end, and its tokens."""
    engine.context.keep(len(prompt) - 1)
    started = time.perf_counter()
    structure = structured(engine, shape, way)
    sampler = Sampler(Sampling(temperature=0), seed=0, history=prompt, processors=[structure])
    decoder = Decoder(
        engine.context,
        sampler,
        structure=structure,
        source=NoDrafts(),
        end_ids=engine.vocabulary.end_ids,
        budget=BUDGET,
    )
    tokens = [each.token for step in decoder.run() if isinstance(step, Round) for each in step.tokens]
    return time.perf_counter() - started, tokens


def processor_microseconds(engine: Engine, shape: GrammarSpec, tokens: list[int]) -> float:
    """Return the time a token that admitting and committing a known reply takes, without a model."""
    structure = structured(engine, shape, "both")
    started = time.perf_counter()
    for token in tokens:
        if not structure.ahead().forced():
            structure.admit(token)
        structure.commit(token)
    return (time.perf_counter() - started) / len(tokens) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    path = Path(resolve_model(arguments.model))
    engine, ready = load_engine(Load(model=str(path), context=2048, threads=arguments.threads))
    print(f"{platform.machine()}, Python {platform.python_version()}, {path.name}, {ready.threads} threads")
    token_table(engine.vocabulary)
    started = time.perf_counter()
    TokenTable(engine.vocabulary)
    print(
        f"classes of {engine.vocabulary.size:,} tokens: {(time.perf_counter() - started) * 1e3:.0f} ms, once a model"
    )
    for name in NAMES:
        preset = presets()[name]
        shape = preset.spec()
        asked = Message(role="user", content=f"{preset.example_prompt}\n\n{describe(shape)}")
        prompt = list(engine.prompt([asked]).ids)
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        said: list[int] = []
        for number in range(arguments.rounds + 1):
            for way in WAYS[number % 4 :] + WAYS[: number % 4]:
                taken, tokens = reply(engine, shape, prompt, way)
                assert not said or tokens == said, "the ways wrote different replies"
                said = tokens
                if number:  # the first round warms up
                    seconds[way].append(taken)
        told = ", ".join(
            f"{way} {statistics.median(a / b for a, b in zip(seconds[way], seconds['bare'], strict=True)) - 1:+.1%}"
            for way in WAYS[1:]
        )
        alone = processor_microseconds(engine, shape, said)
        print(
            f"{name:11} {len(said):4} tokens, bare {statistics.median(seconds['bare']):.3f} s; {told}; "
            f"both alone {alone:.0f} us a token"
        )


if __name__ == "__main__":
    main()
