"""What can be done with a message: from a key on the transcript to a call of the session or another screen.

Knows the session and the screens it opens, no widgets of the main screen but through the methods it is given.
"""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from textual.app import App

from app.session import RefusedError, Session
from app.store.values import StoredMessage, StoreError
from app.tui.clipboard import copy
from app.tui.pretty import pretty_json
from app.tui.screens.json_tree import JsonTree
from app.tui.screens.text_dialog import TextDialog
from app.tui.screens.xray import Fork, XrayScreen

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)


class MessageActions:
    """Does what a person asks for with a message; `say` shows a sentence."""

    def __init__(self, app: App[Any], session: Session, say: Callable[[str], None]) -> None:
        self._app = app
        self._session = session
        self._say = say
        self._left: dict[int, str] = {}  # edits that were not sent, by message

    async def do(self, what: str, message: StoredMessage) -> None:
        """Carry out one wish; what cannot be done is said."""
        try:
            result = _ACTIONS[what](self, message)
            if result is not None:
                await result
        except (RefusedError, StoreError) as error:
            self._say(str(error))

    async def xray_latest(self) -> None:
        """Look at the reply being written in the open chat, else at its last one, token by token."""
        live = self._session.live_here
        replies = [message for message in self._session.path if message.reply is not None]
        try:
            latest = (
                self._session.store.message(live.reply) if live is not None else next(reversed(replies), None)
            )
        except StoreError as error:
            self._say(str(error))
            return
        if latest is None:
            self._say("There is no reply in this chat yet.")
        else:
            await self.do("xray", latest)

    def applies(self, what: str, message: StoredMessage | None) -> bool:
        """Tell whether a wish makes sense for a message, for the palette and the footer."""
        if what == "undo":
            return self._session.can_undo
        if message is None:
            return False
        reply = message.reply
        if what == "edit":
            return reply is None
        if what in ("previous", "next"):
            return message.siblings > 1
        if what == "xray":
            return reply is not None or self._is_answered_now(message)
        if what in ("again", "same", "copy_json"):
            return reply is not None
        if what == "continue":
            return reply is not None and self._session.can_continue(reply)
        if what in ("shape", "open"):
            return reply is not None and message.shape is not None
        if what == "copy_code":
            return _last_code(message.content) is not None
        return True

    def _edit(self, message: StoredMessage) -> None:
        if message.reply is not None:
            raise RefusedError("Only your own messages can be edited; R asks for another reply.")

        text = self._left.get(message.id, message.content)
        dialog = TextDialog(
            "Edit and send again", text, take="sends it", note="The old message stays beside it."
        )

        def send(text: str | None) -> None:
            fault = (
                "Nothing was sent."
                if text is None
                else self._fault(lambda: self._session.edit(message.id, text))
            )
            left = dialog.left if text is None else text
            if not fault:
                self._left.pop(message.id, None)
            elif left:
                self._left[message.id] = left
                self._say(f"{fault} What you typed is there again when you edit this message.")
            elif text is not None:
                self._say(fault)

        self._app.push_screen(dialog, send)

    def _again(self, message: StoredMessage) -> None:
        self._session.regenerate(_reply(message).id)

    def _same(self, message: StoredMessage) -> None:
        self._session.regenerate(_reply(message).id, same_seed=True)

    def _continue(self, message: StoredMessage) -> None:
        self._session.continue_reply(_reply(message).id)

    def _branch(self, message: StoredMessage) -> None:
        reply = message if message.reply is not None else None
        if reply is None:
            raise RefusedError("A branch begins behind a reply; E edits your message and sends it again.")
        self._session.go_back_to(reply.id)
        self._say("What you send now begins a branch here; the messages behind are kept.")

    def _step(self, message: StoredMessage, step: int) -> None:
        if not self._session.show_sibling(message.id, step):
            self._say("There is no further one." if message.siblings > 1 else "This message has no siblings.")

    def _trash(self, message: StoredMessage) -> None:
        self._session.trash(message.id)
        self._say("Put into the trash with what follows it; U takes it out again.")

    def _undo(self, _message: StoredMessage) -> None:
        self._session.undo()
        self._say("Taken out of the trash.")

    def _use_shape(self, message: StoredMessage) -> None:
        if message.shape is None:
            raise RefusedError("This message has no shape.")
        self._session.set_shape(message.shape)
        self._say("The next reply is poured into this shape.")

    def _open(self, message: StoredMessage) -> None:
        try:
            value = json.loads(message.content)
        except (ValueError, RecursionError):
            raise RefusedError("This message is no JSON that could be shown as a tree.") from None
        self._app.push_screen(JsonTree(value))

    def _xray(self, message: StoredMessage) -> None:
        def fork(chosen: Fork | None) -> None:
            if chosen is not None:
                self._try(lambda: self._session.fork(chosen.reply, chosen.place, chosen.token))

        growing = self._session.growing
        if growing is not None and self._is_answered_now(message):
            message = self._session.store.message(growing)
        self._app.push_screen(XrayScreen(self._session, _reply(message)), fork)

    def _is_answered_now(self, message: StoredMessage) -> bool:
        """Tell whether the reply that is being written answers a message."""
        session = self._session
        return session.growing is not None and bool(session.path) and message.id == session.path[-1].id

    async def _copy(self, message: StoredMessage) -> None:
        await self._put(message.content, "The message")

    async def _copy_json(self, message: StoredMessage) -> None:
        try:
            json.loads(message.content)
        except (ValueError, RecursionError):
            raise RefusedError("This message is no JSON.") from None
        await self._put("".join(part for _, part in pretty_json(message.content)), "The JSON")

    async def _copy_code(self, message: StoredMessage) -> None:
        code = _last_code(message.content)
        if code is None:
            raise RefusedError("This message has no block of code.")
        await self._put(code, "The code")

    async def _put(self, text: str, what: str) -> None:
        try:
            self._say(f"{what} {await copy(self._app, text)}.")
        except OSError as error:
            self._say(f"{what} could not be copied: {error}")

    def _try(self, act: Callable[[], object]) -> None:
        if fault := self._fault(act):
            self._say(fault)

    def _fault(self, act: Callable[[], object]) -> str:
        """Do something; return why it was refused, or nothing."""
        try:
            act()
        except (RefusedError, StoreError) as error:
            return str(error)
        return ""


def _reply(message: StoredMessage) -> StoredMessage:
    if message.reply is None:
        raise RefusedError("This is your own message; choose a reply.")
    return message


def _last_code(text: str) -> str | None:
    blocks = _FENCE.findall(text)
    return blocks[-1][1] if blocks else None


_ACTIONS: dict[str, Callable[[MessageActions, StoredMessage], Coroutine[Any, Any, None] | None]] = {
    "edit": MessageActions._edit,
    "again": MessageActions._again,
    "same": MessageActions._same,
    "continue": MessageActions._continue,
    "branch": MessageActions._branch,
    "previous": lambda actions, message: actions._step(message, -1),
    "next": lambda actions, message: actions._step(message, 1),
    "trash": MessageActions._trash,
    "undo": MessageActions._undo,
    "shape": MessageActions._use_shape,
    "open": MessageActions._open,
    "xray": MessageActions._xray,
    "copy": MessageActions._copy,
    "copy_json": MessageActions._copy_json,
    "copy_code": MessageActions._copy_code,
}
