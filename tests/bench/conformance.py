"""Ask for 5,000 replies under 500 random schemas, and 100 of SmolLM2; print what is wrong with them.

    python tests/bench/conformance.py [--replies N] [--real N] [--first N]

Temperature 1.5, random models around three vocabularies, random budgets from the first ending up. A reply is judged by
`jsonschema` with formats checked and by a walk of the grammar over bytes (tests/conforming.py). Exits 1 if any
reply is at fault. Takes about half an hour on two cores; the tests run a part of it.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from anyschema import any_spec
from conforming import MODELS, Tally, run, tiny_engine

from app.models import starter_model
from engine.loading import load_engine
from engine.protocol import Load
from engine.turn import Engine

SCHEMAS = 500


def measure(name: str, engine: Engine, numbers: range) -> Tally:
    """Ask for replies; print how they ended, the slowest, and each fault."""
    tally, slowest = Tally(), 0.0
    for number in numbers:
        start = time.perf_counter()
        run(engine, any_spec(number % SCHEMAS), number=number, tally=tally)
        slowest = max(slowest, time.perf_counter() - start)
    print(f"{name}: {tally}; slowest {slowest:.1f} s", flush=True)
    for fault in tally.faults:
        print(f"  {fault[:600]}", flush=True)
    for reason, count in tally.refused.most_common():
        print(f"  {count} refused: {reason}", flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replies", type=int, default=5_000, help="of random models, together")
    parser.add_argument("--real", type=int, default=100, help="of SmolLM2")
    parser.add_argument("--first", type=int, default=0, help="number of the first reply")
    options = parser.parse_args()
    tallies = []
    with tempfile.TemporaryDirectory() as folder:
        share, rest = divmod(options.replies, len(MODELS))
        first = options.first
        for place, name in enumerate(MODELS):
            count = share + (place < rest)
            tallies.append(measure(name, tiny_engine(Path(folder), name), range(first, first + count)))
            first += count
    model = starter_model()
    if options.real and model is not None:
        engine = load_engine(Load(model=str(model), context=2048, threads=1))[0]
        tallies.append(measure("SmolLM2", engine, range(first, first + options.real)))
    replies = sum(tally.replies for tally in tallies)
    faults = sum(len(tally.faults) for tally in tallies)
    ends = sum((tally.finishes for tally in tallies), Counter[str]())
    shares = ", ".join(f"{end} {count / replies:.1%}" for end, count in ends.most_common())
    print(f"all: {replies} replies, {faults} at fault; {shares}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
