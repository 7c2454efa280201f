"""The bench's figures as one object and as tables. Knows results and nothing of how they were made."""

import io
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.bench.curve import RecordedCurve
from app.bench.runs import TIMED, Result
from app.terminal import one_line
from engine.drafting.cost import CostModel
from engine.events import Ready

_PARTS = (
    ("mask", "masks and look-aheads"),
    ("choice", "choice"),
    ("drafts", "sources and gate"),
    ("loop", "the loop itself"),
)


def figures(result: Result, recorded: CostModel, learned: CostModel) -> dict[str, Any]:
    """Return everything about a task, ready for JSON.

    Seconds called `wall` are wall time, `outside` those of this thread outside of forwards. Every mode stands beside
    `naive` and `forced` of the same turns: `warm` is there for fewer.
    """
    modes: dict[str, Any] = {}
    for mode, tallies in result.counted.items():
        if not tallies:
            continue
        tally, plain, forced = (result.total(other, tallies) for other in (mode, "naive", "forced"))
        modelled = tally.modelled_s(recorded)
        modes[mode] = {
            "turns": len(tallies),
            "reply_tokens": tally.tokens,
            "forwards": tally.forwards,
            "forwards_per_token": _ratio(tally.forwards, tally.tokens),
            "tokens_per_forward": _ratio(tally.tokens, tally.forwards),
            "no_logits_share": _ratio(tally.forced, tally.tokens),
            "accepted_share": _ratio(tally.accepted, tally.tokens),
            "drafted": tally.drafted,
            "accepted": tally.accepted,
            "acceptance": _ratio(tally.accepted, tally.drafted),
            "kinds": [[*kind, count] for kind, count in sorted(tally.kinds.items())],
            "outside_s": round(tally.outside_s, 6),
            "outside_share": _ratio(tally.outside_s, tally.wall_s),
            "modelled_s": round(modelled, 6),
            "modelled_times_faster_than_naive": _ratio(plain.modelled_s(recorded), modelled),
            "modelled_times_faster_than_forced": _ratio(forced.modelled_s(recorded), modelled),
        }
        if learned.points():
            here = tally.modelled_s(learned)
            modes[mode]["here_modelled_s"] = round(here, 6)
            modes[mode]["here_times_faster_than_naive"] = _ratio(plain.modelled_s(learned), here)
        if tally.sources:
            modes[mode]["sources"] = tally.sources
        if mode in TIMED and (wall := result.rounds(mode, tallies)):
            modes[mode]["wall_s"] = [round(seconds, 6) for seconds in wall]
            modes[mode]["wall_median_s"] = round(statistics.median(wall), 6)
            modes[mode]["wall_times_faster_than_naive"] = _ratio(
                statistics.median(result.rounds("naive", tallies)), statistics.median(wall)
            )
    return {
        "title": result.task.title,
        "transcript": _follows_transcript(result),
        "replies": len(result.task.turns),
        "differing_runs": result.differing,
        "forwards_lower_bound": modes["limit"]["forwards"],
        "parts_s": {
            name: round(result.parts.seconds.get(name, 0.0), 6) for name in ("forward", *dict(_PARTS))
        },
        "modes": modes,
    }


def table(result: Result, found: dict[str, Any]) -> Table:
    """Return the table of one task."""
    shown = Table(title=Text(_title(result, found)), title_justify="left", show_edge=False, pad_edge=False)
    shown.add_column("")
    for heading in (
        "forwards\na token",
        "no\nlogits",
        "guesses\nright",
        "modelled",
        "x naive",
        "x forced",
    ):
        shown.add_column(heading, justify="right")
    for heading in ("by clock", "spread", "x naive"):
        shown.add_column(heading, justify="right")
    for mode, one in found["modes"].items():
        wall = one.get("wall_s")
        shown.add_row(
            mode if one["turns"] == found["replies"] else f"{mode} ({one['turns']})",
            f"{one['forwards_per_token']:.2f}",
            "-" if mode == "naive" else f"{one['no_logits_share']:.0%}",
            f"{one['acceptance']:.0%}" if one["drafted"] else "-",
            f"{one['modelled_s']:.2f} s",
            f"{one['modelled_times_faster_than_naive']:.2f}",
            f"{one['modelled_times_faster_than_forced']:.2f}",
            f"{one['wall_median_s']:.2f} s" if wall else "-",
            f"{min(wall):.2f}-{max(wall):.2f}" if wall else "-",
            f"{one['wall_times_faster_than_naive']:.2f}" if wall else "-",
        )
    return shown


def lines(found: dict[str, Any]) -> list[str]:
    """Return what stands below a task's table, a sentence a line."""
    full = found["modes"]["full"]
    sources = dict(full["sources"])
    gate = sources.pop("gate")
    by_source = ", ".join(
        f"{name} {one['accepted']:.0f} of {one['submitted']:.0f}" for name, one in sources.items()
    )
    said = [
        f"Guesses that were right, by source: {by_source}. Rounds: {gate['drafted']:.0f} with guesses, "
        f"{gate['declined_not_worth_it']:.0f} where they were not worth it, "
        f"{gate['declined_no_guess'] + gate['declined_muted']:.0f} without any.",
        f"Forwards: {full['forwards']}; with the replies known beforehand {found['forwards_lower_bound']}.",
    ]
    parts, tokens = found["parts_s"], full["reply_tokens"]
    own = ", ".join(f"{title} {1e6 * parts[name] / max(1, tokens):.0f}" for name, title in _PARTS)
    said.append(
        f"The engine's own time, microseconds a token: {own}; together {full['outside_share']:.1%} of decoding."
    )
    here = {mode: one.get("here_times_faster_than_naive") for mode, one in found["modes"].items()}
    if all(here.values()):
        times = ", ".join(f"{mode} {value:.2f}" for mode, value in here.items() if mode != "naive")
        said.append(
            f"Modelled by what the timed rounds took on this machine, times faster than naive: {times}."
        )
    if found["differing_runs"]:
        said.append(f"In {found['differing_runs']} runs the reply was not the naive one.")
    return said


def machine_line(ready: Ready) -> str:
    """Return what figures were measured on."""
    model = ready.model
    return (
        f"{platform.machine()}, {ready.threads} threads, {one_line(Path(model.path).name)}, "
        f"{model.parameters / 1e6:.0f}M parameters, {model.quantization}, numerics {ready.exact}"
    )


class Report:
    """The figures of several tasks with what they were measured on. `learned` is the curve of this machine."""

    def __init__(
        self,
        results: Sequence[Result],
        recorded: RecordedCurve,
        learned: CostModel,
        machine: str,
        rounds: int,
    ) -> None:
        self._results = results
        self._recorded = recorded
        self._learned = learned
        self._machine = machine
        self._rounds = rounds
        cost = recorded.cost()
        self._figures = {result.task.name: figures(result, cost, learned) for result in results}

    def document(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "version": 1,
            "machine": self._machine,
            "rounds": self._rounds,
            "curve": {"title": self._recorded.title, "points": self._recorded.points},
            "learned_points": self._learned.points(),
            "tasks": self._figures,
        }

    def text(self, width: int) -> str:
        """Return the tables and sentences for lines of `width` columns."""
        out = io.StringIO()
        console = Console(file=out, width=width, color_system=None, highlight=False)

        def say(line: str) -> None:
            console.print(Text(line))

        say(f"{self._machine}; {self._rounds} timed rounds")
        for result, found in zip(self._results, self._figures.values(), strict=True):
            say("")
            console.print(table(result, found))
            for line in lines(found):
                say(line)
        say("")
        say(self._explanation())
        return out.getvalue()

    def _explanation(self) -> str:
        text = (
            "x: times faster. Modelled: the forwards that were made, priced by one recorded curve "
            f"({self._recorded.title}), and the engine's own measured time. Memories are empty before every reply; "
            "warm: after replies to other prompts of the same shape. limit: a source that knows the reply."
        )
        if any(map(_follows_transcript, self._results)):
            text += " * follows a recorded transcript: the choice is its next token, all else is real."
        return text


def _title(result: Result, found: dict[str, Any]) -> str:
    mark = "*" if found["transcript"] else ""
    tokens = found["modes"]["naive"]["reply_tokens"]
    return f"{result.task.title}{mark} ({result.task.name}): {found['replies']} replies, {tokens} tokens"


def _follows_transcript(result: Result) -> bool:
    return any(turn.transcript is not None for turn in result.task.turns)


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0
