"""Samples: a short match of every pattern, read by Python although Rust decides."""

import re

import pytest

from grammars.samples import samples
from grammars.spec import GrammarSpec


@pytest.mark.parametrize("pattern", ["[a-f]{3}-x+", "(?:yes|no): [^a-z]", r"\d{2}[.,]\w", "(?i)ab*", "x*"])
def test_a_sample_matches_its_pattern(pattern: str) -> None:
    for sample in samples(GrammarSpec(kind="regex", text=pattern)):
        assert re.fullmatch(pattern, sample)


def test_every_pattern_and_format_of_a_schema_has_one() -> None:
    text = '{"items": [{"pattern": "^[b-d]{2}$"}, {"format": "date"}, {"patternProperties": {"^x_": {}}}]}'
    assert set(samples(GrammarSpec(kind="json_schema", text=text))) == {"bb", "1970-01-01", "x_"}


@pytest.mark.parametrize("pattern", ["[[:alpha:]]+", "[a-z&&[^x]]", "[a--b]", "[a||b]", "[a~~b]"])
def test_what_python_warns_of_and_rust_reads_in_its_own_way_is_a_hint_at_most(pattern: str) -> None:
    """Classes of classes are plain Rust; Python's warning about them once ended the turn or filled the log."""
    assert all(isinstance(sample, str) for sample in samples(GrammarSpec(kind="regex", text=pattern)))


@pytest.mark.parametrize("pattern", ["(", r"\p{L}+", "(?:(?:a{999}){999}){999}", "a{3000}", "[^\\s\\S]"])
def test_what_python_cannot_read_or_is_too_long_gives_no_hint(pattern: str) -> None:
    assert samples(GrammarSpec(kind="regex", text=pattern)) == ()
