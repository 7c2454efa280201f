"""The main screen: chats left, transcript and composer in the middle, live panel right.

Lays out widgets and turns keys into calls of the session; what a widget shows is the widget's business, and when it
is drawn that of drawing.py, which is asked at most fifteen times a second; nothing else draws.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import TextArea

from app.session import SLOW_STOP_S, RefusedError, Session
from app.shapes import SavedShape
from app.store.values import StoreError
from app.tui.actions import MessageActions
from app.tui.chat_desk import ChatDesk
from app.tui.drawing import Drawing
from app.tui.keymap import remapped
from app.tui.preferences import Preferences
from app.tui.screens.closing import OwnScreen
from app.tui.screens.help import chat_help
from app.tui.screens.text_dialog import TextDialog
from app.tui.sending import Sending
from app.tui.shelf import Shelf
from app.tui.slash_acts import SlashActs
from app.tui.until_closed import until_closed
from app.tui.widgets.attachments_line import AttachmentsLine
from app.tui.widgets.chat_list import ChatList
from app.tui.widgets.columns import Columns
from app.tui.widgets.command_list import CommandList
from app.tui.widgets.composer import Composer, Enter
from app.tui.widgets.find_bar import FindBar
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.live_panel import LivePanel
from app.tui.widgets.shape_bar import ShapeBar
from app.tui.widgets.status_line import StatusLine
from app.tui.widgets.transcript import Transcript

DRAFT_S = 0.5


def _quiet(key: str, action: str, name: str, tooltip: str, *, priority: bool = False) -> Binding:
    """Return a binding that only the help and the palette show; `priority` takes the key from the text field."""
    return Binding(key, action, tooltip, id=name, tooltip=tooltip, show=False, priority=priority)


class ChatScreen(OwnScreen[None]):
    """A chat and everything around it."""

    CSS_PATH = "chat.tcss"
    AUTO_FOCUS = "Composer"
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
        _quiet("ctrl+l", "library", "shape.library", "Find, write, change and test shapes"),
        _quiet("f10", "guards", "shape.guards", "Change the guards and white space of the shape"),
        _quiet("f12", "replies", "shape.replies", "Show all replies under the shape as a table"),
        _quiet("ctrl+g", "toggle_shown", "shape.shown", "Show the shape to the model, or hide it"),
        _quiet(
            "ctrl+up",
            "messages",
            "transcript.focus",
            "Go to the messages, where keys act on the selected one",
        ),
        _quiet("ctrl+k", "search", "chat.search", "Find a text in all chats"),
        _quiet("ctrl+e", "editor", "chat.editor", "Write the message in your own editor"),
        _quiet("f11", "attach", "chat.attach", "Send a text file along with the next message"),
        _quiet("shift+f2", "trash", "chat.trash", "Look at what is in the trash"),
        _quiet("ctrl+f", "find", "transcript.find", "Find a text in this chat"),
        _quiet("f4", "system_prompt", "chat.system", "Edit the system prompt"),
        _quiet("f9", "xray", "reply.xray", "Look at the reply token by token, also while it is written"),
        _quiet(
            "f6", "app.preferences('models')", "models", "Load another model, or a draft model", priority=True
        ),
        _quiet(
            "f7", "app.preferences('settings')", "settings", "Settings of this chat and of all", priority=True
        ),
        _quiet("f8", "app.preferences('keys')", "keys", "Give actions other keys"),
        _quiet("f5", "export", "chat.export", "Write this chat to a JSON file"),
        _quiet("ctrl+r", "restart", "engine.restart", "Load the model again, after a stop or a crash"),
    ]

    def __init__(
        self, session: Session, shapes: Callable[[], Sequence[SavedShape]], preferences: Preferences
    ) -> None:
        super().__init__()
        self._session = session
        self._preferences = preferences
        self._draft_timer: Timer | None = None
        self._frame_due = False
        self._actions = MessageActions(self.app, session, self.say)
        self._shelf = Shelf(
            self.app,
            session,
            shapes,
            say=self.say,
            suggest=lambda example: self.query_one(Composer).suggest(example),
            reveal=self.go_to,
        )
        self._desk = ChatDesk(
            self.app,
            session,
            say=self.say,
            reveal=self.go_to,
            opened=self._opened,
            import_bytes=lambda: preferences.settings.limits.import_mb * 2**20,
        )
        self._sending = Sending(
            self,
            session,
            say=self.say,
            sent=lambda: self.query_one(Transcript).anchor(),
            commands=lambda: self._slash.runner(),
        )
        self._drawing = Drawing(self, session, self._sending, say=self.say)
        self._slash = SlashActs(
            self.app,
            session,
            shapes,
            desk=self._desk,
            sending=self._sending,
            shelf=self._shelf,
            say=self.say,
            find=self._find,
        )

    def compose(self) -> ComposeResult:
        """Three columns over a status line and the keys."""
        yield Line(id="title")
        with Columns(id="columns"):
            yield ChatList(id="chats")
            with Vertical(id="middle"):
                yield Transcript(id="transcript")
                yield FindBar(id="find")
                yield (commands := CommandList(id="commands"))
                yield AttachmentsLine(
                    removed=self._sending.remove, undone=self._sending.take_back, id="attachments"
                )
                yield ShapeBar(id="shape")
                yield Composer(commands, enter=self._enter, history=self._sending.history, id="composer")
            yield LivePanel(id="panel")
        yield StatusLine(self._session, id="status")
        yield KeysLine()

    def on_mount(self) -> None:
        """Open the first chat and begin to follow the session."""
        self._sending.fill()
        self.query_one(Composer).focus()
        self.set_interval(1 / self._preferences.frames_per_s, self._tick)

    def commands(self) -> list[Binding]:
        """Return the actions of this screen, for the palette and the help."""
        return remapped(self.BINDINGS, self._preferences.keys)

    def message_commands(self) -> list[tuple[str, Binding]]:
        """Return what can be done now with the selected message, else the last one, for the palette."""
        return self.query_one(Transcript).commands(self._preferences.keys, self._actions.applies)

    def _tick(self) -> None:
        """Ask for a frame, which mounts and removes: a timer that waited for that would be in the way of the end."""
        if self._drawing.due and not self._frame_due:
            self._frame_due = True
            self.call_later(self._frame)

    @until_closed
    async def _frame(self) -> None:
        self._frame_due = False
        await self._drawing.frame()

    def say(self, text: str) -> None:
        """Show a sentence for some seconds."""
        self.query_one(StatusLine).say(text)

    def _try(self, act: Callable[[], object]) -> bool:
        """Do something that may be refused; the reason is shown."""
        try:
            act()
        except (RefusedError, StoreError) as error:
            self.say(str(error))
            return False
        self.say("")
        return True

    # --- composer

    async def on_composer_submitted(self, message: Composer.Submitted) -> None:
        """Send what was written, or do what it asks for."""
        await self._sending.submit(message.text)

    def on_composer_pasted(self, message: Composer.Pasted) -> None:
        """Attach a paste that is too long for the field."""
        self._sending.take_paste(message.text)

    def action_attach(self) -> None:
        """Name a file to send along."""
        self._sending.ask_for_file()

    def action_editor(self) -> None:
        """Write the message in the person's own editor."""
        self._sending.edit_outside()

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        """Keep unsent text, a moment after the last key."""
        if self._draft_timer is not None:
            self._draft_timer.stop()
        self._draft_timer = self.set_timer(DRAFT_S, self.keep_draft)

    def keep_draft(self) -> bool:
        """Write unsent text to the store now; False, and said, if that cannot be done."""
        return self._sending.keep_draft()

    def keep_all(self) -> list[str]:
        """Keep unsent text; name what would be lost."""
        return [*([] if self.keep_draft() else ["your unsent text"]), *self._shelf.unsaved]

    # --- actions

    def action_stop(self) -> None:
        """Stop what runs; with nothing to stop, go back to the composer."""
        if self._session.stop():
            self.say("")  # such as that a reply is being written
            self.set_timer(SLOW_STOP_S + 0.1, self._drawing.status)  # clocks differ a little
        else:
            self._columns.fold()
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
        self._shelf.pick()

    def action_library(self) -> None:
        """Open the library of shapes."""
        self._shelf.library()

    def action_replies(self) -> None:
        """Show all replies under the next reply's shape."""
        self._shelf.replies()

    def action_guards(self) -> None:
        """Change the guards of the next reply's shape."""
        self._shelf.guards()

    def action_system_prompt(self) -> None:
        """Edit the system prompt."""
        self.app.push_screen(
            TextDialog("System prompt of this chat", self._session.chat.system), self._take_system
        )

    def _take_system(self, text: str | None) -> None:
        if text is not None:
            self._try(lambda: self._session.set_system(text))

    def action_export(self) -> None:
        """Write the chat to a file."""
        self._desk.export(self._desk.keeping.export)

    def action_search(self) -> None:
        """Find a text in all chats."""
        self._desk.search()

    def action_trash(self) -> None:
        """Look at the trash."""
        self._desk.trash()

    def _enter(self) -> Enter:
        return self._preferences.settings.interface.enter

    def action_help(self) -> None:
        """List the keys."""
        self.app.push_screen(chat_help(self.commands(), keys=self._preferences.keys, enter=self._enter()))

    # --- messages

    async def on_transcript_asked(self, message: Transcript.Asked) -> None:
        """Do something with a message."""
        await self._actions.do(message.what, message.message)

    async def action_xray(self) -> None:
        """Look at the reply being written, or at the last one, token by token."""
        await self._actions.xray_latest()

    def action_messages(self) -> None:
        """Go to the messages."""
        self._columns.uncover()
        self.query_one(Transcript).focus()

    def action_find(self) -> None:
        """Find a text in the open chat."""
        self._find("")

    def _find(self, text: str) -> None:
        self._columns.uncover()
        self.query_one(FindBar).open(self._session.chat.id, lambda: self._session.path, text)

    async def on_find_bar_found(self, message: FindBar.Found) -> None:
        """Show a message that was found."""
        await self.query_one(Transcript).reveal(message.message_id, message.text, message.number)

    def on_find_bar_closed(self) -> None:
        """Go on with the message that was found last."""
        self.query_one(Transcript).focus()

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        transcript = self.query_one(Transcript)
        scroll = transcript.scroll_page_up if direction < 0 else transcript.scroll_page_down
        scroll(animate=False)

    # --- chats and panels

    def action_new_chat(self) -> None:
        """Open an empty chat."""
        if self.keep_draft() and self._try(self._session.new_chat):
            self._opened()

    def on_chat_list_chosen(self, message: ChatList.Chosen) -> None:
        """Open the chat that was chosen."""
        if self.keep_draft() and self._try(lambda: self._session.open(message.chat)):
            self._opened()

    def on_chat_list_asked(self, message: ChatList.Asked) -> None:
        """Do something with a chat of the list."""
        self.keep_draft()
        self._desk.do(message.what, message.chat)

    def go_to(self, chat: int, message: int | None) -> None:
        """Open a chat, at a message if one is given."""
        if not self.keep_draft():
            return
        if message is None:
            if self._try(lambda: self._session.open(chat)):
                self._opened()
        elif self._try(lambda: self._session.open_at(chat, message)):
            self._opened()
            self.call_later(self._show_message, message)

    @until_closed
    async def _show_message(self, message: int) -> None:
        await self._drawing.transcript()
        await self.query_one(Transcript).reveal(message)
        self.query_one(Transcript).focus()

    def _opened(self) -> None:
        self._sending.follow()
        self._columns.fold()
        self.query_one(Composer).focus()

    def action_toggle_chats(self) -> None:
        """Go to the list of chats, showing it first where need be; hide it when there already."""
        chats = self.query_one(ChatList)
        if chats.display and chats.has_focus:
            self._columns.hide_side("chats")
            self.query_one(Composer).focus()
        else:
            self._columns.show_side("chats")
            chats.focus()

    def action_toggle_panel(self) -> None:
        """Show or hide the live panel."""
        if self.query_one(LivePanel).display:
            self._columns.hide_side("panel")
            self.query_one(Composer).focus()
        else:
            if self.query_one(ChatList).has_focus and not self.has_class("-wide"):
                self.query_one(Composer).focus()  # the list makes way
            self._columns.show_side("panel")
        self._drawing.forget()  # it was not drawn while it was hidden

    @property
    def _columns(self) -> Columns:
        return self.query_one(Columns)

    def on_resize(self) -> None:
        """Fit the words to the new width, once the screen has its new class."""
        self.call_later(self._fit)

    def _fit(self) -> None:
        self._drawing.forget()
        if self._columns.fit():
            self.query_one(Composer).focus()  # the list may be gone
