"""What an engine drafts with: its sources as one cascade, the gate, and the figures of a turn.

Knows which sources there are; nothing of how they guess or of what a forward costs.
"""

from collections.abc import Sequence

from engine.decoding.decoder import LONGEST_DRAFT
from engine.drafting.cascade import Cascade
from engine.drafting.cost import CostModel, Gate
from engine.drafting.draft_model import DraftModelSource
from engine.drafting.memory import SchemaMemory
from engine.drafting.recycling import RecyclingSource
from engine.drafting.source import DraftSource
from engine.drafting.suffix import SuffixSource

Figures = dict[str, dict[str, float]]


class Drafts:
    """The draft sources of one engine; they live across turns.

    Without a `vocab_size` there are none but the `draft_model`, if there is one. `cost` is what is known of the
    seconds of a forward.
    """

    def __init__(
        self,
        vocab_size: int | None = None,
        *,
        draft_model: DraftModelSource | None = None,
        cost: CostModel | None = None,
    ) -> None:
        self._memory = SchemaMemory()
        self._vocab_size = vocab_size
        self._draft_model = draft_model
        sources: list[DraftSource] = []
        if vocab_size is not None:
            sources += [self._memory, SuffixSource(), RecyclingSource(vocab_size)]
        if draft_model is not None:
            sources.append(draft_model)
        self.sources = Cascade(
            sources,
            pays=lambda: self.gate.least(1, LONGEST_DRAFT),
            plain_s=lambda: self.gate.cost.seconds(1, 1),
        )
        self.gate = Gate(cost or CostModel(), muted=lambda: self.sources.muted)

    def emptied(self, cost: CostModel) -> "Drafts":
        """Return the same sources with nothing in their memories, behind a gate that goes by `cost`."""
        return Drafts(self._vocab_size, draft_model=self._draft_model, cost=cost)

    def remember(self, replies: Sequence[Sequence[int]]) -> None:
        """Set the earlier replies under the same shape that the schema memory guesses from."""
        self._memory.remember(replies)

    def statistics(self) -> Figures:
        """Return the totals so far by source, and the gate's decisions under `gate`."""
        return {**self.sources.statistics(), "gate": self.gate.statistics()}

    def since(self, before: Figures) -> Figures:
        """Return what was added to the totals since `before`, with the acceptance of just that."""
        figures = {
            name: {key: value - before.get(name, {}).get(key, 0) for key, value in counts.items()}
            for name, counts in self.statistics().items()
        }
        for counts in figures.values():
            if "acceptance" in counts:
                counts["acceptance"] = round(counts["accepted"] / (counts["submitted"] or 1), 4)
        return figures

    def abort(self) -> None:
        """Stop a draft model that is at work; safe from any thread."""
        if self._draft_model is not None:
            self._draft_model.abort()

    def clear_abort(self) -> None:
        """Let the draft model work again."""
        if self._draft_model is not None:
            self._draft_model.clear_abort()
