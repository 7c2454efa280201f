"""What `stampo ask` prints of finished replies: the JSON object, the notes behind a reply, and the exit code."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.headless import INTERRUPTED, MODEL, OK, UNFIT
from app.replay import describe_verification
from app.terminal import emit, narrate, printable
from engine.events import Finished, ModelInfo
from grammars.spec import GrammarSpec

if TYPE_CHECKING:
    from grammars.check import Verdict

_MODEL_KEYS = ("name", "path", "architecture", "parameters", "quantization", "vocab_size", "context_length")

_ENDINGS = {
    "length": "The reply was cut: it reached --max-tokens.",
    "context_full": "The reply was cut: the context is full.",
    "cancelled": "Interrupted.",
    "landed": "The reply was cut short to end within its budget.",
    "loop": "The reply was cut: it repeated itself. --no-loop-guard lets it go on.",
    "error": "The reply ended with an error:",
}


def write_reply(text: str) -> None:
    """Write a part of a reply to standard output; on a terminal nothing in it can act on the terminal."""
    emit(printable(text) if sys.stdout.isatty() else text)


class Report:
    """Prints finished replies. Without `as_json` a single one was streamed already, several are printed here."""

    def __init__(
        self,
        shape: GrammarSpec | None,
        model: ModelInfo | None,
        *,
        as_json: bool,
        stats: bool,
        several: bool,
    ) -> None:
        self._shape = shape
        self._model = model
        self._as_json = as_json
        self._stats = stats
        self._several = several
        self._first = True

    def give(self, finished: Finished, verdict: "Verdict | None") -> int:
        """Print one reply, or what belongs behind it, and return its exit code."""
        if self._as_json:
            emit(json.dumps(self._object(finished, verdict), ensure_ascii=True) + "\n")
        elif self._several:
            write_reply(finished.text if self._first else f"---\n{finished.text}")
            self._end_line(finished)
        elif sys.stdout.isatty():
            self._end_line(finished)
        self._first = False
        if self._stats:
            self._say(finished, _figures(finished))
        if finished.verification is not None:
            self._say(finished, describe_verification(finished.verification))
        if finished.finish not in ("stop", "stop_text"):
            self._say(finished, _ENDINGS[finished.finish] + (f" {finished.error}" if finished.error else ""))
        fits = verdict is None or verdict.fits
        if verdict is not None and not fits:
            where = f" at {verdict.where}" if verdict.where else ""
            self._say(finished, f"The reply does not fit its shape{where}: {verdict.problem}")
        if finished.finish == "cancelled":
            return INTERRUPTED
        if finished.finish == "error":
            return MODEL
        return OK if fits and finished.finish in ("stop", "stop_text", "landed") else UNFIT

    def _end_line(self, finished: Finished) -> None:
        if not finished.text.endswith("\n"):
            emit("\n")

    def _say(self, finished: Finished, sentence: str) -> None:
        narrate(f"Reply {finished.stream + 1}: {sentence}" if self._several else sentence)

    def _object(self, finished: Finished, verdict: "Verdict | None") -> dict[str, Any]:
        """Return the object that --json prints; its keys stay as they are, `verification` comes with --verify."""
        shape = self._shape
        answer = {
            "reply": finished.text,
            "parsed": None if verdict is None else verdict.parsed,
            "valid": None if verdict is None else verdict.fits,
            "finish": finished.finish,
            "reasoning": finished.reasoning,
            "seed": finished.seed,
            "model": {key: getattr(self._model, key) for key in _MODEL_KEYS},
            "constraint": None
            if shape is None
            else {"kind": shape.kind, "hash": shape.hash, "name": shape.name},
            "stats": asdict(finished.stats),
        }
        if finished.verification is not None:
            answer["verification"] = asdict(finished.verification)
        return answer


def _figures(finished: Finished) -> str:
    stats = finished.stats
    thoughts = f" and {stats.reasoning_tokens} of reasoning" if stats.reasoning_tokens else ""
    landed = f", {stats.landed_tokens} landed" if stats.landed_tokens else ""
    return (
        f"{stats.prompt_tokens} prompt tokens ({stats.reused_tokens} reused) in {stats.prefill_s:.2f} s; "
        f"{stats.reply_tokens} reply tokens{thoughts} ({stats.forced_tokens} forced, {stats.accepted_tokens} accepted, "
        f"{stats.sampled_tokens} sampled{landed}) in {stats.decode_s:.2f} s: {stats.tokens_per_s:.1f} a second, "
        f"{stats.tokens_per_forward:.2f} a forward; numerics {stats.exact}; seed {finished.seed}."
    )
