"""A damaged store is set aside as it is, and what can be read of it is there again at the next start."""

import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from chatting import reply, rich_chat, tokens

from app.store import Store, StoreError
from app.store.database import MEND
from app.store.migrate import APPLICATION_ID
from engine.protocol import Sampling

PAGE = 4096
CHATS, TURNS = 8, 6


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a store of a few dozen pages, as bytes."""
    path = tmp_path_factory.mktemp("sound") / "s"
    with Store(path) as store:
        rich_chat(store)
        for number in range(CHATS):
            chat, parent = store.create_chat(title=f"Chat {number}"), None
            for turn in range(TURNS):
                asked = store.add_user(chat, parent, f"question {number} {turn} " + "q" * 700)
                parent = reply(store, chat, asked, f"answer {number} {turn} " + "a" * 900)
    return path.read_bytes()


def damaged_store(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "s"
    path.write_bytes(content)
    return path


def texts(store: Store) -> set[str]:
    """Read every chat, every message and every trace; return the texts."""
    found = set()
    for chat in store.chats() + store.chats(trashed=True):
        for message in store.path(chat.id) + store.tree(chat.id):
            found.add(message.content)
            if message.reply:
                store.trace(message.id)
    return found


def assert_sound(path: Path, *, turned: bool = False) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        index = "INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)"
        try:
            connection.execute(index)
        except sqlite3.DatabaseError:
            # A bit turned within a text leaves a text, which no check of SQLite's tells from the right one; only the
            # search index differs from it, and it can be made anew from what there is.
            assert turned
            connection.execute("INSERT INTO message_index (message_index) VALUES ('rebuild')")
            connection.execute(index)


def all_texts(sound: bytes, tmp_path: Path) -> set[str]:
    whole = tmp_path / "whole"
    whole.write_bytes(sound)
    with Store(whole) as store:
        assert store.notice == ""
        return texts(store)


def overwritten(content: bytes, start: int, length: int, seed: int = 0) -> bytes:
    return content[:start] + random.Random(seed).randbytes(length) + content[start + length :]


def page(number: int) -> Callable[[bytes], bytes]:
    return lambda content: overwritten(content, number * PAGE, PAGE, number)


DAMAGES = {
    "the header is noise": lambda content: overwritten(content, 0, 100),
    "the header is zero": lambda content: bytes(100) + content[100:],
    "the first page is noise": page(0),
    "the first page is zero": lambda content: bytes(PAGE) + content[PAGE:],
    "the last quarter is gone": lambda content: content[: len(content) // 4 * 3],
    "it ends within a page": lambda content: content[: len(content) // 4 * 3 + 100],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_store_is_kept_and_most_of_it_is_recovered(
    sound: bytes, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    everything = all_texts(sound, tmp_path)
    content = damage(sound)
    path = damaged_store(tmp_path, content)
    with Store(path) as store:
        assert f"The store {path} was damaged. It is kept as s.damaged-" in store.notice
        found = texts(store)
        assert f"{len(store.chats())} chats with" in store.notice
        store.add_user(store.create_chat(), None, "and on")
    assert found <= everything
    assert len(found) > len(everything) // 2
    [aside] = tmp_path.glob("s.damaged-*")
    assert aside.read_bytes() == content
    assert_sound(path)
    with Store(path) as store:
        assert store.notice == ""
        assert "and on" in texts(store)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s", aside.name, "whole"]


def test_any_page_of_noise_costs_some_rows_and_never_the_store(sound: bytes, tmp_path: Path) -> None:
    # SQLite has no checksums: noise in a page of texts alone cannot be told from texts, so nothing may need mending.
    everything = all_texts(sound, tmp_path)
    pages = random.Random(1).sample(range(len(sound) // PAGE), 3)
    shares = []
    for number in pages:
        folder = tmp_path / str(number)
        folder.mkdir()
        path = damaged_store(folder, page(number)(sound))
        with Store(path) as store:
            shares.append(len(texts(store) & everything) / len(everything))
        assert_sound(path)
    assert sum(shares) / len(shares) > 0.5


@pytest.mark.proof
@pytest.mark.timeout(400)
def test_any_pages_may_be_noise_or_zero_and_any_bits_be_turned(sound: bytes, tmp_path: Path) -> None:
    everything = all_texts(sound, tmp_path)
    count = len(sound) // PAGE
    chance = random.Random(2)
    damages = [page(number)(sound) for number in chance.sample(range(count), 30)]
    zeroed = chance.sample(range(count), 15)
    damages += [sound[: n * PAGE] + bytes(PAGE) + sound[(n + 1) * PAGE :] for n in zeroed]
    for _ in range(10):
        content = sound
        for number in chance.sample(range(1, count), 4):
            content = page(number)(content)
        damages.append(content)
    for _ in range(25):  # single bits
        content = bytearray(sound)
        for _ in range(8):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        damages.append(bytes(content))
    shares: list[float] = []
    for number, content in enumerate(damages):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = damaged_store(folder, content)
        try:
            with Store(path) as store:
                found = texts(store)
        except (
            StoreError
        ) as error:  # a value was damaged within its page; the next start looks at all of them
            assert "recovers" in str(error)
            with Store(path) as store:
                assert store.notice
                found = texts(store)
        shares.append(len(found & everything) / len(everything))
        assert_sound(path, turned=True)
    print(f"{len(damages)} damages, {sum(shares) / len(shares):.1%} of the texts recovered on average")
    assert sum(shares) / len(shares) > 0.8


@pytest.mark.parametrize("content", [b"", bytes(3 * PAGE)], ids=["empty", "zero"])
def test_a_file_of_nothing_becomes_an_empty_store(tmp_path: Path, content: bytes) -> None:
    path = damaged_store(tmp_path, content)
    with Store(path) as store:
        assert store.chats() == []
        store.create_chat(title="new")
    assert_sound(path)
    assert [file.read_bytes() for file in tmp_path.glob("s.damaged-*")] == ([content] if content else [])


@pytest.fixture
def left_open(sound: bytes, tmp_path: Path) -> Path:
    """Return a store as a killed program leaves it: the last changes are in the log beside it."""
    path = damaged_store(tmp_path, sound)
    store = Store(path)
    chat = store.create_chat(title="late")
    store.add_user(chat, None, "late message")
    late = tmp_path / "left"
    late.write_bytes(path.read_bytes())
    late.with_name("left-wal").write_bytes(path.with_name("s-wal").read_bytes())
    store.close()
    return late


def test_a_log_that_is_noise_or_gone_costs_what_was_in_it(left_open: Path, sound: bytes) -> None:
    log = left_open.with_name("left-wal")
    kept = log.read_bytes()
    log.write_bytes(random.Random(0).randbytes(len(kept)))
    with Store(left_open) as store:
        assert "late message" not in texts(store)
        assert len(store.chats()) == CHATS + 1
    assert_sound(left_open)
    log.unlink(missing_ok=True)
    with Store(left_open) as store:
        assert len(store.chats()) == CHATS + 1
    assert_sound(left_open)


def test_what_is_in_the_log_of_a_damaged_store_is_recovered_too(left_open: Path) -> None:
    content = left_open.read_bytes()
    left_open.write_bytes(overwritten(content, len(content) // PAGE // 2 * PAGE, 3 * PAGE))
    with Store(left_open) as store:
        assert store.notice
        assert "late message" in texts(store)
    assert len(list(left_open.parent.glob("left.damaged-*-wal"))) == 1


def test_damage_met_later_is_mended_at_the_next_start(sound: bytes, tmp_path: Path) -> None:
    path = damaged_store(tmp_path, sound)
    with Store(path) as store:
        chat = store.chats()[-1].id
        store._database.run("UPDATE replies SET sampling = '{' WHERE message_id = 2")
        with pytest.raises(StoreError, match="keeps this file under another name and recovers"):
            store.path(chat, 2)
    with Store(path) as store:
        assert "was damaged" in store.notice
        assert store.path(chat, 2)[-1].content == '{"zip":"1","age":2}'
    assert not path.with_name(f"s{MEND}").exists()


def test_a_text_that_is_no_text_is_a_sentence_and_then_mended(sound: bytes, tmp_path: Path) -> None:
    path = damaged_store(tmp_path, sound.replace(b"question 3 3 ", b"question\xff3 3 "))
    with Store(path) as store:
        chat = next(chat.id for chat in store.chats() if chat.title == "Chat 3")
        with pytest.raises(StoreError, match="holds a text that is damaged"):
            store.path(chat)
    with Store(path) as store:
        assert store.path(chat)[6].content.startswith("question\ufffd3 3 ")


def test_a_message_without_its_chat_or_its_reply_is_found_again(sound: bytes, tmp_path: Path) -> None:
    path = damaged_store(tmp_path, sound)
    with closing(sqlite3.connect(path)) as connection:  # without foreign keys
        chat = connection.execute("SELECT id FROM chats WHERE title = 'Chat 0'").fetchone()[0]
        first = connection.execute("SELECT min(id) FROM messages WHERE chat_id = ?", (chat,)).fetchone()[0]
        connection.execute("DELETE FROM chats WHERE id = ?", (chat,))
        connection.execute("DELETE FROM replies WHERE message_id = ?", (first + 1,))
        connection.execute("UPDATE messages SET parent_id = 1 WHERE id = ?", (first + 2,))
        connection.commit()
    path.with_name(f"s{MEND}").touch()
    with Store(path) as store:
        assert store.chat(chat).title == f"Recovered chat {chat}"
        tree = {message.id: message for message in store.tree(chat)}
        assert len(tree) == 2 * TURNS
        assert tree[first + 1].reply and tree[first + 1].reply.error == "damaged"
        assert tree[first + 2].parent is None


def test_a_reply_that_was_being_written_keeps_its_checkpoints(sound: bytes, tmp_path: Path) -> None:
    path = damaged_store(tmp_path, sound)
    with Store(path) as store:
        chat = store.create_chat(title="half")
        number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
        store.checkpoint(number, "ab", tokens("ab"))
    path.with_name(f"s{MEND}").touch()
    with Store(path) as store:
        message = store.message(number)
        assert message.reply and (message.content, message.reply.finish) == ("ab", "cancelled")


def test_a_damaged_store_that_another_program_has_open_is_left_alone(sound: bytes, tmp_path: Path) -> None:
    path = damaged_store(tmp_path, sound)
    code = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from pathlib import Path; from app.store import Store\n"
        "with Store(Path(sys.argv[1])) as store:\n    store.chats(); print(flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        other.stdout.readline()
        path.with_name(f"s{MEND}").touch()
        with pytest.raises(StoreError, match="Another program has"):
            Store(path)
        assert list(tmp_path.glob("s.damaged-*")) == []
        other.communicate("\n")
    with Store(path) as store:
        assert store.notice
        assert len(store.chats()) == CHATS + 1


def test_a_store_that_was_renamed_when_the_power_went_gets_its_name_back(
    sound: bytes, tmp_path: Path
) -> None:
    (tmp_path / "s.incoming").write_bytes(sound)
    (tmp_path / "s-wal").write_bytes(b"of the old one")
    with Store(tmp_path / "s") as store:
        assert len(store.chats()) == CHATS + 1
    [log] = tmp_path.glob("s.damaged-*-wal")
    assert log.read_bytes() == b"of the old one"


def test_a_disk_that_is_full_while_mending_changes_nothing(
    sound: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    content = DAMAGES["the last quarter is gone"](sound)
    path = damaged_store(tmp_path, content)
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(StoreError, match="cannot be copied: No space left"):
        Store(path)
    assert path.read_bytes() == content
    assert not list(tmp_path.glob("*damaged-*"))


def test_a_store_says_whose_it_is_where_mending_looks_for_it(sound: bytes) -> None:
    assert sound[68:72] == APPLICATION_ID.to_bytes(4)


def test_a_layout_that_is_no_text_any_more_is_damage(sound: bytes, tmp_path: Path) -> None:
    """SQLite quotes the damaged bytes in its message, which Python then could not read as UTF-8."""
    path = damaged_store(
        tmp_path, sound.replace(b"CREATE TABLE shapes", b"CREATE \xa0\xa0\xa0\xa0\xa0 shapes")
    )
    with Store(path) as store:
        assert store.notice
        assert texts(store) == all_texts(sound, tmp_path)
