"""What can be done when a message and its reply do not fit into the context.

Knows the choices, not what comes of them.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.context_budget import Choice, DropOldest, LargerContext
from app.outgoing import Fit
from app.tui.screens.closing import Dialog
from app.tui.widgets.plain_list import PlainList
from app.tui.words import tokens_words


class ContextFull(Dialog[Choice | None]):
    """Returns the choice, or None when nothing is to be sent."""

    CSS_PATH = "chats.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="context.cancel")]

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit

    def compose(self) -> ComposeResult:
        """What does not fit, the choices, the way out."""
        with Vertical(classes="dialog"):
            yield Static("This does not fit into the context", markup=False, classes="heading")
            yield Static(self._fit.words, markup=False, classes="words")
            yield PlainList()
            yield Static("Enter takes it, Escape sends nothing", markup=False, classes="hint")

    def on_mount(self) -> None:
        """List the choices, and last that of doing nothing."""
        options = self.query_one(PlainList)
        options.set_options(
            [*(Option(_row(choice)) for choice in self._fit.choices), Option(_do_nothing(self._fit))]
        )
        options.highlighted = 0
        options.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the choice."""
        place = event.option_index
        self.dismiss(self._fit.choices[place] if place < len(self._fit.choices) else None)

    def action_cancel(self) -> None:
        """Return nothing."""
        self.dismiss(None)


def _row(choice: Choice) -> Content:
    if isinstance(choice, DropOldest):
        turns = "turn" if choice.turns == 1 else f"{choice.turns} turns"
        note = f"the model reads {tokens_words(choice.tokens)}; nothing is deleted, /whole shows it all again"
        return Content.assemble((f"Leave out the oldest {turns}", "bold"), (f"\n  {note}", "dim"))
    if isinstance(choice, LargerContext):
        return Content.assemble(
            (f"Load the model with a context of {choice.tokens:,}", "bold"),
            ("\n  takes a moment; your message stays here until you send it", "dim"),
        )
    return Content.assemble(
        (f"A shorter reply of at most {tokens_words(choice.tokens)}", "bold"),
        ("\n  from now on in this chat, while nothing else fits", "dim"),
    )


def _do_nothing(fit: Fit) -> Content:
    note = "\n  shorten the message, or begin an empty chat with Ctrl+N" if not fit.choices else ""
    return Content.assemble(("Send nothing", "bold"), (note, "dim"))
