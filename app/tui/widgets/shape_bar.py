"""The constraint bar: one line with the shape of the next reply, its guards where they are not the usual ones, and
whether the model is told of it.

Knows nothing of the store; the screen calls `show`.
"""

from textual.content import Content

from app.tui.shape_words import guards_words
from app.tui.widgets.line import Line
from app.tui.words import KINDS, shape_name
from grammars.spec import GrammarSpec


class ShapeBar(Line):
    """Tells what the next reply is poured into."""

    def show(self, shape: GrammarSpec | None, *, on: bool, told: bool, system: bool) -> None:
        """Show the shape of the next reply.

        `told` says that the model reads it with the message, `system` that the chat has a system prompt.
        """
        if shape is None:
            parts = [("Shape  ", "dim"), ("none", "bold"), ("  the reply is free text", "dim")]
        else:
            name = (shape_name(shape), "bold $accent" if on else "dim strike")
            state = "shown to the model" if told else "hidden from the model"
            guards = guards_words(shape.guards)
            kind = f"{KINDS[shape.kind]}, {guards}" if guards else KINDS[shape.kind]
            note = f"  {kind}, {state}" if on else "  switched off, the reply is free text"
            parts = [("Shape  ", "dim"), name, (note, "dim")]
        if system:
            parts.insert(2, ("  + system prompt", "bold"))
        self.put(Content.assemble(*parts))
