"""Run the fuzz targets of tests/fuzz_targets.py for long: `python tests/bench/fuzz.py [INPUTS] [TARGET...]`.

Prints one line a target; a failure prints the smallest input that shows it and exits with 1.
"""

import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz_targets import TARGETS, fuzz


def main() -> None:
    """Run what the command line names, all targets with 10,000 inputs by default."""
    arguments = sys.argv[1:]
    examples = int(arguments.pop(0)) if arguments and arguments[0].isdecimal() else 10_000
    failed = False
    for name in arguments or list(TARGETS):
        started = time.monotonic()
        try:
            fuzz(name, examples, longest_s=1.0)
        except Exception:  # a finding: shown, and the next target runs
            traceback.print_exc()
            failed = True
        else:
            print(f"{name}: {examples:,} inputs, no finding, {time.monotonic() - started:.0f} s", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
