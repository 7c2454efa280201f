"""Texts that a person names by a path: read whole and as text, or refused in a sentence.

Knows no chats and no screen. Invariant: `read_text` opens nothing but a regular file, so nothing can hang or act.
"""

import os
from pathlib import Path

MOST_ATTACHED = 2_000_000
"""The longest attachment in bytes; no context of today reads more."""

_COMPLETIONS = 200
_BYTES_A_TOKEN = 4


class TextFileError(Exception):
    """A file that cannot be taken; the text is written for the person."""


def read_text(path: str, most: int = MOST_ATTACHED) -> tuple[str, str]:
    """Return a file's name and its text in UTF-8. Raises `TextFileError`; `most` is the limit in bytes."""
    place = named_path(path)
    try:
        if not place.is_file():
            kind = "is a folder" if place.is_dir() else "is no file" if place.exists() else "does not exist"
            raise TextFileError(f"{place} {kind}.")
        with place.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(place, error) from error
    return place.name, decoded(data, place, most)


def unreadable(name: object, error: Exception) -> TextFileError:
    """Return what to tell of a file that the system does not let one read."""
    reason = getattr(error, "strerror", None) or str(error)
    return TextFileError(f"{name} cannot be read: {reason.lower().rstrip('.')}.")


def decoded(data: bytes, name: object, most: int) -> str:
    """Return what was read of a file as text, without a byte order mark. Raises `TextFileError`."""
    if len(data) > most:
        raise TextFileError(f"{name} is longer than {most / 1e6:.0f} MB, which is the limit.")
    if b"\0" in data:
        raise TextFileError(f"{name} is no text: it has zero bytes. Only text files can be taken.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextFileError(
            f"{name} is no UTF-8 text (byte {error.start}). Only text files in UTF-8 can be taken."
        ) from error


def named_path(path: str) -> Path:
    """Return what a person's text names: blanks and quotes around it go, `~` is the home folder."""
    text = path.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if not text:
        raise TextFileError("Name a file.")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise TextFileError(f"{text} names no file: there is no such user.") from error


def completions(path: str) -> list[str]:
    """Return how a path may go on, folders with a slash behind them; hidden files only if asked for by a dot."""
    folder, slash, start = path.rpartition("/")
    try:
        place = Path(folder + slash or ".").expanduser()
        with os.scandir(place) as entries:
            found = [
                f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.startswith(start) and (start or not entry.name.startswith("."))
            ]
    except (OSError, RuntimeError, ValueError):
        return []  # a folder that is not there, or may not be looked into, has nothing to offer
    return sorted(found, key=str.casefold)[:_COMPLETIONS]


def about_tokens(text: str) -> int:
    """Return a rough number of tokens, while no model has counted them."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)
