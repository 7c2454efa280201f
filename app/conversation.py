"""From a stored path to the messages the engine reads.

Knows the store's values and the protocol, no tables and no templates. A chat may leave out its oldest turns: whole
ones, never the system prompt and never the last message.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.store.values import Attachment, Chat, StoredMessage
from engine.protocol import Message
from grammars.spec import GrammarSpec

TITLE_LENGTH = 60
LEFT_OUT = "left_out"
"""The key in a chat's settings under which the number of messages that the model does not read is kept."""


def prompt(chat: Chat, path: Sequence[StoredMessage], new: Message | None = None) -> tuple[Message, ...]:
    """Return the protocol's path: system prompt, then each message, replies with their committed ids.

    What the chat leaves out is not in it. `new` is a message of the person that is not stored yet.
    """
    system = (Message(role="system", content=chat.system),) if chat.system else ()
    start = left_out(chat.settings, path, more=new is not None)
    return (*system, *(_message(message) for message in path[start:]), *filter(None, [new]))


def left_out(settings: Mapping[str, Any], path: Sequence[StoredMessage], *, more: bool = False) -> int:
    """Return how many of a path's oldest messages the model does not read; `more` says that another one follows.

    None of a path that is not longer than what the chat leaves out: that is another branch.
    """
    count = settings.get(LEFT_OUT)
    if not isinstance(count, int) or not 0 < count < len(path) + more:
        return 0
    return 0 if count < len(path) and path[count].reply is not None else count


def left_out_words(count: int) -> str:
    """Say that so many of the oldest messages are not read."""
    messages = "message above is" if count == 1 else f"{count} messages above are"
    return f"The {messages} not shown to the model; /whole shows it all again."


def user_message(content: str, attachments: Sequence[Attachment], shape: GrammarSpec | None) -> Message:
    """Return a message of the person as the engine reads it; `shape` is shown with it."""
    return Message(role="user", content=_with_attachments(content, attachments), shape=shape)


def _message(message: StoredMessage) -> Message:
    if message.reply is None:
        return user_message(message.content, message.attachments, message.shape)
    model = message.reply.model
    return Message(
        role="assistant",
        content=message.content,
        tokens=message.reply.tokens if model else (),
        vocabulary=model.vocabulary if model else None,
        reasoning=message.reply.reasoning or "",
    )


def _with_attachments(content: str, attachments: Sequence[Attachment]) -> str:
    """Return what was typed, then each attachment under its name between two fences that it does not hold itself."""
    return "\n\n".join([*filter(None, [content]), *(_fenced(attachment) for attachment in attachments)])


def _fenced(attachment: Attachment) -> str:
    longest = max((len(run) for run in re.findall("`+", attachment.content)), default=0)
    fence = "`" * max(3, longest + 1)
    name = " ".join(attachment.name.split())
    return f"{name}:\n{fence}\n{attachment.content}\n{fence}"


def title(text: str) -> str:
    """Return a title for a chat that begins with a text: its first line with words, cut at 60 characters."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.split()), "")
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"
