"""Where the next message is typed: lines, earlier messages to go back to, and pastes that are too long for a field.

Knows nothing of chats. Invariant: nothing that was typed is lost by looking at earlier messages; each keeps what was
changed in it, and the draft comes back behind them, until something is sent.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from app.terminal import one_line
from app.tui.widgets.command_list import CommandList
from app.tui.widgets.plain_fields import PlainArea, kept

Enter = Literal["send", "newline"]

LONG_PASTE = 64 * 1024
"""A paste of more bytes than this becomes an attachment."""

_PROMPT = "Write a message"
_OTHER_KEYS = ("ctrl+j", "alt+enter")
_DRAFT = -1
# What keys do while commands are listed.
_FOR_COMMANDS = {"tab": "complete", "up": "choose(-1)", "down": "choose(1)"}


class Composer(PlainArea):
    """A multi-line text field that posts `Submitted` and `Pasted`; page keys move the transcript above it.

    `enter` tells what Enter does; Ctrl+J and Alt+Enter do the other. `history` returns earlier messages, the newest
    first. `commands` lists the slash commands that the text may become.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.page(-1)", "Scroll up", id="transcript.up", show=False),
        Binding("pagedown", "screen.page(1)", "Scroll down", id="transcript.down", show=False),
        Binding("alt+up", "recall(1)", "The message sent before", id="composer.earlier", show=False),
        Binding("alt+down", "recall(-1)", "The message sent after it", id="composer.later", show=False),
        # The screen has these, too; here they take the place of what a text field does with the keys.
        Binding("ctrl+e", "screen.editor", "Editor", id="chat.editor", show=False),
        Binding("ctrl+k", "screen.search", "Search", id="chat.search", show=False),
    ]

    class Submitted(Message):
        """The person asks to send `text`."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Pasted(Message):
        """The person pasted a text that is too long for the field."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(
        self,
        commands: CommandList,
        *,
        enter: Callable[[], Enter] = lambda: "send",
        history: Callable[[], Sequence[str]] = lambda: (),
        **options: str,
    ) -> None:
        super().__init__(placeholder=_PROMPT, highlight_cursor_line=False, compact=True, **options)
        self._enter = enter
        self._commands = commands
        self._history = history
        self._earlier: Sequence[str] = ()
        self._place = _DRAFT
        self._texts: dict[int, str] = {}

    @property
    def unsent(self) -> str:
        """What was typed and not sent: the draft, and in front of it an earlier message that was changed."""
        if self._place == _DRAFT:
            return self.text
        changed = "" if self.text == self._earlier[self._place] else self.text
        return "\n\n".join(filter(None, (changed, self._texts.get(_DRAFT, ""))))

    def fill(self, text: str) -> None:
        """Show a chat's draft."""
        self._place, self._texts = _DRAFT, {}
        self.set_text(text)

    def drop(self, sent: str) -> None:
        """Take away what was sent; what was typed since stays."""
        draft = self._texts.get(_DRAFT, "") if self._place != _DRAFT else ""
        rest = self.text.removeprefix(sent)
        self.fill("\n\n".join(filter(None, (rest, draft))))

    def suggest(self, example: str) -> None:
        """Show an example while nothing is written; an empty one takes it away."""
        self.placeholder = Content(one_line(f"{_PROMPT}, for example: {example}" if example else _PROMPT))

    def action_recall(self, step: int) -> None:
        """Go to an earlier message (1), or to a later one (-1) and at last to the draft."""
        if self._place == _DRAFT:
            self._earlier = self._history()
        place = self._place + step
        if not _DRAFT <= place < len(self._earlier):
            return
        self._texts[self._place] = self.text
        self._place = place
        self.set_text(self._texts.get(place, self._earlier[place] if place != _DRAFT else ""))

    def action_complete(self) -> bool:
        """Write the highlighted command out; False if that is done or there is none."""
        completion = self._commands.completion(self.text)
        if completion is not None:
            self.set_text(completion)
        return completion is not None

    def action_choose(self, step: int) -> None:
        """Highlight the next command (1) or the one before (-1)."""
        self._commands.move(step)

    def on_text_area_changed(self) -> None:
        """Show the commands that the text may become."""
        self._commands.follow(self.text)

    async def _on_key(self, event: events.Key) -> None:
        action = self._action(event.key)
        if action is None:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if action == "send":
            if not self.action_complete():
                self.post_message(self.Submitted(self.text))
        elif action == "newline":
            self._replace_via_keyboard("\n", *self.selection)
        else:
            await self.run_action(action)

    def _action(self, key: str) -> str | None:
        """Return what a key does here, None for what it does in any text field."""
        if key == "shift+enter":
            return "newline"
        if key == "enter":
            return self._enter()
        if key in _OTHER_KEYS:
            return "send" if self._enter() == "newline" else "newline"
        if self._commands.display and key in _FOR_COMMANDS:
            return _FOR_COMMANDS[key]
        if key == "up" and not self.text:
            return "recall(1)"
        return None

    async def _on_paste(self, event: events.Paste) -> None:
        if len(event.text.encode("utf-8", "replace")) <= LONG_PASTE:
            await super()._on_paste(event)
            return
        event.stop()
        event.prevent_default()
        self.post_message(self.Pasted(kept(self, event.text)))
