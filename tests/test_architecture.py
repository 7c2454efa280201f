"""The rooms and who may enter which: imports run app -> engine -> grammars and never back."""

import ast
from collections.abc import Iterator
from pathlib import Path

import app
import engine
import grammars

ROOTS = {package.__name__: Path(package.__file__).parent for package in (app, engine, grammars)}


def imports(room: str) -> Iterator[tuple[Path, str]]:
    """Yield each file of a room with each module it imports, also inside functions."""
    for path in sorted(ROOTS[room].rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                yield path, node.module or ""


def offenders(room: str, forbidden: set[str]) -> list[str]:
    return [f"{path.name}: {module}" for path, module in imports(room) if module.split(".")[0] in forbidden]


def test_grammars_knows_neither_engine_nor_app() -> None:
    assert offenders("grammars", {"app", "engine", "llama_cpp", "textual"}) == []


def test_engine_knows_neither_app_nor_textual() -> None:
    assert offenders("engine", {"app", "textual", "typer", "rich"}) == []


def test_only_the_llama_room_touches_llama_cpp() -> None:
    found = {
        path.parent.name
        for room in ROOTS
        for path, module in imports(room)
        if "llama_cpp" in module.split(".")
    }
    assert found == {"llama"}


def test_only_the_interface_imports_textual() -> None:
    found = {path for path, module in imports("app") if module.split(".")[0] == "textual"}
    outside = [str(path) for path in found if "tui" not in path.parts]
    assert outside == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path)
        for root in ROOTS.values()
        for path in root.rglob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []
