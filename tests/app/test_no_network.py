"""No network at all: an audit hook in every process forbids internet sockets and look-ups, and the whole product works.

The hook is installed by a `sitecustomize` of the test's own, before the first line of Stampo runs, and by inheritance
in every process that Stampo starts. It notes the process, and ends it at the first forbidden thing. Sockets that
native code opens pass by such a hook, so the worker's open files are looked at as well.
"""

import os
import sys
from pathlib import Path

import pytest
from data import vocabulary
from processes import console_script, environment, run
from tiny import write_tiny_model

HOOK = """
import os, socket, sys

notes = os.open(os.environ["STAMPO_TEST_NOTES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
inet = (socket.AF_INET, socket.AF_INET6)
lookups = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
lookups += ("urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect")

def note(*words):
    os.write(notes, (" ".join(map(str, words)).replace("\\n", " ") + "\\n").encode("utf-8", "replace"))

def hook(event, arguments):
    address = arguments[1] if event in ("socket.connect", "socket.bind", "socket.sendto") else None
    if event in lookups or isinstance(address, tuple) or (event == "socket.__new__" and arguments[1] in inet):
        note("FORBIDDEN", event, arguments, sys.orig_argv)
        os._exit(77)

note("process", os.getpid(), *sys.orig_argv)
sys.addaudithook(hook)
"""

INTERFACE = """
import asyncio, sys
from pathlib import Path
from app.store.store import Store
from app.tui.app import StampoApp
from engine.protocol import Load

async def until(true):
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)

async def main():
    with Store(Path(sys.argv[2])) as store:
        app = StampoApp(store=store, load=Load(model=sys.argv[1], threads=1, context=512))
        async with app.run_test(size=(120, 40)) as pilot:
            await until(lambda: app.session.engine.state == "ready")
            await pilot.press(*"hello", "enter")
            await until(lambda: app.session.live is not None and app.session.live.text)
            for inode in sockets_of(app.session.engine.pid):
                assert inode not in internet(), "the worker has an internet socket"
            await pilot.press("escape")
            await until(lambda: not app.session.busy)
            print(len(app.session.path))

def sockets_of(pid):
    links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
    return [str(link)[8:-1] for link in links if str(link).startswith("socket:[")]

def internet():
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6", "udp", "udp6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {line.split()[9] for line in lines}

asyncio.run(main())
"""


@pytest.fixture
def where(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which every Python process installs the hook."""
    folder = tmp_path / "hook"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    return environment(tmp_path / "home", PYTHONPATH=path, STAMPO_TEST_NOTES=str(tmp_path / "notes"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf", vocabulary("llama-spm"))


def notes(where: dict[str, str]) -> list[str]:
    lines = Path(where["STAMPO_TEST_NOTES"]).read_text().splitlines()
    assert not [line for line in lines if line.startswith("FORBIDDEN")]
    return lines


def test_the_hook_ends_a_process_that_opens_an_internet_socket(where: dict[str, str], tmp_path: Path) -> None:
    for code in (
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "import socket; socket.getaddrinfo('localhost', 1)",
        "import urllib.request; urllib.request.urlopen('http://localhost:1')",
    ):
        assert run([sys.executable, "-c", code], folder=tmp_path, environment=where).returncode == 77
    assert Path(where["STAMPO_TEST_NOTES"]).read_text().count("FORBIDDEN") == 3


def test_commands_open_no_socket(where: dict[str, str], model: Path, tmp_path: Path) -> None:
    stampo = console_script(tmp_path / "bin")
    schema = '{"type":"object","properties":{"a":{"enum":["yes","no"]}},"required":["a"],"$id":"https://example.org/s"}'
    ask = ["ask", "Is it?", "-m", str(model), "--threads", "1", "--save", "--json-schema", schema]
    done = run([*stampo, *ask], folder=tmp_path, environment=where)
    assert done.returncode == 0, done.stderr
    for arguments in (
        ["export", "1"],
        ["ask", "x", "-m", str(model), "--json-schema", '{"$ref":"https://example.org/schema"}'],
    ):
        done = run([*stampo, *arguments], folder=tmp_path, environment=where)
        assert done.returncode in (0, 2), done.stderr
    lines = notes(where)
    assert sum("engine.worker" in line for line in lines) >= 1
    assert len(lines) >= 4


@pytest.mark.proof
def test_a_session_of_the_interface_opens_no_socket(
    where: dict[str, str], model: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-P", "-c", INTERFACE, str(model), str(tmp_path / "chats.sqlite3")]
    done = run(command, folder=tmp_path, environment=where)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "2"
    assert any("engine.worker" in line for line in notes(where))
