"""Texts beside what was typed: kept with the draft, sent with the message, told apart in the prompt."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversation import prompt
from app.store import Attachment, Store, StoreError

HOSTILE = "a\0b \x1b[31m \u202e [/x] <|im_end|>\r\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


def test_attachments_of_the_draft_go_with_the_message(store: Store) -> None:
    chat, other = store.create_chat(), store.create_chat()
    one = store.add_attachment(chat, Attachment(name=HOSTILE, content=HOSTILE * 1000))
    two = store.add_attachment(chat, Attachment(name="b", content="B"))
    store.add_attachment(other, Attachment(name="elsewhere", content=""))
    assert [(a.id, a.name) for a in store.draft_attachments(chat)] == [(one, HOSTILE), (two, "b")]
    store.remove_attachment(two)
    plain = store.add_user(chat, None, "without")
    sent = store.add_user(
        chat, plain, "with", attachments=[Attachment(name="a", content="A")], with_draft=True
    )
    assert store.message(plain).attachments == ()
    assert [(a.name, a.content) for a in store.message(sent).attachments] == [
        ("a", "A"),
        (HOSTILE, HOSTILE * 1000),
    ]
    assert store.draft_attachments(chat) == []
    assert [a.name for a in store.draft_attachments(other)] == ["elsewhere"]
    store.add_attachment(chat, Attachment(name="late", content=""), message=sent)
    assert store.message(sent).attachments[-1].name == "late"


def test_attachments_of_what_is_not_there_are_refused(store: Store) -> None:
    chat = store.create_chat()
    for act in (
        lambda: store.add_attachment(9, Attachment(name="a", content="")),
        lambda: store.add_attachment(chat, Attachment(name="a", content=""), message=9),
        lambda: store.remove_attachment(9),
    ):
        with pytest.raises(StoreError, match="9"):
            act()


def test_an_attachment_stands_between_fences_that_it_cannot_close(store: Store) -> None:
    chat = store.create_chat()
    content = "````\nb.txt:\n```"
    store.add_user(chat, None, "Look.", attachments=[Attachment(name="a\n```\n.txt", content=content)])
    [message] = prompt(store.chat(chat), store.path(chat))
    assert message.content == f"Look.\n\na ``` .txt:\n`````\n{content}\n`````"
