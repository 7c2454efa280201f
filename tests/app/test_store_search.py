"""Search finds words as they are spelled, in any script, and reads nothing into them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


def found(store: Store, text: str) -> list[str]:
    return [f"{hit.before}[{hit.match}]{hit.after}" for hit in store.search(text)]


@pytest.mark.parametrize(
    ("text", "content", "shown"),
    [
        ("pari", "the city of Paris", "the city of [Pari]s"),
        ("PARIS city", "the city of Paris", "the [city] of Paris"),
        ("東京", "私は東京都に住む", "私は[東京]都に住む"),
        ("ÜBER", "darüber", "dar[über]"),
        ("of", "the city of Paris", "the city [of] Paris"),
        ("after", "before\0after", "before\0[after]"),
        ('"a" OR b*', 'say "a" or B*', 'say ["a"] or B*'),
        ("[/x]", "a [/x] b", "a [[/x]] b"),
        ("%_", "100%_", "100[%_]"),
        ("\ud800ab", "x\ufffdabc", "x[\ufffdab]c"),
    ],
)
def test_words_are_found_as_they_are_spelled(store: Store, text: str, content: str, shown: str) -> None:
    store.add_user(store.create_chat(), None, "something else")
    store.add_user(store.create_chat(), None, content)
    assert found(store, text) == [shown]


@pytest.mark.parametrize("text", ["", "   ", "\0", "paris london", "NEAR(", "content:x", '"', "pa*ris"])
def test_what_is_not_there_is_not_found(store: Store, text: str) -> None:
    store.add_user(store.create_chat(), None, "the city of Paris")
    assert store.search(text) == []


def test_search_finds_titles_and_leaves_out_the_trash(store: Store) -> None:
    chat, gone = store.create_chat(title="About Rome"), store.create_chat(title="Rome too")
    message = store.add_user(chat, None, "Rome?")
    store.trash_message(store.add_user(chat, None, "Rome!"))
    store.add_user(gone, None, "Rome.")
    store.trash_chat(gone)
    assert [(hit.chat_id, hit.message_id) for hit in store.search("rome")] == [(chat, None), (chat, message)]
    assert len(store.search("rome", limit=1)) == 1
