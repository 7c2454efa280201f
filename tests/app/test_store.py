"""Chats, trees, replies and search on disk: nothing typed or generated is lost or changed."""

import json
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chatting import CITY, MODEL, YES_NO, finished, reply, rich_chat, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import prompt
from app.store import Attachment, Store, StoreError
from engine.protocol import Message, Sampling

HOSTILE = "a\0b \x1b[31m \x9b \u202e [/x] <|im_end|> '; DROP TABLE chats; -- \r\n 👩‍👩‍👧 \ufffd"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


def sql(store: Store, query: str) -> list[tuple]:
    """Ask the file itself, past the class."""
    [(_, _, path)] = store._database.rows("PRAGMA database_list")
    with sqlite3.connect(path) as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


# --- chats


def test_a_chat_comes_back_as_it_was_left(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        chat = store.create_chat(title=HOSTILE, system=HOSTILE)
        store.set_draft(chat, HOSTILE)
        store.set_shape(chat, CITY, on=False, shown=True)
        store.set_settings(chat, {"temperature": 0, "nested": {"key": [None, "\0"]}})
        store.set_pinned(chat, True)
        before = store.chat(chat)
    with Store(tmp_path / "s") as store:
        after = store.chat(chat)
    assert after == before
    assert (after.title, after.system, after.draft) == (HOSTILE, HOSTILE, HOSTILE)
    assert after.shape == CITY
    assert (after.shape_on, after.shape_shown, after.pinned) == (False, True, True)
    assert after.settings == {"temperature": 0, "nested": {"key": [None, "\0"]}}


def test_chats_are_listed_pinned_first_then_latest_and_the_trash_apart(store: Store) -> None:
    old, pinned, new, gone = (store.create_chat(title=t) for t in ("old", "pinned", "new", "gone"))
    store.set_pinned(pinned, True)
    store.trash_chat(gone)
    assert [chat.id for chat in store.chats()] == [pinned, new, old]
    assert [chat.id for chat in store.chats(trashed=True)] == [gone]
    store.restore_chat(gone)
    assert store.chats(trashed=True) == []
    assert gone in [chat.id for chat in store.chats()]


def test_a_deleted_chat_leaves_nothing_and_its_number_is_not_given_again(store: Store) -> None:
    chat = rich_chat(store)
    store.delete_chat(chat)
    tables = ("messages", "replies", "reply_tokens", "reply_chunks", "attachments")
    assert [sql(store, f"SELECT count(*) FROM {table}") for table in tables] == [[(0,)]] * 5
    assert store.search("city") == []
    assert store.create_chat() > chat


def test_a_deep_chat_can_be_deleted(store: Store) -> None:
    chat, parent = store.create_chat(), None
    with store._database.transaction():
        for _ in range(1500):  # SQLite stops a chain of cascades after 1,000 steps
            parent = store.add_user(chat, parent, "x")
    store.delete_chat(chat)
    assert store.chats() == []


def test_the_shape_of_the_next_reply_stays_while_switched_off(store: Store) -> None:
    chat = store.create_chat()
    store.set_shape(chat, CITY, on=True, shown=False)
    store.set_shape(chat, CITY, on=False, shown=False)
    assert store.chat(chat).shape == CITY
    store.set_shape(chat, None, on=False, shown=True)
    assert store.chat(chat).shape is None


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.chat(9),
        lambda s: s.path(9),
        lambda s: s.rename_chat(9, ""),
        lambda s: s.trash_chat(9),
        lambda s: s.delete_chat(9),
        lambda s: s.add_user(9, None, ""),
        lambda s: s.message(9),
        lambda s: s.tip(9),
        lambda s: s.siblings(9),
        lambda s: s.set_leaf(9, None),
        lambda s: s.path(s.create_chat(), 9),
        lambda s: s.add_user(s.create_chat(), 9, ""),
        lambda s: s.set_leaf(s.create_chat(), 9),
        lambda s: s.checkpoint(9, "", []),
        lambda s: s.abandon_reply(9, finish="error", error=""),
    ],
)
def test_what_is_not_there_is_named(store: Store, act) -> None:
    with pytest.raises(StoreError, match=r"store\.sqlite3.* 9"):
        act(store)


# --- the tree


def test_messages_form_a_tree_with_an_active_path(store: Store) -> None:
    chat = store.create_chat()
    first = store.add_user(chat, None, "one")
    a = reply(store, chat, first, "A")
    b = reply(store, chat, first, "B")
    more = store.add_user(chat, a, "two")
    assert [m.id for m in store.path(chat)] == [first, a, more]
    assert [m.id for m in store.path(chat, b)] == [first, b]
    assert [m.id for m in store.children(first)] == [a, b] == [m.id for m in store.siblings(b)]
    assert [(m.sibling, m.siblings) for m in store.path(chat, b)] == [(1, 1), (2, 2)]
    assert store.tip(first) == b
    assert store.tip(a) == more
    store.set_leaf(chat, b)
    assert store.chat(chat).leaf == b
    assert [m.id for m in store.tree(chat)] == [first, a, b, more]
    assert store.chat(chat).messages == 4


def test_several_first_messages_are_siblings(store: Store) -> None:
    chat, other = store.create_chat(), store.create_chat()
    roots = [store.add_user(chat, None, text) for text in "ab"]
    store.add_user(other, None, "elsewhere")
    assert [m.id for m in store.siblings(roots[0])] == roots


def test_a_message_of_another_chat_is_no_parent_and_no_leaf(store: Store) -> None:
    chat, other = store.create_chat(), store.create_chat()
    message = store.add_user(other, None, "x")
    with pytest.raises(StoreError, match="no message"):
        store.add_user(chat, message, "y")
    with pytest.raises(StoreError, match="no message"):
        store.set_leaf(chat, message)
    assert store.path(chat) == []


def test_a_tree_cannot_become_a_ring(store: Store) -> None:
    chat = store.create_chat()
    first = store.add_user(chat, None, "one")
    second = reply(store, chat, first, "two")
    with pytest.raises(StoreError, match="CHECK"):
        store._database.run("UPDATE messages SET parent_id = ? WHERE id = ?", second, first)
    assert [m.id for m in store.path(chat)] == [first, second]


def test_a_trashed_message_leaves_the_path_and_comes_back(store: Store) -> None:
    chat = store.create_chat()
    first = store.add_user(chat, None, "one")
    a, b = reply(store, chat, first, "A"), reply(store, chat, first, "B")
    below = store.add_user(chat, b, "below")
    store.trash_message(b)
    assert store.chat(chat).leaf == a
    assert [(m.id, m.siblings) for m in store.path(chat)] == [(first, 1), (a, 1)]
    assert below not in [m.id for m in store.tree(chat)]
    store.trash_message(a)
    assert store.chat(chat).leaf == first
    store.restore_message(b)
    assert [m.id for m in store.path(chat)] == [first, b, below]


def test_a_trashed_branch_beside_the_path_leaves_the_path_alone(store: Store) -> None:
    chat = store.create_chat()
    first = store.add_user(chat, None, "one")
    a, b = reply(store, chat, first, "A"), reply(store, chat, first, "B")
    store.trash_message(a)
    assert store.chat(chat).leaf == b


@given(content=st.text(), name=st.text(), title=st.text())
@settings(max_examples=25, deadline=None)
def test_any_text_is_kept_character_by_character(
    content: str, name: str, title: str, tmp_path_factory
) -> None:
    with Store(tmp_path_factory.mktemp("any") / "s") as store:
        chat = store.create_chat(title=title, system=content)
        message = store.add_user(chat, None, content, attachments=[Attachment(name=name, content=content)])
        reply(store, chat, message, content)
        asked, answered = store.path(chat)
    assert asked.content == answered.content == content
    assert asked.attachments == (Attachment(name=name, content=content),)


def test_a_lone_surrogate_costs_that_character_only(store: Store) -> None:
    chat = store.create_chat(title="a\ud800b")
    store.add_user(chat, None, "half \udc00 of it")
    assert store.chat(chat).title == "a\ufffdb"
    assert store.path(chat)[0].content == "half \ufffd of it"


def test_shapes_are_stored_once_and_exactly(store: Store) -> None:
    chat = store.create_chat()
    renamed = replace(CITY, name="town")
    respelled = replace(CITY, text=CITY.text.replace(" ", ""))
    assert {CITY.hash, renamed.hash, respelled.hash} == {CITY.hash}
    for shape in (CITY, renamed, respelled, CITY, YES_NO, YES_NO, None):
        store.add_user(chat, store.chat(chat).leaf, "x", shape=shape)
    assert [m.shape for m in store.path(chat)] == [CITY, renamed, respelled, CITY, YES_NO, YES_NO, None]
    assert sql(store, "SELECT count(*) FROM shapes") == [(4,)]
    assert list(json.loads(store.path(chat)[0].shape.text)["properties"]) == ["zip", "age"]


# --- replies


def test_a_reply_keeps_all_that_is_known_of_it(store: Store) -> None:
    chat = store.create_chat()
    asked = store.add_user(chat, None, "?")
    sampling = Sampling(temperature=1.5, logit_bias={3: -2.0}, banned=(4,), seed=7)
    number = store.begin_reply(
        chat, asked, shape=CITY, sampling=sampling, seed=7, model=MODEL, options={"max_tokens": 5}
    )
    before = store.message(number)
    assert before.reply and before.reply.state == "generating" and before.reply.finish is None
    end = finished("{}", finish="landed", error="e", reasoning="thought", seed=8)
    store.finish_reply(number, end, valid=False, trace=tokens("{}"))
    message = store.message(number)
    known = message.reply
    assert known
    assert (message.content, message.shape, message.parent) == ("{}", CITY, asked)
    assert (known.state, known.finish, known.error, known.reasoning) == ("done", "landed", "e", "thought")
    assert (known.valid, known.seed, known.sampling, known.model) == (False, 8, sampling, MODEL)
    assert (known.stats, known.tokens, known.options) == (end.stats, end.tokens, {"max_tokens": 5})
    assert store.trace(number) == tuple(tokens("{}"))
    assert known.finished_at and known.finished_at >= message.created_at


def test_checkpoints_are_what_a_reader_sees_until_the_end_replaces_them(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    assert store.message(number).content == ""
    for length in (1, 1, 4, 9):
        store.checkpoint(number, "123456789"[:length], tokens("123456789")[:length])
    assert sql(store, "SELECT text FROM reply_chunks ORDER BY id") == [("1",), ("234",), ("56789",)]
    assert store.message(number).content == "123456789"
    assert store.trace(number) == tuple(tokens("123456789"))
    assert store.search("456") == []
    store.finish_reply(number, finished("123456789!"), valid=None, trace=tokens("123456789!"))
    assert sql(store, "SELECT count(*) FROM reply_chunks") == [(0,)]
    assert store.message(number).content == "123456789!"
    assert [hit.message_id for hit in store.search("456")] == [number]


def test_a_checkpoint_that_failed_is_written_with_the_next(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    store._database.run("PRAGMA query_only=ON")
    with pytest.raises(StoreError, match="read-only"):
        store.checkpoint(number, "ab", tokens("ab"))
    store._database.run("PRAGMA query_only=OFF")
    store.checkpoint(number, "abc", tokens("abc"))
    assert store.message(number).content == "abc"


def test_what_a_reply_writes_grows_with_its_length_and_not_with_its_square(tmp_path: Path) -> None:
    def written(checkpoints: int) -> int:
        with Store(tmp_path / f"{checkpoints}") as store:
            chat = store.create_chat()
            number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
            store._database.run("PRAGMA wal_autocheckpoint=0")  # so that the log holds all that was written
            text, trace = "x" * 400 * checkpoints, tokens("x" * 400 * checkpoints)
            for i in range(1, checkpoints + 1):
                store.checkpoint(number, text[: 400 * i], trace[: 400 * i])
            return (tmp_path / f"{checkpoints}-wal").stat().st_size

    assert written(80) < 2.5 * written(40)


def test_a_reply_whose_engine_died_keeps_what_was_checkpointed(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    store.checkpoint(number, "abc", tokens("abc"), reasoning="so")
    store.abandon_reply(number, finish="error", error="killed", seed=5)
    message = store.message(number)
    assert message.reply and message.content == "abc"
    assert (message.reply.finish, message.reply.error, message.reply.seed) == ("error", "killed", 5)
    assert (message.reply.reasoning, message.reply.tokens) == ("so", (0, 1, 2))
    with pytest.raises(StoreError, match="not being written"):
        store.checkpoint(number, "abcd", tokens("abcd"))


def test_the_ids_of_a_cut_reply_are_those_behind_its_reasoning(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    thought = [replace(token, part="reasoning") for token in tokens("hm")]
    trace = [*thought, *tokens("yes", start=2)]
    store.checkpoint(number, "yes", trace, reasoning="hm")
    store.abandon_reply(number, finish="error", error="killed")
    known = store.message(number).reply
    assert known and (known.tokens, known.reasoning) == ((2, 3, 4), "hm")
    assert store.trace(number) == tuple(trace)


def test_ids_that_do_not_spell_the_text_are_not_given_to_the_engine(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(
        chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling(), model=MODEL
    )
    store.checkpoint(number, "ab", tokens("ab\ufffd"))  # the third token began a character that never ended
    store.abandon_reply(number, finish="error", error="killed")
    message = store.message(number)
    assert message.reply and message.reply.tokens == ()
    assert len(store.trace(number)) == 3


# --- the engine's view


def test_the_prompt_is_the_path_with_shapes_and_committed_ids(store: Store) -> None:
    chat = store.create_chat(system="Be brief.")
    asked = store.add_user(
        chat,
        None,
        "one",
        shape=CITY,
        attachments=[Attachment(name="a.txt", content="A"), Attachment(name="b", content="B")],
    )
    answered = reply(store, chat, asked, "{}", shape=CITY)
    unknown = store.begin_reply(chat, answered, shape=None, sampling=Sampling())
    store.finish_reply(unknown, finished("xy"), valid=None, trace=tokens("xy"))
    assert prompt(store.chat(chat), store.path(chat)) == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="one\n\na.txt:\n```\nA\n```\n\nb:\n```\nB\n```", shape=CITY),
        Message(role="assistant", content="{}", tokens=(0, 1), vocabulary=MODEL.vocabulary),
        Message(role="assistant", content="xy"),
    )


def test_without_a_system_prompt_the_path_begins_with_the_person(store: Store) -> None:
    chat = store.create_chat()
    store.add_user(chat, None, HOSTILE)
    assert prompt(store.chat(chat), store.path(chat)) == (Message(role="user", content=HOSTILE),)


def test_the_index_agrees_with_the_texts_after_every_change(store: Store) -> None:
    chat = rich_chat(store)
    store.delete_chat(rich_chat(store))
    store.add_user(chat, None, HOSTILE)
    store._database.run("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
    assert sql(store, "PRAGMA integrity_check") == [("ok",)]
    assert sql(store, "PRAGMA foreign_key_check") == []


def test_files_are_private(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        chat = store.create_chat()
        store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
        files = list(tmp_path.iterdir())
        assert len(files) == 4  # database, log, shared memory, lock
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
