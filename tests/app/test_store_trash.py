"""What is thrown away can be taken back, with all that hung on it, until the trash is emptied."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chatting import reply

from app.store import Store, StoreError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


def test_what_hangs_on_a_message_goes_into_the_trash_and_comes_out_with_it(store: Store) -> None:
    chat = store.create_chat()
    first = store.add_user(chat, None, "one")
    answer = reply(store, chat, first, "needle")
    early = store.add_user(chat, answer, "thrown away before")
    store.trash_message(early)
    store._database.run("UPDATE messages SET trashed_at = trashed_at - 5 WHERE trashed_at IS NOT NULL")
    store.trash_message(first)
    assert store.chat(chat).leaf is None
    assert store.chat(chat).messages == 0
    assert store.search("needle") == []
    assert [message.id for message in store.trashed()] == [first, early]
    store.restore_message(first)
    assert [message.id for message in store.path(chat)] == [first, answer]
    assert [message.id for message in store.trashed()] == [early]
    store.trash_message(first)
    store.restore_message(early)  # with what it hangs on
    assert [message.id for message in store.path(chat)] == [first, answer, early]
    assert store.trashed() == []


def test_the_trash_is_emptied_of_what_is_old_enough(store: Store) -> None:
    kept, gone = store.create_chat(title="kept"), store.create_chat(title="gone")
    first = store.add_user(kept, None, "one")
    old, new = reply(store, kept, first, "old"), reply(store, kept, first, "new")
    store.trash_chat(gone)
    store.trash_message(old)
    moment = datetime.now(UTC) + timedelta(days=1)
    store.trash_message(new)
    store._database.run("UPDATE messages SET trashed_at = ? WHERE id = ?", 2**52, new)
    below = store.add_user(kept, new, "written by another program meanwhile")
    assert store.empty_trash(moment) == 2
    assert store.chats(trashed=True) == []
    assert [message.id for message in store.trashed()] == [new]
    assert [message.content for message in store.path(kept, below)][-1].startswith("written by")
    with pytest.raises(StoreError):
        store.message(old)
    assert store._database.rows("PRAGMA foreign_key_check") == []


def test_an_emptied_trash_leaves_a_path_to_show(store: Store) -> None:
    chat = store.create_chat()
    first = store.add_user(chat, None, "one")
    answer = reply(store, chat, first, "A")
    store.trash_message(answer)
    store.set_leaf(chat, answer)
    assert store.empty_trash(datetime.now(UTC) + timedelta(seconds=1)) == 1
    assert store.chat(chat).leaf == first
