"""Jinja for chat templates, which come out of model files and are not trusted.

What a template may use is what Hugging Face's and llama.cpp's renderers offer. Promised: no access to
Python's internals and no change of what is passed in (jinja2's immutable sandbox); every pass of a loop,
call and arithmetic step checks a clock and a budget of characters. No step builds a text or list far above a
limit: what can grow (repetition, padding, replacement, formats, JSON, containers written as text) is estimated
before it is built, everything else is measured after, when it is at most a few times its arguments. One
built-in operation on values below the limit is not interrupted. All that is built in one rendering is counted, so that
many small steps cannot fill the memory either.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import wraps
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

_SECONDS = 5.0
_CHARACTERS = 1 << 25
_LARGEST = 1 << 23
_BUILT_BYTES = 1 << 29
_ELEMENT_BYTES = 64
_LARGEST_NUMBER = 10**18
_LARGEST_ARGUMENT = 10**6
_LARGEST_SOURCE = 1 << 20
_WIDEST_INDENT = 64
_WIDE_FORMAT = re.compile(r"\d{6}")
# Filters that look at a list or mapping without writing it as text.
_NO_TEXT = {
    "attr",
    "batch",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "groupby",
    "items",
    "last",
    "length",
}
_NO_TEXT |= {"list", "map", "max", "min", "random", "reject", "rejectattr", "reverse", "select", "selectattr"}
_NO_TEXT |= {"slice", "sort", "sum", "unique", "tojson", "_passes", "_joined", "_sliced"}


class Sandbox:
    """One compiled template. Raises jinja2's `TemplateError` for a template that does not compile."""

    def __init__(self, source: str) -> None:
        if len(source) > _LARGEST_SOURCE:
            raise TemplateError(f"the template has {len(source):,} characters")
        self._environment = _Environment(len(source))
        tree = _Instrument(self._environment).visit(self._environment.parse(source))
        code = self._environment.compile(tree)
        self._template = Template.from_code(self._environment, code, self._environment.make_globals(None))

    def render(self, **variables: Any) -> str:
        """Return the rendered text. Raises whatever goes wrong in the template, mostly a `TemplateError`."""
        self._environment.start()
        parts: list[str] = []
        for part in self._template.generate(**variables):
            self._environment.spend(len(part))
            parts.append(part)
        return "".join(parts)


class _GenerationTag(Extension):
    """`{% generation %}` marks assistant text for training; here its body is only rendered."""

    tags = {"generation"}  # noqa: RUF012 (the type jinja2 gives it)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def __init__(self, source_size: int) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationTag, loopcontrols],
            finalize=self._emitted,
        )
        self._source_size = source_size
        self.start()
        self.filters = {name: self._checked(name, function) for name, function in self.filters.items()}
        self.filters |= {
            "tojson": self._to_json,
            "_passes": self._passes,
            "_joined": self._joined,
            "_sliced": self._sliced,
        }
        del self.globals["lipsum"]  # writes a million paragraphs if asked to

    def start(self) -> None:
        """Fill the budgets for one rendering."""
        self._deadline = time.monotonic() + _SECONDS
        self._characters = _CHARACTERS
        self._built_bytes = 0

    def spend(self, characters: int = 0) -> None:
        """Take note of work; raise when a budget is used up."""
        self._characters -= characters
        if self._characters < 0:
            raise SecurityError(f"the template writes more than {_CHARACTERS:,} characters")
        if time.monotonic() > self._deadline:
            raise SecurityError(f"the template runs for more than {_SECONDS:g} seconds")

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call something from a template, as jinja2 names the parameters."""
        __self.spend(__self._source_size if isinstance(__obj, Macro | LoopContext) else 0)
        _check_arguments(args, kwargs)
        text = getattr(__obj, "__self__", None)
        if isinstance(text, str):
            _check_growth(getattr(__obj, "__name__", ""), text, args, kwargs)
        return __self.built(super().call(__context, __obj, *args, **kwargs))

    def built(self, value: Any) -> Any:
        """Return a value that a step has made; raise when all of them together would fill the memory.

        What was given back meanwhile counts, too: a template needs no more than a few copies of its chat.
        """
        self._built_bytes += _bytes_of(_check_size(value))
        if self._built_bytes > _BUILT_BYTES:
            raise SecurityError(f"the template builds more than {_BUILT_BYTES >> 20:,} MB")
        return value

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return jinja2's safe stand-in for a text's `format`, within the limits; None for anything else."""
        made = super().wrap_str_format(value)
        if made is None:
            return None

        @wraps(made)
        def checked(*args: Any, **kwargs: Any) -> str:
            _check_growth("format", value.__self__, args, kwargs)
            return made(*args, **kwargs)

        return checked

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `*`, `**`, `+` or `%` within the limits."""
        self.spend()
        sizes = [len(value) for value in (left, right) if isinstance(value, str | list | tuple)]
        numbers = [abs(value) for value in (left, right) if isinstance(value, int | float)]
        too_large = False
        if operator == "**":
            too_large = any(number > 64 for number in numbers)
        elif operator == "+":
            too_large = sum(sizes) > _LARGEST
        elif operator == "*" and sizes and numbers:
            too_large = max(sizes) * max(numbers) > _LARGEST
        elif operator == "%" and isinstance(left, str):
            too_large = "*" in left or bool(_WIDE_FORMAT.search(left))
            _check_growth("format", left, (right,), {})
        if too_large or any(number > _LARGEST_NUMBER for number in numbers):
            raise SecurityError(f"the template computes something too large with {operator}")
        return self.built(super().call_binop(context, operator, left, right))

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        marked = hasattr(function, "jinja_pass_arg")  # the first argument is jinja2's

        @wraps(function)  # keeps the marks by which jinja2 passes its context
        def checked(*args: Any, **kwargs: Any) -> Any:
            self.spend()
            _check_arguments(args, kwargs)
            value, *rest = args[1:] if marked else args
            if name == "join" and isinstance(value, Iterator):
                value = list(self._measured(value))
                args = (*args[: -len(rest) - 1], value, *rest)
            if name not in _NO_TEXT:
                _check_growth(name, value, rest, kwargs)
            return self.built(function(*args, **kwargs))

        return checked

    def _measured(self, items: Iterator[Any]) -> Iterator[Any]:
        size = 0
        for item in items:
            self.spend()
            size += _text_size(item)
            _check_total(size)
            yield item

    def _emitted(self, value: Any) -> Any:
        self.spend(_text_size(value))
        return value

    def _passes(self, items: Iterable[Any], characters: int) -> "_Passes":
        return _Passes(items, lambda: self.spend(characters))

    def _joined(self, values: list[Any]) -> str:
        self.spend()
        _check_total(_text_size(values))
        return self.built("".join(map(str, values)))

    def _sliced(self, value: Any) -> Any:
        self.spend()
        return self.built(value)

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Write JSON as Hugging Face's renderer does; jinja2's own escapes HTML and non-ASCII characters."""
        if indent is not None and not (isinstance(indent, int) and indent <= _WIDEST_INDENT):
            raise SecurityError(f"the template indents JSON by more than {_WIDEST_INDENT} characters")
        _check_total(_text_size(value) + _text_size(separators))
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        parts: list[str] = []
        size = 0
        for part in encoder.iterencode(value):
            size += len(part)
            _check_total(size)
            self.spend()
            parts.append(part)
        return "".join(parts)


class _Passes:
    """The items of a loop, each of which costs something; as long as the items are."""

    def __init__(self, items: Iterable[Any], spend: Callable[[], None]) -> None:
        self._items = items
        self._spend = spend

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._spend()
            yield item

    def __len__(self) -> int:
        return len(self._items)  # pyright: ignore[reportArgumentType] (jinja2 expects the TypeError)


class _Instrument(NodeTransformer):
    """Routes loops, concatenations and slices, which jinja2 compiles to plain Python, through the checks."""

    def __init__(self, environment: _Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (jinja2's naming)
        size = sum(len(data.data) for part in node.body for data in _within(part, nodes.TemplateData))
        node.iter = self._filter("_passes", node.iter, nodes.Const(size))
        return self.generic_visit(node)  # pyright: ignore[reportReturnType]

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 (jinja2's naming)
        self.generic_visit(node)
        return self._filter("_joined", nodes.List(node.nodes))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 (jinja2's naming)
        self.generic_visit(node)
        return self._filter("_sliced", node) if isinstance(node.arg, nodes.Slice) else node

    def _filter(self, name: str, value: Any, *args: nodes.Expr) -> nodes.Filter:
        made = nodes.Filter(value, name, list(args), [], None, None, lineno=value.lineno or 1)
        made.set_environment(self._environment)
        return made


def _within(node: nodes.Node, kind: type[Any]) -> Iterator[Any]:
    if isinstance(node, kind):
        yield node
    yield from node.find_all(kind)


def _check_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse numbers that could be the width of a field; formats and padding would allocate them."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, int) and abs(value) > _LARGEST_ARGUMENT:
            raise SecurityError(f"the template passes the number {value:,}")


def _check_size(value: Any) -> Any:
    if isinstance(value, str | list | tuple | dict):
        _check_total(len(value))
    return value


def _bytes_of(value: Any) -> int:
    """Return about how many bytes a value takes, without what stands in it."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    return _ELEMENT_BYTES * len(value) if isinstance(value, list | tuple | dict) else 0


def _check_total(size: int) -> None:
    if size > _LARGEST:
        raise SecurityError(f"the template builds something of {size:,} elements")


def _check_growth(name: str, value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a filter or method of a text whose result would be above the limit, before it is built."""
    others = (*args, *kwargs.values())
    longest = max((_text_size(other) for other in others), default=0)
    largest = max((other for other in others if isinstance(other, int)), default=0)  # a width
    largest = max(largest, longest)
    size = _text_size(value)
    text = value if isinstance(value, str) else ""
    if name == "replace":
        old = next(iter(args), kwargs.get("old", kwargs.get("s", "")))
        size += (text.count(old) if isinstance(old, str) else size) * longest
    elif name == "join":
        count = len(args[0]) if isinstance(value, str) and args and isinstance(args[0], Sized) else size
        size = longest + count * size if isinstance(value, str) else size + count * longest
    elif name in ("format", "format_map"):
        size += (text.count("%") + text.count("{")) * longest
    elif name == "expandtabs":
        size += text.count("\t") * (largest or 8)
    elif name == "indent":
        size += (text.count("\n") + 1) * largest
    elif name in ("wordwrap", "translate"):
        size += len(text) * longest
    _check_total(size)


def _text_size(value: Any, known: dict[int, int] | None = None) -> int:
    """Return about how many characters a value has as text.

    A container that holds another one twice is small in memory and counts twice, as in its text.
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Namespace):
        raise SecurityError("the template writes a namespace")
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return 1
    known = {} if known is None else known
    if id(value) not in known:
        known[id(value)] = 0  # a list inside itself is written as dots
        items = (*value, *value.values()) if isinstance(value, Mapping) else value
        known[id(value)] = len(value) + sum(_text_size(item, known) for item in items)
    return known[id(value)]
