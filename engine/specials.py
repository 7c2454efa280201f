"""Tokens that are matched as whole texts, and how llama.cpp cuts a text at them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

# What isspace() knows in the C locale; llama.cpp strips it beside LSTRIP and RSTRIP tokens.
_BLANKS = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True, kw_only=True)
class Special:
    """A token matched as a whole text. `control` is False for user-defined tokens, which are plain text."""

    id: int
    text: str
    control: bool
    lstrip: bool = False
    rstrip: bool = False


def partition(text: str, specials: Iterable[Special], *, strip: bool = True) -> list[str | int]:
    """Split text at special texts, as `tokenizer_st_partition` in llama.cpp's llama-vocab.cpp does.

    The specials come longest first. With `strip`, blanks beside LSTRIP and RSTRIP tokens are dropped. Returns
    texts and ids in order, without empty texts.
    """
    parts: list[str | int] = [text] if text else []
    for special in specials:
        if special.text not in text:
            continue
        split: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                split.append(part)
                continue
            head, *rest = part.split(special.text)
            for following in rest:
                if strip and special.lstrip:
                    head = head.rstrip(_BLANKS)
                if strip and special.rstrip:
                    following = following.lstrip(_BLANKS)
                split += [head, special.id] if head else [special.id]
                head = following
            if head:
                split.append(head)
        parts = split
    return parts
