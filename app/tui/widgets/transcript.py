"""The messages of a chat, oldest above. Mounts the last ones and adds older ones when the top is reached.

Knows nothing of the store or the engine; the screen hands it messages. Invariant: at most one reply is being
written, and it is the last widget.
"""

from collections.abc import Sequence

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.live import LiveReply
from app.store.values import StoredMessage
from app.terminal import one_line
from app.tui.widgets.message_view import LiveView, MessageView

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


class Transcript(VerticalScroll):
    """A scrolling list of messages that follows its end until the person scrolls away."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._older: list[StoredMessage] = []
        self._ids: list[int] = []
        self._system = ""
        self._growing = False
        self._live: LiveView | None = None

    @property
    def live(self) -> LiveView | None:
        """The reply being written, if it is shown here."""
        return self._live

    async def show(self, messages: Sequence[StoredMessage], system: str = "") -> None:
        """Replace everything by a chat's messages."""
        self._live = None
        self._ids = [message.id for message in messages]
        self._system = system
        self._older = list(messages[:-PAGE])
        await self.remove_children()
        views: list[Widget] = [MessageView(message) for message in messages[-PAGE:]]
        if not views:
            views = [Static(_WELCOME, markup=False, classes="welcome")]
        await self.mount_all([*self._top(), *views])
        self.anchor()

    async def catch_up(self, messages: Sequence[StoredMessage]) -> None:
        """Append the messages that are new; the first takes the place of a reply that was being written.

        Messages that are gone, because the engine refused them, are shown no more.
        """
        count = len(self._ids)
        if [message.id for message in messages[:count]] != self._ids:
            await self.show(messages, self._system)
        for message in messages[len(self._ids) :]:
            self._ids.append(message.id)
            if message.reply is not None and self._live is not None:
                await self._end(message)
            else:
                await self.query(".welcome").remove()
                await self.mount(MessageView(message))

    async def begin(self, live: LiveReply) -> None:
        """Append the reply that is being written."""
        self._live = LiveView(live)
        await self.mount(self._live)
        self._live.follow()

    async def _end(self, message: StoredMessage) -> None:
        view, self._live = self._live, None
        with self.app.batch_update():
            await self.mount(MessageView(message), after=view)
            await view.remove()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch older messages when the top is reached."""
        super().watch_scroll_y(old_value, new_value)
        if new_value <= 0 < old_value and self._older and not self._growing:
            self._growing = True
            self.run_worker(self._grow(), group="transcript", exit_on_error=True)

    async def _grow(self) -> None:
        try:
            page, self._older = self._older[-PAGE:], self._older[:-PAGE]
            before = self.max_scroll_y
            with self.app.batch_update():
                await self.query(".top").remove()
                await self.mount_all([*self._top(), *(MessageView(message) for message in page)], before=0)
            # What was at the top stays where it was; known once the new messages are laid out.
            self.call_after_refresh(lambda: self.scroll_to(y=self.max_scroll_y - before, animate=False))
        finally:
            self._growing = False

    def _top(self) -> list[Widget]:
        """Return what stands above the first message shown."""
        if self._older:
            text = Content.styled(f"{len(self._older)} earlier messages, scroll up", "dim")
        elif self._system:
            text = Content.assemble(("System prompt  ", "bold"), (one_line(self._system), "dim"))
        else:
            return []
        return [Static(text, markup=False, classes="top")]
