"""The table of file types: which weights give a batch of rows the bits of single rows, and under which settings.

    python tests/bench/file_types.py [--threads N]

Quantizes one tiny random model to every type with llama.cpp's own function and runs the numerics probe on each, under
the plan's settings and under three fixed ones. Prints a Markdown table and what of it engine/numerics.py does not say.
One process for each cell, because llama.cpp reads the switch of the tiled kernel once. The model is 256 wide, so that
K-quants apply, and every matrix has the type. With one thread the default attention is exact too: it splits a single
row's keys over threads. What is repacked depends on the processor, so a setting that is exact here with repacking need
not be so elsewhere.
"""

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from data import vocabulary
from gguf import GGMLQuantizationType
from tiny import write_tiny_model

from engine import gguf, probe
from engine.llama import library
from engine.llama.context import LlamaContext
from engine.llama.library import llama_cpp
from engine.llama.weights import Weights
from engine.numerics import NumericsPlan, matrices, plan

TYPES = {
    "F32": llama_cpp.LLAMA_FTYPE_ALL_F32,
    "F16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
    "BF16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q5_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_1,
    "Q5_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_0,
    "Q4_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_1,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "Q5_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "Q4_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "Q3_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q3_K_M,
    "Q2_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K,
    "IQ4_NL": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_NL,
    "IQ4_XS": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_XS,
}
_EXACT = NumericsPlan(exact=True, reason="", tiled=True, extra_buffers=True)
SETTINGS = {
    "default": replace(_EXACT, exact=False),
    "KV types": _EXACT,
    "KV types, no tiles": replace(_EXACT, tiled=False),
    "KV types, no tiles, no repacking": replace(_EXACT, tiled=False, extra_buffers=False),
}


def quantize(source: Path, target: Path, name: str) -> None:
    """Write every matrix of a model in a type."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = TYPES[name]
    params.pure = True
    params.nthread = 1
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if status != 0:
        raise SystemExit(f"{name}: llama.cpp could not quantize: {library.errors()}")


def examine(path: Path, chosen: NumericsPlan, threads: int) -> probe.Verdict:
    """Probe a model in this process."""
    if not chosen.tiled:
        os.environ["GGML_CPU_TILED_MM"] = "0"
    with Weights(path, extra_buffers=chosen.extra_buffers) as weights:
        context = LlamaContext(weights, length=probe.LENGTH, threads=threads, numerics=chosen)
        verdict = probe.probe(context, weights.vocab_size)
        context.close()
    return verdict


def examine_apart(path: Path, setting: str, threads: int) -> probe.Verdict:
    """Probe a model in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(path), setting, "--threads", str(threads)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return probe.Verdict(**json.loads(done.stdout))


def settings_of(chosen: NumericsPlan) -> str:
    return next(
        name
        for name, setting in SETTINGS.items()
        if (setting.exact, setting.tiled, setting.extra_buffers)
        == (chosen.exact, chosen.tiled, chosen.extra_buffers)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=library.physical_cores())
    parser.add_argument("--one", nargs=2, metavar=("GGUF", "SETTING"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        verdict = examine(Path(arguments.one[0]), SETTINGS[arguments.one[1]], arguments.threads)
        print(json.dumps({"exact": verdict.exact, "detail": verdict.detail}))
        return

    print(f"{platform.machine()}, {arguments.threads} threads, {library.version()}, {library.processor()}\n")
    print("| type | plan | under the plan | " + " | ".join(SETTINGS) + " |")
    print("| --- | --- | --- |" + " --- |" * len(SETTINGS))
    corrections: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        source = write_tiny_model(
            Path(folder) / "source.gguf",
            vocabulary("llama-spm"),
            layers=2,
            width=256,
            quantization=GGMLQuantizationType.F32,
        )
        for name in TYPES:
            path = source.with_name(f"{name}.gguf")
            quantize(source, path, name)
            types = matrices(gguf.read_header(path))
            if set(types.values()) != {name}:
                raise SystemExit(f"{name}: the file has matrices of type {sorted(set(types.values()))}")
            chosen = plan(types, "exact")
            verdicts = {setting: examine_apart(path, setting, arguments.threads) for setting in SETTINGS}
            path.unlink()
            planned = settings_of(chosen)
            seen = verdicts[planned]
            cells = ["exact" if verdict.exact else "differs" for verdict in verdicts.values()]
            print(
                f"| {name} | {planned} | {'exact' if seen.exact else 'fast'} | {' | '.join(cells)} |",
                flush=True,
            )
            if chosen.exact != seen.exact:
                corrections.append(
                    f"{name}: planned {'exact' if chosen.exact else 'fast'}, but {seen.detail}"
                )
            better = [setting for setting, verdict in verdicts.items() if verdict.exact]
            if better and better[0] != planned:
                corrections.append(f"{name}: exact already with: {better[0]}")
    print("\n" + ("\n".join(corrections) or "engine/numerics.py says the same."))


if __name__ == "__main__":
    main()
