"""Killed interfaces, full disks, folders that cannot be written, programs that write at once: nothing sent is lost."""

import asyncio
import itertools
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import interface_process
import pytest
import scripted_worker
from chatting import rich_chat

from app.session import Session
from app.store import Store, StoreError
from app.supervisor import Supervisor
from app.writing import CHECKPOINT_S
from engine.protocol import Load

TEXT = "word " * 300
HERE = [str(Path(__file__).parents[1]), *filter(None, sys.path)]


def run(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program that sees what the tests see."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {HERE!r}\n{code}", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


class Interface:
    """A killable interface with one prompt; `lines` is what it told."""

    def __init__(self, store: Path, prompt: str, model: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self.killed_at = 0.0
        self._process = subprocess.Popen(
            [sys.executable, interface_process.__file__, str(store), prompt, str(model)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> dict[str, Any]:
        """Return the next line; an empty object at the end."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if line:
            self.lines.append(json.loads(line))
        return self.lines[-1] if line else {}

    def wait_until(self, key: str) -> None:
        while key not in (line := self.read()):
            assert line, f"the interface ended before it told {key}"

    def kill(self) -> None:
        self.killed_at = time.monotonic()
        self._process.send_signal(signal.SIGKILL)
        assert self._process.stdout
        self.lines += [json.loads(line) for line in self._process.stdout if line.endswith("\n")]
        self._process.stdout.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def texts(self) -> list[tuple[float, str]]:
        return [(line["at"], line["text"]) for line in self.lines if "text" in line]


def reply_to(store: Store, prompt: str) -> str:
    """Return the reply to a prompt after a restart; the prompt must be there, and the reply must have ended."""
    [chat] = [chat for chat in store.chats() if chat.title == prompt]
    asked, *answers = store.path(chat.id)
    assert asked.content == prompt
    for answer in answers:
        assert answer.reply and answer.reply.state == "done"
        store.trace(answer.id)
    return answers[0].content if answers else ""


def test_a_killed_interface_loses_neither_prompts_nor_what_was_checkpointed(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [[{"say": TEXT, "size": 5}, {"hold": True}]]}))
    path = tmp_path / "s"
    chance = random.Random(0)
    prompts = []
    for number in range(4):
        with Interface(path, f"prompt {number}", script) as interface:
            interface.wait_until("sent")
            length = chance.randrange(len(TEXT)) if number else 0
            while interface.lines[-1].get("text", "") < TEXT[:length]:
                assert interface.read()
        prompts.append((f"prompt {number}", [text for _, text in interface.texts()]))
    with Store(path) as store:
        assert store.notice == ""
        for prompt, texts in prompts:
            assert reply_to(store, prompt).startswith(texts[-1] if texts else "")
    assert_sound(path)
    assert not list(tmp_path.glob("s.writer-*"))


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_an_interface_killed_at_20_moments_of_a_turn_loses_a_second_at_most(
    tmp_path: Path, smollm2: Path
) -> None:
    path = tmp_path / "s"
    chance = random.Random(1)
    kept: list[tuple[str, str]] = []
    lost = []
    for number in range(20):
        prompt = f"Tell story {number}."
        with Interface(path, prompt, smollm2) as interface:
            interface.wait_until("sent")
            end = time.monotonic() + chance.uniform(0, 3)
            while time.monotonic() < end and interface.read() and "done" not in interface.lines[-1]:
                pass
        with Store(path) as store:
            assert store.notice == ""
            reply = reply_to(store, prompt)
            for earlier, text in kept:
                assert reply_to(store, earlier) == text
        kept.append((prompt, reply))
        assert_sound(path)
        # A checkpoint comes with the first event after a second: the longest pause between two adds to it.
        told = interface.texts()
        times = [at for at, _ in told] + [interface.killed_at]
        pause = max((after - before for before, after in itertools.pairwise(times)), default=0)
        due = [text for at, text in told if at <= interface.killed_at - CHECKPOINT_S - pause]
        assert reply.startswith(due[-1] if due else "")
        if told:
            first_lost = next((at for at, text in told if len(text) > len(reply)), interface.killed_at)
            lost.append(interface.killed_at - first_lost)
    print(f"{len(kept)} kills, {len(lost)} with text; seconds lost: {max(lost):.2f} at most")
    assert len(lost) >= 8


# --- no room


FILLER = """
import resource
from pathlib import Path
from app.store import Store, StoreError
from engine.protocol import Sampling
from chatting import tokens

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
with Store(Path(sys.argv[1])) as store:
    chat = store.create_chat(title="filler")
    number = 0
    try:
        while True:
            asked = store.add_user(chat, None, f"prompt {number} " + "x" * 3000)
            print(f"prompt {number} ", flush=True)
            reply = store.begin_reply(chat, asked, shape=None, sampling=Sampling())
            for length in range(500, 4000, 500):
                store.checkpoint(reply, "y" * length, tokens("y" * length))
                print(f"reply {reply} {length}", flush=True)
            number += 1
    except StoreError as error:
        print(f"refused {error}", flush=True)
"""


@pytest.mark.parametrize("room", [200_000, 300_000, 1_000_000])
def test_a_file_that_may_not_grow_costs_only_the_last_change(tmp_path: Path, room: int) -> None:
    path = tmp_path / "s"
    Store(path).close()
    program = run(FILLER, path, room)
    output, _ = program.communicate()
    *told, refusal = output.splitlines()
    assert program.returncode == 0 and refusal.startswith("refused ") and str(path) in refusal
    assert_sound(path)
    with Store(path) as store:
        assert store.notice == ""
        messages = {message.id: message for message in store.tree(store.chats()[0].id)}
        contents = [message.content for message in messages.values()]
        for line in told:
            if line.startswith("prompt "):
                assert any(content.startswith(line) for content in contents)
            else:
                _, number, length = line.split()
                assert messages[int(number)].content.startswith("y" * int(length))
        store.add_user(store.create_chat(), None, "there is room again")


async def test_a_full_disk_refuses_what_is_sent_and_says_so_and_there_may_be_room_again(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [[{"say": "fine"}, {"end": "stop"}]]}))
    command = [sys.executable, scripted_worker.__file__, str(script)]
    with Store(tmp_path / "s") as store:
        session = Session(store, lambda hear: Supervisor(Load(model="m.gguf"), hear, command=command))
        session.engine.start()
        async with asyncio.timeout(20):
            while session.engine.state != "ready":
                await asyncio.sleep(0.005)
            pages = store._database.row("PRAGMA page_count")
            assert pages
            store._database.run(f"PRAGMA max_page_count={pages[0]}")
            with pytest.raises(StoreError, match="the disk is full"):
                session.send("long " * 20_000)
            assert session.path == [] and not session.busy
            store._database.run("PRAGMA max_page_count=1000000")
            session.send("long " * 20_000)
            while session.busy:
                await asyncio.sleep(0.005)
        await session.close()
    assert_sound(tmp_path / "s")
    with Store(tmp_path / "s") as store:
        assert [m.content for m in store.path(store.chats()[0].id)] == ["long " * 20_000, "fine"]


READ_ONLY = """
import ctypes
from pathlib import Path
from app.store import Store, StoreError

# Permissions mean nothing to a process with these capabilities, as root has them.
header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, nothing) == 0
try:
    with Store(Path(sys.argv[1])) as store:
        store.create_chat(title="written")
        print("written")
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o500, 0o600), (0o700, 0o400), (0o500, 0o400), (0o500, None)]
)
def test_a_place_that_cannot_be_written_is_a_sentence_and_left_alone(
    tmp_path: Path, folder_mode: int, file_mode: int | None
) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    path = folder / "s"
    if file_mode is not None:
        with Store(path) as store:
            rich_chat(store)
        path.chmod(file_mode)
    content = path.read_bytes() if file_mode is not None else None
    folder.chmod(folder_mode)
    output, _ = run(READ_ONLY, path).communicate()
    folder.chmod(0o700)
    assert str(path) in output and ("cannot be" in output) and "Traceback" not in output
    if content is None:
        assert list(folder.iterdir()) == []
        return
    assert path.read_bytes() == content
    path.chmod(0o600)
    with Store(path) as store:
        assert store.notice == "" and len(store.chats()) == 1


# --- two at once

WRITER = """
from pathlib import Path
from app.store import Store
from chatting import reply

with Store(Path(sys.argv[1])) as store:
    print(flush=True)
    sys.stdin.readline()
    for number in range(15):
        leaf = store.chat(1).leaf
        asked = store.add_user(1, leaf, f"{sys.argv[2]} asks {number}")
        reply(store, 1, asked, f"{sys.argv[2]} answers {number}")
"""


def test_two_programs_that_append_to_one_chat_at_once_keep_its_tree(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store(path) as store:
        store.create_chat(title="shared")
        programs = [run(WRITER, path, name) for name in ("one", "two")]
        for program in programs:
            assert program.stdout
            program.stdout.readline()
        for program in programs:
            assert program.stdin
            program.stdin.write("\n")
            program.stdin.flush()
        for program in programs:
            program.communicate()
            assert program.returncode == 0
        tree = store.tree(1)  # of the others, through a store that was open all the time
        assert {m.content for m in tree} == {
            f"{name} {does} {n}" for name in ("one", "two") for does in ("asks", "answers") for n in range(15)
        }
        by_number = {message.id: message for message in tree}
        for message in tree:
            if message.reply:
                assert message.parent is not None
                asked = by_number[message.parent].content
                assert message.content == asked.replace("asks", "answers")
        assert store.path(1)[-1].id == store.chat(1).leaf
    assert_sound(path)


def test_each_sees_the_changes_of_the_other_when_it_next_reads(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as one, Store(tmp_path / "s") as two:
        chat = one.create_chat(title="a")
        two.rename_chat(chat, "b")
        assert one.chat(chat).title == "b"
        message = one.add_user(chat, None, "x")
        two.trash_message(message)
        assert one.path(chat) == []
        one.restore_message(message)
        assert [m.content for m in two.path(chat)] == ["x"]
        two.delete_chat(chat)
        with pytest.raises(StoreError, match="no chat 1"):
            one.add_user(chat, None, "y")
