"""The main screen: chats left, transcript and composer in the middle, live panel right.

Lays out widgets and turns keys into calls of the session; what a widget shows is the widget's business. One
frame at most thirty times a second brings the widgets up to the session's state; nothing else draws.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import TextArea

from app.session import SLOW_STOP_S, RefusedError, Session
from app.shapes import SavedShape
from app.store.values import Chat, StoreError
from app.terminal import one_line
from app.tui.screens.help import HelpScreen
from app.tui.screens.shape_picker import Picked, ShapePicker
from app.tui.screens.system_prompt import SystemPrompt
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.composer import Composer
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.live_panel import LivePanel
from app.tui.widgets.shape_bar import ShapeBar
from app.tui.widgets.status_line import StatusLine
from app.tui.widgets.transcript import Transcript
from app.tui.words import engine_trouble, engine_words, fitting, phase_words, progress_words

FRAMES_PER_S = 30
DRAFT_S = 0.5
SAY_S = 8.0


def _quiet(key: str, action: str, name: str, tooltip: str) -> Binding:
    """Return a binding that only the help and the palette show."""
    return Binding(key, action, tooltip, id=name, tooltip=tooltip, show=False)


class ChatScreen(Screen[None]):
    """A chat and everything around it."""

    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Those in the footer first, the most needed in front: a narrow footer is cut at its end.
        Binding("ctrl+t", "pick_shape", "Shape", id="shape.pick", tooltip="Pick the shape of the next reply"),
        Binding("escape", "stop", "Stop", id="engine.stop", tooltip="Stop loading, reading or writing"),
        Binding("f1", "help", "Keys", id="help", tooltip="List all keys"),
        Binding("ctrl+q", "app.quit", "Quit", id="app.quit", priority=True, tooltip="Quit; nothing is lost"),
        Binding(
            "ctrl+o", "toggle_shape", "On/off", id="shape.toggle", tooltip="Switch the shape off or on again"
        ),
        Binding("ctrl+n", "new_chat", "New", id="chat.new", tooltip="Begin an empty chat"),
        Binding(
            "f2",
            "toggle_chats",
            "Chats",
            id="chat.list",
            tooltip="Go to the list of chats, where Enter opens one; again hides it",
        ),
        Binding("f3", "toggle_panel", "Figures", id="panel.toggle", tooltip="Show or hide the live figures"),
        _quiet("ctrl+g", "toggle_shown", "shape.shown", "Show the shape to the model, or hide it"),
        _quiet("f4", "system_prompt", "chat.system", "Edit the system prompt"),
        _quiet("f5", "export", "chat.export", "Write this chat to a JSON file"),
        _quiet("ctrl+r", "restart", "engine.restart", "Load the model again, after a stop or a crash"),
    ]

    def __init__(self, session: Session, shapes: Callable[[], Sequence[SavedShape]]) -> None:
        super().__init__()
        self._session = session
        self._shapes = shapes
        self._seen = -1
        self._shown_chat: tuple[int, str] | None = None
        self._listed: Chat | None = None
        self._draft_timer: Timer | None = None
        self._say_timer: Timer | None = None
        self._said = ""
        self._noticed = 0
        self._width = ""

    def compose(self) -> ComposeResult:
        """Three columns over a status line and the keys."""
        yield Line(id="title")
        with Horizontal(id="columns"):
            yield ChatList(id="chats")
            with Vertical(id="middle"):
                yield Transcript(id="transcript")
                yield ShapeBar(id="shape")
                yield Composer(id="composer")
            yield LivePanel(id="panel")
        yield StatusLine(id="status")
        yield KeysLine()

    def on_mount(self) -> None:
        """Open the first chat and begin to follow the session."""
        self._fill_composer()
        self.query_one(Composer).focus()
        self.set_interval(1 / FRAMES_PER_S, self._frame)

    def commands(self) -> list[Binding]:
        """Return the actions offered in the palette and the help."""
        return [binding for binding in self.BINDINGS if isinstance(binding, Binding)]

    # --- drawing

    async def _frame(self) -> None:
        session = self._session
        if session.revision == self._seen:
            return
        self._seen = session.revision
        self._take_returned()
        await self._draw_transcript()
        self._draw_around()

    async def _draw_transcript(self) -> None:
        session, transcript = self._session, self.query_one(Transcript)
        key = (session.chat.id, session.chat.system)
        if key != self._shown_chat:
            self._shown_chat = key
            await transcript.show(session.path, session.chat.system)
        else:
            await transcript.catch_up(session.path)
        live = session.live_here
        if live is not None and transcript.live is None:
            await transcript.begin(live)
        elif live is not None and transcript.live is not None:
            transcript.live.follow()
        if session.live is not None and len(session.live.notices) != self._noticed:
            self._noticed = len(session.live.notices)
            if self._noticed and not session.elsewhere:
                self._say(session.live.notices[-1])

    def _draw_around(self) -> None:
        session = self._session
        chat = session.chat
        self.query_one("#title", Line).put(f"Stampo  {one_line(chat.title) or 'New chat'}")
        self.query_one(ShapeBar).show(
            chat.shape, on=chat.shape_on, told=chat.shape_shown, system=bool(chat.system)
        )
        panel = self.query_one(LivePanel)
        if panel.display:
            panel.show(session.engine.ready, session.live, session.elsewhere)
        self._draw_status()
        if chat != self._listed:  # a query for each frame would be too much
            self._listed = chat
            self._try_quietly(lambda: self.query_one(ChatList).show(session.chats(), chat.id))

    def _draw_status(self) -> None:
        session, status = self._session, self.query_one(StatusLine)
        engine, width = session.engine, status.content_size.width
        if self._said:
            status.message(self._said)
        elif trouble := engine_trouble(engine, told=session.told_in_path(engine.reason)):
            status.trouble(trouble)
        elif session.trouble and not session.told_in_path(session.trouble):
            status.trouble(session.trouble)
        elif session.busy and session.live is not None:
            hint = "(Ctrl+R restarts the engine)" if session.stop_is_slow else "(Escape stops)"
            hints = [hint] if session.stop_is_slow or not session.live.stopping else []
            where = [f"in “{session.elsewhere}”"] if session.elsewhere else []
            long, short = progress_words(session.live), phase_words(session.live).capitalize()
            status.progress(
                fitting([(long, *hints, *where), (short, *hints, *where), (short, *hints)], width)
            )
        else:
            words = engine_words(engine, width)
            show = status.message if engine.ready is not None and engine.ready.notices else status.progress
            show(words)

    def _say(self, text: str) -> None:
        """Show a sentence for some seconds."""
        self._said = text
        if self._say_timer is not None:
            self._say_timer.stop()
        self._say_timer = self.set_timer(SAY_S, self._unsay)
        self._draw_status()

    def _unsay(self) -> None:
        self._said = ""
        self._draw_status()

    def _try(self, act: Callable[[], object]) -> bool:
        """Do something that may be refused; the reason is shown."""
        try:
            act()
        except (RefusedError, StoreError) as error:
            self._say(str(error))
            return False
        self._said = ""
        return True

    # --- composer

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        """Send what was written."""
        if self._try(lambda: self._session.send(message.text)):
            composer = self.query_one(Composer)
            composer.drop(message.text)
            composer.suggest("")
            self.query_one(Transcript).anchor()

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        """Keep unsent text, a moment after the last key."""
        if self._draft_timer is not None:
            self._draft_timer.stop()
        self._draft_timer = self.set_timer(DRAFT_S, self.keep_draft)

    def keep_draft(self) -> None:
        """Write unsent text to the store now."""
        self._take_returned()
        self._try_quietly(lambda: self._session.set_draft(self.query_one(Composer).text))

    def _try_quietly(self, act: Callable[[], object]) -> None:
        said = self._said
        if self._try(act):
            self._said = said

    def _take_returned(self) -> None:
        """Put a message that was refused back into the field, in front of what was typed since."""
        if returned := self._session.take_returned():
            composer = self.query_one(Composer)
            composer.set_text("\n\n".join(filter(None, (returned, composer.text))))

    def _fill_composer(self) -> None:
        self.query_one(Composer).set_text(self._session.chat.draft)

    # --- actions

    def action_stop(self) -> None:
        """Stop what runs; with nothing to stop, go back to the composer."""
        if self._session.stop():
            self.set_timer(SLOW_STOP_S + 0.1, self._draw_status)  # clocks differ a little
        else:
            self._fold_lists()
            self.query_one(Composer).focus()

    def action_restart(self) -> None:
        """Load the model again."""
        self._try(self._session.restart)

    def action_toggle_shape(self) -> None:
        """Switch the shape off or on."""
        self._try(self._session.toggle_shape)

    def action_toggle_shown(self) -> None:
        """Show the shape to the model or hide it."""
        self._try(self._session.toggle_shown)

    def action_pick_shape(self) -> None:
        """Choose the shape of the next reply."""
        self.app.push_screen(ShapePicker(self._shapes(), self._session.chat.shape), self._take_shape)

    def _take_shape(self, picked: Picked | None) -> None:
        if picked is not None:
            self._try(lambda: self._session.set_shape(picked.shape))
            self.query_one(Composer).suggest(picked.example)

    def action_system_prompt(self) -> None:
        """Edit the system prompt."""
        self.app.push_screen(SystemPrompt(self._session.chat.system), self._take_system)

    def _take_system(self, text: str | None) -> None:
        if text is not None:
            self._try(lambda: self._session.set_system(text))

    def action_export(self) -> None:
        """Write the chat to a file."""
        try:
            self._say(f"Written to {self._session.export()}")
        except RefusedError as error:
            self._say(str(error))
        except (StoreError, OSError) as error:
            self._say(f"The chat could not be written: {error}")

    def action_help(self) -> None:
        """List the keys."""
        self.app.push_screen(HelpScreen(self.commands()))

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        transcript = self.query_one(Transcript)
        if direction < 0:
            transcript.scroll_page_up(animate=False)
        else:
            transcript.scroll_page_down(animate=False)

    # --- chats and panels

    def action_new_chat(self) -> None:
        """Open an empty chat."""
        self.keep_draft()
        if self._try(self._session.new_chat):
            self._opened()

    def on_chat_list_chosen(self, message: ChatList.Chosen) -> None:
        """Open the chat that was chosen."""
        self.keep_draft()
        if self._try(lambda: self._session.open(message.chat)):
            self._opened()

    def _opened(self) -> None:
        self._fill_composer()
        self._fold_lists()
        self.query_one(Composer).suggest("")
        self.query_one(Composer).focus()

    def action_toggle_chats(self) -> None:
        """Go to the list of chats, showing it first where need be; hide it when there already."""
        chats = self.query_one(ChatList)
        if chats.display and chats.has_focus:
            self._set_shown("chats", False)
            self.query_one(Composer).focus()
        else:
            self._show_side("chats", "panel")
            chats.focus()

    def action_toggle_panel(self) -> None:
        """Show or hide the live panel."""
        if self.query_one(LivePanel).display:
            self._set_shown("panel", False)
            self.query_one(Composer).focus()
        else:
            self._show_side("panel", "chats")
        self._seen = -1  # it was not drawn while it was hidden

    def on_resize(self) -> None:
        """Fit the words to the new width, once the screen has its new class."""
        self.call_later(self._fit)

    def _fit(self) -> None:
        """Let go of what the person showed or hid at another width: it was meant for that one."""
        self._seen = -1
        width = next((name for _, name in self.app.HORIZONTAL_BREAKPOINTS if self.has_class(name)), "")
        if width == self._width:
            return
        first, self._width = not self._width, width
        if first:
            return
        for name in ("chats", "panel"):
            self.remove_class(f"-with-{name}", f"-without-{name}")
        self.query_one(Composer).focus()  # the list may be gone

    def _show_side(self, name: str, other: str) -> None:
        """Show a side; the other gives way where there is no room for both."""
        self._set_shown(name, True)
        if not self.has_class("-wide"):
            self._set_shown(other, False)

    def _set_shown(self, name: str, show: bool) -> None:
        self.set_class(show, f"-with-{name}")
        self.set_class(not show, f"-without-{name}")

    def _fold_lists(self) -> None:
        """Give the whole width back to the transcript where there is little of it."""
        if not self.has_class("-wide"):
            self._set_shown("chats", False)
            if self.has_class("-narrow"):
                self._set_shown("panel", False)
