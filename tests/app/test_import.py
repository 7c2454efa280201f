"""What was exported comes back the same; what anyone else wrote is checked, and comes in whole or not at all."""

import copy
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chatting import CITY, MODEL, finished, rich_chat, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from app.exchange import ImportRefusedError, dumps, export_chat, export_chats, import_chats
from app.store import Attachment, Store, StoreError
from engine.events import Finished, Stats, Token
from engine.protocol import Sampling
from grammars.spec import GrammarSpec


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s") as store:
        yield store


@pytest.fixture
def document(store: Store) -> dict[str, Any]:
    return export_chat(store, rich_chat(store), trace=True)


def compared(document: dict[str, Any]) -> str:
    """Return what an export says of the chats, as text, so that the order of keys counts too."""
    return dumps({key: value for key, value in document.items() if key not in ("exported_at", "program")})


def brought_in(store: Store, document: dict[str, Any]) -> list[int]:
    return list(import_chats(store, dumps(document)).chats)


def assert_sound(store: Store) -> None:
    assert store._database.rows("PRAGMA main.integrity_check")[0][0] == "ok"
    assert store._database.rows("PRAGMA foreign_key_check") == []


@pytest.mark.parametrize("trace", [False, True])
def test_a_chat_that_went_out_comes_in_the_same(store: Store, tmp_path: Path, trace: bool) -> None:
    first = export_chat(store, rich_chat(store), trace=trace)
    with Store(tmp_path / "elsewhere") as other:
        other.create_chat(title="in the way")
        [chat] = brought_in(other, first)
        assert compared(export_chat(other, chat, trace=trace)) == compared(first)
        assert_sound(other)
        assert [hit.chat_id for hit in other.search("Which city")] == [chat]
    [again] = brought_in(store, first)
    assert compared(export_chat(store, again, trace=trace)) == compared(first)


def test_a_chat_that_is_here_already_is_told_whatever_it_is_called_now(store: Store, tmp_path: Path) -> None:
    chat = rich_chat(store)
    title = store.chat(chat).title
    first = dumps(export_chat(store, chat))
    with Store(tmp_path / "elsewhere") as other:
        assert import_chats(other, first).notices == ()
        [other_chat] = [found.id for found in other.chats()]
        other.rename_chat(other_chat, "renamed")
        [notice] = import_chats(other, first).notices
        assert notice == f"“{title}” was here already and is now here twice."
        other.add_user(other_chat, None, "and more")
        assert len(import_chats(other, first).notices) == 1
        other.trash_message(other.tree(other_chat)[-1].id)
        assert len(import_chats(other, first).notices) == 1  # the copy is still whole
        for found in other.chats():
            other.trash_chat(found.id)
        assert import_chats(other, first).notices == ()


def test_all_chats_go_out_and_come_in_as_one_document(store: Store, tmp_path: Path) -> None:
    chats = [rich_chat(store), store.create_chat(title="empty"), rich_chat(store)]
    first = export_chats(store, chats, trace=True)
    assert len(first["shapes"]) == 3 and len(first["models"]) == 1
    with Store(tmp_path / "elsewhere") as other:
        imported = import_chats(other, dumps(first))
        assert (len(imported.chats), imported.messages, imported.notices) == (3, 10, ())
        assert compared(export_chats(other, imported.chats, trace=True)) == compared(first)


def test_the_same_document_twice_makes_two_chats(store: Store, document: dict[str, Any]) -> None:
    assert len({*brought_in(store, document), *brought_in(store, document)}) == 2
    assert len(store.chats()) == 3


def test_what_comes_in_is_used_like_what_was_written_here(store: Store, document: dict[str, Any]) -> None:
    [chat] = brought_in(store, document)
    path = store.path(chat)
    assert [message.content for message in path] == ["Which city? 🌆\0", "{}"]
    assert path[1].reply and path[1].reply.model
    assert (path[1].reply.model.fingerprint, path[1].reply.model.path) == (MODEL.fingerprint, "")
    assert '{"zip":"1","age":2}' in store.earlier_replies(CITY)
    further = store.add_user(chat, path[-1].id, "and on")
    assert store.path(chat)[-1].id == further
    store.delete_chat(chat)
    assert_sound(store)


def test_a_reply_that_was_being_written_comes_in_as_interrupted(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    store.checkpoint(number, "ab", tokens("ab"))
    [new] = brought_in(store, export_chat(store, chat, trace=True))
    reply = store.path(new)[1].reply
    assert reply and (reply.state, reply.finish, reply.error) == ("done", "cancelled", "interrupted")


def test_lone_surrogates_are_replaced_and_said(store: Store, document: dict[str, Any]) -> None:
    document["chat"]["title"] = "half \ud800"
    document["chat"]["settings"] = {"\udc00": ["\ud801\ud802"]}
    imported = import_chats(store, json.dumps(document))
    assert imported.notices[0] == "4 lone surrogates in the file became the replacement character."
    chat = store.chat(imported.chats[0])
    assert (chat.title, chat.settings) == ("half \ufffd", {"\ufffd": ["\ufffd\ufffd"]})


def test_a_hash_that_is_not_that_of_the_text_is_said_and_counted_anew(
    store: Store, document: dict[str, Any]
) -> None:
    document["shapes"][CITY.hash]["hash"] = "0" * 64
    imported = import_chats(store, dumps(document))
    assert imported.notices[0] == "1 shape in the file had another hash than its text has."
    assert CITY.hash in export_chat(store, imported.chats[0])["shapes"]


def test_the_order_of_keys_in_a_shape_survives(store: Store, document: dict[str, Any]) -> None:
    text = '{"type":"object","properties":{"z":{"type":"null"},"a":{"type":"null"},"m":{"type":"null"}}}'
    document["shapes"][CITY.hash]["text"] = text
    [chat] = brought_in(store, document)
    shape = store.path(chat)[0].shape
    assert shape and shape.text == text


# --- what is refused


def changed(document: dict[str, Any], path: tuple, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(document)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("format",), "other", "no chat that Stampo exported"),
        (("version",), 2, "version 2 of the format, and this version of Stampo reads 1"),
        (("chat", "messages", 1, "role"), "system", r"chat\.messages\.1"),
        (("chat", "messages", 1, "finish"), "boom", r"chat\.messages\.1\.assistant\.finish"),
        (("chat", "messages", 4, "parent"), 9, "message 5 stands before its parent 9"),
        (("chat", "messages", 1, "tokens"), [2**32], "tokens"),
        (("chat", "messages", 1, "tokens"), [-1], "tokens"),
        (("chat", "messages", 1, "continued_from"), 2, "message 2 refers to 2, which is not there"),
        (("chat", "messages", 1, "sampling", "temperature"), 101, "temperature"),
        (("chat", "messages", 1, "sampling", "logit_bias"), {"x": 1}, "logit_bias"),
        (("chat", "created"), "2026-02-30T00:00:00Z", r"chat\.created"),
        (("chat", "unheard_of"), 1, r"chat\.unheard_of"),
    ],
)
def test_a_document_that_is_wrong_is_refused_with_the_place(
    store: Store, document: dict[str, Any], path: tuple, value: Any, why: str
) -> None:
    with pytest.raises(ImportRefusedError, match=why):
        import_chats(store, dumps(changed(document, path, value)))
    assert len(store.chats()) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON: .* line 1"),
        ("{", "no JSON"),
        ("[]", "no chat"),
        ("null", "no chat"),
        ('"stampo-chat"', "no chat"),
        ("[" * 100_000, "too deeply"),
        ('{"format": "stampo-chat", "x": ' + "[" * 80 + "]" * 80 + "}", "64 deep"),
        ('{"format": "stampo-chat", "x": 1e999}', "1e999"),
        ('{"format": "stampo-chat", "x": NaN}', "NaN"),
        ('{"format": "stampo-chat", "x": ' + "9" * 5000 + "}", "number that is too long"),
        ('{"format": "stampo-chat", "version": 1}', "Field required"),
    ],
)
def test_a_text_that_is_no_export_is_refused(store: Store, text: str, why: str) -> None:
    with pytest.raises(ImportRefusedError, match=why):
        import_chats(store, text)
    assert store.chats() == []


def test_a_shape_whose_numbers_are_too_long_is_refused(store: Store, document: dict[str, Any]) -> None:
    document["shapes"][CITY.hash]["text"] = f'{{"maximum": {"9" * 5000}}}'
    with pytest.raises(ImportRefusedError, match=rf"shapes\.{CITY.hash}\.text"):
        import_chats(store, dumps(document))


def test_a_document_that_is_too_long_is_refused_unread(store: Store) -> None:
    with pytest.raises(ImportRefusedError, match="longer than"):
        import_chats(store, "é" * 6, most=10)


def test_what_fails_half_way_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    document = export_chats(store, [rich_chat(store), rich_chat(store)], trace=True)
    for chat in document["chats"]:
        chat["messages"][0]["content"] = "x" * 200_000
    before = [(chat.id, chat.title) for chat in store.chats()]
    pages = store._database.row("PRAGMA page_count")
    assert pages
    store._database.run(f"PRAGMA max_page_count={pages[0] + 80}")
    with pytest.raises(StoreError, match="disk is full"):
        import_chats(store, dumps(document))
    assert [(chat.id, chat.title) for chat in store.chats()] == before
    assert_sound(store)


def test_a_large_shape_behind_many_messages_is_worked_through_once(
    store: Store, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    [user] = [message for message in document["chat"]["messages"] if message["id"] == 5]
    document["chat"]["messages"] += [{**user, "id": 6 + n, "shape": CITY.hash} for n in range(50)]
    hashed = []
    original = GrammarSpec.hash.fget  # type: ignore[attr-defined]

    def counted(spec: GrammarSpec) -> str:
        hashed.append(spec)
        return original(spec)

    monkeypatch.setattr(GrammarSpec, "hash", property(counted))
    [chat] = brought_in(store, document)
    export_chat(store, chat)
    assert len(hashed) < 20


# --- generated chats

HOSTILE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["\0", "\x1b]52;c;eA==\x07", "\u202e\u2066", "a [/x] b", "<|im_end|>", "\ufeff", "\r\n", "🌆"]
    ),
)
SHAPES = st.builds(
    GrammarSpec,
    kind=st.sampled_from(["json_schema", "regex", "lark", "choice"]),
    text=HOSTILE,
    whitespace=st.sampled_from(["compact", "spaced", "flexible"]),
    name=st.none() | HOSTILE,
)
FIGURES = st.floats(allow_nan=False, allow_infinity=False, width=32)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FIGURES | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=5,
)
TOKENS = st.lists(
    st.builds(
        Token,
        id=st.integers(0, 2**31),
        text=HOSTILE,
        origin=st.sampled_from(["forced", "sampled", "accepted", "landed"]),
        allowed=st.none() | st.integers(0, 10**6),
        part=st.sampled_from(["reply", "reasoning"]),
    ),
    max_size=4,
)
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.floats(0, 100),
    top_p=st.floats(0.01, 1),
    logit_bias=st.dictionaries(st.integers(0, 10**6), FIGURES.filter(lambda x: abs(x) < 1e29), max_size=2),
    seed=st.none() | st.integers(0, 2**63 - 1),
)


@st.composite
def described(draw: st.DrawFn) -> dict[str, Any]:
    """Return what to write into a chat: the tree as (parent's place or None, message)."""
    messages = []
    for place in range(draw(st.integers(0, 6))):
        parent = draw(st.none() | st.integers(0, place - 1)) if place else None
        messages.append((parent, draw(st.booleans()), draw(HOSTILE), draw(st.none() | SHAPES)))
    return {
        "title": draw(HOSTILE),
        "system": draw(HOSTILE),
        "settings": draw(st.dictionaries(HOSTILE, VALUES, max_size=3)),
        "shape": draw(st.none() | SHAPES),
        "messages": messages,
        "reply": draw(
            st.fixed_dictionaries(
                {
                    "sampling": SAMPLINGS,
                    "options": st.dictionaries(HOSTILE, VALUES, max_size=2),
                    "trace": TOKENS,
                    "reasoning": st.none() | HOSTILE,
                    "error": st.none() | HOSTILE,
                    "finish": st.sampled_from(["stop", "length", "landed", "cancelled", "error"]),
                    "valid": st.none() | st.booleans(),
                    "stats": st.builds(Stats, masked_mean=st.none() | FIGURES, prefill_s=FIGURES),
                    "attachments": st.lists(st.builds(Attachment, name=HOSTILE, content=HOSTILE), max_size=2),
                }
            )
        ),
        "leaf": draw(st.booleans()),
    }


def write(store: Store, what: dict[str, Any]) -> int:
    chat = store.create_chat(title=what["title"], system=what["system"])
    store.set_settings(chat, what["settings"])
    store.set_shape(chat, what["shape"], on=what["shape"] is not None, shown=False)
    numbers: list[int] = []
    more = what["reply"]
    for parent, is_reply, content, shape in what["messages"]:
        above = None if parent is None else numbers[parent]
        if not is_reply:
            numbers.append(store.add_user(chat, above, content, shape=shape, attachments=more["attachments"]))
            continue
        number = store.begin_reply(
            chat,
            above,  # type: ignore[arg-type]
            shape=shape,
            sampling=more["sampling"],
            model=MODEL,
            options=more["options"],
            continued_from=numbers[-1] if numbers else None,
        )
        end = finished(
            content,
            finish=more["finish"],
            error=more["error"],
            reasoning=more["reasoning"],
            stats=more["stats"],
            tokens=tuple(token.id for token in more["trace"]),
        )
        assert isinstance(end, Finished)
        store.finish_reply(number, end, valid=more["valid"], trace=more["trace"])
        numbers.append(number)
    if not what["leaf"]:
        store.set_leaf(chat, None)
    return chat


@given(what=st.lists(described(), min_size=1, max_size=2), trace=st.booleans())
@settings(max_examples=15, deadline=None)
def test_any_chats_that_went_out_come_in_the_same(what: list[dict[str, Any]], trace: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s") as store:
        chats = [write(store, one) for one in what]
        first = export_chats(store, chats, trace=trace)
        imported = import_chats(store, dumps(first))
        here = [one for one in first["chats"] if one["messages"]]
        assert [notice.startswith("“") for notice in imported.notices] == [True] * bool(here)
        assert compared(export_chats(store, imported.chats, trace=trace)) == compared(first)


def test_times_come_back_to_the_millisecond(store: Store, document: dict[str, Any]) -> None:
    document["chat"]["created"] = "1999-12-31T23:59:59.999Z"
    [chat] = brought_in(store, document)
    assert store.chat(chat).created_at == datetime(1999, 12, 31, 23, 59, 59, 999_000, UTC)
