"""A GGUF file taken apart and put together again, so that tests can lie in any place of it.

Reads only well-formed files. Values are kept as bytes with their type in front.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gguf import GGUFValueType

_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNMENT = 32


@dataclass(slots=True)
class Info:
    """One tensor's entry: `shape` innermost first, `offset` from the start of the data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(slots=True)
class Parts:
    """The parts of a file, in the order of the file."""

    entries: dict[str, bytes]
    tensors: list[Info]
    data: bytes

    def write(self, path: Path) -> Path:
        """Write the file; return its path."""
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.entries))
        head += b"".join(text(key) + value for key, value in self.entries.items())
        for info in self.tensors:
            head += text(info.name) + struct.pack(f"<I{len(info.shape)}Q", len(info.shape), *info.shape)
            head += struct.pack("<IQ", info.kind, info.offset)
        path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + self.data)
        return path


def take_apart(path: Path) -> Parts:
    """Return the parts of a file."""
    content = path.read_bytes()
    tensors, keys = struct.unpack_from("<QQ", content, 8)
    at = 24
    entries: dict[str, bytes] = {}
    for _ in range(keys):
        end = _text_end(content, at)
        key = content[at + 8 : end].decode()
        at = _value_end(content, end)
        entries[key] = content[end:at]
    infos: list[Info] = []
    for _ in range(tensors):
        end = _text_end(content, at)
        name = content[at + 8 : end].decode()
        (count,) = struct.unpack_from("<I", content, end)
        *shape, kind, offset = struct.unpack_from(f"<{count}QIQ", content, end + 4)
        infos.append(Info(name, tuple(shape), kind, offset))
        at = end + 4 + 8 * count + 12
    return Parts(entries, infos, content[at + -at % _ALIGNMENT :])


def text(value: str) -> bytes:
    """Return a text as it stands in a file."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def text_value(value: str) -> bytes:
    """Return a metadata value."""
    return struct.pack("<I", GGUFValueType.STRING) + text(value)


def uint32(value: int) -> bytes:
    """Return a metadata value."""
    return struct.pack("<II", GGUFValueType.UINT32, value)


def float32(value: float) -> bytes:
    """Return a metadata value."""
    return struct.pack("<If", GGUFValueType.FLOAT32, value)


def boolean(value: bool) -> bytes:
    """Return a metadata value."""
    return struct.pack("<I?", GGUFValueType.BOOL, value)


def uint32_array(values: Sequence[int]) -> bytes:
    """Return a metadata value."""
    head = struct.pack("<IIQ", GGUFValueType.ARRAY, GGUFValueType.UINT32, len(values))
    return head + struct.pack(f"<{len(values)}I", *values)


def resized(value: bytes, count: int) -> bytes:
    """Return a metadata array cut to `count` elements, or made longer by repeating its last one."""
    kind, have = struct.unpack_from("<IQ", value, 4)
    elements: list[bytes] = []
    at = 16
    for _ in range(have):
        end = _text_end(value, at) if kind == GGUFValueType.STRING else at + _SCALARS[kind]
        elements.append(value[at:end])
        at = end
    elements = elements[:count] + elements[-1:] * (count - have)
    return value[:8] + struct.pack("<Q", count) + b"".join(elements)


def _text_end(content: bytes, at: int) -> int:
    return at + 8 + struct.unpack_from("<Q", content, at)[0]


def _value_end(content: bytes, at: int) -> int:
    (kind,) = struct.unpack_from("<I", content, at)
    if kind == GGUFValueType.STRING:
        return _text_end(content, at + 4)
    if kind != GGUFValueType.ARRAY:
        return at + 4 + _SCALARS[kind]
    kind, count = struct.unpack_from("<IQ", content, at + 4)
    at += 16
    if kind != GGUFValueType.STRING:
        return at + count * _SCALARS[kind]
    for _ in range(count):
        at = _text_end(content, at)
    return at
