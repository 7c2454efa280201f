"""Brings the widgets of the main screen up to the session's state: all at once, or not at all.

Knows which widget shows what of a session, and how often it is worth drawing; what a widget looks like is its own
business. Invariants: a session that did not change costs nothing; what the person did is shown with the next frame;
what an engine writes is shown a few times a second, since each time costs a hundredth of a second whatever has come,
and its last state always.
"""

import time
from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from app.conversation import left_out
from app.session import Session
from app.store.values import Chat, StoreError
from app.terminal import one_line
from app.tui.collector import spare_old
from app.tui.sending import Sending
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Composer
from app.tui.widgets.find_bar import FindBar
from app.tui.widgets.line import Line
from app.tui.widgets.live_panel import LivePanel
from app.tui.widgets.shape_bar import ShapeBar
from app.tui.widgets.status_line import StatusLine
from app.tui.widgets.transcript import Transcript
from engine.events import Ready

TEXT_S = 0.25
"""How often at most a growing reply is drawn."""
FIGURES_S = 0.5
"""How often at most the figures of it are drawn, which nobody can read faster."""


class Drawing:
    """Draws one screen; `say` shows a sentence, `clock` tells seconds."""

    def __init__(
        self,
        screen: Screen[Any],
        session: Session,
        sending: Sending,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen = screen
        self._session = session
        self._sending = sending
        self._say = say
        self._clock = clock
        self._chat: Chat | None = None
        self._text_seen = self._figures_seen = -1
        self._text_at = self._figures_at = 0.0
        self._shown: tuple[int, str] | None = None
        self._listed: tuple[Chat, int] | None = None
        self._noticed = 0
        self._counted_by: Ready | None = None

    @property
    def due(self) -> bool:
        """True when a frame would draw something."""
        at_once = self._at_once()
        return self._text_due(at_once) or self._figures_due(at_once)

    async def frame(self) -> None:
        """Draw what has changed, if it is time."""
        session, at_once = self._session, self._at_once()
        if self._text_due(at_once):
            self._chat, self._text_seen, self._text_at = session.chat, session.revision, self._clock()
            self._sending.follow()
            await self.transcript()
        if self._figures_due(at_once):
            self._figures_seen, self._figures_at = self._text_seen, self._clock()
            self._figures()

    def forget(self) -> None:
        """Draw everything with the next frame."""
        self._chat = None
        self._text_seen = self._figures_seen = -1

    async def transcript(self) -> None:
        """Draw the messages and the text of a growing reply."""
        session, transcript = self._session, self._screen.query_one(Transcript)
        key = (session.chat.id, session.chat.system)
        self._screen.query_one(FindBar).stay_with(session.chat.id)
        if key != self._shown:
            self._shown = key
            await transcript.show(session.path, session.chat.system)
        else:
            await transcript.catch_up(session.path)
        transcript.leave_out(left_out(session.chat.settings, session.path))
        live = session.live_here
        if live is not None and transcript.live is None:
            await transcript.begin(live)
        elif live is not None and transcript.live is not None:
            transcript.live.follow()
        if session.live is not None and len(session.live.notices) != self._noticed:
            self._noticed = len(session.live.notices)
            if self._noticed and not session.elsewhere:
                self._say(session.live.notices[-1])

    def status(self) -> None:
        """Draw the status line."""
        self._screen.query_one(StatusLine).follow()

    def _at_once(self) -> bool:
        """Tell whether nothing grows, or the person did something: it makes another value of the open chat."""
        return not self._session.busy or self._session.chat is not self._chat

    def _text_due(self, at_once: bool) -> bool:
        changed = self._text_seen != self._session.revision
        return changed and (at_once or self._clock() - self._text_at >= TEXT_S)

    def _figures_due(self, at_once: bool) -> bool:
        changed = self._figures_seen != self._text_seen
        return changed and (at_once or self._clock() - self._figures_at >= FIGURES_S)

    def _figures(self) -> None:
        """Draw all that is around the messages, and the head of a growing reply."""
        session, screen = self._session, self._screen
        chat = session.chat
        screen.query_one("#title", Line).put(f"Stampo  {one_line(chat.title) or 'New chat'}")
        screen.query_one(ShapeBar).show(
            chat.shape, on=chat.shape_on, told=chat.shape_shown, system=bool(chat.system)
        )
        panel = screen.query_one(LivePanel)
        if panel.display:
            panel.show(session.engine.ready, session.live, session.elsewhere)
        self._keep_quiet()
        if (view := screen.query_one(Transcript).live) is not None:
            view.follow_figures()
        self.status()
        if session.engine.ready is not self._counted_by:
            self._counted_by = session.engine.ready
            self._sending.show_attachments()
        if (chat, session.listing) != self._listed:  # a query for each frame would be too much
            self._listed = (chat, session.listing)
            self._list_chats()

    def _keep_quiet(self) -> None:
        """While a reply is written, let nothing else stop or draw: a cursor that blinks takes as much as the text."""
        busy = self._session.busy
        spare_old(busy)
        self._screen.query_one(Composer).hold_still(busy)

    def _list_chats(self) -> None:
        try:
            self._screen.query_one(ChatList).show(self._session.chats(), self._session.chat.id)
        except StoreError as error:
            self._say(str(error))
