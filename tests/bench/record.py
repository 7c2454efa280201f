"""Time to one finished record: Stampo's engine against llama-cpp-python's own `response_format`, interleaved.

    python tests/bench/record.py [--rounds N] [--model GGUF]

Greedy, the same messages for all, SmolLM2 by default. Four ways: the engine with drafts (its memories are emptied
before every record, so that it has seen none), with forced spans only, the naive loop (a mask and a forward for every
token), and the peer. Each is run warm (the prompt is in the cache, as both programs keep it
between requests) and cold (caches emptied). Prints seconds to the finished record, their ratios, and where the
engine's own time goes. A ratio of one interleaved run is what counts; absolute times are the
machine's.
"""

import argparse
import json
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp

from app.models import resolve_model
from engine.decoding.constraint import Constraint, ConstraintLookahead
from engine.decoding.naive import naive
from engine.decoding.sampler import Sampler
from engine.drafting.drafts import Drafts
from engine.events import Finished
from engine.llama.context import LlamaContext
from engine.loading import load_engine
from engine.protocol import Generate, Load, Message, Sampling
from engine.turn import Engine
from grammars.check import check
from grammars.describe import describe
from grammars.spec import GrammarSpec

PROMPT = "Describe the city of Paris."
_TEXT = {"type": "string", "maxLength": 60}
_YEAR = {"type": "integer", "minimum": 0, "maximum": 2100}
_LANDMARK = {
    "type": "object",
    "properties": {"name": _TEXT, "built": _YEAR},
    "required": ["name", "built"],
    "additionalProperties": False,
}
RECORD = GrammarSpec(
    kind="json_schema",
    name="record of five fields and three landmarks, in keywords that every peer knows",
    text=json.dumps(
        {
            "type": "object",
            "properties": {
                "name": _TEXT,
                "country": _TEXT,
                "population": {"type": "integer", "minimum": 0, "maximum": 99999999},
                "founded": _YEAR,
                "known_for": _TEXT,
                "landmarks": {"type": "array", "items": _LANDMARK, "minItems": 3, "maxItems": 3},
            },
            "required": ["name", "country", "population", "founded", "known_for", "landmarks"],
            "additionalProperties": False,
        }
    ),
)
CONTEXT = 2048
GREEDY = Sampling(temperature=0, seed=0)


class Parts:
    """Seconds spent in chosen methods, nested calls counted once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._depth = 0

    def watch(self, owner: type, name: str, part: str) -> None:
        inner = getattr(owner, name)
        get = inner.fget if isinstance(inner, property) else inner

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return get(*args, **kwargs)
            self._depth += 1
            started = time.perf_counter()
            try:
                return get(*args, **kwargs)
            finally:
                self.seconds[part] += time.perf_counter() - started
                self._depth -= 1

        setattr(owner, name, property(timed) if isinstance(inner, property) else timed)

    @contextmanager
    def fresh(self) -> Iterator[None]:
        self.seconds.clear()
        yield


def request(shape: GrammarSpec, *, shown: bool) -> Generate:
    return Generate(
        turn=1,
        messages=(Message(role="user", content=PROMPT, shape=shape if shown else None),),
        shape=shape,
        sampling=GREEDY,
    )


def run_engine(engine: Engine, generate: Generate, cold: bool) -> Finished:
    if cold:
        engine.context.keep(0)
    learned = engine.drafts.gate
    engine.drafts = Drafts(engine.vocabulary.size)
    engine.drafts.gate = learned
    *_, last = engine.generate(generate)
    if not isinstance(last, Finished):
        raise SystemExit(f"the turn did not finish: {last}")
    return last


def run_naive(engine: Engine, generate: Generate, cold: bool) -> str:
    assert generate.shape is not None
    constraint = engine.constraint(generate.shape)
    prompt = engine.prompt(generate.messages).ids
    engine.context.keep(0 if cold else len(prompt))
    sampler = Sampler(GREEDY, seed=0, history=prompt, processors=[constraint])
    *tokens, _ = naive(
        engine.context,
        sampler,
        structure=constraint,
        end_ids=engine.vocabulary.end_ids,
        budget=generate.max_tokens,
    )
    return engine.vocabulary.text([committed.token for committed in tokens])  # type: ignore[union-attr]


def run_peer(peer: llama_cpp.Llama, shape: GrammarSpec, shown: bool, cold: bool) -> str:
    if cold:
        peer.reset()
        peer._ctx.kv_cache_clear()
    content = f"{PROMPT}\n\n{describe(shape)}" if shown else PROMPT
    answer: Any = peer.create_chat_completion(
        messages=[{"role": "user", "content": content}],
        response_format={"type": "json_object", "schema": json.loads(shape.text)},
        temperature=0,
        max_tokens=1024,
    )
    return answer["choices"][0]["message"]["content"]


def timed(run: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - started, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    path = resolve_model(arguments.model)
    shape = RECORD
    engine, ready = load_engine(Load(model=str(path), context=CONTEXT))
    engine.warm_up()
    peer = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_threads=ready.threads, verbose=False)
    print(
        f"{platform.machine()}, {ready.threads} threads, {path.name}, numerics {ready.exact}, "
        f"median of {arguments.rounds}"
    )

    parts = Parts()
    for owner, name, part in (
        (LlamaContext, "decode", "forward"),
        (Constraint, "process", "mask"),
        (Constraint, "ahead", "mask"),
        (Constraint, "commit", "mask"),
        (ConstraintLookahead, "forced", "mask"),
        (ConstraintLookahead, "ended", "mask"),
        (Sampler, "_choose", "choice"),
    ):
        parts.watch(owner, name, part)

    for shown, cold in ((False, False), (False, True), (True, False), (True, True)):
        generate = request(shape, shown=shown)
        run_peer(peer, shape, shown, cold)
        run_engine(engine, generate, cold)
        times: dict[str, list[float]] = defaultdict(list)
        shares: dict[str, list[float]] = defaultdict(list)
        finished = None
        for _ in range(arguments.rounds):
            with parts.fresh():
                seconds, finished = timed(run_engine, engine, generate, cold)
                times["stampo"].append(seconds)
                decoding = finished.stats.decode_s
                forward = parts.seconds["forward"] - finished.stats.prefill_s
                own = decoding - forward
                shares["own"].append(own / decoding)
                shares["mask"].append(parts.seconds["mask"] / decoding)
                shares["choice"].append(parts.seconds["choice"] / decoding)
                shares["bookkeeping"].append(
                    (own - parts.seconds["mask"] - parts.seconds["choice"]) / decoding
                )
            seconds, forced = timed(run_engine, engine, replace(generate, speculate=False), cold)
            times["forced spans only"].append(seconds)
            seconds, text = timed(run_naive, engine, generate, cold)
            times["naive"].append(seconds)
            if not text == finished.text == forced.text:
                raise SystemExit(f"the streams differ:\n{finished.text}\n{text}")
            seconds, text = timed(run_peer, peer, shape, shown, cold)
            times["response_format"].append(seconds)
        assert finished is not None
        stats = finished.stats
        print(f"\n{'cold' if cold else 'warm'}, shape {'shown to' if shown else 'hidden from'} the model")
        print(f"  record: {finished.text}  fits: {check(shape, finished.text).fits}")
        print(f"  peer's: {text.strip()}  fits: {check(shape, text).fits}")
        print(
            f"  {stats.reply_tokens} tokens, {stats.forced_tokens} forced, {stats.accepted_tokens} of "
            f"{stats.drafted_tokens} guesses accepted, {stats.forwards} forwards, {forced.stats.forwards} without "
            f"({stats.forwards / stats.reply_tokens:.2f} a token), prompt {stats.prompt_tokens} tokens"
        )
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name, seconds in medians.items():
            print(f"  {name:18}{seconds:6.3f} s   {seconds / medians['stampo']:5.2f} x stampo")
        own = ", ".join(f"{name} {statistics.median(values):.1%}" for name, values in shares.items())
        print(f"  engine time outside the forward, of decode time: {own}")
        print(
            f"  of which prompt reading {stats.prefill_s:.3f} s, decoding {stats.decode_s:.3f} s (last round)"
        )


if __name__ == "__main__":
    main()
