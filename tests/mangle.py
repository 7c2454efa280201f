"""Documents as nobody would write them: a valid export changed at random, and JSON made at random."""

import copy
import json
import random
from typing import Any

ATOMS = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**53, 2**63, 2**64, 10**400, 0.5, -0.0, 1e-300, 1e300,
    "", "x", "\0", "\ud800", "\x1b[2J", "\u202e", "a [/x] b", "<|im_end|>", "9" * 5000, "{" * 2000, "[/]",
    "user", "assistant", "system", "stop", "error", "json_schema", "stampo-chat", "stampo-chats", "0" * 64,
    "2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9989-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999Z", "../../etc/passwd", "http://localhost/", "'; DROP TABLE chats; --",
]  # fmt: skip
FRAGMENTS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "null",
    "NaN",
    "1e999",
    "-",
    "9" * 5000,
    "\\ud800",
    "\0",
    "\ufeff",
    "[" * 500,
]


def random_json(chance: random.Random, depth: int = 4) -> Any:
    """Return a value of any kind."""
    kind = chance.random()
    if depth and kind < 0.2:
        return [random_json(chance, depth - 1) for _ in range(chance.randrange(4))]
    if depth and kind < 0.4:
        return {
            str(random_json(chance, 0))[:20]: random_json(chance, depth - 1)
            for _ in range(chance.randrange(4))
        }
    return chance.choice(ATOMS)


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *_places(item, (*path, key)))]


def _at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def _change(document: Any, chance: random.Random) -> None:
    """Change one place of a document."""
    places = _places(document)
    if not places:
        return
    *above, key = chance.choice(places)
    parent = _at(document, tuple(above))
    act = chance.randrange(6)
    if act == 0:
        del parent[key]
    elif act == 1:
        parent[key] = copy.deepcopy(_at(document, chance.choice(places)))
    elif act == 2 and isinstance(parent, dict):
        parent[chance.choice(["unheard_of", "id", "role", "parent", "\ud800"])] = random_json(chance)
    elif act == 3 and isinstance(parent, list):
        parent.insert(chance.randrange(len(parent) + 1), copy.deepcopy(chance.choice(parent)))
    elif act == 4 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = chance.choice([parent[key] + 1, -parent[key], 2**32, 2**63, 1.5, 10**300])
    else:
        parent[key] = random_json(chance)


def mangled(document: dict[str, Any], chance: random.Random) -> str:
    """Return the text of a document that was changed in its values, in its letters, or made up altogether."""
    kind = chance.random()
    if kind < 0.1:
        value = random_json(chance)
        if isinstance(value, dict) and chance.random() < 0.7:
            value |= {"format": chance.choice(["stampo-chat", "stampo-chats"]), "version": 1}
        return json.dumps(value)
    changed = copy.deepcopy(document)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 8])):
        _change(changed, chance)
    text = json.dumps(changed, ensure_ascii=chance.random() < 0.5)
    if kind < 0.3:
        for _ in range(chance.randrange(1, 5)):
            start = chance.randrange(len(text) + 1)
            end = start + chance.choice([0, 0, 1, 3, 100, len(text)])
            text = text[:start] + chance.choice(["", *FRAGMENTS]) + text[end:]
    return text


def try_import(store: Any, text: str) -> str | None:
    """Import a text; return the refusal, None if it came in. What came in must be readable and go out again."""
    from app.exchange import ImportRefusedError, dumps, export_chats, import_chats

    try:
        imported = import_chats(store, text)
    except ImportRefusedError as refusal:
        assert 0 < len(str(refusal)) < 1000, refusal
        return str(refusal)
    for chat in imported.chats:
        store.path(chat)
        store.tree(chat)
    again = dumps(export_chats(store, imported.chats, trace=True))
    twice = import_chats(store, again)
    assert twice.messages == imported.messages
    for chat in (*imported.chats, *twice.chats):
        store.delete_chat(chat)
    return None
