"""The messages of a chat, oldest above. Mounts the last ones and adds older ones when the top is reached.

Knows nothing of the store or the engine; the screen hands it messages. With the focus here one message is selected,
and keys ask for something to be done with it: `Asked` says what. Invariant: at most one reply is being written, and it
is the last widget.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from app.conversation import left_out_words
from app.live import LiveReply
from app.store.values import StoredMessage
from app.terminal import one_line
from app.tui.keymap import Keys, remapped
from app.tui.until_closed import until_closed
from app.tui.widgets.message_view import LiveView, MessageView
from app.tui.widgets.rows import blank_rows, laid_out_once

PAGE = 30

_WELCOME = Content.assemble(
    ("Stampo", "bold"),
    "  replies poured into a shape\n\n",
    ("Ctrl+T", "bold"),
    "  pick a shape for the reply\n",
    ("Enter", "bold"),
    "   send your message\n",
    ("Escape", "bold"),
    "  stop what runs\n",
    ("F1", "bold"),
    "      all keys",
)


def _asks(key: str, what: str, name: str, tooltip: str) -> Binding:
    return Binding(key, f"ask('{what}')", name, id=f"message.{what}", tooltip=tooltip)


class Transcript(VerticalScroll):
    """A scrolling list of messages that follows its end until the person scrolls away."""

    virtual_size = laid_out_once()

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "select(-1)", "Up", id="message.up", tooltip="The message above", show=False),
        Binding("down", "select(1)", "Down", id="message.down", tooltip="The message below", show=False),
        _asks("e", "edit", "Edit", "Edit your message and send it again, beside the old one"),
        _asks("r", "again", "Again", "Ask for another reply to the same message"),
        _asks("R", "same", "Same", "Ask again with the same seed and settings"),
        _asks("c", "continue", "Go on", "Go on with a reply that was cut"),
        _asks("b", "branch", "Branch", "Begin a branch here: what is sent next follows this message"),
        _asks("left_square_bracket", "previous", "Before", "Show the message's sibling before it"),
        _asks("right_square_bracket", "next", "Next", "Show the message's next sibling"),
        _asks("d,delete", "trash", "Trash", "Put the message and what follows it into the trash"),
        _asks("u", "undo", "Undo", "Take what was last put into the trash out of it"),
        _asks("x", "xray", "X-ray", "Look at the reply token by token"),
        _asks("y", "copy", "Copy", "Copy the message"),
        _asks("j", "copy_json", "Copy JSON", "Copy the reply as JSON, set out over lines"),
        _asks("k", "copy_code", "Copy code", "Copy the last block of code of the message"),
        _asks("s", "shape", "Shape", "Pour the next reply into this reply's shape"),
        Binding("t", "fold", "Fold", id="message.fold", tooltip="Fold a JSON reply, and unfold it"),
        Binding(
            "o",
            "reasoning",
            "Thoughts",
            id="message.reasoning",
            tooltip="Show or hide what the model thought",
        ),
        Binding("enter", "open", "Open", id="message.open", tooltip="Open a JSON reply as a tree"),
    ]

    class Asked(Message):
        """The person wants something done with a message; `what` is the last part of the binding's id."""

        def __init__(self, what: str, message: StoredMessage) -> None:
            super().__init__()
            self.what = what
            self.message = message

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._older: list[StoredMessage] = []
        self._messages: list[StoredMessage] = []
        self._system = ""
        self._growing = asyncio.Lock()
        self._live: LiveView | None = None
        self._selected: int | None = None
        self._left_out: tuple[int | None, int] = (None, 0)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the ground below the messages."""
        return blank_rows(self, crop)

    def on_resize(self) -> None:
        """Stay at the end that is followed: the layout finds it by the height before, and moves the bar unsaid."""
        self.refresh(layout=True)
        self.call_after_refresh(self.vertical_scrollbar.refresh)

    @property
    def live(self) -> LiveView | None:
        """The reply being written, if it is shown here."""
        return self._live

    @property
    def selected(self) -> StoredMessage | None:
        """The message that keys act on: the one that was selected, else the last one."""
        for message in self._messages:
            if message.id == self._selected:
                return message
        return self._messages[-1] if self._messages else None

    async def show(self, messages: Sequence[StoredMessage], system: str = "") -> None:
        """Replace everything by a chat's messages."""
        self._live = None
        self._messages = list(messages)
        self._selected = None
        self._system = system
        self._older = list(messages[:-PAGE])
        await self.remove_children()
        views: list[Widget] = [self._view(message) for message in messages[-PAGE:]]
        if not views:
            views = [Static(_WELCOME, markup=False, classes="welcome")]
        await self.mount_all([*self._top(), *views])
        self.anchor()
        self._mark()

    async def catch_up(self, messages: Sequence[StoredMessage]) -> None:
        """Append the messages that are new; the first takes the place of a reply that was being written.

        Messages that are gone or have become others are shown no more.
        """
        known = len(self._messages)
        if list(messages[:known]) != self._messages:
            same = [message.id for message in messages] == [message.id for message in self._messages]
            selected = self._selected
            await self.show(messages, self._system)
            if same or selected in [message.id for message in messages]:
                self.select(selected)
            return
        for message in messages[known:]:
            self._messages.append(message)
            if message.reply is not None and self._live is not None:
                await self._end(message)
            else:
                await self.query(".welcome").remove()
                await self.mount(self._view(message))
            self._mark()

    async def begin(self, live: LiveReply) -> None:
        """Append the reply that is being written."""
        self._live = LiveView(live)
        await self.query(".welcome").remove()
        await self.mount(self._live)
        self._live.follow()

    def commands(
        self, keys: Keys, applies: Callable[[str, StoredMessage | None], bool]
    ) -> list[tuple[str, Binding]]:
        """Return what can be asked for now with the selected message, else the last one."""
        asks = [binding for binding in remapped(self.BINDINGS, keys) if binding.action.startswith("ask(")]
        wishes = [(binding.action.removeprefix("ask('").removesuffix("')"), binding) for binding in asks]
        return [(what, binding) for what, binding in wishes if applies(what, self.selected)]

    def select(self, message_id: int | None) -> None:
        """Select a message."""
        self._selected = message_id
        self._mark()

    def leave_out(self, count: int) -> None:
        """Say above the first message that the model reads that so many before it are not read; 0 says nothing."""
        first = self._messages[count].id if 0 < count < len(self._messages) else None
        if (first, count) != self._left_out:
            self._left_out = (first, count)
            for view in self.query(MessageView):
                view.put_above(self._above(view.message))

    def _above(self, message: StoredMessage) -> str:
        first, count = self._left_out
        return left_out_words(count) if message.id == first else ""

    async def reveal(self, message_id: int, text: str = "", number: int = 0) -> None:
        """Select a message and scroll to it, or to a text in it; older ones are mounted until it is there."""
        while self._older and message_id in [message.id for message in self._older]:
            await self._grow()
        self.select(message_id)
        if view := self.view(message_id):
            self.call_after_refresh(self._scroll_to_text, view, text, number)

    def _scroll_to_text(self, view: MessageView, text: str, number: int) -> None:
        row = view.row_of(text, number) if text else 0
        if row < self.size.height - 2:
            view.scroll_visible(animate=False, top=True)  # its head, too
        else:
            place = Region(0, view.virtual_region.y + row - self.size.height // 3, 1, 1)
            self.scroll_to_region(place, animate=False, top=True, force=True)

    def view(self, message_id: int) -> MessageView | None:
        """Return the widget of a message, if it is mounted."""
        return next((view for view in self.query(MessageView) if view.message.id == message_id), None)

    def action_select(self, step: int) -> None:
        """Select the message above (-1) or below (1)."""
        views = list(self.query(MessageView))
        current = self.selected
        if not views or current is None:
            return
        places = [place for place, view in enumerate(views) if view.message.id == current.id]
        place = (places[0] if places else len(views) - 1) + step
        view = views[min(max(place, 0), len(views) - 1)]
        self.select(view.message.id)
        view.scroll_visible(animate=False)
        if place <= 0 and self._older:
            self._fetch()

    def action_ask(self, what: str) -> None:
        """Post what is to be done with the selected message."""
        if (message := self.selected) is not None:
            self.post_message(self.Asked(what, message))

    def action_open(self) -> None:
        """Ask for a JSON reply as a tree."""
        self.action_ask("open")

    def action_fold(self) -> None:
        """Fold the selected reply."""
        if (view := self._selected_view()) is not None:
            view.fold()

    def action_reasoning(self) -> None:
        """Show or hide what the model thought before the selected reply."""
        if (view := self._selected_view()) is not None:
            view.toggle_reasoning()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show which message keys act on, or take the mark away when keys go elsewhere."""
        super().watch_has_focus(has_focus)
        if has_focus and self._selected is None and (message := self.selected) is not None:
            self._selected = message.id
        self._mark()

    def _selected_view(self) -> MessageView | None:
        message = self.selected
        return None if message is None else self.view(message.id)

    def _mark(self) -> None:
        chosen = self.selected.id if self.has_focus and self.selected is not None else None
        for view in self.query(MessageView):
            selected = view.message.id == chosen
            if selected != view.has_class("-selected"):
                view.mark(selected)

    def _view(self, message: StoredMessage) -> MessageView:
        view = MessageView(message, self.scrollable_content_region.width - 2)
        view.put_above(self._above(message))
        return view

    async def _end(self, message: StoredMessage) -> None:
        view, self._live = self._live, None
        with self.app.batch_update():
            await self.mount(self._view(message), after=view)
            await view.remove()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch older messages when the top is reached."""
        super().watch_scroll_y(old_value, new_value)
        if new_value <= 0 < old_value and self._older:
            self._fetch()

    def _fetch(self) -> None:
        if not self._growing.locked():
            self.run_worker(self._grow(), group="transcript", exit_on_error=True)

    @until_closed
    async def _grow(self) -> None:
        async with self._growing:
            page, rest = self._older[-PAGE:], self._older[:-PAGE]
            self._older = rest
            before = self.max_scroll_y
            with self.app.batch_update():
                await self.query(".top").remove()
                if self._older is not rest:
                    return  # other messages are shown now
                await self.mount_all([*self._top(), *map(self._view, page)], before=0)
            # What was at the top stays where it was; known once the new messages are laid out.
            self.call_after_refresh(lambda: self.scroll_to(y=self.max_scroll_y - before, animate=False))

    def _top(self) -> list[Widget]:
        """Return what stands above the first message shown."""
        if self._older:
            text = Content.styled(f"{len(self._older)} earlier messages, scroll up", "dim")
        elif self._system:
            text = Content.assemble(("System prompt  ", "bold"), (one_line(self._system), "dim"))
        else:
            return []
        return [Static(text, markup=False, classes="top")]
