"""Import N mangled documents into a store and tell what came of them: `python tests/bench/fuzz_import.py 10000 [SEED]`.

Ends with 1 at a crash, at an import of more than a second of processor time, or if anything of the chats that were
there before is no longer the same.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from app.exchange import export_chat, export_chats
from app.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))

from chatting import rich_chat
from mangle import mangled, try_import

LONGEST_S = 1.0


def main(count: int, seed: int) -> int:
    """Return the exit code."""
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s") as store:
        store._database.run("PRAGMA synchronous=OFF")
        documents = [
            export_chat(store, rich_chat(store), trace=True),
            export_chats(store, [1, rich_chat(store)], trace=False),
        ]
        kept = [store.tree(chat.id) for chat in store.chats()]
        for number in range(count):
            text = mangled(chance.choice(documents), chance)
            before = time.process_time()
            try:
                refusal = try_import(store, text)
            except Exception:
                print(f"input {number} of seed {seed} crashed the import: {text[:2000]!r}")
                raise
            taken = time.process_time() - before
            longest = max(longest, taken)
            if taken > LONGEST_S:
                print(f"input {number} of seed {seed} took {taken:.2f} s: {text[:2000]!r}")
                return 1
            seen["came in" if refusal is None else "refused"] += 1
        sound = store._database.rows("PRAGMA main.integrity_check")[0][0]
        same = [store.tree(chat.id) for chat in store.chats()] == kept
    print(
        f"{count} inputs, seed {seed}: {dict(seen)}; longest {longest:.3f} s; integrity {sound}; kept {same}"
    )
    return 0 if sound == "ok" and same else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
