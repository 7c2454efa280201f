"""The field being filled: the path at every place of a growing text, however it is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.progress import Progress, field
from grammars.schema import step


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "$"),
        ("12", "$"),
        ('"a: [', "$"),
        ("{", "$"),
        ('{"ta', "$"),
        ('{"tags"', "$.tags"),
        ('{"tags": ', "$.tags"),
        ('{"tags": [', "$.tags[0]"),
        ('{"tags": ["a", "b", "', "$.tags[2]"),
        ('{"tags": ["a", "b"]', "$.tags"),
        ('{"tags": [], ', "$"),
        ('{"tags": [], "na', "$"),
        ('{"a": {"b": [[1, 2], [', "$.a.b[1][0]"),
        ('{"a": {"b": 1}', "$.a"),
        ('{"a": {"b": 1}}', "$"),
        ('{"a b": "x", "c\\"d": ', '$["c\\"d"]'),
        ('{"\\u00e9": ', "$.é"),
        ('{"a": "\\\\", "b": "\\"', "$.b"),
        ("]}],:", "$"),
        ('{"a\\', "$"),
    ],
)
def test_the_path_of_what_is_being_written(text: str, path: str) -> None:
    assert field(text) == path


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def leaves(value: object, path: str = "$") -> list[str]:
    """Return the paths of the scalars in the order in which they are written."""
    if isinstance(value, dict):
        return [leaf for key, child in value.items() for leaf in leaves(child, step(path, key))]
    if isinstance(value, list):
        return [leaf for place, child in enumerate(value) for leaf in leaves(child, step(path, place))]
    return [path]


@given(value=VALUES, ascii_only=st.booleans())
def test_every_scalar_is_passed_under_its_path_and_cuts_do_not_matter(
    value: object, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=None)
    progress = Progress()
    seen = []
    for end, character in enumerate(text, 1):
        progress.append(character)
        assert progress.field == field(text[:end])
        if not seen or seen[-1] != progress.field:
            seen.append(progress.field)
    assert progress.field == "$"
    passed = iter(seen)
    assert all(path in passed for path in leaves(value))


@given(text=st.text(alphabet='{}[],:"\\ab1 \n', max_size=40))
def test_no_text_is_refused(text: str) -> None:
    assert field(text).startswith("$")
