"""What forwards cost, kept from one run of a model to the next (`engine.cache`), so that the gate need not begin at the
costs of another machine.
"""

from pathlib import Path

from engine import cache
from engine.cache import Settings
from engine.drafting.cost import CostModel

_KIND = "cost"
_METHOD = 1


def recall(folder: Path, settings: Settings) -> CostModel:
    """Return the cost model kept in a folder for these settings; a new one if there is none that makes sense."""
    try:
        return CostModel.from_points(cache.recall(folder, _KIND, settings, method=_METHOD).get("points", ()))
    except (TypeError, ValueError, OverflowError):  # the file was changed: the costs are learned again
        return CostModel()


def keep(folder: Path, settings: Settings, cost: CostModel) -> None:
    """Keep what a cost model knows, if anything; a folder that cannot be written is passed over."""
    points = cost.points()
    if points:
        cache.keep(folder, _KIND, settings, {"points": points}, method=_METHOD)
