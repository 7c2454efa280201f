"""guidance as a process, for peers.py: it pins a grammar library of its own and cannot share an environment.

    PYTHON guidance_peer.py GGUF CONTEXT THREADS

Reads one request a line on standard input (prompt, schema, max_tokens, temperature, cold) and answers each with one
JSON string, the document. Uses nothing of Stampo.
"""

import json
import os
import sys

from guidance import assistant, models, user
from guidance import json as json_reply


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    path, context, threads = sys.argv[1:]
    model = models.LlamaCpp(
        path,
        echo=False,
        enable_monitoring=False,
        n_ctx=int(context),
        n_threads=int(threads),
        n_threads_batch=int(threads),
    )
    engine = model._interpreter.engine  # its cache of tokens has no public name
    for line in sys.stdin:
        request = json.loads(line)
        if request["cold"]:
            engine._cached_token_ids, engine._cached_logits = [], None
        with user():
            chat = model + request["prompt"]
        with assistant():
            chat += json_reply(
                name="reply",
                schema=request["schema"],
                temperature=request["temperature"],
                max_tokens=request["max_tokens"],
            )
        print(json.dumps(chat["reply"]), file=answers, flush=True)


if __name__ == "__main__":
    main()
