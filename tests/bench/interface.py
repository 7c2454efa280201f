"""How fast the interface is, measured from the other side of a real pseudo-terminal of 160 columns and 50 rows.

    python tests/bench/interface.py [paint] [open] [keys] [share] [leave] [engine] [--seconds S] [--profile FILE]

Without a name all are measured. A scripted worker stands in for the model, but for `leave` and `engine`: there SmolLM2
works, and in `engine` it writes the same reply with the interface in front of it and without, in turns. What is
printed, with its bar:

    paint    first paint beyond what Python and Textual need to be imported                            0.5 s
    open     a chat of 1,000 messages (600 KB) from the key to its last message on the screen, and the
             focus going from the field to the messages of that chat                                   1 s, 0.2 s
    keys     echo of a key while 200 tokens a second arrive: below a stored reply of 1 MB, and into a
             growing reply of 1 MB, shaped, free, and free as one block                                50 ms
    share    of one core that the interface takes while 130 tokens a second stream, panel shown        6 %
    leave    Escape, and Ctrl+Q until no process is left, while SmolLM2 loads, reads and writes         1 s, 2 s
    engine   tokens a second with the interface over those without

Times are wall times and CPU seconds of this machine: run it while nothing else runs. `--profile` writes what cProfile
saw of the interface's process in `open`, `keys` or `share` (one of them) to a file.
"""

import argparse
import asyncio
import cProfile
import fcntl
import itertools
import json
import os
import platform
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.events import Stats

ROWS, COLUMNS = 50, 160
VOCABULARY = 49_152
MESSAGES, CHARACTERS = 1_000, 600
BIG = 1_000_000
KEYS = [chr(code) for code in range(ord("а"), ord("я") + 1)]
"""Letters that stand nowhere else on the screen: one seen is the echo of one pressed."""
SETTLED_S = 0.15
"""A screen that has not been written to for so long is done."""
TEXTUAL = (
    "from textual.app import App; from textual.widgets import Footer, Input, OptionList, Static, TextArea"
)
ENGINE_TOKENS = 300
ENGINE_PROMPT = "Write a long essay about the history of Rome."
FIELD = "rite a message"
"""What the empty field says, but for the letter that the cursor stands on."""

PROSE = (
    "The river bends twice before it reaches the harbour, and **both** banks are lined with old warehouses.\n"
    "Some became `workshops`; others wait for a *use* that nobody has found yet.\n\n"
    "## What stands where\n\n- a mill with a wheel of oak\n- the customs house, closed since long\n"
    "- three cranes\n\n```python\ndef bend(river):\n    return [bank for bank in river.banks if bank.old]\n```\n\n"
)
RECORD = '{"name":"Customs house","year":1887,"open":false,"tags":["stone","harbour"],"notes":"closed since long"},'
PLAIN = "word after word without an end to the line or to the paragraph they stand in "
TEXTS = {"shaped": RECORD, "free": PROSE, "block": PLAIN}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="*", choices=[[], *MEASURES], default=[])
    parser.add_argument(
        "--seconds", type=float, default=12.0, help="how long to stream for the share of a core"
    )
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    if arguments.profile:
        os.environ["STAMPO_BENCH_PROFILE"] = str(arguments.profile.resolve())
    python = platform.python_version()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {python}")
    for name in arguments.what or MEASURES:
        MEASURES[name](arguments.seconds)


# --- the other end of the terminal


class Terminal:
    """A program behind a pseudo-terminal: what a person types, and when what they wait for is on the screen."""

    def __init__(self, command: list[str], home: Path) -> None:
        environment = os.environ | {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "STAMPO_HOME": str(home),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled
        self.began = time.monotonic()
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execve(command[0], command, environment)
        self._seen = b""

    def press(self, keys: str) -> float:
        """Type; return the moment. What was written to the screen before is forgotten."""
        self.rest(0)
        self._seen = b""
        moment = time.monotonic()
        os.write(self._file, keys.encode())
        return moment

    def until(self, text: str, timeout: float = 120.0) -> float:
        """Read until a text was written; return the moment."""
        end = time.monotonic() + timeout
        while text.encode() not in self._seen:
            if not self._read(end):
                raise TimeoutError(f"{text!r} was not shown within {timeout:.0f} s: {self._seen[-2000:]!r}")
        return time.monotonic()

    def settled(self) -> float:
        """Read until something and then nothing more is written; return the moment of the last writing."""
        if not self._read(time.monotonic() + 60.0):
            raise TimeoutError("nothing was drawn within a minute")
        last = time.monotonic()
        while self._read(time.monotonic() + SETTLED_S):
            last = time.monotonic()
        return last

    def rest(self, seconds: float) -> None:
        """Let the program run and read what it writes."""
        end = time.monotonic() + seconds
        while self._read(end):
            pass

    def cpu_s(self) -> float:
        """Return the CPU seconds of the program itself, without its children's."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> float:
        """Quit, or end the program if it does not; return the seconds until it and all its children were gone."""
        began = time.monotonic()
        family = [self.pid, *self._children()]
        os.write(self._file, b"\x11")
        try:
            while self._read(began + 20) and time.monotonic() < began + 20:
                pass
        finally:
            if time.monotonic() >= began + 20:
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._file)
        while any(Path(f"/proc/{pid}").exists() for pid in family):
            time.sleep(0.005)
        return time.monotonic() - began

    def _children(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._file], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._file, 1 << 16)
        except OSError:  # the program has ended
            return False
        self._seen = self._seen[-(1 << 20) :] + data
        return bool(data)


@contextmanager
def interface(home: Path) -> Iterator[Terminal]:
    """Run the interface over the scripted worker on the store in `home`."""
    terminal = Terminal([sys.executable, __file__, "--child"], home)
    try:
        terminal.until("Ready")
        terminal.rest(2.5)  # the imports that follow the first paint
        yield terminal
    finally:
        terminal.close()


@contextmanager
def folder() -> Iterator[Path]:
    """Make a place for a store."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# --- measures


def paint(_seconds: float) -> None:
    """From the start of the process to the field on the screen; the imports alone, in turns."""
    imports, paints = [], []
    with folder() as home:
        for _ in range(7):
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", TEXTUAL], check=True)
            imports.append(time.monotonic() - began)
            terminal = Terminal([sys.executable, "-m", "app"], home)
            paints.append(terminal.until(FIELD) - terminal.began)
            terminal.close()
    beyond = statistics.median(paints) - statistics.median(imports)
    tell(
        "first paint beyond imports", beyond, 0.5, f"{statistics.median(paints):.2f} with them, medians of 7"
    )


def open_chat(_seconds: float) -> None:
    """A long chat opened from the list, the focus moved into it and back."""
    opened, focused = [], []
    with folder() as home:
        fill(home, [("Long", [text(PROSE, CHARACTERS, number) for number in range(MESSAGES)])])
        for _ in range(3):
            with interface(home) as terminal:
                opened.append(choose(terminal, f"message {MESSAGES - 1} ends"))
                terminal.rest(1.0)
                focused += focus(terminal, 5)
    tell(f"open {MESSAGES:,} messages, {MESSAGES * CHARACTERS // 1000} KB", max(opened), 1.0, "worst of 3")
    tell(
        "focus change in that chat",
        max(focused),
        0.2,
        f"worst of 15, median {statistics.median(focused):.3f}",
    )


def keys(_seconds: float) -> None:
    """Echoes while a reply grows."""
    with folder() as home:
        fill(home, [("Big", ["Write a megabyte.", text(PROSE, BIG, 0)])])
        with interface(home) as terminal:
            opened = choose(terminal, "message 0 ends")
            tell("open a chat with a reply of 1 MB", opened, None)
            terminal.rest(1.0)
            focused = focus(terminal, 3)
            tell("focus change in that chat", max(focused), 0.2, f"median {statistics.median(focused):.3f}")
            begin(terminal, "free", 200)
            echo(terminal, "below a stored reply of 1 MB")
    for kind, name in (("shaped", "shaped"), ("free", "free"), ("block", "free, one block")):
        with folder() as home:
            fill(home, [], shaped=kind == "shaped")
            with interface(home) as terminal:
                begin(terminal, kind, 200, BIG)
                terminal.rest(6.0)
                echo(terminal, f"into a reply of 1 MB, {name}")


def share(seconds: float) -> None:
    """CPU seconds of the interface's process while tokens stream and the panel is shown."""
    for kind, tokens in itertools.product(("shaped", "free"), (1, 4)):
        with folder() as home:
            fill(home, [], shaped=kind == "shaped")
            with interface(home) as terminal:
                before, began = terminal.cpu_s(), time.monotonic()
                terminal.rest(3.0)
                idle = (terminal.cpu_s() - before) / (time.monotonic() - began)
                begin(terminal, kind, 130, tokens=tokens)
                terminal.rest(2.0)
                before, began = terminal.cpu_s(), time.monotonic()
                terminal.rest(seconds)
                used = (terminal.cpu_s() - before) / (time.monotonic() - began)
                events = f"{tokens} token{'s' if tokens > 1 else ''} an event"
                print(f"{f'share of a core, {kind}, {events}':<46} {used:8.1%}   bar 6.0%   idle {idle:.1%}")
                terminal.press("\x1b")
                terminal.rest(1.0)


def leave(_seconds: float) -> None:
    """Escape and Ctrl+Q with SmolLM2 while it loads, reads a prompt of 6,000 tokens and writes."""
    command = [sys.executable, "-m", "app", "--context", "8192", "--numerics", "fast"]
    states = {"loading": "Loading", "reading": "Reading the prompt", "writing": "Writing"}
    for state, shown in states.items():
        seconds = []
        for key in ("escape", "ctrl+q"):
            with folder() as home:
                terminal = Terminal(command, home)
                terminal.until("Loading" if state == "loading" else "Ready")
                if state != "loading":
                    terminal.rest(1.0)
                    prompt = PLAIN * 375 if state == "reading" else "Tell me a long story."
                    terminal.press(f"\x1b[200~{prompt}\x1b[201~")
                    terminal.rest(1.0)
                    terminal.press("\r")
                    terminal.until(shown)
                if key == "escape":
                    began = terminal.press("\x1b")
                    seconds.append(terminal.until("stopped") - began)
                    terminal.close()
                else:
                    seconds.append(terminal.close())
        tell(f"Escape while {state}", seconds[0], 1.0)
        tell(f"Ctrl+Q while {state}", seconds[1], 2.0, "until no process is left")


def engine(_seconds: float) -> None:
    """SmolLM2 with the interface and without, in turns; the same prompt, seed and budget."""
    bare, shown = [], []
    for _ in range(5):
        bare.append(asyncio.run(write_bare()))
        with folder() as home:
            fill(home, [], settings={"max_tokens": ENGINE_TOKENS, "temperature": 0.0, "stop_loops": False})
            terminal = Terminal([sys.executable, "-m", "app", "--numerics", "fast"], home)
            terminal.until("Ready")
            terminal.rest(2.5)
            terminal.press(f"{ENGINE_PROMPT}\r")
            shown.append(stored_stats(home, terminal))
            terminal.close()
    lengths = {stats.reply_tokens for stats in (*shown, *bare)}
    if len(lengths) > 1:
        raise SystemExit(f"these replies cannot be compared: {sorted(lengths)} tokens")
    pairs = [(a.tokens_per_s, b.tokens_per_s) for a, b in zip(shown, bare, strict=True)]
    ratio = statistics.median(a / b for a, b in pairs)
    rows = ", ".join(f"{a:.0f}/{b:.0f}" for a, b in pairs)
    print(
        f"{'engine with the interface / without':<46} {ratio:8.3f}   {lengths.pop()} tokens, a second: {rows}"
    )


MEASURES: dict[str, Callable[[float], None]] = {
    "paint": paint,
    "open": open_chat,
    "keys": keys,
    "share": share,
    "leave": leave,
    "engine": engine,
}


def tell(what: str, seconds: float, bar: float | None, note: str = "") -> None:
    """Print a line of the report."""
    limit = "" if bar is None else f"bar {bar:.2f} s"
    print(f"{what:<46} {seconds:7.3f} s   {limit:<10} {note}", flush=True)


def begin(terminal: Terminal, kind: str, rate: int, first: int = 0, tokens: int = 1) -> None:
    """Send what the scripted worker reads its orders from."""
    terminal.press(json.dumps({"kind": kind, "rate": rate, "first": first, "tokens": tokens}) + "\r")
    terminal.until("Writing")


def echo(terminal: Terminal, what: str) -> None:
    """Press keys one by one and wait for each."""
    delays = []
    for key in KEYS:
        delays.append(-terminal.press(key) + terminal.until(key))
        terminal.rest(0.07)
    note = f"median of {len(delays)}, 95 % {sorted(delays)[int(len(delays) * 0.95)]:.3f}, worst {max(delays):.3f}"
    tell(f"key echo {what}", statistics.median(delays), 0.05, note)
    terminal.press("\x1b")
    terminal.rest(1.0)


def choose(terminal: Terminal, end: str) -> float:
    """Open the second chat of the list; return the seconds until its end is shown."""
    terminal.press("\x1bOQ")  # F2
    terminal.until("Rename")  # a key of the list, in the footer
    terminal.press("\x1b[B")  # Down
    terminal.rest(0.5)
    return -terminal.press("\r") + terminal.until(end)


def focus(terminal: Terminal, times: int) -> list[float]:
    """Go to the messages and back; each way counts until the screen is still."""
    delays = []
    for _ in range(times):
        for key in ("\x1b[1;5A", "\t"):  # Ctrl+Up, Tab
            began = terminal.press(key)
            delays.append(terminal.settled() - began)
            terminal.rest(0.1)
    return delays


# --- what is shown


def text(pattern: str, length: int, number: int) -> str:
    """Return a text of a length that ends in its number."""
    end = f"\n\nmessage {number} ends"
    whole = pattern * (length // len(pattern))
    return whole + "and so on " * ((length - len(whole) - len(end)) // 10) + end


def fill(
    home: Path,
    chats: list[tuple[str, list[str]]],
    *,
    shaped: bool = False,
    settings: dict[str, object] | None = None,
) -> None:
    """Make a store with chats of free replies, and an empty chat for the next one."""
    from app.store.store import Store
    from engine.events import Finished
    from engine.protocol import Sampling
    from grammars.spec import GrammarSpec

    with Store(home / "stampo.sqlite3") as store:
        for name, messages in chats:
            chat = store.create_chat(title=name)
            parent = None
            for place, content in enumerate(messages):
                if place % 2 == 0:
                    parent = store.add_user(chat, parent, content)
                    continue
                parent = store.begin_reply(chat, parent, shape=None, sampling=Sampling())
                end = Finished(
                    turn=1, finish="stop", text=content, tokens=(), seed=1, stats=Stats(reply_tokens=9)
                )
                store.finish_reply(parent, end, valid=None, trace=())
        time.sleep(0.01)  # the latest chat is the one above the others
        chat = store.create_chat()
        if settings:
            store.set_settings(chat, settings)
        if shaped:
            schema = '{"type":"array","items":{"type":"object"}}'
            shape = GrammarSpec(kind="json_schema", text=schema, name="bench")
            store.set_shape(chat, shape, on=True, shown=False)


def stored_stats(home: Path, terminal: Terminal, timeout: float = 120.0) -> Stats:
    """Return the figures of the only reply in a store, once it has ended; the terminal is read meanwhile."""
    from app.store.store import Store

    end = time.monotonic() + timeout
    while time.monotonic() < end:
        terminal.rest(0.5)
        with Store(home / "stampo.sqlite3") as store:
            for chat in store.chats():
                for message in store.path(chat.id):
                    if message.reply is not None and message.reply.stats is not None:
                        return message.reply.stats
    raise TimeoutError(f"no reply ended within {timeout:.0f} s")


async def write_bare() -> Stats:
    """Return the figures of a reply that nobody looks at."""
    from app.client import EngineClient
    from app.models import starter_model
    from engine.events import Finished, Ready
    from engine.protocol import Generate, Load, Message, Sampling

    client = EngineClient()
    await client.start()
    client.send(Load(model=str(starter_model()), numerics="fast"))
    async for event in client.events():
        if isinstance(event, Ready):
            message = Message(role="user", content=ENGINE_PROMPT)
            await asyncio.sleep(2.5)
            client.send(
                Generate(
                    turn=1,
                    messages=(message,),
                    max_tokens=ENGINE_TOKENS,
                    sampling=Sampling(temperature=0.0),
                    stop_loops=False,
                )
            )
        elif isinstance(event, Finished):
            await client.close()
            return event.stats
    raise RuntimeError("the engine ended before the reply")


# --- the processes behind the terminal


def child() -> None:
    """Run the interface over the scripted worker, under the profiler if wished."""
    from app.paths import store_path
    from app.store.store import Store
    from app.tui.app import StampoApp
    from engine.protocol import Load

    profile = os.environ.get("STAMPO_BENCH_PROFILE")
    profiler = cProfile.Profile(builtins=False) if profile else None
    with Store(store_path()) as store:
        app = StampoApp(
            store=store, load=Load(model="bench.gguf"), worker=[sys.executable, __file__, "--worker"]
        )
        if profiler:
            profiler.enable()
        app.run()
        if profiler:
            profiler.disable()
            profiler.dump_stats(profile)


class Worker:
    """A worker that writes as fast as its prompt says, until it is cancelled."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        """Answer commands until the end of input."""
        self._emit(type="hello", protocol=1, version="0", pid=os.getpid())
        threading.Thread(target=self._beat, daemon=True).start()
        for line in sys.stdin:
            command = json.loads(line)
            if command["type"] == "load":
                self._emit(
                    type="ready", model=MODEL, context=4096, threads=1, exact="exact", numerics_reason=""
                )
            elif command["type"] == "generate":
                self._cancelled.clear()
                threading.Thread(target=self._write, args=(command,), daemon=True).start()
            elif command["type"] == "count":
                texts = [len(text) // 4 for text in command["texts"]]
                self._emit(type="counted", turn=command["turn"], prompt=50, texts=texts)
            elif command["type"] == "cancel":
                self._cancelled.set()

    def _beat(self) -> None:
        while True:
            time.sleep(1.0)
            self._emit(type="heartbeat")

    def _write(self, command: dict) -> None:
        turn = command["turn"]
        order = json.loads(command["messages"][-1]["content"])
        pattern = TEXTS[order["kind"]]
        pieces = itertools.cycle([pattern[start : start + 4] for start in range(0, len(pattern), 4)])
        origins = itertools.cycle(("forced", "forced", "accepted", "sampled"))
        self._emit(type="started", turn=turn, prompt_tokens=50, reused_tokens=0, seed=1)
        sent = 0
        shaped = order["kind"] == "shaped"

        def send(count: int, seconds: float) -> None:
            nonlocal sent
            texts = list(itertools.islice(pieces, count))
            tokens = []
            for place, piece in enumerate(texts):
                origin = next(origins) if shaped else "sampled"
                allowed = 1 + sent * 977 % VOCABULARY if shaped and origin != "forced" else None
                tokens.append({"id": sent + place, "text": piece, "origin": origin, "allowed": allowed})
            sent += count
            self._emit(
                type="tokens", turn=turn, tokens=tokens, text="".join(texts), forwards=sent, elapsed_s=seconds
            )

        for _ in range(order["first"] // 40_000):
            send(10_000, 0.1)
        began = time.monotonic()
        step = order["tokens"]
        for place in itertools.count():
            if self._cancelled.wait(max(0.0, began + place * step / order["rate"] - time.monotonic())):
                break
            send(step, 0.1 + time.monotonic() - began)
        stats = {"reply_tokens": sent, "forwards": sent}
        self._emit(type="finished", turn=turn, finish="cancelled", text="", tokens=[], seed=1, stats=stats)

    def _emit(self, **event: object) -> None:
        line = json.dumps(event) + "\n"
        with self._writing:  # a heartbeat must not get into a line that the pipe takes in pieces
            sys.stdout.write(line)
            sys.stdout.flush()


MODEL = {
    "name": "Scripted",
    "path": "bench.gguf",
    "architecture": "llama",
    "parameters": 135_000_000,
    "quantization": "Q4_1",
    "vocab_size": VOCABULARY,
    "context_length": 4096,
    "size_bytes": 98_000_000,
    "fingerprint": "f",
    "vocabulary": "v",
    "template_hash": "t",
    "has_template": True,
}
ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        Worker().run()
    elif sys.argv[1:] == ["--child"]:
        child()
    else:
        main()
