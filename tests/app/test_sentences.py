"""What Stampo says is said in sentences: a capital, a quote or an option's name in front, a full stop behind.

Read from the sources: the texts of errors that are written for the person, and of the calls that show or narrate one.
What is made of variables at an end is left to who made them; a fault of a shape is written as `where: why`, as
compilers do, and is none of these.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import app

FOLDER = Path(app.__file__).parent
ERRORS = {
    "BackupError",
    "EditorError",
    "NoModel",
    "OutputError",
    "PathError",
    "RefusedError",
    "SettingsFileError",
    "StoreError",
    "TextFileError",
}
CALLS = {"say", "_say", "refuse", "_refuse", "narrate", "notify", "_tell", "tell"}
TABLES = {"bench/report.py", "commands/doctor.py"}
"""Modules that print facts in rows."""

FILES = [file for file in sorted(FOLDER.rglob("*.py")) if str(file.relative_to(FOLDER)) not in TABLES]
SOMETHING = "\0"
"""What stands for a variable."""


def texts(node: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else SOMETHING for part in parts)
        case ast.IfExp(body=one, orelse=other):
            yield from (*texts(one), *texts(other))
        case ast.BoolOp(values=several):
            for value in several:
                yield from texts(value)


def said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that a module says, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ERRORS | CALLS:
                for text in texts(node.args[0]):
                    yield node.lineno, text


def is_sentence(text: str) -> bool:
    first, last = text[:1], text.rstrip()[-1:]
    return not text or ((first.isupper() or first in SOMETHING + "“'\"`/-") and last in SOMETHING + ".?!…")


def test_there_are_sentences_to_look_at() -> None:
    assert sum(1 for file in FILES for _ in said(ast.parse(file.read_text(encoding="utf-8")))) > 150


@pytest.mark.parametrize("text", ["no sentence.", "No sentence", "a {x}"])
def test_what_is_no_sentence_is_found(text: str) -> None:
    assert [each for _, each in said(ast.parse(f"self._say({text!r})")) if not is_sentence(each)] == [text]


def test_everything_that_is_said_is_a_sentence() -> None:
    faults = [
        f"{file.relative_to(FOLDER)}:{line}: {text!r}"
        for file in FILES
        for line, text in said(ast.parse(file.read_text(encoding="utf-8")))
        if not is_sentence(text)
    ]
    assert not faults, "\n".join(faults)
