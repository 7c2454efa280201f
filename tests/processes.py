"""The program as people start it, in real processes: the console script, and what is injected into every process.

`CONSOLE_SCRIPT` is what pip writes for the entry point, so that the tests need no installed script.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CONSOLE_SCRIPT = """\
import sys
from app.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""


def console_script(folder: Path) -> list[str]:
    """Return a command that starts the program as its console script does."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "stampo"
    script.write_text(CONSOLE_SCRIPT, encoding="utf-8")
    return [sys.executable, str(script)]


def run(
    command: list[str], *, folder: Path, environment: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder with no terminal, and with a little environment of its own."""
    return subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the test's environment with a home of its own."""
    return {**os.environ, "STAMPO_HOME": str(home), **more}
