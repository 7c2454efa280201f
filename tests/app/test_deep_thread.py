"""Shapes within the limits can be looked at beside the screen, however small the stacks of threads are."""

import json
import subprocess
import sys

SCRIPT = """
import asyncio, json, sys
from app.deep_thread import deeply
from app.shape_draft import ShapeDraft, look
draft = ShapeDraft(kind="lark", text=json.load(sys.stdin))
print(asyncio.run(deeply(look, draft)).usable)
"""


def test_a_grammar_as_deep_as_allowed_is_looked_at_in_a_process_with_small_threads() -> None:
    # With 2 MB, the usual stack of a thread where `ulimit -s unlimited` is set, this ended the interface.
    deep = "start: r0\n" + "".join(f'r{number}: "a" r{number + 1}\n' for number in range(990)) + 'r990: "b"\n'
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -s 2048; exec "$0" -c "$1"', sys.executable, SCRIPT],
        input=json.dumps(deep),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True\n")
