"""From what was typed to what goes out: commands, messages with attachments, and what to do when they do not fit.

Knows the session, the composer and the widgets beside it, and the screens it opens. Invariants: a text that was not
sent and a command that was not carried out are back in the field; a text in the field belongs to the chat it was
written in, whatever opens another one.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from textual.app import App
from textual.screen import Screen

from app.context_budget import Choice, DropOldest, LargerContext, ShorterReply
from app.outgoing import Fit, Outgoing
from app.session import RefusedError, Session
from app.store.values import Attachment, StoreError
from app.text_files import MOST_ATTACHED, TextFileError, read_text
from app.tui.editor import EditorError, edit
from app.tui.screens.attach import PathDialog
from app.tui.screens.context_full import ContextFull
from app.tui.slash import SlashRunner, is_command, message
from app.tui.until_closed import until_closed
from app.tui.widgets.attachments_line import AttachmentsLine
from app.tui.widgets.composer import Composer
from app.tui.words import tokens_words


class Sending:
    """Acts for the composer of one screen; `say` shows a sentence, `sent` hears that a message went out."""

    def __init__(
        self,
        screen: Screen[Any],
        session: Session,
        *,
        say: Callable[[str], None],
        sent: Callable[[], None],
        commands: Callable[[], SlashRunner],
    ) -> None:
        self._screen = screen
        self._session = session
        self._say = say
        self._sent = sent
        self._commands = commands
        self._outgoing = Outgoing(session, self.show_attachments)
        self._checking = False
        self._chat = session.chat.id  # whose text is in the field
        self._shorter: set[int] = set()  # chats in which a shorter reply is what the person wants

    # --- sending

    async def submit(self, text: str) -> None:
        """Send a text, or do what it asks for."""
        if is_command(text):
            await self._run(text)
        elif self._checking:
            self._say("The tokens of your message are being counted.")
        elif self._may_not_fit(text):
            self._begin_check(text)
        else:
            self._send(text)

    def _may_not_fit(self, text: str) -> bool:
        try:
            return self._outgoing.may_not_fit(message(text))
        except StoreError:
            return False  # sending says what is wrong

    def _begin_check(self, text: str) -> None:
        self._checking = True
        self._work(self._check(text))

    async def _run(self, text: str) -> None:
        chat = self._session.chat.id
        self._composer.drop(text)  # now, for the command may open another chat
        self._say("")  # what was wrong with the command before
        try:
            await self._commands().run(text)
        except (RefusedError, StoreError, TextFileError, OSError) as error:
            self._say(str(error))
            if self._session.chat.id == chat:
                self._composer.fill(text + self._composer.unsent)

    async def _check(self, text: str) -> None:
        chat = self._session.chat.id
        try:
            fit = await self._outgoing.options(message(text))
        except StoreError as error:
            self._say(str(error))
            return
        finally:
            self._checking = False
        if self._session.chat.id != chat or not self._screen.is_running:
            return  # it stays the draft of its chat
        if fit is None or fit.fits:
            self._send(text)
        elif fit.room and chat in self._shorter:
            self._send_shorter(text, fit.room)
        elif self._app.screen is not self._screen:  # keys are meant for what is in front
            self._say("The message does not fit into the context; send it again to see what helps.")
        else:
            self._app.push_screen(ContextFull(fit), lambda choice: self._take(choice, text, fit))

    def _take(self, choice: Choice | None, text: str, fit: Fit) -> None:
        match choice:
            case DropOldest():
                if self._try(lambda: self._session.leave_out(self._outgoing.dropped(choice.messages))):
                    self._begin_check(text)  # it was reckoned message by message: count what is left
            case ShorterReply():
                self._shorter.add(self._session.chat.id)
                self._send_shorter(text, choice.tokens)
            case LargerContext():
                self._try(lambda: self._enlarge(choice.tokens))
                self._say("Send the message again when the model is loaded.")

    def _enlarge(self, context: int) -> None:
        self._session.load(replace(self._session.engine.wanted, context=context))

    def _send_shorter(self, text: str, room: int) -> None:
        if self._send(text, max_tokens=room):
            self._say(f"The reply may have {tokens_words(room)}; the context holds no more.")

    def _send(self, text: str, *, max_tokens: int | None = None) -> bool:
        if not self._try(lambda: self._session.send(message(text), max_tokens=max_tokens)):
            return False
        self._say("")
        self._composer.drop(text)
        self._composer.suggest("")
        self.show_attachments()
        self._sent()
        return True

    # --- drafts

    def fill(self) -> None:
        """Show what the open chat has unsent."""
        self._chat = self._session.chat.id
        self._session.take_returned(self._chat)  # the draft holds it
        self._composer.fill(self._session.chat.draft)
        self._composer.suggest("")
        self.show_attachments()

    def keep_draft(self) -> bool:
        """Write unsent text to the store now, to the chat it was written in; False if that cannot be done."""
        self._take_returned()
        unsent = self._composer.unsent
        return self._try(lambda: self._session.set_draft(unsent, self._chat)) or not unsent

    def follow(self) -> None:
        """Show what belongs into the field: of the chat that is open now, or a message that was refused."""
        if self._session.chat.id == self._chat:
            self._take_returned()
        elif self.keep_draft():
            self.fill()

    def _take_returned(self) -> None:
        """Put a message that was refused back into the field, in front of what was typed since."""
        if returned := self._session.take_returned(self._chat):
            self._composer.fill("\n\n".join(filter(None, (returned, self._composer.unsent))))
            self.show_attachments()

    # --- attachments

    def show_attachments(self) -> None:
        """Bring the line of attachments up to date."""
        line = self._screen.query_one(AttachmentsLine)
        try:
            attachments = self._outgoing.attachments
        except StoreError as error:
            self._say(str(error))
            return
        line.show(attachments, [self._outgoing.tokens(attachment.content) for attachment in attachments])
        if not attachments and line.has_focus:
            self._composer.focus()

    def attach_file(self, path: str) -> None:
        """Attach a text file. Raises `TextFileError`, `StoreError`."""
        name, text = read_text(path)
        self._attach(name, text)

    def ask_for_file(self) -> None:
        """Let the person name a file to attach."""
        self._app.push_screen(PathDialog("Attach a text file", self.attach_file))

    def take_paste(self, text: str) -> None:
        """Attach a long paste."""
        size = len(text.encode("utf-8", "replace"))
        if size > MOST_ATTACHED:
            self._say(
                f"{size / 1e6:.1f} MB were pasted, and an attachment has at most {MOST_ATTACHED / 1e6:.0f} MB; "
                "nothing was taken."
            )
            return
        if self._try(lambda: self._attach_paste(text.replace("\r\n", "\n").replace("\r", "\n"))):
            self._say("The paste is long, so it is attached to the message and not in the field.")

    def _attach_paste(self, text: str) -> None:
        number = 1 + sum(attachment.name.startswith("paste ") for attachment in self._outgoing.attachments)
        self._attach(f"paste {number}", text)

    def remove(self, attachment: Attachment) -> None:
        """Do not send an attachment along."""
        if self._try(lambda: self._outgoing.remove(attachment)):
            self.show_attachments()
            self._say("Removed. U takes it back, in the list or with the command palette.")

    def take_back(self) -> None:
        """Take back what was removed last."""
        if not self._try(self._take_back):
            return
        self.show_attachments()

    def _take_back(self) -> None:
        if not self._outgoing.take_back():
            raise RefusedError("Nothing was removed from this chat's message.")

    def _attach(self, name: str, text: str) -> None:
        self._outgoing.attach(name, text)
        self.show_attachments()

    # --- the composer

    def edit_outside(self) -> None:
        """Write the message in the person's own editor."""
        self._work(self._edit_outside())

    async def _edit_outside(self) -> None:
        composer = self._composer
        text = composer.text
        try:
            edited = await edit(self._app, text, suffix=".md")
        except EditorError as error:
            self._say(str(error))
        else:  # a message that was refused meanwhile stands in front of what was there
            refused = composer.text.removesuffix(text).rstrip("\n")
            composer.fill("\n\n".join(filter(None, (refused, edited))))

    def history(self) -> Sequence[str]:
        """Return what was sent before, the newest first."""
        try:
            return self._session.store.sent(self._session.chat.id)
        except StoreError as error:
            self._say(str(error))
            return ()

    # --- inside

    @property
    def _app(self) -> App[Any]:
        return self._screen.app

    @property
    def _composer(self) -> Composer:
        return self._screen.query_one(Composer)

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        self._screen.run_worker(_done(self._screen, work), group="sending")

    def _try(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except (RefusedError, StoreError) as error:
            self._say(str(error))
            return False
        return True


@until_closed
async def _done(_screen: Screen[Any], work: Coroutine[Any, Any, None]) -> None:
    await work
