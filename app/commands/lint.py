"""`stampo lint`: what there is to know about a shape before a model sees it. Standard output is data.

No model is loaded and nothing is stored. Exits with 0 if the shape can be used, whatever else is said about it, and
with 2 if it cannot.
"""

import re
import textwrap
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.commands.texts import read_text, text_of
from app.terminal import emit, json_text, narrate, one_line, printable, refuse
from grammars.compile import compile_grammar
from grammars.findings import Finding
from grammars.fixes import fixed
from grammars.lint import lint as findings_of
from grammars.presets import parse_preset
from grammars.schema import read_json
from grammars.spec import GrammarSpec, Kind, ShapeError, Whitespace

_WIDTH = 80
_ALIKE = 5  # findings of one kind that are written out
_BODIES = {"json_schema", "regex", "lark", "choices"}


def lint(
    source: Annotated[
        str,
        typer.Argument(metavar="SHAPE", help="@FILE, the shape itself, or - for standard input."),
    ],
    kind: Annotated[
        Kind | None, typer.Option("--kind", "-k", help="What the text is; told from the text by default.")
    ] = None,
    whitespace: Annotated[Whitespace, typer.Option("--whitespace", help="Between JSON tokens.")] = "compact",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Print the shape with the offered fixes.")] = False,
) -> None:
    """Say what is wrong with a shape, what is checked only afterwards, and what may surprise."""
    if fix and as_json:
        refuse("--fix prints the shape and --json the findings: give one of them.")
    spec = _spec(_text(source), kind, whitespace)
    if fix:
        _print_fixed(spec)
        return
    found = findings_of(spec)
    usable = all(finding.level != "error" for finding in found)
    emit(_as_json(spec, found, usable) if as_json else _as_text(found))
    if not as_json:
        narrate(_verdict(found, usable))
    if not usable:
        raise typer.Exit(2)


def _text(source: str) -> str:
    if source == "-":
        return read_text("-")
    if source.startswith("@") and not source.startswith("@@"):
        return read_text(source[1:])
    return text_of(source[1:] if source.startswith("@@") else source, "SHAPE")


def _spec(text: str, kind: Kind | None, whitespace: Whitespace) -> GrammarSpec:
    """Return the shape that a text is: of the kind that is named, a preset's, or the kind that it looks like."""
    if kind is None:
        try:
            value = read_json(text)
        except ShapeError:
            # What begins like JSON is a schema with a mistake in it, whose place is told.
            kind = "json_schema" if text.lstrip()[:1] in "{[" else _kind_of_text(text)
        else:
            if (
                isinstance(value, dict)
                and not _BODIES.isdisjoint(value)
                and {"name", "title"} <= value.keys()
            ):
                return _preset(text, value)
            texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
            kind = "choice" if texts else "json_schema"
        if kind != "json_schema":
            narrate(f"Taken for the kind {kind}; --kind says otherwise.")
    return GrammarSpec(kind=kind, text=text, whitespace=whitespace)


def _kind_of_text(text: str) -> Kind:
    return "lark" if re.search(r"^\s*[?!]?start\s*(\[.*\])?\s*:", text, re.MULTILINE) else "regex"


def _preset(text: str, value: dict[str, Any]) -> GrammarSpec:
    name = value.get("name")
    try:
        return parse_preset(text, name if isinstance(name, str) else "").spec()
    except ShapeError as error:
        refuse(f"The shape cannot be used: {error}.")


def _print_fixed(spec: GrammarSpec) -> None:
    try:
        better = fixed(spec)
    except ShapeError as error:
        refuse(f"The shape cannot be fixed: {error}.")
    emit(better.text.rstrip("\n") + "\n")
    narrate("There is nothing to fix." if better is spec else "Fixed; the file itself is unchanged.")


def _as_json(spec: GrammarSpec, found: tuple[Finding, ...], usable: bool) -> str:
    rewrites = compile_grammar(spec).rewrites if usable else ()
    value = {
        "kind": spec.kind,
        "usable": usable,
        "findings": [asdict(finding) for finding in found],
        "rewrites": [asdict(rewrite) for rewrite in rewrites],
    }
    return json_text(value) + "\n"


def _as_text(found: tuple[Finding, ...]) -> str:
    """Return one paragraph a finding; of many notes of one kind the first few."""
    lines: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    for finding in found:
        alike = (finding.level, finding.code)
        seen[alike] = seen.get(alike, 0) + 1
        if finding.level == "note" and seen[alike] > _ALIKE:
            continue
        place = f"  {one_line(finding.where)}" if finding.where else ""
        lines.append(f"{finding.level}{place}")
        lines += _wrapped(finding.why)
        if finding.suggestion:
            lines += _wrapped(f"-> {finding.suggestion}")
    for (level, code), count in seen.items():
        if level == "note" and count > _ALIKE:
            lines.append(f"{count - _ALIKE} more notes about {one_line(code)}; --json has them all")
    return "".join(f"{line}\n" for line in lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        printable(one_line(text)),
        _WIDTH,
        initial_indent="    ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )


def _verdict(found: tuple[Finding, ...], usable: bool) -> str:
    counts = [
        f"{count} {level}{'' if count == 1 else 's'}"
        for level in ("error", "warning", "note")
        if (count := sum(finding.level == level for finding in found))
    ]
    return f"{'Usable' if usable else 'Not usable'}: {', '.join(counts) or 'nothing to say'}."
