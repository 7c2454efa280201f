"""The slash commands: one table, which the help and the list above the composer show, and how they are read.

Pure but for `SlashRunner`, which calls what it is given. Invariants: a text that begins with a slash is never sent by
mistake: unknown commands are said, with the nearest one; a text that begins with two slashes is sent with one.
"""

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from app.session import RefusedError
from app.terminal import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command. `argument` names what follows it, in brackets where it may be left out; empty for none."""

    name: str
    argument: str = ""
    tooltip: str

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {self.argument}".rstrip()


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand(name="help", tooltip="List all keys and commands"),
    SlashCommand(name="new", tooltip="Begin an empty chat"),
    SlashCommand(name="title", argument="TEXT", tooltip="Give this chat another title"),
    SlashCommand(
        name="shape", argument="[NAME|none]", tooltip="Pour the next replies into a shape, or into none"
    ),
    SlashCommand(name="system", argument="[TEXT]", tooltip="Set the system prompt; without a text edit it"),
    SlashCommand(name="attach", argument="[PATH]", tooltip="Send a text file along with the next message"),
    SlashCommand(name="retry", tooltip="Ask for another reply to the last message"),
    SlashCommand(name="continue", tooltip="Go on with the last reply, if it was cut"),
    SlashCommand(name="find", argument="[TEXT]", tooltip="Find a text in this chat"),
    SlashCommand(name="search", argument="[TEXT]", tooltip="Find a text in all chats"),
    SlashCommand(
        name="seed", argument="N|random", tooltip="Choose the tokens of this chat's replies by a seed"
    ),
    SlashCommand(
        name="temperature", argument="X", tooltip="How freely tokens are chosen in this chat; 0 not"
    ),
    SlashCommand(name="max", argument="N", tooltip="How many tokens a reply of this chat may have"),
    SlashCommand(name="think", argument="on|off|auto", tooltip="Whether the model reasons before it replies"),
    SlashCommand(
        name="whole", tooltip="Show the model this whole chat again, if the oldest turns are left out"
    ),
    SlashCommand(name="model", argument="PATH", tooltip="Load another model"),
    SlashCommand(
        name="export",
        argument="[all] [PATH]",
        tooltip="Write this chat, or all of them, to a new JSON file",
    ),
    SlashCommand(name="import", argument="[PATH]", tooltip="Add the chats of an export file"),
    SlashCommand(name="trash", tooltip="Look at what is in the trash"),
    SlashCommand(name="quit", tooltip="Quit; nothing is lost"),
)

_BY_NAME = {command.name: command for command in COMMANDS}


def is_command(text: str) -> bool:
    """Tell whether a text is meant as a command."""
    return text.startswith("/") and not text.startswith("//")


def message(text: str) -> str:
    """Return what is sent of a text that is no command."""
    return text[1:] if text.startswith("//") else text


def beginning_with(text: str) -> Sequence[SlashCommand]:
    """Return the commands that a text may become while their name is being typed."""
    if not is_command(text) or any(character.isspace() for character in text):
        return ()
    return [command for command in COMMANDS if command.name.startswith(text[1:].lower())]


def parsed(text: str) -> tuple[SlashCommand, str]:
    """Return the command of a text and its argument. Raises `RefusedError` for what cannot be read as one."""
    word = re.match(r"\S*", text[1:])[0]
    argument = text[1 + len(word) :].strip()
    command = _BY_NAME.get(word.lower())
    if command is None:
        near = difflib.get_close_matches(word[:64].lower(), _BY_NAME, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists all."
        raise RefusedError(
            f"There is no command /{one_line(word[:64])}; {hint} Two slashes send a text that begins with one."
        )
    if argument and not command.argument:
        raise RefusedError(f"/{command.name} takes nothing behind it.")
    if not argument and command.argument and not command.argument.startswith("["):
        raise RefusedError(f"Write {command.usage}.")
    return command, argument


Act = Callable[[str], Awaitable[None] | None]


class SlashRunner:
    """Carries commands out; `acts` has one function for each, which hears the argument."""

    def __init__(self, acts: Mapping[str, Act]) -> None:
        if missing := _BY_NAME.keys() ^ acts.keys():
            raise ValueError(f"commands and functions differ: {', '.join(sorted(missing))}")
        self._acts = acts

    async def run(self, text: str) -> None:
        """Do what a text asks for. Raises `RefusedError` with nothing done."""
        command, argument = parsed(text)
        result = self._acts[command.name](argument)
        if result is not None:
            await result


def whole_number(text: str, least: int, what: str) -> int:
    """Read a number. Raises `RefusedError` naming what it is for."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least or value >= 1 << 63:
        raise RefusedError(f"{what} is a whole number from {least}; “{one_line(text[:40])}” is none.")
    return value


def number(text: str, least: float, most: float, what: str) -> float:
    """Read a number with a point. Raises `RefusedError` naming what it is for."""
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise RefusedError(f"{what} is a number from {least:g} to {most:g}; “{one_line(text[:40])}” is none.")
    return value
