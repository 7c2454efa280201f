"""A list of options whose ends are ends: going up from the first entry stays there, as does down from the last.

Knows nothing of what is listed.
"""

from textual.widgets import OptionList


class PlainList(OptionList):
    """An option list that does not go round; texts are no markup."""

    def __init__(self, **options: str) -> None:
        super().__init__(markup=False, compact=True, **options)

    def move(self, step: int) -> None:
        """Go to the entry below (1) or above (-1), for a field that keeps the focus meanwhile."""
        if step < 0:
            self.action_cursor_up()
        else:
            self.action_cursor_down()

    def action_cursor_up(self) -> None:
        """Go up, unless this is the first entry."""
        if self.highlighted != 0:
            super().action_cursor_up()

    def action_cursor_down(self) -> None:
        """Go down, unless this is the last entry."""
        if self.highlighted != self.option_count - 1:
            super().action_cursor_down()


def is_listed(event: OptionList.OptionMessage) -> bool:
    """Tell whether what an event is about still stands in its list, which may have become another one since."""
    options, place = event.option_list, event.option_index
    return place < options.option_count and options.get_option_at_index(place) is event.option
