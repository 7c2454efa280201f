"""The parts of the interface that compute: wrapping, layout of JSON, words."""

import json
from types import SimpleNamespace

import pytest
import scripted_worker
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.events import Key
from textual.keys import _character_to_key

from app.tui.pretty import pretty_json
from app.tui.widgets.plain_fields import PlainArea, PlainInput
from app.tui.widgets.rows import Wrap
from app.tui.words import bar, engine_words, key_words, numerics_words, share_words, sparkline
from engine.events import ModelInfo, Ready

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def pretty(text: str, width: int = 60) -> str:
    return "".join(part for _, part in pretty_json(text, width))


@given(VALUES, st.integers(0, 80))
def test_json_set_out_is_the_same_json(value, width):
    assert json.loads(pretty(json.dumps(value), width)) == value


def test_json_is_set_out_by_its_own_words():
    text = '{"a":1.10,"a":1e400,"long":["' + "x" * 60 + '"],"short":[1,2],"none":{},"q":"\\"}{"}'
    assert pretty(text).splitlines() == [
        "{",
        '  "a": 1.10,',
        '  "a": 1e400,',
        '  "long": [',
        '    "' + "x" * 60 + '"',
        "  ],",
        '  "short": [1, 2],',
        '  "none": {},',
        '  "q": "\\"}{"',
        "}",
    ]


def test_deep_json_is_no_deep_recursion():
    text = "[" * 5000 + "]" * 5000
    assert pretty(text, 0).count("[") == 5000


@given(st.lists(st.text(alphabet="ab \n界😀\u200d\ufe0f")), st.integers(2, 12))
def test_wrapping_piece_by_piece_equals_wrapping_at_once(pieces, width):
    growing, whole = Wrap(width), Wrap(width)
    for piece in pieces:
        growing.append(piece)
    whole.append("".join(pieces))
    assert growing.rows == whole.rows


@given(st.text(alphabet="ab \n界😀\u200d\ufe0f"), st.integers(2, 12))
def test_rows_fit_and_lose_nothing(text, width):
    wrap = Wrap(width)
    wrap.append(text)
    assert all(cell_len(row.rstrip(" ")) <= width for row in wrap.rows)
    assert "".join(wrap.rows) == text.replace("\n", "")


def test_words_are_kept_whole_where_they_fit():
    wrap = Wrap(10)
    wrap.append("one two three four")
    assert wrap.rows == ["one two ", "three four"]


@pytest.mark.parametrize(
    ("fraction", "text"), [(-1, "░░░░"), (0, "░░░░"), (0.5, "██░░"), (1, "████"), (9, "████")]
)
def test_a_bar_stays_within_its_width(fraction, text):
    assert bar(fraction, 4) == text


def test_a_sparkline_shows_the_last_values():
    assert sparkline([0, 0, 1, 0.5], 3) == "▁█▅"
    assert sparkline([], 5) == ""
    assert sparkline([1], 0) == ""


@given(st.integers(1, 300_000), st.data(), st.integers(0, 2))
def test_less_than_all_is_never_written_as_all(whole, data, places):
    part = data.draw(st.integers(0, whole))
    words = share_words(part / whole, places)
    assert words.startswith("100") == (part == whole)
    assert abs(float(words.removesuffix("%")) / 100 - part / whole) <= 10 ** -(places + 2)


def test_numerics_are_said_in_words():
    assert [numerics_words(word) for word in ("exact", "fast", "unverified")] == [
        "exact",
        "fast",
        "exact, not yet checked",
    ]


def test_a_narrow_status_line_leaves_out_the_name_of_the_model_first():
    loading = SimpleNamespace(state="loading", fraction=0.999, model_name="model.gguf")
    assert engine_words(loading, 80) == "Loading   99%  ██████████  (Escape stops)  model.gguf"
    assert engine_words(loading, 45) == "Loading   99%  ██████████  (Escape stops)"
    assert engine_words(loading, 38) == "Loading   99%  (Escape stops)"
    model = ModelInfo(**scripted_worker.MODEL)
    notices = ("The context is 512.",)
    ready = Ready(model=model, context=512, threads=1, exact="exact", numerics_reason="", notices=notices)
    engine = SimpleNamespace(state="ready", ready=ready)
    assert engine_words(engine, 80) == "Ready  Scripted 1M  The context is 512."
    assert engine_words(engine, 30) == "Ready  The context is 512."


@pytest.mark.parametrize("field", [PlainInput, PlainArea])
async def test_editing_keys_run_before_the_characters_typed_after_them(field):
    """In one burst, as tmux sends keys, three Backspaces once ran behind the characters that followed them."""

    class Fields(App[None]):
        def compose(self) -> ComposeResult:
            yield field()

    async with Fields().run_test() as pilot:
        widget = pilot.app.query_one(field)
        widget.focus()
        await pilot.press(*"0.75")
        for key, character in [("backspace", None)] * 3 + [
            ("full_stop", "."),
            ("5", "5"),
            ("left", None),
            ("x", "x"),
        ]:
            pilot.app.post_message(Key(key, character))
        await pilot.pause(0.1)
        assert (widget.value if field is PlainInput else widget.text) == "0.x5"


@pytest.mark.parametrize("field", [PlainInput, PlainArea])
async def test_typed_joiners_stay_in_the_text(field):
    """A typed family of emoji once became three people, and Persian words lost their joints."""
    typed = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u06cc\u200c\u062e"

    class Fields(App[None]):
        def compose(self) -> ComposeResult:
            yield field()

    async with Fields().run_test() as pilot:
        widget = pilot.app.query_one(field)
        widget.focus()
        for character in typed:
            pilot.app.post_message(Key(_character_to_key(character), character))
        await pilot.pause(0.1)
        assert (widget.value if field is PlainInput else widget.text) == typed


def test_keys_are_named_as_people_write_them():
    """`r` and `R` do different things and once stood in the list of keys as R and R."""
    assert [key_words(key) for key in ("r", "R", "ctrl+t", "shift+f2", "left_square_bracket")] == [
        "R",
        "Shift+R",
        "Ctrl+T",
        "Shift+F2",
        "[",
    ]
