"""The status line: what the program is doing, or what went wrong, as a sentence.

Reads the session, and changes nothing there.
"""

from textual.timer import Timer

from app.session import Session
from app.tui.widgets.line import Line
from app.tui.words import engine_trouble, engine_words, fitting, phase_words, progress_words, shown

SAY_S = 8.0


class StatusLine(Line):
    """Progress takes one row, a message what it needs; trouble is marked by a word, not by colour alone."""

    def __init__(self, session: Session, **options: str) -> None:
        super().__init__(**options)
        self._session = session
        self._said = ""
        self._timer: Timer | None = None

    def say(self, text: str) -> None:
        """Show a sentence for some seconds; an empty one takes the last one away."""
        self._said = text
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(SAY_S, lambda: self.say("")) if text else None
        self.follow()

    def follow(self) -> None:
        """Show what is to be said, else how things stand."""
        session = self._session
        engine, width = session.engine, self.content_size.width
        if self._said:
            self.message(self._said)
        elif trouble := engine_trouble(engine, told=session.told_in_path(engine.reason)):
            self.trouble(trouble)
        elif session.trouble and not session.told_in_path(session.trouble):
            self.trouble(session.trouble)
        elif session.busy and session.live is not None:
            hint = "(Ctrl+R restarts the engine)" if session.stop_is_slow else "(Escape stops)"
            hints = [hint] if session.stop_is_slow or not session.live.stopping else []
            where = [f"in “{session.elsewhere}”"] if session.elsewhere else []
            long, short = progress_words(session.live), phase_words(session.live).capitalize()
            words = fitting([(long, *hints, *where), (short, *hints, *where), (short, *hints)], width)
            self.progress(words)
        else:
            words = engine_words(engine, width)
            show = self.message if engine.ready is not None and engine.ready.notices else self.progress
            show(words)

    def progress(self, text: str) -> None:
        """Show something that changes by itself; cut where the row ends."""
        self._set("-progress", text)

    def message(self, text: str) -> None:
        """Show a sentence for the person."""
        self._set("-message", text)

    def trouble(self, text: str) -> None:
        """Show what went wrong and which key helps, the key in front: a small screen cuts the end."""
        self._set("-trouble", f"Problem: {text}")

    def _set(self, kind: str, text: str) -> None:
        for name in ("-progress", "-message", "-trouble"):
            self.set_class(name == kind, name)
        self.put(shown(text))
