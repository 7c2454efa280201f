"""Compile a shape into the grammar text that llguidance takes, or refuse it with where and why.

Knows no model and no vocabulary: a grammar speaks of text. Every grammar returned here was built once
over plain bytes and its first mask computed without error, so only limits are left to fail on a real
vocabulary. Whatever llguidance says is turned into one sentence; its dumps never leave this module.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llguidance import LLMatcher

from grammars.faults import faults
from grammars.findings import Finding, Rewrite
from grammars.guards import guarded
from grammars.keywords import ANNOTATIONS, words
from grammars.lark import inline_schemas, position, refuse_vocabulary
from grammars.matcher import byte_tokenizer, limits
from grammars.refusal import TOO_LARGE, UNCOUNTED, explain
from grammars.rewrite import rewrite
from grammars.satisfiable import joined_patterns, without_endless
from grammars.schema import Document, Schema, parts, read_json, step
from grammars.spec import GrammarSpec, ShapeError, Whitespace

MAX_TEXT = 4_000_000  # characters
MAX_REGEX = 100_000  # characters
MAX_LARK = 400_000  # characters
# llguidance follows rules by recursion, and its overflow of the stack ends the process: on a main thread with
# 8 MB between 2,000 and 3,000 rules.
MAX_RULES = 1_000
MAX_CHOICES = 10_000
MAX_FORCED = 20_000  # bytes written before the first choice; more means that the shape never ends
MAX_PATTERNS = 8  # joined at one place

# `( |\n {0,8})?` lets a model indent, and no gap is longer than nine characters.
_WHITESPACE: dict[Whitespace, dict[str, Any]] = {
    "compact": {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"},
    "spaced": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
    "flexible": {
        "whitespace_flexible": True,
        "whitespace_pattern": r"( |\n {0,8})?",
        "item_separator": ",",
        "key_separator": ":",
    },
}

# A schema of these words alone is what llguidance takes it for.
_AS_MEANT = ANNOTATIONS - {"format"} | words(
    "$ref allOf anyOf const enum items maxItems maxLength maximum minItems minLength minimum pattern prefixItems "
    "properties required type additionalProperties"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A compiled shape. `text` is what `LLMatcher` takes, together with `limits()`.

    `rewrites` are the parts of a schema that were put in other words; `afterwards` the keywords that are not enforced
    while writing and have to be checked when the reply is complete; `endless` the paths of parts that can never be
    written, because they need themselves without an end.
    """

    spec: GrammarSpec
    text: str
    lark: str  # the same language as one Lark grammar
    rewrites: tuple[Rewrite, ...] = ()
    afterwards: tuple[Finding, ...] = ()
    endless: tuple[str, ...] = ()

    def without_forcing(self) -> "Grammar":
        """Return the same language with every spelling allowed where the text is forced.

        For rebuilding a matcher whose only token was refused (guidance-ai/llguidance issue 366).
        """
        return replace(self, text=_envelope(lark_grammar='%llguidance {"no_forcing": true}\n' + self.lark))


def compile_grammar(spec: GrammarSpec) -> Grammar:
    """Compile a shape.

    Raises ShapeError with the JSON path, the position (`line:column`) or nothing where none can be told.
    """
    if len(spec.text) > MAX_TEXT:
        raise ShapeError(f"a shape may have {MAX_TEXT:,} characters; this one has {len(spec.text):,}")
    try:
        spec.text.encode()
    except UnicodeEncodeError:
        raise ShapeError("contains half of a surrogate pair, which is no character") from None
    if "\0" in spec.text:
        raise ShapeError("contains a NUL character")
    compile_kind = {"json_schema": _json_schema, "regex": _regex, "lark": _lark, "choice": _choice}[spec.kind]
    return compile_kind(spec)


def choices(spec: GrammarSpec) -> list[str]:
    """Return the texts of a choice. Raises ShapeError unless they are distinct and none of them is empty.

    An empty choice is refused because an empty reply cannot be told from none.
    """
    texts = read_json(spec.text)
    if not isinstance(texts, list):
        raise ShapeError("choices are a JSON list of texts")
    if not texts:
        raise ShapeError("there is nothing to choose from: give at least one choice")
    if len(texts) > MAX_CHOICES:
        raise ShapeError(f"{MAX_CHOICES:,} choices at most; there are {len(texts):,}")
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        where = step("$", index)
        if not isinstance(text, str):
            raise ShapeError("a choice is a text", where)
        if not text:
            raise ShapeError("a choice may not be empty", where)
        if text in seen:
            raise ShapeError(f"the same choice as {step('$', seen[text])}", where)
        seen[text] = index
    return texts


def _choice(spec: GrammarSpec) -> Grammar:
    # One terminal, so that a choice that begins another (car, cart) leaves both open.
    words = "\n  | ".join(
        json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f") for text in choices(spec)
    )
    return _finish(spec, f"start: CHOICE\nCHOICE: {words}")


def _regex(spec: GrammarSpec) -> Grammar:
    pattern = spec.text
    if not pattern:
        raise ShapeError("the regular expression is empty")
    if len(pattern) > MAX_REGEX:
        raise ShapeError(
            f"a regular expression may have {MAX_REGEX:,} characters; this one has {len(pattern):,}"
        )
    # Not llguidance's own grammar_from_regex: it turns a lone backslash into a comment.
    if re.fullmatch(r"(?:[^\\]|\\.)*\\", pattern, re.DOTALL):
        raise ShapeError(
            "the regular expression ends in a lone backslash", position(pattern, len(pattern) - 1)
        )
    escaped = re.sub(
        r"\\.|/", lambda hit: {"/": r"\/", "\\\n": r"\n"}.get(hit[0], hit[0]), pattern, flags=re.DOTALL
    )
    try:
        return _finish(spec, f"start: /{escaped}/")
    except ShapeError as error:
        raise ShapeError(error.why, _caret(pattern)) from None


def _caret(pattern: str) -> str:
    """Return the position that the regex parser points at, or nothing where it points at none.

    Asked through a schema, whose excerpt is the pattern itself with `/` and line breaks escaped.
    """
    schema = {"type": "string", "pattern": pattern}
    message = LLMatcher.validate_grammar(_envelope(json_schema=schema), limits=limits())
    caret = re.match(r"regex parse error:\n    .*\n    ( *)\^", message)
    if not caret:
        return ""
    offset = shown = 0
    while offset < len(pattern) and shown < len(caret[1]):
        slash = pattern[offset] == "/" and pattern[offset - 1 : offset] != "\\"
        shown += 2 if slash or pattern[offset] == "\n" else 1
        offset += 1
    return position(pattern, offset)


def _lark(spec: GrammarSpec) -> Grammar:
    text = spec.text
    if not text.strip():
        raise ShapeError("the grammar is empty")
    if len(text) > MAX_LARK:
        raise ShapeError(f"a Lark grammar may have {MAX_LARK:,} characters; this one has {len(text):,}")
    if (rules := len(re.findall(r"^[ \t]*[?!]?_?[A-Za-z][^\n:\"/]*:", text, re.MULTILINE))) > MAX_RULES:
        raise ShapeError(f"a Lark grammar may have {MAX_RULES:,} rules; this one has {rules:,}")
    refuse_vocabulary(text)
    found = [(inline, where, _placed(inline.value, spec, where)) for inline, where in inline_schemas(text)]
    if not any(_own_words(inline.value) for inline, _, _ in found):
        _try(_envelope(lark_grammar=text), spec)  # as it stands, so that positions are those of this text
    if not found:
        return Grammar(spec=spec, text=_envelope(lark_grammar=text), lark=text)
    pieces, end = [], 0
    for inline, _, shape in found:
        pieces += [text[end : inline.start], _with_options(shape.schema, spec.whitespace)]
        end = inline.end
    grammar = _finish(spec, "".join([*pieces, text[end:]]))
    return replace(
        grammar,
        rewrites=tuple(each for _, _, shape in found for each in shape.rewrites),
        afterwards=tuple(
            replace(each, where=where, why=f"in %json, {each.where}: {each.why}")
            for _, where, shape in found
            for each in shape.afterwards
        ),
        endless=tuple(where for _, where, shape in found if shape.endless),
    )


def _placed(schema: Schema, spec: GrammarSpec, where: str) -> "_Shape":
    """Prepare the schema of a `%json`, whose errors stand at a position of the grammar."""

    def validate(text: str) -> None:
        if message := LLMatcher.validate_grammar(text, limits=limits()):
            raise ShapeError(explain(message, "")[0])

    try:
        return _enforced(schema, spec, validate)
    except ShapeError as error:
        raise ShapeError(f"in %json, {error.where}: {error.why}", where) from None


def _own_words(schema: Schema) -> bool:
    """Tell whether llguidance would understand a schema otherwise than it is meant."""
    return any(isinstance(part, dict) and not part.keys() <= _AS_MEANT for _, part in parts(schema))


def _json_schema(spec: GrammarSpec) -> Grammar:
    schema = read_json(spec.text)
    if not isinstance(schema, dict | bool):
        raise ShapeError("a JSON Schema is an object, true or false")
    shape = _enforced(schema, spec, lambda text: _try(text, spec))
    optioned = _with_options(shape.schema, spec.whitespace)
    return Grammar(
        spec=spec,
        text=_schema_envelope(optioned),
        lark=f"start: %json {optioned}",
        rewrites=shape.rewrites,
        afterwards=shape.afterwards,
        endless=shape.endless,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """A schema in the words of llguidance, and where the parts of the original went."""

    schema: Schema
    places: dict[str, Schema]
    rewrites: tuple[Rewrite, ...]
    afterwards: tuple[Finding, ...]
    endless: tuple[str, ...]


def _enforced(schema: Schema, spec: GrammarSpec, attempt: Callable[[str], None]) -> _Shape:
    """Prepare a schema until llguidance takes it: counts of members that it cannot join are left for afterwards."""
    shape = _prepared(schema, spec)
    try:
        attempt(_schema_envelope(_with_options(shape.schema, spec.whitespace)))
        return shape
    except ShapeError as error:
        if error.why != UNCOUNTED:
            raise _located(shape, error) from None
    shape = _prepared(schema, spec, frozenset({"minProperties", "maxProperties"}))
    try:
        attempt(_schema_envelope(_with_options(shape.schema, spec.whitespace)))
    except ShapeError as error:
        raise _located(shape, error) from None
    return shape


def _prepared(schema: Schema, spec: GrammarSpec, leave: frozenset[str] = frozenset()) -> _Shape:
    """Rewrite and guard a schema, or raise ShapeError for what can be told without llguidance."""
    document = Document(schema)
    for fault in faults(document):
        raise ShapeError(fault.why, fault.where)
    made = rewrite(document, leave)
    finite, removed = (made.schema, []) if isinstance(made.schema, bool) else without_endless(made.schema)
    if made.schema is False:
        raise ShapeError("nothing fits: the schema excludes everything", "$")
    if finite is False:
        raise ShapeError("no reply fits: it refers to itself without an end", "$")
    joined = joined_patterns(finite)
    if joined is None:
        raise ShapeError(
            "joins parts with each other without an end, or more of them than can be followed", "$"
        )
    if joined > MAX_PATTERNS:
        raise ShapeError(f"more than {MAX_PATTERNS} patterns joined at once", "$")
    paths = {id(part): path for path, part in reversed(made.places.items())}
    return _Shape(
        schema=guarded(finite, spec.guards),
        places=made.places,
        rewrites=made.rewrites,
        afterwards=made.afterwards,
        endless=tuple(dict.fromkeys(paths[part] for part in removed if part in paths)),
    )


def _with_options(schema: Schema, whitespace: Whitespace) -> str:
    """Return the schema as JSON with our options; an `x-guidance` of its own could switch enforcement off."""
    assert schema is not False  # refused before; as an object it would allow everything
    members = {} if schema is True else schema
    return json.dumps(members | {"x-guidance": _WHITESPACE[whitespace]}, ensure_ascii=False)


def _located(shape: _Shape, error: ShapeError) -> ShapeError:
    """Return the error with the path of the innermost part that llguidance refuses with the same words."""
    if not isinstance(shape.schema, dict) or error.why.startswith(TOO_LARGE):
        return ShapeError(error.why, "$")  # of the whole
    root = {key: value for key, value in shape.schema.items() if key != "$defs"}
    definitions = _rebased({**shape.schema.get("$defs", {}), _ROOT: root})
    size = len(json.dumps(definitions))
    failing: dict[str, set[str]] = {}
    for path, part in list(shape.places.items())[: max(1, min(200, 1_000_000 // size))]:
        probe = {"$defs": definitions, "allOf": [_rebased(part)]}
        message = LLMatcher.validate_grammar(_envelope(json_schema=probe), limits=limits())
        if message and explain(message.replace(_ROOT, ""), "")[0] == error.why:
            failing[path] = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(part)))
    named = {
        name
        for name, part in shape.schema.get("$defs", {}).items()
        if any(shape.places[path] == part for path in failing)
    }
    inner = [path for path, references in failing.items() if references.isdisjoint(named)]
    return ShapeError(error.why, next(iter([*inner, *failing, "$"])))


_ROOT = "the root"


def _rebased(value: Any) -> Any:
    """Return the schema with references to the root leading to its copy among the definitions."""
    if isinstance(value, list):
        return [_rebased(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"#/$defs/{_ROOT}" if key == "$ref" and item == "#" else _rebased(item)
        for key, item in value.items()
    }


def _schema_envelope(schema: str) -> str:
    return f'{{"grammars":[{{"name":"json","json_schema":{schema}}}]}}'


def _envelope(**grammar: Any) -> str:
    return json.dumps({"grammars": [{"name": "shape", **grammar}]}, ensure_ascii=False)


def _finish(spec: GrammarSpec, lark: str) -> Grammar:
    text = _envelope(lark_grammar=lark)
    _try(text, spec)
    return Grammar(spec=spec, text=text, lark=lark)


def _try(text: str, spec: GrammarSpec) -> None:
    """Build a matcher over bytes and its first mask; raise ShapeError with what llguidance says."""
    tokenizer = byte_tokenizer()
    matcher = LLMatcher(tokenizer, text, log_level=0, limits=limits())
    mask = 0 if matcher.is_error() else int.from_bytes(matcher.compute_bitmask(), "little")
    if matcher.is_error():
        raise ShapeError(*explain(matcher.get_error(), spec.text if spec.kind == "lark" else ""))
    if mask == 1 << tokenizer.eos_token:
        raise ShapeError("only the empty reply fits")
    if len(matcher.compute_ff_bytes()) > MAX_FORCED:
        raise ShapeError(f"writes more than {MAX_FORCED:,} bytes before the first choice, or never ends")
