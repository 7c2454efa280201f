"""The recorded curve of the bench's modelled times, from assets/bench_curve.json.

Its points are measured forwards: rows, rows of logits, seconds. Between them stands their least-squares line, bent to
go through them.
"""

from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

import assets
from engine.drafting.cost import CostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCurve:
    """Measured forwards and what they were measured on."""

    version: int
    title: str
    points: tuple[tuple[int, int, float], ...]

    def cost(self) -> CostModel:
        """Return the curve, which learns nothing."""
        return CostModel.from_points(self.points, learning=False)


def recorded_curve() -> RecordedCurve:
    """Return the curve that is shipped."""
    return TypeAdapter(RecordedCurve).validate_json(
        Path(assets.__file__).with_name("bench_curve.json").read_bytes()
    )
