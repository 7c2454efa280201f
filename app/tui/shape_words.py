"""How shapes are shown: what a search looks at, a look at one, its guards and findings in words.

Pure functions from values to text for the screen; everything from outside goes through `shown` or `one_line`.
"""

from collections.abc import Sequence
from dataclasses import asdict

from textual.content import Content

from app.shapes import SavedShape
from app.terminal import one_line
from app.tui.pretty import pretty_json
from app.tui.words import KINDS, shown
from grammars.findings import Finding
from grammars.presets import Preset
from grammars.skeleton import Part
from grammars.spec import GrammarSpec, Guards

PREVIEW_LIMIT = 20_000
ORIGINS = {"shipped": "Comes with Stampo", "own": "Your own"}
LEVELS = {"error": "Error", "warning": "Warning", "note": "Note"}
_LEVEL_STYLES = {"error": "bold $text-error", "warning": "bold $text-warning", "note": "bold"}


def searched(saved: SavedShape) -> str:
    """Return the text that a search for shapes looks at."""
    preset = saved.preset
    if preset is None:
        return f"{saved.name} {ORIGINS[saved.origin]} cannot be used".lower()
    kind = KINDS[preset.spec().kind]
    return " ".join(
        (saved.name, preset.title, preset.description, kind, ORIGINS[saved.origin], *preset.tags)
    ).lower()


def guards_words(guards: Guards) -> str:
    """Say in a few words which guards differ from the usual ones; empty where none does."""
    if guards == Guards():
        return ""
    if guards == Guards.off():
        return "no guards"
    usual = asdict(Guards())
    changed = [
        f"{name} {'off' if value is None else f'{value:,}'}"
        for name, value in asdict(guards).items()
        if value != usual[name]
    ]
    return f"guards: {', '.join(changed)}"


def body(spec: GrammarSpec, width: int = 36) -> str:
    """Return a shape's text for the eye, cut where it is long."""
    text = spec.text[:PREVIEW_LIMIT] + ("" if len(spec.text) <= PREVIEW_LIMIT else "\n…")
    if spec.kind in ("json_schema", "choice"):
        text = "".join(part for _, part in pretty_json(text, width))
    return shown(text)


def preview(saved: SavedShape | None, facts: Sequence[str] = (), forced: Content | None = None) -> Content:
    """Return a look at a shape; `facts` are lines that stand below its kind, `forced` is its skeleton."""
    if saved is None:
        return Content("The model writes what it likes.")
    lines = "".join(f"\n{one_line(fact)}" for fact in facts if fact)
    if saved.preset is None:
        return Content.assemble(
            ("Cannot be used", "bold"), f"\n{shown(saved.fault or 'its file is faulty')}\n{lines}"
        )
    preset: Preset = saved.preset
    spec = preset.spec()
    about = "".join(f"\n{shown(text)}" for text in (preset.description,) if text)
    example = f"\nFor example: {shown(preset.example_prompt)}" if preset.example_prompt else ""
    guards = guards_words(preset.guards)
    return Content.assemble(
        (KINDS[spec.kind], "bold"),
        about,
        (f"{example}{lines}", "dim"),
        (f"\n{guards}" if guards else "", "bold"),
        Content.assemble(("\n\nWhat it forces; ‹…› is free\n", "dim"), forced) if forced else "",
        f"\n\n{body(spec)}",
    )


def skeleton_content(parts: Sequence[Part]) -> Content:
    """Return a skeleton: forced text as it is, each free place between angle quotes."""
    pieces = (
        (f"‹{one_line(part.text)}›", "italic $text-accent") if part.free else (shown(part.text), "bold")
        for part in parts
    )
    return Content.assemble(*pieces)


def finding_content(finding: Finding) -> Content:
    """Return a finding: how grave, where, why, and what to do about it."""
    where = f"  {one_line(finding.where)}" if finding.where else ""
    keyword = f"  {one_line(finding.code)}" if finding.code not in ("unusable", "") else ""
    hint = f"\n  → {one_line(finding.suggestion)}" if finding.suggestion else ""
    return Content.assemble(
        (LEVELS[finding.level], _LEVEL_STYLES[finding.level]),
        (f"{where}{keyword}", "dim"),
        f"\n  {one_line(finding.why)}{hint}",
    )


def counts_words(findings: Sequence[Finding]) -> str:
    """Return how many findings of each level there are, empty for none."""
    counts = [
        f"{count} {level}{'' if count == 1 else 's'}"
        for level in LEVELS
        if (count := sum(finding.level == level for finding in findings))
    ]
    return ", ".join(counts)
