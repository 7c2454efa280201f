"""A worker that follows a script instead of a model: for tests of the client and of the interface.

Run as `python scripted_worker.py SCRIPT.json`. The script is an object:

    {"hello": {...}, "load": [STEP...], "turns": [[STEP...], ...], "inspect": [STEP...], "heartbeat": true}

`load` answers each `Load`, the n-th list of `turns` the n-th `Generate` of the process, `inspect` each `Inspect`. A
step is one of

    {"send": EVENT}      one line; "$turn" stands for the number of the turn
    {"raw": TEXT}        a line as it is
    {"say": TEXT, "size": N, "origin": ORIGIN}    Started (once), then Tokens of N characters each
    {"end": FINISH}      Finished with all that was said
    {"hold": true}       nothing more until a Cancel comes, which is answered as the real worker does
    {"deaf": true}       nothing more, whatever comes
    {"die": NUMBER}      exit code, or minus a signal's number
    {"log": PATH}        append the command just received to a file, one JSON line
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

EXIT_AT_END_OF_INPUT = 0

MODEL = {
    "name": "Scripted 1M",
    "path": "scripted.gguf",
    "architecture": "llama",
    "parameters": 1_000_000,
    "quantization": "Q4_1",
    "vocab_size": 1000,
    "context_length": 2048,
    "size_bytes": 98_000_000,
    "fingerprint": "f1",
    "vocabulary": "v1",
    "template_hash": "t1",
    "has_template": True,
}
READY = {
    "type": "ready",
    "model": MODEL,
    "context": 2048,
    "threads": 2,
    "exact": "exact",
    "numerics_reason": "scripted",
}
LOADED = [{"send": {"type": "loading", "fraction": 0.5}}, {"send": READY}]


def _emit(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Script:
    """Plays the steps; commands arrive through a queue so that a hold can be cancelled."""

    def __init__(self, script: dict[str, Any]) -> None:
        self._script = script
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self._turns = 0

    def run(self) -> None:
        """Greet, then answer commands until the end of input."""
        _emit(
            self._script.get("hello") or {"type": "hello", "protocol": 1, "version": "0", "pid": os.getpid()}
        )
        threading.Thread(target=self._read, daemon=True).start()
        if self._script.get("heartbeat", True):
            threading.Thread(target=self._beat, daemon=True).start()
        while True:
            command = self._commands.get()
            if command["type"] == "load":
                self._play(self._script.get("load", LOADED), command, None)
            elif command["type"] == "count":
                _emit(self._counted(command))
            elif command["type"] == "generate":
                turns = self._script.get("turns", [])
                steps = turns[min(self._turns, len(turns) - 1)] if turns else []
                self._turns += 1
                self._play(steps, command, command["turn"])
            elif command["type"] == "inspect":
                self._play(self._script.get("inspect", []), command, command["generate"]["turn"])

    def _counted(self, command: dict[str, Any]) -> dict[str, Any]:
        """Count four characters as a token, as the real worker answers."""
        contents = [message["content"] for message in command["messages"]]
        prompt = sum(_tokens(content) for content in contents) if contents else None
        texts = [_tokens(text) for text in command["texts"]]
        return {"type": "counted", "turn": command["turn"], "prompt": prompt, "texts": texts}

    def _read(self) -> None:
        for line in sys.stdin:
            self._commands.put(json.loads(line))
        os._exit(EXIT_AT_END_OF_INPUT)

    def _beat(self) -> None:
        while True:
            time.sleep(0.1)
            _emit({"type": "heartbeat"})

    def _play(self, steps: list[dict[str, Any]], command: dict[str, Any], turn: int | None) -> None:
        said = ""
        ids: list[int] = []
        for step in steps:
            if "send" in step:
                _emit({key: turn if value == "$turn" else value for key, value in step["send"].items()})
            elif "raw" in step:
                sys.stdout.write(step["raw"] + "\n")
                sys.stdout.flush()
            elif "say" in step:
                if not ids:
                    _emit(_started(turn))
                ids += self._say(turn, step, len(ids))
                said += step["say"]
            elif "end" in step:
                _emit(_finished(turn, step["end"], said, ids))
            elif "hold" in step:
                while self._commands.get()["type"] != "cancel":
                    pass
                if turn is None:
                    _emit({"type": "failed", "kind": "cancelled", "message": "Loading was stopped."})
                else:
                    _emit(_finished(turn, "cancelled", said, ids))
                return
            elif "deaf" in step:
                threading.Event().wait()
            elif "die" in step:
                sys.stdout.flush()
                if step["die"] < 0:
                    os.kill(os.getpid(), signal.Signals(-step["die"]))
                os._exit(step["die"])
            elif "log" in step:
                with Path(step["log"]).open("a", encoding="utf-8") as log:
                    log.write(json.dumps(command) + "\n")

    @staticmethod
    def _say(turn: int | None, step: dict[str, Any], before: int) -> list[int]:
        text, size, origin = step["say"], step.get("size", 4), step.get("origin", "sampled")
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        for place, piece in enumerate(pieces):
            token = {"id": before + place, "text": piece, "origin": origin}
            if origin != "forced":
                token["allowed"] = 40
            _emit(
                {
                    "type": "tokens",
                    "turn": turn,
                    "tokens": [token],
                    "text": piece,
                    "forwards": before + place + 1,
                    "elapsed_s": 0.01 * (before + place + 1),
                }
            )
        return list(range(before, before + len(pieces)))


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _started(turn: int | None) -> dict[str, Any]:
    return {"type": "started", "turn": turn, "prompt_tokens": 20, "reused_tokens": 0, "seed": 7}


def _finished(turn: int | None, finish: str, text: str, ids: list[int]) -> dict[str, Any]:
    stats = {"prompt_tokens": 20, "reply_tokens": len(ids), "sampled_tokens": len(ids), "forwards": len(ids)}
    return {
        "type": "finished",
        "turn": turn,
        "finish": finish,
        "text": text,
        "tokens": ids,
        "seed": 7,
        "stats": stats | {"tokens_per_s": 50.0, "tokens_per_forward": 1.0},
    }


if __name__ == "__main__":
    Script(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).run()
