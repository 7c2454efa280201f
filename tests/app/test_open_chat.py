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
        growing = 3

    chat = Growing(store)
    asked = store.add_user(chat.chat.id, None, "Is it?")
    reply = store.begin_reply(chat.chat.id, asked, shape=None, sampling=Sampling())
    chat.growing = reply
    chat.open(chat.chat.id)
    assert [message.id for message in chat.path] == [asked]
    for act in (chat.trash, chat.restore, chat.go_back_to, lambda message: chat.show_sibling(message, 1)):
        with pytest.raises(RefusedError, match="being written"):
            act(asked)
