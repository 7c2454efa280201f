"""Crashes, several programs on one file, and files that are no store: nothing is corrupted, all is said."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chatting import finished, rich_chat, tokens

from app.store import Store, StoreError
from app.store.codec import pack_ids, pack_trace, unpack_ids, unpack_trace
from app.store.database import APPLICATION_ID
from engine.protocol import Sampling

# Writes a reply and tells so, then waits; killed or told to go on by its standard input.
WRITER = """
import sys
from pathlib import Path
from app.store import Store
from chatting import finished, tokens
from engine.protocol import Sampling

with Store(Path(sys.argv[1])) as store:
    chat = store.create_chat(title="from afar")
    prompt = store.add_user(chat, None, "prompt")
    reply = store.begin_reply(chat, prompt, shape=None, sampling=Sampling(), seed=4)
    store.checkpoint(reply, "ab", tokens("ab"))
    store.checkpoint(reply, "abcd", tokens("abcd"))
    print(reply, flush=True)
    sys.stdin.readline()
    store.finish_reply(reply, finished("abcdef"), valid=None, trace=tokens("abcdef"))
"""


class Elsewhere:
    """Another process that writes a reply into a store."""

    def __init__(self, path: Path) -> None:
        here = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
        code = f"import sys; sys.path[:0] = {here!r}\n{WRITER}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.reply = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def go_on(self) -> None:
        self.process.communicate("\n")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    other = Elsewhere(tmp_path / "s")
    yield other
    other.kill()


def test_a_killed_program_leaves_prompt_and_checkpoints(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.kill()
    with Store(tmp_path / "s") as store:
        asked, answered = store.path(store.chats()[0].id)
        assert asked.content == "prompt"
        assert answered.content == "abcd"
        assert answered.reply
        assert (answered.reply.state, answered.reply.finish) == ("done", "cancelled")
        assert (answered.reply.error, answered.reply.seed) == ("interrupted", 4)
        assert answered.reply.tokens == (0, 1, 2, 3)
        assert store.trace(answered.id) == tuple(tokens("abcd"))
        assert [hit.message_id for hit in store.search("abcd")] == [answered.id]
        assert store.recover() == 0
    assert list(tmp_path.glob("*.writer-*")) == []


def test_a_reply_that_another_living_program_writes_is_left_alone(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    with Store(tmp_path / "s") as store:
        assert store.recover() == 0
        message = store.message(elsewhere.reply)
        assert message.reply and message.reply.state == "generating"
        assert message.content == "abcd"
        chat = store.create_chat(title="meanwhile")
        store.add_user(chat, None, "two at once")
        elsewhere.go_on()
        assert store.message(elsewhere.reply).content == "abcdef"
        assert store.path(chat)[0].content == "two at once"


def test_a_store_knows_its_own_replies_and_those_of_another_store_of_this_process(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as one:
        chat = one.create_chat()
        number = one.begin_reply(chat, one.add_user(chat, None, "?"), shape=None, sampling=Sampling())
        assert one.recover() == 0
        with Store(tmp_path / "s") as two:
            assert two.recover() == 0
        one.finish_reply(number, finished("done"), valid=None, trace=tokens("done"))
        assert one.message(number).content == "done"


def test_closing_ends_what_was_being_written(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        chat = store.create_chat()
        store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    with Store(tmp_path / "s") as store:
        answered = store.path(chat)[1]
        assert answered.reply and answered.reply.error == "interrupted"


def test_a_writer_name_that_was_never_given_out_counts_as_dead(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        chat = store.create_chat()
        number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
        store._database.run("UPDATE replies SET writer = '../../etc/passwd'")
        assert store.recover() == 1
        assert store.message(number).content == ""


def test_programs_that_start_at_once_make_one_store(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from pathlib import Path; from app.store import Store\n"
        "sys.stdin.readline()\n"
        "with Store(Path(sys.argv[1])) as store:\n    store.create_chat(title='x')\n"
    )
    programs = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s")], stdin=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for program in programs:
        assert program.stdin
        program.stdin.write("\n")
        program.stdin.flush()
    assert [program.wait() for program in programs] == [0, 0, 0, 0]
    for program in programs:
        program.communicate()
    with Store(tmp_path / "s") as store:
        assert len(store.chats()) == 4


def test_a_full_disk_is_a_sentence_and_costs_only_the_last_change(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        chat = rich_chat(store)
        before = store.tree(chat)
        pages = store._database.row("PRAGMA page_count")
        assert pages
        store._database.run(f"PRAGMA max_page_count={pages[0]}")
        with pytest.raises(StoreError, match=r"s cannot grow: the disk is full"):
            store.add_user(chat, None, "x" * 100_000)
        assert store.tree(chat) == before
    with Store(tmp_path / "s") as store:
        assert store.tree(chat) == before
        store.add_user(chat, None, "x" * 100_000)


def test_a_store_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        store._database.run("PRAGMA query_only=ON")
        with pytest.raises(StoreError, match="s cannot be written: the file or its folder is read-only"):
            store.create_chat()


def test_a_store_in_use_is_a_sentence(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store, Store(tmp_path / "s") as other:
        other._database.run("PRAGMA busy_timeout=1")
        with store._database.transaction(), pytest.raises(StoreError, match="in use by another program"):
            other.create_chat()
        other.create_chat()


@pytest.mark.parametrize("content", [b"hello, I am a letter" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "letter"
    file.write_bytes(content)
    with pytest.raises(StoreError, match="letter"):
        Store(file)
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_a_database_of_another_program_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "other"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(file)
    assert file.read_bytes() == before


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "s"
    with Store(file) as store:
        store._database.run("PRAGMA user_version=999")
    before = file.read_bytes()
    with pytest.raises(StoreError, match=r"newer version of Stampo \(store version 999"):
        Store(file)
    assert file.read_bytes() == before


def test_a_folder_in_the_way_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"{tmp_path} cannot be opened"):
        Store(tmp_path)


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    Store(tmp_path / "s").close()
    assert int.from_bytes((tmp_path / "s").read_bytes()[68:72]) == APPLICATION_ID


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE replies SET sampling = '{'",
        "UPDATE replies SET stats = '[]'",
        "UPDATE replies SET options = 'x'",
        "UPDATE reply_tokens SET ids = x'00'",
        "UPDATE shapes SET kind = 'riddle'",
        "UPDATE models SET info = '{}'",
    ],
)
def test_a_damaged_value_is_a_sentence(tmp_path: Path, damage: str) -> None:
    with Store(tmp_path / "s") as store:
        chat = rich_chat(store)
        store._database.run(damage)
        with pytest.raises(StoreError, match="cannot be read"):
            store.path(chat)


@pytest.mark.parametrize("moment", [-(2**63), 2**63 - 1])
def test_a_time_that_no_date_can_hold_hides_nothing(tmp_path: Path, moment: int) -> None:
    with Store(tmp_path / "s") as store:
        chat = rich_chat(store)
        for table, column in (
            ("chats", "updated_at"),
            ("messages", "created_at"),
            ("replies", "finished_at"),
        ):
            store._database.run(f"UPDATE {table} SET {column} = ?", moment)
        assert len(store.path(chat)) == 2
        assert store.search("city")
        [summary] = store.chats()
        assert summary.updated_at.astimezone().year in (1970, 1969, 9989, 9990)


def test_a_damaged_trace_is_a_sentence(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        chat = rich_chat(store)
        store._database.run("UPDATE reply_tokens SET trace = x'00'")
        with pytest.raises(StoreError, match="trace of reply"):
            store.trace(store.path(chat)[1].id)


def test_ids_and_traces_unpack_to_what_was_packed() -> None:
    ids = (0, 1, 2**32 - 1)
    assert unpack_ids(pack_ids(ids)) == ids
    assert unpack_ids(pack_ids([])) == ()
    trace = tuple(tokens("a\0b\n\ufffd'\"🌆"))
    assert unpack_trace(pack_trace(trace)) == trace
    assert len(pack_trace(trace * 500)) < len(json.dumps([t.text for t in trace * 500])) / 3
