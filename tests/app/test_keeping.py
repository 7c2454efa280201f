"""Whole chats: names, pins, trash and undo, files in and out."""

import json
from pathlib import Path

import pytest
from sessions import done, ready

from app.keeping import Keeping
from app.session import RefusedError
from app.store.values import StoreError

TURN = {"turns": [[{"say": "yes"}, {"end": "stop"}]]}


async def talked(begin) -> Keeping:
    session = await ready(begin(TURN))
    session.send("Which city?")
    await done(session)
    return Keeping(session)


def titles(keeping: Keeping) -> list[str]:
    return [chat.title for chat in keeping._store.chats()]


async def test_a_chat_is_renamed_and_pinned(begin) -> None:
    keeping = await talked(begin)
    chat = keeping._session.chat.id
    keeping.rename(chat, " My \n city\ud800 ")
    assert keeping._session.chat.title == "My city\ufffd"
    assert keeping.pin(chat) is True
    assert keeping._session.chat.pinned
    assert keeping.pin(chat) is False


async def test_a_chat_goes_into_the_trash_and_comes_back(begin) -> None:
    keeping = await talked(begin)
    session, chat = keeping._session, keeping._session.chat.id
    keeping.trash(chat)
    assert session.chat.id != chat
    assert [entry.id for entry in keeping.trashed_chats()] == [chat]
    session.undo()
    assert "Which city?" in titles(keeping)
    assert not session.can_undo


async def test_a_chat_whose_reply_is_written_is_not_put_away(begin) -> None:
    session = await ready(begin({"turns": [[{"say": "a"}, {"hold": True}]]}))
    session.send("one")
    with pytest.raises(RefusedError, match="being written"):
        Keeping(session).trash(session.chat.id)
    session.stop()
    await done(session)


async def test_messages_come_back_with_their_chat(begin) -> None:
    keeping = await talked(begin)
    session, chat = keeping._session, keeping._session.chat.id
    reply = session.path[1].id
    session.trash(reply)
    keeping.trash(chat)
    assert [message.id for message in keeping.trashed_messages()] == [reply]
    keeping.restore_message(reply)
    assert session.chat.id == chat
    assert [message.content for message in session.path] == ["Which city?", "yes"]
    assert keeping.trashed_chats() == keeping.trashed_messages() == []


async def test_only_the_trash_is_deleted_for_good(begin) -> None:
    keeping = await talked(begin)
    session, chat = keeping._session, keeping._session.chat.id
    with pytest.raises(RefusedError, match="Only chats in the trash"):
        keeping.delete_chat(chat)
    keeping.trash(chat)
    keeping.delete_chat(chat)
    with pytest.raises(StoreError):
        session.undo()
    assert not session.can_undo
    assert keeping.empty_trash() == 0


async def test_an_export_is_imported_again(begin, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    keeping = await talked(begin)
    named = keeping.export("mine.json")
    assert named == Path("mine.json")
    with pytest.raises(RefusedError, match="exists"):
        keeping.export("mine.json")
    folder = tmp_path / "out"
    folder.mkdir()
    assert keeping.export_all(str(folder)) == folder / "stampo-chats.json"
    imported = await keeping.import_file("mine.json")
    assert imported.notices == ("“Which city?” was here already and is now here twice.",)
    assert (len(imported.chats), imported.messages) == (1, 2)
    document = json.loads(named.read_text())
    again = json.loads(keeping.export(chat_id=imported.chats[0]).read_text())
    assert again["chat"]["messages"][1]["content"] == document["chat"]["messages"][1]["content"] == "yes"


async def test_what_cannot_be_imported_adds_nothing(begin, tmp_path: Path) -> None:
    keeping = await talked(begin)
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    before = titles(keeping)
    for name, why in (("bad.json", "cannot be imported"), ("missing.json", "does not exist")):
        with pytest.raises(RefusedError, match=why):
            await keeping.import_file(str(tmp_path / name))
    assert titles(keeping) == before
