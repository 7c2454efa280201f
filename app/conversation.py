"""From a stored path to the messages the engine reads.

Knows the store's values and the protocol, no tables and no templates.
"""

from collections.abc import Sequence

from app.store.values import Attachment, Chat, StoredMessage
from engine.protocol import Message

TITLE_LENGTH = 60


def prompt(chat: Chat, path: Sequence[StoredMessage]) -> tuple[Message, ...]:
    """Return the protocol's path: system prompt, then each message, replies with their committed ids."""
    system = (Message(role="system", content=chat.system),) if chat.system else ()
    return system + tuple(_message(message) for message in path)


def _message(message: StoredMessage) -> Message:
    if message.reply is None:
        return Message(
            role="user", content=_with_attachments(message.content, message.attachments), shape=message.shape
        )
    model = message.reply.model
    return Message(
        role="assistant",
        content=message.content,
        tokens=message.reply.tokens if model else (),
        vocabulary=model.vocabulary if model else None,
    )


def _with_attachments(content: str, attachments: Sequence[Attachment]) -> str:
    return "\n\n".join(
        [content, *(f"{attachment.name}:\n{attachment.content}" for attachment in attachments)]
    )


def title(text: str) -> str:
    """Return a title for a chat that begins with a text: its first line with words, cut at 60 characters."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.split()), "")
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"
