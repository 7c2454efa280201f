"""Files that hold shapes or replies, as a person names them: read whole, told apart by what is in them.

Knows no screen. Invariant: only regular files are read, and no more of one than a shape may have.
"""

import json
import re

from app.paths import shapes_place
from app.shape_draft import ShapeDraft, draft_of_file, new_draft
from app.text_files import TextFileError
from app.text_files import read_text as read_text_file
from grammars.compile import MAX_TEXT
from grammars.schema import read_json
from grammars.spec import ShapeError

MAX_BYTES = 4 * MAX_TEXT


def read_text(name: str) -> str:
    """Return the text of a file; `~` is the person's folder. Raises `ShapeError` with a sentence."""
    try:
        return read_text_file(name, MAX_BYTES)[1]
    except TextFileError as error:
        raise ShapeError(str(error).rstrip(".")) from None


def read_shape(name: str) -> ShapeDraft:
    """Return the shape in a file: in the format of the presets, a schema, choices, a Lark grammar or an expression.

    Raises `ShapeError` where the file cannot be read.
    """
    text = read_text(name)
    try:
        value = read_json(text)
    except ShapeError:
        if text.lstrip()[:1] in "{[" and not name.strip().endswith((".lark", ".txt")):
            return draft_of_file("", text)  # JSON with a mistake in it, which the editor shows
        lark = name.strip().endswith(".lark") or re.search(r"^\s*[?!]?start\s*:", text, re.MULTILINE)
        return new_draft("lark", text) if lark else new_draft("regex", text.rstrip("\r\n"))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return draft_of_file("", json.dumps({"choices": value}))
    return draft_of_file("", text)


def own_text(name: str) -> str:
    """Return what is in the file of a person's own shape. Raises `ShapeError`, `PathError`."""
    return read_text(str(shapes_place() / f"{name}.json"))


def removed_shapes() -> list[str]:
    """Return the names of a person's shapes that were removed and of which a version is kept."""
    try:
        folder = shapes_place()
        kept = {path.parent.name for path in folder.glob("versions/*/*.json")}
        return sorted(name for name in kept if not (folder / f"{name}.json").exists())
    except OSError:  # a folder that cannot be there holds none
        return []
