"""The interface without a screen, as a process that can be killed: sends a prompt and tells what it sees.

Run as `python interface_process.py STORE PROMPT MODEL` for the real worker, or with `SCRIPT.json` in place of the
model for the scripted one, where the clock runs so fast that every event is a checkpoint. Each line of its output is
a JSON object: `{"ready"}`, `{"sent": TEXT}`, `{"text": REPLY SO FAR, "at": SECONDS}` as the reply grows, `{"done"}`.
"""

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path

import scripted_worker

from app.session import Session
from app.settings import ReplySettings
from app.store import Store
from app.supervisor import Supervisor
from engine.protocol import Load


def tell(**what: object) -> None:
    """Write one line."""
    print(json.dumps(what), flush=True)


async def main(path: str, prompt: str, model: str) -> None:
    """Send the prompt in a new chat and follow the reply."""
    scripted = model.endswith(".json")
    command = [sys.executable, scripted_worker.__file__, model] if scripted else None
    with Store(Path(path)) as store:
        session = Session(
            store,
            lambda on_event: Supervisor(
                Load(model=model, context=1024, threads=1, numerics="fast"), on_event, command=command
            ),
            settings=ReplySettings(max_tokens=600, temperature=1.0, stop_loops=False),
            clock=itertools.count(step=10).__next__ if scripted else time.monotonic,
        )
        session.new_chat()
        session.engine.start()
        while session.engine.state == "loading":
            await asyncio.sleep(0.005)
        tell(ready=session.engine.state)
        session.send(prompt)
        tell(sent=prompt)
        seen = ""
        while session.busy:
            if session.live and session.live.text != seen:
                seen = session.live.text
                tell(text=seen, at=time.monotonic())
            await asyncio.sleep(0.005)
        tell(done=True)
        await session.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
