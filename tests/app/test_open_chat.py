"""The open chat needs no engine; what it is while replies are written is in test_session*.py."""

import pytest

from app.open_chat import OpenChat, RefusedError
from app.store.store import Store
from engine.protocol import Sampling


def talked(store: Store) -> OpenChat:
    chat = OpenChat(store)
    asked = store.add_user(chat.chat.id, None, "Is it?")
    for _ in range(2):
        store.abandon_reply(
            store.begin_reply(chat.chat.id, asked, shape=None, sampling=Sampling()), finish="stop", error=""
        )
    chat.open(chat.chat.id)
    return chat


def test_siblings_are_walked_put_away_and_brought_back(store: Store) -> None:
    chat = talked(store)
    question, second = chat.path
    assert (second.sibling, second.siblings) == (2, 2)
    assert chat.show_sibling(second.id, -1)
    first = chat.path[-1]
    assert first.sibling == 1
    assert not chat.show_sibling(first.id, -1)
    chat.trash(first.id)
    assert first.id not in [message.id for message in chat.path]
    chat.undo()
    assert chat.path[-1].id == first.id
    with pytest.raises(RefusedError, match="Nothing was put into the trash"):
        chat.undo()
    chat.go_back_to(question.id)
    assert chat.path == [question]


def test_nothing_of_a_path_changes_while_a_reply_grows_at_its_end(store: Store) -> None:
    class Growing(OpenChat):
        reply = 0

        def growing_in(self, chat_id: int) -> int | None:
            return self.reply if chat_id == 1 else None

    chat = Growing(store)
    asked = store.add_user(chat.chat.id, None, "Is it?")
    reply = store.begin_reply(chat.chat.id, asked, shape=None, sampling=Sampling())
    chat.reply = reply
    chat.open(chat.chat.id)
    assert [message.id for message in chat.path] == [asked]
    for act in (chat.trash, chat.restore, chat.go_back_to, lambda message: chat.show_sibling(message, 1)):
        with pytest.raises(RefusedError, match="being written"):
            act(asked)


def test_a_chat_whose_path_grows_is_not_opened_at_another_branch(store: Store) -> None:
    class Growing(OpenChat):
        def growing_in(self, chat_id: int) -> int | None:
            return reply if chat_id == grows else None

    grows = store.create_chat(title="Grows")
    other = store.add_user(grows, None, "Other branch")
    asked = store.add_user(grows, None, "Is it?")
    reply = store.begin_reply(grows, asked, shape=None, sampling=Sampling())
    chat = Growing(store)
    chat.new_chat()
    before = chat.chat.id
    store.trash_message(other)
    for act in (lambda: chat.open_at(grows, other), lambda: chat.restore(other)):
        with pytest.raises(RefusedError, match="being written"):
            act()
        assert chat.chat.id == before
    chat.open_at(grows, asked)
    assert chat.chat.id == grows


def test_a_message_that_went_into_the_trash_meanwhile_has_no_siblings(store: Store) -> None:
    chat = OpenChat(store)
    asked = store.add_user(chat.chat.id, None, "Is it?")
    store.add_user(chat.chat.id, None, "Was it?")
    store.trash_message(asked)
    with pytest.raises(RefusedError, match="in the trash"):
        chat.show_sibling(asked, 1)


def test_a_draft_is_kept_with_the_chat_it_was_written_in(store: Store) -> None:
    chat = OpenChat(store)
    first = chat.chat.id
    chat.set_draft("of the first")
    chat.new_chat()
    chat.set_draft("of the second")
    chat.set_draft("of the first!", first)
    assert (chat.chat.draft, store.chat(first).draft) == ("of the second", "of the first!")
