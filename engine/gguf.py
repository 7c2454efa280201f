"""The header of a GGUF file: metadata and what tensors lie where.

Knows nothing of llama.cpp; reads the file as untrusted input. Invariants: nothing is allocated from a claimed
size, no loop runs on a claimed count that the bytes left cannot hold, and every fault is a `ModelFileError`
whose text is written for the person. Format: docs/gguf.md in the ggml repository, versions 2 and 3,
little-endian.
"""

import hashlib
import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 20
_MOST_ELEMENTS = 1 << 26
_LONGEST_NAME = 1 << 16
_LONGEST_VALUE = 1 << 26
_MOST_DIMENSIONS = 4
_LONGEST_TENSOR_NAME = 63
_LARGEST_TENSOR = 1 << 62
_MOST_KEPT = 1 << 10
_MOST_PARTS = 1_000
_TOKENS = "tokenizer.ggml.tokens"
_STRING, _ARRAY = 8, 9
_SCALARS = dict(enumerate(["<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?"])) | {10: "<Q", 11: "<q", 12: "<d"}
_ELEMENTS = dict.fromkeys(_SCALARS.values(), "number") | {"<i": "int32", "<f": "float32", "<?": "switch"}
_SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_SAMPLES, _SAMPLE = 64, 1024

# Id: name, elements in a block, bytes of a block. Source: enum ggml_type in ggml.h and the block structures
# in ggml-common.h of the pinned llama.cpp; ids that are missing were withdrawn.
_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}


class ModelFileError(ValueError):
    """A model file that cannot be used; the text says which, why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLength:
    """Stands for a metadata array, of which the length is kept and little more.

    `element` names the type of its elements, `values` are the elements of short arrays of numbers, else empty.
    `distinct` counts the different texts of the vocabulary as llama.cpp reads them, None for other arrays.
    """

    length: int
    element: str = field(default="", compare=False)
    values: tuple[int | float, ...] = field(default=(), compare=False)
    distinct: int | None = field(default=None, compare=False)


Value = str | int | float | bool | ArrayLength


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Where a tensor lies: `shape` innermost first, `offset` in bytes from the data of its file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a model; in a split one `tensors`, `parts` and `file_size` (bytes) cover all files."""

    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    data_offset: int
    file_size: int
    parts: tuple[Path, ...]


def read_header(path: Path) -> Header:
    """Read and check the header of a GGUF file, and of the other parts if the model is split.

    Raises `ModelFileError` when a file is missing, not GGUF, of an unsupported version, damaged or cut short.
    """
    first = _read_part(path)
    count = _number(first, "split.count", 1, path)
    if count <= 1:
        return first
    match = _SPLIT_NAME.fullmatch(path.name)
    if not match or int(match["count"]) != count:
        raise ModelFileError(
            f"{path.name} is one of {count} parts of a model. Parts must keep their names, such as "
            f"model-00001-of-{count:05}.gguf, to be found."
        )

    def part(number: int) -> Path:
        return path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf")

    if _number(first, "split.no", 0, path) != 0:
        raise ModelFileError(f"{path.name} is not the first part of its model; name {part(1).name} instead.")
    if count > _MOST_PARTS:
        raise ModelFileError(f"{path.name} is damaged: it claims to be one of {count:,} parts.")
    headers = [first]
    for number in range(2, count + 1):
        header = _read_part(part(number))
        if _number(header, "split.no", 0, part(number)) != number - 1:
            raise ModelFileError(f"{part(number).name} is not part {number} of {path.name}.")
        headers.append(header)
    _refuse_repeated((tensor.name for header in headers for tensor in header.tensors), path.name)
    return Header(
        version=first.version,
        metadata=first.metadata,
        tensors=tuple(tensor for header in headers for tensor in header.tensors),
        data_offset=first.data_offset,
        file_size=sum(header.file_size for header in headers),
        parts=tuple(header.parts[0] for header in headers),
    )


def tensor_types(header: Header) -> Counter[str]:
    """Count the tensors of each ggml type, by name."""
    return Counter(tensor.type_name for tensor in header.tensors)


def fingerprint(path: Path) -> str:
    """Return a SHA-256 that tells model files apart cheaply.

    Covers the headers, the sizes and 64 evenly spaced kilobytes of each part's weights, not every byte: good
    for recognising a file, not for trusting it. Raises `ModelFileError` as `read_header` does.
    """
    digest = hashlib.sha256()
    for part in read_header(path).parts:
        with _mapped(part) as data:
            start = _read_part(part).data_offset
            digest.update(b"%d %d " % (start, len(data)))
            digest.update(memoryview(data)[:start])
            step = max(_SAMPLE, (len(data) - start) // _SAMPLES)
            for at in range(start, len(data), step):
                digest.update(data[at : at + _SAMPLE])
    return digest.hexdigest()


def _read_part(path: Path) -> Header:
    with _mapped(path) as data:
        return _Reader(data, path).header()


@contextmanager
def _mapped(path: Path) -> Any:
    """Open a file as read-only memory."""
    try:
        if path.is_dir():
            raise ModelFileError(f"{_place(path)} is a folder; name the .gguf file in it.")
        if path.exists() and not path.is_file():
            raise ModelFileError(f"{_place(path)} is not a regular file.")
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ModelFileError(f"{path.name} is not a GGUF file.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield data
    except ModelFileError:  # a ValueError, too
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"There is no file {_place(path)}.") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL, or no bytes in this system's encoding
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"{_place(path)} cannot be read: {reason}.") from error


def _place(path: Path) -> str:
    """Return a path as a message can carry it."""
    text = str(path)
    return text if len(text) <= 500 else f"{text[:100]}…{text[-100:]}"


def _number(header: Header, key: str, default: int, path: Path) -> int:
    value = header.metadata.get(key, default)
    if not isinstance(value, int) or not 0 <= value < 100_000:
        raise ModelFileError(f"{path.name} is damaged: its metadata {key} is {shown(value)}.")
    return value


def shown(value: Value) -> str:
    """Return a metadata value as a message can carry it."""
    if isinstance(value, ArrayLength):
        return f"a list of {value.length:,}"
    return repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"


def _refuse_repeated(names: Iterable[str], file_name: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelFileError(f"{file_name} is damaged: the tensor {name!r} appears twice.")
        seen.add(name)


def _distinct(data: mmap.mmap, start: int, ends: list[int]) -> int:
    """Count the different strings of a list; llama.cpp reads each up to its first NUL and numbers empty ones."""
    words: set[bytes | int] = set()
    for index, end in enumerate(ends):
        words.add(data[start + 8 : end].split(b"\0", 1)[0] or index)
        start = end
    return len(words)


class _Reader:
    """Reads one file from the front; every step checks what is left first."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self._at = len(_MAGIC)

    def header(self) -> Header:
        version = self._scalar("<I")
        if version not in _VERSIONS:
            if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
                raise ModelFileError(f"{self._path.name} is a big-endian GGUF file, which is not supported.")
            raise ModelFileError(
                f"{self._path.name} is GGUF version {version}; versions 2 and 3 can be read."
            )
        tensor_count = self._count("tensors", _MOST_TENSORS, least=24)
        key_count = self._count("metadata entries", _MOST_KEYS, least=13)
        metadata: dict[str, Value] = {}
        for _ in range(key_count):
            key = self._string(_LONGEST_NAME)
            if not key:
                raise self._damaged("a metadata entry has no name")
            if key in metadata:
                raise self._damaged(f"the metadata entry {key[:80]!r} appears twice")
            metadata[key] = self._value(self._scalar("<I"), distinct=key == _TOKENS)
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise self._damaged(f"its alignment is {shown(alignment)}, which is no power of two")
        tensors = tuple(self._tensor(alignment) for _ in range(tensor_count))
        _refuse_repeated((tensor.name for tensor in tensors), self._path.name)
        data_offset = -(-self._at // alignment) * alignment
        end = max((data_offset + tensor.offset + tensor.size_bytes for tensor in tensors), default=0)
        if end > len(self._data):
            raise self._cut(f"its tensors reach to byte {end:,}")
        return Header(
            version=version,
            metadata=MappingProxyType(metadata),
            tensors=tensors,
            data_offset=data_offset,
            file_size=len(self._data),
            parts=(self._path,),
        )

    def _tensor(self, alignment: int) -> Tensor:
        name = self._string(_LONGEST_NAME)
        if not 0 < len(name.encode()) <= _LONGEST_TENSOR_NAME:
            raise self._damaged(
                f"a tensor is called {shown(name)}; names have 1 to {_LONGEST_TENSOR_NAME} bytes"
            )
        dimensions = self._scalar("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise self._damaged(f"the tensor {name[:80]!r} claims {dimensions:,} dimensions")
        shape = tuple(self._scalar("<Q") for _ in range(dimensions))
        kind = self._scalar("<I")
        offset = self._scalar("<Q")
        if kind not in _TYPES:
            raise ModelFileError(
                f"{self._path.name} stores the tensor {name[:80]!r} as type {kind}, which is not known here."
            )
        type_name, block, block_bytes = _TYPES[kind]
        rows, rest = divmod(shape[0] if shape else 1, block)
        if rest:
            raise self._damaged(f"rows of the tensor {name[:80]!r} are no whole blocks of {type_name}")
        size = rows * block_bytes * prod(shape[1:])
        if not 0 < size < _LARGEST_TENSOR:
            raise self._damaged(f"the tensor {name[:80]!r} has the shape {shape}")
        if offset % alignment:
            raise self._damaged(f"the tensor {name[:80]!r} starts at {offset:,}, no multiple of {alignment}")
        return Tensor(name=name, shape=shape, type_name=type_name, offset=offset, size_bytes=size)

    def _value(self, kind: int, *, distinct: bool) -> Value:
        if kind == _STRING:
            return self._string(_LONGEST_VALUE)
        if kind == _ARRAY:
            return self._array(distinct=distinct)
        return self._scalar(self._format(kind))

    def _array(self, *, distinct: bool) -> ArrayLength:
        kind = self._scalar("<I")
        if kind != _STRING:
            form = self._format(kind)
            count = self._count("array elements", _MOST_ELEMENTS, least=struct.calcsize(form))
            start = self._at
            self._advance(count * struct.calcsize(form))
            values = (
                struct.unpack_from(f"<{count}{form[1]}", self._data, start) if count <= _MOST_KEPT else ()
            )
            return ArrayLength(length=count, element=_ELEMENTS[form], values=values)
        count = self._count("array elements", _MOST_ELEMENTS, least=8)
        data, at, size = self._data, self._at, len(self._data)
        unpack = struct.Struct("<Q").unpack_from
        ends: list[int] = []
        for _ in range(count):  # a quarter of a million strings in a vocabulary, so nothing is called in vain
            if at + 8 > size:
                raise self._cut("a list of strings goes on")
            at += 8 + unpack(data, at)[0]
            ends.append(at)
        if at > size:
            raise self._cut(f"a list of strings claims to reach to byte {at:,}")
        start, self._at = self._at, at
        return ArrayLength(
            length=count, element="text", distinct=_distinct(data, start, ends) if distinct else None
        )

    def _format(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self._damaged(f"a metadata entry has the unknown type {kind}")
        return _SCALARS[kind]

    def _string(self, longest: int) -> str:
        length = self._scalar("<Q")
        if length > longest:
            raise self._damaged(f"a text in it claims {length:,} bytes")
        at = self._at
        self._advance(length)
        return self._data[at : self._at].decode("utf-8", "replace")

    def _count(self, what: str, most: int, *, least: int) -> int:
        """Read a count of things that take at least so many bytes each."""
        count = self._scalar("<Q")
        left = len(self._data) - self._at
        if count > most:
            raise self._damaged(f"it claims {count:,} {what}")
        if count * least > left:
            raise self._cut(f"it claims {count:,} {what} and {left:,} bytes are left for them")
        return count

    def _scalar(self, form: str) -> Any:
        at = self._at
        self._advance(struct.calcsize(form))
        return struct.unpack_from(form, self._data, at)[0]

    def _advance(self, size: int) -> None:
        if self._at + size > len(self._data):
            raise self._cut(f"its header goes on to byte {self._at + size:,} at least")
        self._at += size

    def _damaged(self, why: str) -> ModelFileError:
        return ModelFileError(f"{self._path.name} is damaged: {why}.")

    def _cut(self, why: str) -> ModelFileError:
        return ModelFileError(
            f"{self._path.name} is cut short: {why}, but the file has {len(self._data):,} bytes. "
            "Copy or download it again."
        )
