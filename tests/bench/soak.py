"""A long life in compressed form: `python tests/bench/soak.py [TURNS] [SEED]`, 1,000 turns by default.

Prints what was played, how memory and open files went between the first fifth and the last tenth, and every turn that
differs from its replay on a fresh engine. Exits with 1 over a difference, a growth of memory above 5 % or of files.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from data import vocabulary
from soaking import soak
from tiny import write_tiny_model

MOST_GROWTH = 0.05


def main() -> None:
    """Run a soak and judge it."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STAMPO_HOME"] = folder
        model = write_tiny_model(Path(folder, "tiny.gguf"), vocabulary("llama-spm"), layers=2)
        report = asyncio.run(soak(model, turns, seed=seed))
    start, end = len(report.worker) // 5, len(report.worker) - len(report.worker) // 10
    growths = [report.growth(sizes, start, end) for sizes in (report.interface, report.worker)]
    files = [max(count[side] for count in report.files[start:end]) for side in (0, 1)]
    before = [max(count[side] for count in report.files[: start + 1]) for side in (0, 1)]
    print(
        f"{report.turns} turns in {time.monotonic() - started:.0f} s: {report.cancelled} cancelled, {report.edits} on "
        f"edited paths, {report.refused} refused (context full), {report.restarts} restarts"
    )
    for name, growth, sizes in zip(
        ("interface", "worker"), growths, (report.interface, report.worker), strict=True
    ):
        stretch = sizes[start:end]
        print(
            f"{name}: {stretch[0] / 1e6:.1f} MB at first, {stretch[-1] / 1e6:.1f} MB at last, growth {growth:+.1%}"
        )
    print(f"open files (interface, worker): {before} before, {files} after")
    print(f"differences from a fresh engine: {len(report.differences)}")
    for difference in report.differences[:10]:
        print(difference)
    sys.exit(bool(report.differences) or max(growths) > MOST_GROWTH or files > before)


if __name__ == "__main__":
    main()
