"""Shapes while they are written: what they become, what is said about them, and where."""

import json

import pytest

from app.shape_draft import (
    ShapeDraft,
    draft_of,
    draft_of_file,
    file_text,
    look,
    new_draft,
    place_of,
    visible,
    with_fixes,
)
from grammars.presets import parse_preset, presets
from grammars.spec import Guards, ShapeError


def saved(draft: ShapeDraft, name: str = "it"):
    return parse_preset(json.dumps({"name": name} | json.loads(file_text(draft))), name)


@pytest.mark.parametrize("name", sorted(presets()))
def test_a_shape_that_is_opened_and_saved_is_the_same_shape(name: str) -> None:
    preset = presets()[name]
    assert saved(draft_of(preset), name) == preset


def test_guards_whitespace_tags_and_key_order_are_saved() -> None:
    draft = ShapeDraft(
        kind="json_schema",
        text='{"type": "object", "properties": {"z": {}, "a": {}}}',
        whitespace="spaced",
        guards=Guards(digits=5, blanks=None),
        title="T",
        description="D",
        tags=("x", "y"),
        example_prompt="E",
    )
    preset = saved(draft)
    assert preset.spec().guards == Guards(digits=5, blanks=None)
    assert (preset.whitespace, preset.title, preset.description) == ("spaced", "T", "D")
    assert (preset.tags, preset.example_prompt) == (["x", "y"], "E")
    assert preset.json_schema and list(preset.json_schema["properties"]) == ["z", "a"]


@pytest.mark.parametrize("kind", ["json_schema", "regex", "lark", "choice"])
def test_what_a_new_shape_begins_with_can_be_used(kind) -> None:
    found = look(new_draft(kind))
    assert found.usable
    assert found.parts


def test_choices_stand_one_a_line_unless_a_line_would_say_something_else() -> None:
    assert ShapeDraft(kind="choice", text="yes\n\nno\n").spec().text == '["yes", "no"]'
    for texts in (["yes", "no"], ["a\nb", "c"], ["[x]", "y"], [" ", "y"], ["a\u202eb", "y"]):
        draft = draft_of_file("it", json.dumps({"choices": texts}))
        assert saved(draft).choices == texts


def test_a_finding_has_a_place_in_the_text() -> None:
    draft = ShapeDraft(
        kind="json_schema", text='{"type": "object",\n "properties": {"a": {"type": "strin"}}}'
    )
    (finding,) = look(draft).findings
    assert draft.text[place_of(draft, finding) or 0 :].startswith('"type": "strin"')
    draft = ShapeDraft(kind="choice", text="yes\n\nYes\nno")
    (finding,) = look(draft).findings
    assert place_of(draft, finding) == 5
    draft = ShapeDraft(kind="json_schema", text='{"type":\n nope}')
    (finding,) = look(draft).findings
    assert place_of(draft, finding) == 10


def test_what_is_not_enforced_is_told() -> None:
    schema = '{"type": "string", "format": "idn-email"}'
    found = look(ShapeDraft(kind="json_schema", text=schema))
    assert found.usable
    assert "checked when the reply is complete" in " ".join(found.told)


@pytest.mark.parametrize("text", ["", "[1", "{", "nope", '["a", 1]', '{"type": 5}'])
def test_no_text_is_too_faulty_to_be_looked_at(text: str) -> None:
    for kind in ("json_schema", "regex", "lark", "choice"):
        found = look(ShapeDraft(kind=kind, text=text))
        assert found.usable or any(finding.level == "error" for finding in found.findings)


def test_fixes_are_applied_and_nothing_else() -> None:
    draft = ShapeDraft(kind="json_schema", text='{"type": "str", "minLenght": 3}')
    assert json.loads(with_fixes(draft).text) == {"type": "string", "minLength": 3}
    fine = ShapeDraft(kind="json_schema", text='{"type": "string"}')
    assert with_fixes(fine) is fine
    with pytest.raises(ShapeError):
        with_fixes(ShapeDraft(kind="json_schema", text="{"))


def test_a_file_that_cannot_be_used_is_opened_as_far_as_it_can_be_read() -> None:
    broken = draft_of_file("it", '{"name": "other", "title": 5, "regex": "[a", "extra": 1}')
    assert (broken.kind, broken.text, broken.name) == ("regex", "[a", "it")
    assert draft_of_file("it", "no JSON").text == "no JSON"


def test_what_a_terminal_would_act_on_is_written_as_an_escape_that_means_the_same() -> None:
    text = json.dumps({"const": "a\u202e\x9b\u2028 \N{GRINNING FACE}"}, ensure_ascii=False)
    assert "\u202e" not in visible(text)
    assert json.loads(visible(text)) == json.loads(text)
    assert visible("a\r\nb\tc") == "a\nb\tc"
