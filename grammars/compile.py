"""Compile a shape into the grammar text that llguidance takes, or refuse it with where and why.

Knows no model and no vocabulary: a grammar speaks of text. Every grammar returned here was built once
over plain bytes and its first mask computed without error, so only limits are left to fail on a real
vocabulary. Whatever llguidance says is turned into one sentence; its dumps never leave this module.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from grammars.lark import inline_schemas, position, refuse_vocabulary
from grammars.refusal import explain
from grammars.schema import Schema, parts, reach, read_json, step
from grammars.spec import GrammarSpec, ShapeError, Whitespace

# For every matcher built, here and in the engine. Rows and items well above need; the lexer's fuel is
# llguidance's own default, because five times as much lets `a{1000000}` compute for seconds.
LIMITS = LLParserLimits(
    max_items_in_row=20_000,
    step_max_items=200_000,
    max_grammar_size=1_000_000,
    verbose_errors=False,
)
MAX_TEXT = 4_000_000  # characters
MAX_REGEX = 100_000  # characters
MAX_LARK = 400_000  # characters
# llguidance follows references and rules by recursion, and its overflow of the stack ends the process: on a
# main thread with 8 MB between 2,000 and 3,000 parts, and between 2,000 and 3,000 rules.
MAX_REACH = 500  # parts of a schema, one inside or behind the other
MAX_RULES = 1_000
MAX_CHOICES = 10_000
MAX_FORCED = 20_000  # bytes written before the first choice; more means that the shape never ends
# Patterns joined by one allOf: llguidance intersects them in exponential time, which its limits do not stop.
MAX_PATTERNS = 8

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

# What llguidance 1.9 refuses; a later version that learns one of them only makes this table too strict.
_UNSUPPORTED = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "$recursiveAnchor",
    }
)

_BOUNDS = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A compiled shape. `text` is what `LLMatcher` takes, together with `LIMITS`."""

    spec: GrammarSpec
    text: str
    lark: str  # the same language as one Lark grammar

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
    message = LLMatcher.validate_grammar(_envelope(json_schema=schema), limits=LIMITS)
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
    found = inline_schemas(text)
    for schema, where in found:
        try:
            _refuse_schema(schema.value)
            bare = json.loads(_with_options(schema.value, spec.whitespace))
            if message := LLMatcher.validate_grammar(_envelope(json_schema=bare), limits=LIMITS):
                raise _located(schema.value, ShapeError(explain(message, "")[0]))
        except ShapeError as error:
            raise ShapeError(f"in %json, {error.where}: {error.why}", where) from None
    if not any(isinstance(schema.value, dict) and "x-guidance" in schema.value for schema, _ in found):
        _try(_envelope(lark_grammar=text), spec)  # as it stands, so that positions are those of this text
    if not found:
        return Grammar(spec=spec, text=_envelope(lark_grammar=text), lark=text)
    pieces, end = [], 0
    for schema, _ in found:
        pieces += [text[end : schema.start], _with_options(schema.value, spec.whitespace)]
        end = schema.end
    return _finish(spec, "".join([*pieces, text[end:]]))


def _json_schema(spec: GrammarSpec) -> Grammar:
    schema = read_json(spec.text)
    if not isinstance(schema, dict | bool):
        raise ShapeError("a JSON Schema is an object, true or false")
    _refuse_schema(schema)
    optioned = _with_options(schema, spec.whitespace)
    text = f'{{"grammars":[{{"name":"json","json_schema":{optioned}}}]}}'
    try:
        _try(text, spec)
    except ShapeError as error:
        raise _located(schema, error) from None
    return Grammar(spec=spec, text=text, lark=f"start: %json {optioned}")


def _with_options(schema: Schema, whitespace: Whitespace) -> str:
    """Return the schema as JSON with our options; an `x-guidance` of its own could switch enforcement off."""
    members = {} if isinstance(schema, bool) else schema
    return json.dumps(members | {"x-guidance": _WHITESPACE[whitespace]}, ensure_ascii=False)


def _refuse_schema(root: Schema) -> None:
    """Raise ShapeError for what can be told from the schema alone."""
    if root is False:
        raise ShapeError("the schema false allows nothing", "$")
    if (deep := reach(root)) > MAX_REACH:
        raise ShapeError(f"references lead {deep:,} parts deep; {MAX_REACH} at most can be followed", "$")
    unsupported: list[tuple[str, str]] = []
    for path, schema in parts(root):
        if isinstance(schema, bool):
            continue
        unsupported += [(step(path, key), key) for key in schema if key in _UNSUPPORTED]
        _refuse_bounds(path, schema)
        _refuse_literals(path, schema)
        if isinstance(schema.get("allOf"), list) and _patterns(schema["allOf"]) > MAX_PATTERNS:
            raise ShapeError(f"more than {MAX_PATTERNS} patterns joined at once", step(path, "allOf"))
    if unsupported:
        (where, keyword), *more = unsupported
        others = f"; nor can {', '.join(path for path, _ in more[:5])}" if more else ""
        raise ShapeError(f"the keyword `{keyword}` cannot be enforced while writing{others}", where)


def _refuse_bounds(path: str, schema: dict[str, Any]) -> None:
    for lower, upper in _BOUNDS:
        low, high = schema.get(lower), schema.get(upper)
        if low is None or high is None or not (_number(low) and _number(high)):  # draft 4 has booleans
            continue
        if low > high or (low == high and "exclusive" in lower + upper):
            relation = "is above" if low > high else "leaves nothing below"
            raise ShapeError(f"nothing fits: {lower} ({low}) {relation} {upper} ({high})", path)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse_literals(path: str, schema: dict[str, Any]) -> None:
    """Refuse integers that llguidance would write as the nearest double."""
    for key in ("const", "enum"):
        waiting = [schema[key]] if key in schema else []
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict | list):
                waiting.extend(value.values() if isinstance(value, dict) else value)
            elif _number(value) and isinstance(value, int) and abs(value) > 2**53:
                raise ShapeError(f"{value} is too large to be written exactly", step(path, key))


def _patterns(branches: list[Any]) -> int:
    count = 0
    for branch in branches:
        if isinstance(branch, dict):
            count += ("pattern" in branch) + ("format" in branch)
            count += _patterns(branch["allOf"]) if isinstance(branch.get("allOf"), list) else 0
    return count


def _located(root: Schema, error: ShapeError) -> ShapeError:
    """Return the error with the path of the innermost part that llguidance refuses with the same words."""
    found = list(parts(root))
    for path, part in reversed(found[:500]):  # a part comes after what contains it
        probe = {"$defs": {"root": _rebased(root)}, "allOf": [_rebased(part)]}
        message = LLMatcher.validate_grammar(_envelope(json_schema=probe), limits=LIMITS)
        if message and explain(message.replace("/$defs/root", ""), "")[0] == error.why:
            return ShapeError(error.why, path)
    return ShapeError(error.why, "$")


def _rebased(value: Any) -> Any:
    """Return the schema with its local references pointing under `#/$defs/root`."""
    if isinstance(value, list):
        return [_rebased(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"#/$defs/root{item[1:]}"
        if key == "$ref" and isinstance(item, str) and item.startswith("#")
        else _rebased(item)
        for key, item in value.items()
    }


def _envelope(**grammar: Any) -> str:
    return json.dumps({"grammars": [{"name": "shape", **grammar}]}, ensure_ascii=False)


def _finish(spec: GrammarSpec, lark: str) -> Grammar:
    text = _envelope(lark_grammar=lark)
    _try(text, spec)
    return Grammar(spec=spec, text=text, lark=lark)


@cache
def byte_tokenizer() -> LLTokenizer:
    """Return the tokenizer whose first 256 tokens are the bytes; it stands for no model's vocabulary."""
    return LLTokenizer("byte")


def _try(text: str, spec: GrammarSpec) -> None:
    """Build a matcher over bytes and its first mask; raise ShapeError with what llguidance says."""
    tokenizer = byte_tokenizer()
    matcher = LLMatcher(tokenizer, text, log_level=0, limits=LIMITS)
    mask = 0 if matcher.is_error() else int.from_bytes(matcher.compute_bitmask(), "little")
    if matcher.is_error():
        raise ShapeError(*explain(matcher.get_error(), spec.text if spec.kind == "lark" else ""))
    if mask == 1 << tokenizer.eos_token:
        raise ShapeError("only the empty reply fits")
    if len(matcher.compute_ff_bytes()) > MAX_FORCED:
        raise ShapeError(f"writes more than {MAX_FORCED:,} bytes before the first choice, or never ends")
