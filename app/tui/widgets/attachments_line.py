"""The texts that go with the next message: one row each above the composer; with the focus here they can be removed.

Knows nothing of the store; `removed` hears which one is not wanted, `undone` that the last one is wanted back.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets.option_list import Option

from app.store.values import Attachment
from app.terminal import one_line
from app.tui.widgets.plain_list import PlainList
from app.tui.words import tokens_words


class AttachmentsLine(PlainList):
    """Hidden while there are none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "d,delete", "remove", "Remove", id="attachment.remove", tooltip="Do not send this text along"
        ),
        Binding(
            "u", "undo", "Undo", id="attachment.undo", tooltip="Take back the text that was removed last"
        ),
    ]

    def __init__(
        self, *, removed: Callable[[Attachment], None], undone: Callable[[], None], **options: str
    ) -> None:
        super().__init__(**options)
        self._removed = removed
        self._undone = undone
        self._attachments: Sequence[Attachment] = ()
        self.display = False

    def show(self, attachments: Sequence[Attachment], tokens: Sequence[tuple[int, bool]]) -> None:
        """List texts with their numbers of tokens and whether they were counted."""
        place = self.highlighted or 0
        self._attachments = attachments
        self.set_options([Option(_row(*row)) for row in zip(attachments, tokens, strict=True)])
        self.display = bool(attachments)
        if attachments:
            self.highlighted = min(place, len(attachments) - 1)

    def action_remove(self) -> None:
        """Ask to remove the highlighted one."""
        if self.highlighted is not None:
            self._removed(self._attachments[self.highlighted])

    def action_undo(self) -> None:
        """Ask for the last one back."""
        self._undone()


def _row(attachment: Attachment, tokens: tuple[int, bool]) -> Content:
    count, counted = tokens
    words = f"{len(attachment.content):,} characters, {'' if counted else 'about '}{tokens_words(count)}"
    return Content.assemble("+ ", (one_line(attachment.name), "bold"), (f"  {words}", "dim"))
