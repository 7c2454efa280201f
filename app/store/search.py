"""Search in titles and messages.

A search text is data, no query language: its words are looked for as they are spelled, anywhere, in any case,
and all of them must be there. The index finds words of three characters or more in any script; shorter ones
(and every word again, for the case rules of all scripts) are looked for in the texts themselves.
"""

import re
from itertools import islice

from app.store.database import Database
from app.store.rows import to_datetime
from app.store.values import Hit
from app.terminal import well_formed

_WINDOW = 3  # characters of the index's windows
_AROUND = 40

_TITLES = """
    SELECT c.id AS chat_id, c.title, c.title AS content, c.created_at, NULL AS id, NULL AS role
    FROM chats c WHERE c.trashed_at IS NULL ORDER BY c.id DESC"""
_MESSAGES = """
    SELECT m.chat_id, c.title, m.content, m.created_at, m.id, m.role
    FROM messages m JOIN chats c ON c.id = m.chat_id
    WHERE m.trashed_at IS NULL AND c.trashed_at IS NULL"""
_INDEXED = " AND m.id IN (SELECT rowid FROM message_index WHERE message_index MATCH ?)"


def find(database: Database, text: str, limit: int) -> list[Hit]:
    """Return where every word of a text is found: titles first, then messages, the newest first; no trash."""
    words = well_formed(text).replace("\0", " ").split()
    if not words:
        return []
    query = _index_query(words)
    sources = (
        database.each(_TITLES),
        database.each(
            f"{_MESSAGES}{_INDEXED if query else ''} ORDER BY m.id DESC", *([query] if query else [])
        ),
    )
    hits = (
        Hit(
            chat_id=row["chat_id"],
            chat_title=row["title"],
            message_id=row["id"],
            role=row["role"],
            created_at=to_datetime(row["created_at"]),
            **_around(row["content"], words),
        )
        for source in sources
        for row in source
        if _contains(row["content"], words)
    )
    return list(islice(hits, limit))


def _index_query(words: list[str]) -> str | None:
    quoted = ['"' + word.replace('"', '""') + '"' for word in words if len(word) >= _WINDOW]
    return " AND ".join(quoted) or None


def _contains(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word.casefold() in folded for word in words)


def _around(text: str, words: list[str]) -> dict[str, str]:
    found = re.search("|".join(map(re.escape, words)), text, re.IGNORECASE)
    start, end = found.span() if found else (0, 0)
    return {
        "before": text[max(0, start - _AROUND) : start],
        "match": text[start:end],
        "after": text[end : end + _AROUND],
    }
