"""Replies of 2,000 tokens replayed into the interface, and the widgets that show a text while it grows."""

import gc
import json
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pilots import answered, loaded, pick, screen, sees, session, until, write
from textual.geometry import Size

from app.tui.markdown import Settling, rendered
from app.tui.widgets.composer import Composer
from app.tui.widgets.message_view import LONG, MessageView
from app.tui.widgets.stream_markdown import LONGEST_BLOCK, StreamMarkdown
from app.tui.widgets.stream_text import StreamText
from app.tui.widgets.transcript import Transcript

TOKENS = 2_000
ORIGINS = ("forced", "forced", "accepted", "sampled")
PROSE = "Both **banks** of the river – 漢字 👩‍👩‍👧 – are old.\n\n- a mill\n- a crane\n\n```python\nx = [1]\n```\n\n"
LINES = st.sampled_from(
    ["word", "\n", "\n\n", "```\n", "~~~", "- item", "  more", "# head\n", "    code", "\r\n", "`"]
)


def record(count: int) -> str:
    """Return a JSON array long enough for so many tokens of four characters."""
    items = [{"name": f"Haus {number} [/x]", "wert": number / 7, "ja": True} for number in range(count // 8)]
    return json.dumps(items, ensure_ascii=False)


def stream(text: str, *, shaped: bool, seed: int = 1) -> list[dict]:
    """Return the events of a reply: rounds of one to six tokens, characters cut between tokens come with the last."""
    chance = random.Random(seed)
    data = text.encode()
    cuts = [len(data) * place // TOKENS for place in range(TOKENS + 1)]
    pieces = [data[start:end] for start, end in pairwise(cuts)]
    common = {"type": "tokens", "turn": "$turn"}
    events: list[dict] = [
        {"type": "started", "turn": "$turn", "prompt_tokens": 40, "reused_tokens": 8, "seed": 3},
        {"type": "prompt_read", "turn": "$turn", "done": 40, "total": 40},
    ]
    pending, place, forwards = b"", 0, 0
    while place < len(pieces):
        batch = pieces[place : place + chance.randint(1, 6)]
        tokens = []
        for number, piece in enumerate(batch, place):
            origin = ORIGINS[number % 4] if shaped else "sampled"
            allowed = 1 + number * 7 % 900 if shaped and origin != "forced" else None
            tokens.append(
                {"id": number, "text": piece.decode(errors="replace"), "origin": origin, "allowed": allowed}
            )
        place, forwards = place + len(batch), forwards + 1
        pending += b"".join(batch)
        whole = pending.decode(errors="ignore")
        pending = pending[len(whole.encode()) :]
        events.append(
            common | {"tokens": tokens, "text": whole, "forwards": forwards, "elapsed_s": forwards / 100}
        )
    stats = {"prompt_tokens": 40, "reply_tokens": place, "forwards": forwards, "decode_s": forwards / 100}
    events.append(
        {
            "type": "finished",
            "turn": "$turn",
            "finish": "stop",
            "text": text,
            "tokens": list(range(place)),
            "seed": 3,
            "stats": stats | {"tokens_per_s": 100.0, "tokens_per_forward": place / forwards},
        }
    )
    return [{"send": event} for event in events]


@pytest.mark.parametrize("shaped", [True, False], ids=["shaped", "free"])
async def test_a_stream_of_two_thousand_tokens_only_grows_and_ends_as_it_was_sent(open_app, store, shaped):
    text = record(TOKENS) if shaped else PROSE * 100
    script = stream(text, shaped=shaped)
    sent = [token for step in script for token in step["send"].get("tokens", []) if isinstance(token, dict)]
    assert len(sent) == TOKENS
    kind = StreamText if shaped else StreamMarkdown
    async with open_app({"turns": [script]}, (160, 50)) as pilot:
        await loaded(pilot)
        await pick(pilot, "city" if shaped else "none")
        drawn: list[str] = []
        original = pilot.app.screen._frame

        async def watched() -> None:
            await original()
            drawn.extend(view.text for view in pilot.app.screen.query(kind))

        pilot.app.screen._frame = watched
        await write(pilot, "go")
        await answered(pilot, 2)
        for before, after in pairwise(drawn):
            assert after.startswith(before)
        assert not drawn or text.startswith(drawn[-1])
        assert len(drawn) < TOKENS / 4
        reply = session(pilot).path[-1]
        assert reply.content == text
        trace = store.trace(reply.id)
        assert [token.id for token in trace] == [token["id"] for token in sent]
        assert [token.origin for token in trace] == [token["origin"] for token in sent]
        forced = sum(token["origin"] == "forced" for token in sent)
        await sees(pilot, "complete")
        for figure in (rf"tokens\s+{len(sent):,}", rf"forced\s+{forced:,}"):
            await until(pilot, lambda figure=figure: re.search(figure, screen(pilot)))


async def test_a_stopped_stream_keeps_what_was_shown(open_app, store):
    script = stream(PROSE * 100, shaped=False)[:200]
    async with open_app({"turns": [[*script, {"hold": True}]]}) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        said = "".join(step["send"].get("text", "") for step in script)
        await until(pilot, lambda: session(pilot).live.text == said)
        await until(pilot, lambda: said in [view.text for view in pilot.app.screen.query(StreamMarkdown)])
        await pilot.press("escape")
        await sees(pilot, "stopped by you")


async def test_while_a_reply_is_written_the_cursor_stands_still_and_old_objects_are_left_alone(
    open_app, monkeypatch
):
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "full")
    usual = gc.get_threshold()

    def cursor() -> bool:
        """Tell whether the row that is written shows one."""
        strip = composer.render_line(0)
        return len({segment.style for segment in strip.crop(0, 4)}) > 1

    async with open_app({"turns": [[{"say": "one"}, {"hold": True}]]}) as pilot:
        await loaded(pilot)
        composer = pilot.app.screen.query_one(Composer)
        assert composer.cursor_blink
        await write(pilot, "go")
        await pilot.press(*"abc")
        await until(pilot, lambda: not composer.cursor_blink)
        assert gc.get_threshold()[:2] == usual[:2]
        assert gc.get_threshold()[2] > 1_000_000
        assert cursor()
        await pilot.press("escape")
        await until(pilot, lambda: composer.cursor_blink)
        assert gc.get_threshold() == usual
        await until(pilot, lambda: not cursor())
        composer.hold_still(True)
        assert cursor()


async def test_a_message_of_a_megabyte_is_drawn_row_by_row_and_found_at_its_end(open_app, store):
    chat = store.create_chat(title="big")
    text = "\n".join(f"line {number} [/x] \x1b[31m" for number in range(50_000))
    store.add_user(chat, None, text)
    store.set_draft(chat, "open me")
    async with open_app({}) as pilot:
        await sees(pilot, "line 49999 [/x] ␛[31m")
        view = pilot.app.screen.query_one(MessageView)
        assert len(text) > LONG
        assert view.size.height == 50_001
        await pilot.press("ctrl+up")
        await until(pilot, lambda: pilot.app.screen.query_one(Transcript).has_focus)
        pilot.app.screen.query_one(Transcript).scroll_home(animate=False)
        await sees(pilot, "› You")
        await sees(pilot, "line 0 [/x] ␛[31m")
        await pilot.resize_terminal(40, 15)
        await sees(pilot, "line 0 [/x] ␛[31m")


@given(st.lists(LINES, max_size=40), st.integers(1, 7))
def test_what_is_settled_does_not_depend_on_how_a_text_was_cut(lines, size):
    text = "".join(lines)
    whole, growing = Settling(), Settling()
    whole.append(text)
    ends = []
    for start in range(0, len(text), size):
        growing.append(text[start : start + size])
        ends.append(growing.end)
    assert growing.end == whole.end <= len(text)
    assert ends == sorted(ends)
    assert whole.end == 0 or text[: whole.end].endswith("\n")


def test_an_open_fence_settles_nothing_behind_it():
    settling = Settling()
    settling.append("one\n\ntwo\n\n```\na\n\nb\n\n")
    assert settling.end == len("one\n\ntwo\n\n")
    settling.append("```\n\nthree\n")
    assert settling.end == len("one\n\ntwo\n\n```\na\n\nb\n\n```\n\n")


@pytest.mark.parametrize(
    "block", ["word " * 4_000, "```\n" + "x = 1  # 漢字\n" * 1_500], ids=["words", "code"]
)
async def test_a_long_unfinished_block_is_appended_to_and_set_out_when_it_is_whole(open_app, block):
    assert len(block) > LONGEST_BLOCK
    steps = [{"say": "First.\n\n", "size": 8}, {"say": block, "size": 500}, {"hold": True}]
    async with open_app({"turns": [steps]}) as pilot:
        await loaded(pilot)
        await write(pilot, "go")
        await until(pilot, lambda: pilot.app.screen.query(StreamMarkdown))
        view = pilot.app.screen.query_one(StreamMarkdown)
        await until(pilot, lambda: len(view.text) == len(block) + 8)

        def grown() -> str:
            rows = (view.render_line(y).text for y in range(view.size.height))
            return "".join(rows).replace(" ", "")

        await until(pilot, lambda: grown() == "First." + block.replace("\n", "").replace(" ", ""))
        view.append("\n```\n\nLast.\n" if block.startswith("`") else "\n\nLast.\n")
        height = view.get_content_height(Size(80, 20), Size(80, 20), view.size.width)
        assert height > 10
        await until(pilot, lambda: "Last." in screen(pilot))
        assert "```" not in screen(pilot)


def test_a_line_ends_where_it_ends_in_the_text():
    assert rendered("Roses are red\nViolets are **blue**\n\nNew", 40).plain == (
        "Roses are red\nViolets are blue\n\nNew"
    )
