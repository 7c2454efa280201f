"""A shape while it is written: its parts, what there is to say about it, and the file it becomes.

Knows no screen and no model. A draft need not compile; `look` says what is wrong with it and where. Choices are
written one a line, or as a JSON list.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.json_places import offset
from app.shapes import SavedShape
from app.terminal import printable
from grammars.compile import compile_grammar
from grammars.findings import Finding, Rewrite
from grammars.fixes import fixed
from grammars.lint import lint, summary
from grammars.presets import Preset
from grammars.schema import read_json
from grammars.skeleton import Part, skeleton
from grammars.spec import GrammarSpec, Guards, Kind, ShapeError, Whitespace

KINDS: tuple[Kind, ...] = ("json_schema", "regex", "lark", "choice")
_BODIES: dict[Kind, str] = {
    "json_schema": "json_schema",
    "regex": "regex",
    "lark": "lark",
    "choice": "choices",
}
_NEW: dict[Kind, str] = {
    "json_schema": '{\n  "type": "object",\n  "properties": {\n    "name": {"type": "string"}\n  },\n'
    '  "required": ["name"],\n  "additionalProperties": false\n}\n',
    "regex": "[A-Z][a-z]{1,20}",
    "lark": 'start: greeting ", " NAME "!"\ngreeting: "Hello" | "Good morning"\nNAME: /[A-Z][a-z]{1,20}/\n',
    "choice": "yes\nno\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeDraft:
    """What a person writes. `name` is that of the saved shape it comes from, empty for a new one."""

    kind: Kind
    text: str
    whitespace: Whitespace = "compact"
    guards: Guards = field(default_factory=Guards)
    name: str = ""
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    example_prompt: str = ""

    def spec(self) -> GrammarSpec:
        """Return the shape, which may not compile."""
        text = json.dumps(_choices(self.text), ensure_ascii=False) if self.kind == "choice" else self.text
        return GrammarSpec(
            kind=self.kind,
            text=text,
            whitespace=self.whitespace,
            guards=self.guards,
            name=self.name or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """What a person wrote and did not save, and what it was at its beginning: a saved shape, or what a new one is
    begun with.
    """

    draft: ShapeDraft
    begun: ShapeDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What there is to say about a draft; the last three are empty unless it is `usable`.

    `told` are sentences on what is not enforced while writing, `rewrites` what is enforced in other words.
    """

    usable: bool
    findings: tuple[Finding, ...]
    told: tuple[str, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    parts: tuple[Part, ...] = ()


def new_draft(kind: Kind, text: str = "") -> ShapeDraft:
    """Return a draft to begin with."""
    return ShapeDraft(kind=kind, text=visible(text) or _NEW[kind])


def visible(text: str) -> str:
    """Return a shape's text with escapes (`\\u202e`) for what a terminal would act on; it means the same.

    JSON, regular expressions and Lark all read them so.
    """
    text = text.replace("\r\n", "\n")
    if printable(text) == text:
        return text
    return "".join(
        each if each in "\n\t" or printable(each) == each else f"\\u{ord(each):04x}" for each in text
    )


def draft_of(preset: Preset) -> ShapeDraft:
    """Return a saved shape as a draft."""
    spec = preset.spec()
    text = spec.text
    if spec.kind == "json_schema":
        text = json.dumps(preset.json_schema, ensure_ascii=False, indent=2) + "\n"
    elif spec.kind == "choice":
        text = _lines(preset.choices or [])
    return ShapeDraft(
        kind=spec.kind,
        text=visible(text),
        whitespace=preset.whitespace,
        guards=preset.guards,
        name=preset.name,
        title=preset.title,
        description=preset.description,
        tags=tuple(preset.tags),
        example_prompt=preset.example_prompt,
    )


def draft_of_file(name: str, text: str) -> ShapeDraft:
    """Return a file that cannot be used as a draft: the part that is the shape, else the whole text."""
    try:
        value = read_json(text)
    except ShapeError:
        value = None
    for kind, key in _BODIES.items():
        if isinstance(value, dict) and key in value:
            body = value[key]
            if kind == "choice" and isinstance(body, list) and all(isinstance(item, str) for item in body):
                body = _lines(body)
            elif not isinstance(body, str) or kind == "json_schema":
                body = json.dumps(body, ensure_ascii=False, indent=2)
            title, description = value.get("title"), value.get("description")
            return ShapeDraft(
                kind=kind,
                text=visible(body),
                name=name,
                title=title if isinstance(title, str) else "",
                description=description if isinstance(description, str) else "",
            )
    return ShapeDraft(kind="json_schema", text=visible(text), name=name)


def file_text(draft: ShapeDraft) -> str:
    """Return the draft as the text of a shape's file. Raises `ShapeError` for a schema or choices that are no JSON."""
    body: Any = draft.text
    if draft.kind == "json_schema":
        body = read_json(draft.text)
    elif draft.kind == "choice":
        body = _choices(draft.text)
    value: dict[str, Any] = {"title": draft.title or draft.name}
    value |= {"description": draft.description} if draft.description else {}
    value |= {"tags": list(draft.tags)} if draft.tags else {}
    value |= {"example_prompt": draft.example_prompt} if draft.example_prompt else {}
    value[_BODIES[draft.kind]] = body
    value |= {"whitespace": draft.whitespace} if draft.whitespace != "compact" else {}
    value |= {"guards": asdict(draft.guards)} if draft.guards != Guards() else {}
    return json.dumps(value, ensure_ascii=False)


def look(draft: ShapeDraft) -> Look:
    """Return what there is to say about a draft; takes milliseconds, longer for large shapes."""
    try:
        spec = draft.spec()
        findings = lint(spec)
    except ShapeError as error:  # choices that begin as a JSON list and are none
        finding = Finding(level="error", where=error.where, code="unusable", why=error.why)
        return Look(usable=False, findings=(finding,))
    except RecursionError:  # before the limits on depth were looked at
        finding = Finding(level="error", where="", code="unusable", why="nested too deeply to be looked at")
        return Look(usable=False, findings=(finding,))
    if any(finding.level == "error" for finding in findings):
        return Look(usable=False, findings=findings)
    grammar = compile_grammar(spec)
    try:
        parts = skeleton(grammar)
    except ShapeError as error:
        parts = (Part(text=f"cannot be shown: {error}", free=True),)
    return Look(usable=True, findings=findings, told=summary(grammar), rewrites=grammar.rewrites, parts=parts)


def with_fixes(draft: ShapeDraft) -> ShapeDraft:
    """Return the draft with every offered fix; itself where there is none. Raises `ShapeError` for what is no JSON."""
    if draft.kind != "json_schema":
        return draft
    spec = draft.spec()
    better = fixed(spec)
    return draft if better is spec else replace(draft, text=better.text + "\n")


def place_of(draft: ShapeDraft, finding: Finding) -> int | None:
    """Return where in the draft's text a finding stands, None where it is about the whole."""
    if draft.kind != "choice" or draft.text.lstrip().startswith("["):
        return offset(draft.text, finding.where, finding.code)
    index = finding.where.removeprefix("$[").removesuffix("]")
    if not index.isdigit():
        return None
    place = 0
    for line in draft.text.split("\n"):
        if line.strip() and (index := str(int(index) - 1)) == "-1":
            return place
        place += len(line) + 1
    return None


def saved_draft(saved: SavedShape, file: str) -> ShapeDraft:
    """Return the draft of a shape; `file` is the text of its file where that cannot be used."""
    return draft_of(saved.preset) if saved.preset is not None else draft_of_file(saved.name, file)


def _choices(text: str) -> Any:
    if text.lstrip().startswith("["):
        return read_json(text)
    return [line for line in text.split("\n") if line.strip()]


def _lines(texts: list[str]) -> str:
    """Return choices one a line, or as a JSON list where a line would say something else."""
    text = "".join(f"{choice}\n" for choice in texts)
    same = not text.lstrip().startswith("[") and _choices(text) == texts and printable(text) == text
    return text if same else json.dumps(texts, ensure_ascii=False, indent=2) + "\n"
