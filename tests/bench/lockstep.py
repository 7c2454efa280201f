"""Throughput of several replies in one batch against one after the other.

    python tests/bench/lockstep.py [--streams N] [--rounds N] [--model GGUF] [--threads N]

The same prompt, one seed after the other, both ways interleaved. Prints tokens a second of all replies together, by
wall and by processor time (which a busy machine disturbs less; read it with one thread), and their ratios. Stops if a
stream is not the reply alone.
"""

import argparse
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.models import resolve_model
from engine import lockstep
from engine.events import Finished
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.presets import presets
from grammars.spec import GrammarSpec

PROMPT = "Describe the city of Paris."
CONTEXT = 2048
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def request(shape: GrammarSpec | None, streams: int, budget: int) -> Generate:
    return Generate(
        turn=1,
        messages=(Message(role="user", content=PROMPT, shape=shape),),
        shape=shape,
        sampling=Sampling(temperature=0.8, seed=1),
        max_tokens=budget,
        speculate=False,
        streams=streams,
    )


def together(engine: Engine, generate: Generate) -> list[Finished]:
    found = [event for event in lockstep.generate(engine, generate) if isinstance(event, Finished)]
    return sorted(found, key=lambda finished: finished.stream)


def one_by_one(engine: Engine, generate: Generate) -> list[Finished]:
    found: list[Finished] = []
    for stream in range(generate.streams):
        alone = replace(generate, streams=1, sampling=Sampling(temperature=0.8, seed=1 + stream))
        if stream == 0:  # the later ones find the prompt in the cache
            engine.context.keep(0)
        *_, last = engine.generate(alone)
        if not isinstance(last, Finished):
            raise SystemExit(f"the turn did not finish: {last}")
        found.append(last)
    return found


def timed(
    run: Callable[[Engine, Generate], list[Finished]], engine: Engine, generate: Generate
) -> tuple[list[Finished], dict[str, float]]:
    started = {name: clock() for name, clock in CLOCKS.items()}
    found = run(engine, generate)
    return found, {name: clock() - started[name] for name, clock in CLOCKS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    path = resolve_model(arguments.model)
    engine, ready = load_engine(
        Load(model=str(path), context=CONTEXT, threads=arguments.threads, numerics="exact")
    )
    engine.warm_up()
    print(
        f"{platform.machine()}, {ready.threads} threads, {path.name}, numerics {ready.exact}, "
        f"median of {arguments.rounds}"
    )
    for name, shape, budget in (("city record", presets()["city"].spec(), 512), ("free reply", None, 48)):
        generate = request(shape, arguments.streams, budget)
        rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(arguments.rounds):
            alone, seconds = timed(one_by_one, engine, generate)
            batch, batch_seconds = timed(together, engine, generate)
            if [reply.tokens for reply in alone] != [reply.tokens for reply in batch]:
                raise SystemExit(f"{name}: a stream differs from the same reply alone")
            tokens = sum(reply.stats.reply_tokens for reply in alone)
            for clock in CLOCKS:
                rates[clock, "one by one"].append(tokens / seconds[clock])
                rates[clock, "together"].append(tokens / batch_seconds[clock])
        for clock in CLOCKS:
            one, many = (statistics.median(rates[clock, way]) for way in ("one by one", "together"))
            print(
                f"{name}, {arguments.streams} streams, {clock} time: {one:.1f} tokens a second one by one, "
                f"{many:.1f} together, {many / one:.2f} times as many"
            )


if __name__ == "__main__":
    main()
