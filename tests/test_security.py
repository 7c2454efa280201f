"""SECURITY.md names a test for every promise, and every test it names exists."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
SECURITY = TESTS.parent / "SECURITY.md"
NAMED = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")


def promises() -> list[str]:
    text = SECURITY.read_text(encoding="utf-8")
    promised = text.split("## What is promised")[1].split("## What is not promised")[0]
    return [line for line in promised.splitlines() if line.startswith("- ")]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_promise_names_a_test() -> None:
    assert len(promises()) > 15
    assert [line for line in promises() if not NAMED.search(line)] == []


def test_every_named_test_exists() -> None:
    missing = []
    for line in promises():
        for file, name in NAMED.findall(line):
            path = TESTS / file
            if not path.is_file() or (name and name not in functions(path)):
                missing.append(f"{file}::{name}")
    assert missing == []
