"""The slash commands that begin with what is being typed, above the composer, which keeps the focus.

Knows the table of commands, not what they do.
"""

from collections.abc import Sequence

from textual.content import Content
from textual.widgets.option_list import Option

from app.tui.slash import SlashCommand, beginning_with
from app.tui.widgets.plain_list import PlainList


class CommandList(PlainList):
    """Hidden unless a command is being typed; `chosen` is the highlighted one."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self.can_focus = False
        self.display = False
        self._listed: Sequence[SlashCommand] = ()

    @property
    def chosen(self) -> SlashCommand | None:
        """The highlighted command."""
        return self._listed[self.highlighted] if self.display and self.highlighted is not None else None

    def follow(self, text: str) -> None:
        """Show what a text could become; the highlight stays on its command where that is still listed."""
        listed, before = beginning_with(text), self.chosen
        if listed == self._listed:
            return
        self._listed = listed
        self.set_options([Option(_row(command)) for command in listed])
        self.display = bool(listed)
        if listed:
            self.highlighted = listed.index(before) if before in listed else 0

    def completion(self, text: str) -> str | None:
        """Return what a text becomes by the highlighted command; None if that is written out, or there is none."""
        chosen = self.chosen
        if chosen is None or text[1:].lower() == chosen.name:
            return None
        return f"/{chosen.name}{' ' if chosen.argument else ''}"


def _row(command: SlashCommand) -> Content:
    return Content.assemble((command.usage, "bold"), (f"  {command.tooltip}", "dim"))
