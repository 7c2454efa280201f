"""Reading GGUF headers: real files, split models, and files that lie."""

import ctypes
import struct
from collections import Counter
from pathlib import Path

import data
import pytest
from gguf import GGUFReader, GGUFValueType
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import write_tiny_model

from engine import gguf
from engine.gguf import ArrayLength, ModelFileError, fingerprint, read_header, tensor_types


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return write_tiny_model(path, data.vocabulary("llama-spm"), template="{{ messages }}")


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<IH", GGUFValueType.UINT16, value)


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def header(entries: list[bytes], tensors: list[bytes] = [], *, version: int = 3) -> bytes:  # noqa: B006
    counts = struct.pack("<IQQ", version, len(tensors), len(entries))
    return b"GGUF" + counts + b"".join(entries) + b"".join(tensors)


def refused(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_header(path)
    assert path.name in str(caught.value)
    return str(caught.value)


def test_a_header_agrees_with_the_reference_reader(tiny: Path) -> None:
    read, reference = read_header(tiny), GGUFReader(tiny)
    assert read.data_offset == reference.data_offset
    assert read.file_size == tiny.stat().st_size
    assert tensor_types(read) == Counter(tensor.tensor_type.name for tensor in reference.tensors)
    for ours, theirs in zip(read.tensors, reference.tensors, strict=True):
        assert (ours.name, ours.type_name) == (theirs.name, theirs.tensor_type.name)
        assert ours.shape == tuple(theirs.shape)
        assert read.data_offset + ours.offset == theirs.data_offset
        assert ours.size_bytes == theirs.n_bytes
    for key, value in read.metadata.items():
        expected = reference.fields[key].contents()
        assert value == (ArrayLength(length=len(expected)) if isinstance(expected, list) else expected)


@pytest.mark.parametrize("name", data.VOCABULARIES)
def test_every_vocabulary_file_is_read(name: str) -> None:
    read = read_header(data.vocabulary(name))
    tokens = read.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, ArrayLength)
    assert tokens.length > 30_000
    assert read.tensors == ()


def test_block_sizes_are_those_of_the_pinned_library() -> None:
    from engine.llama.library import llama_cpp

    folder = Path(llama_cpp.__file__).parent / "lib"
    base = ctypes.CDLL(str(next(folder.glob("*ggml-base.*"))))
    base.ggml_type_size.restype = ctypes.c_size_t
    base.ggml_blck_size.restype = ctypes.c_int64
    base.ggml_type_name.restype = ctypes.c_char_p
    for kind, (name, block, size) in gguf._TYPES.items():
        assert (base.ggml_blck_size(kind), base.ggml_type_size(kind)) == (block, size), name
        assert base.ggml_type_name(kind).decode().lower() == name.lower()
    assert {kind.value for kind in GGMLQuantizationType} & set(GGML_QUANT_SIZES) <= set(gguf._TYPES)


def test_a_fingerprint_follows_header_size_and_weights(tiny: Path, tmp_path: Path) -> None:
    original = fingerprint(tiny)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny.read_bytes())
    assert fingerprint(copy) == original
    copy.write_bytes(tiny.read_bytes() + b"\0")
    assert fingerprint(copy) != original
    other = write_tiny_model(tmp_path / "other.gguf", data.vocabulary("llama-spm"), seed=1)
    assert fingerprint(other) != original


def test_what_is_no_gguf_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    assert "no file" in refused(tmp_path / "missing.gguf")
    assert "folder" in refused(tmp_path)
    for content in (b"", b"GG", b"PK\x03\x04 a zip"):
        (tmp_path / "model.gguf").write_bytes(content)
        assert "is not a GGUF file" in refused(tmp_path / "model.gguf")


def test_versions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(header([], version=1))
    assert "version 1;" in refused(path)
    path.write_bytes(header([], version=3 << 24))
    assert "big-endian" in refused(path)
    path.write_bytes(header([], version=2))
    assert read_header(path).version == 2


def test_a_file_cut_anywhere_is_refused_with_its_size(tiny: Path, tmp_path: Path) -> None:
    whole = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    for size in (5, 23, 30, 500, 100_000, read_header(tiny).data_offset - 40, len(whole) - 64):
        path.write_bytes(whole[:size])
        message = refused(path)
        assert "cut short" in message
        assert f"{size:,} bytes" in message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "claims 1,152,921,504,606,846,976 metadata entries"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "claims 1,152,921,504,606,846,976 tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 60000), "cut short"),
        (header([struct.pack("<QQ", 2**40, 0)]), "a text in it claims"),
        (header([text("a") + struct.pack("<IIQ", 9, 8, 2**50)]), "array elements"),
        (
            header([text("a") + struct.pack("<IIQ", 9, 8, 2) + text("b") + struct.pack("<QQ", 2**60, 0)]),
            "list",
        ),
        (header([text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(8)]), "unknown type 9"),
        (header([text("a") + struct.pack("<II", 77, 0)]), "unknown type 77"),
        (header([number("a", 1), number("a", 1)]), "appears twice"),
        (header([number("general.alignment", 3)]), "alignment is 3"),
        (header([], [tensor("w", (2**62, 2**62), 0, 0)]), "has the shape"),
        (header([], [tensor("w", (2**50,), 0, 0)]), "reach to byte"),
        (header([], [tensor("w", (0, 4), 0, 0)]), "has the shape"),
        (header([], [tensor("w", (32,), 0, 16)]), "no multiple of 32"),
        (header([], [tensor("w", (32,), 0, 0)] * 2), "appears twice"),
        (header([], [tensor("w" * 64, (32,), 0, 0)]), "names have 1 to 63 bytes"),
        (header([text("") + struct.pack("<II", 4, 1)]), "has no name"),
        (header([text("general.alignment") + struct.pack("<I?", 7, True)]), "alignment is True"),
        (header([], [tensor("w", (32,), 0, 2**63)]), "reach to byte"),
        (header([], [tensor("w", (33,), 8, 0)]), "no whole blocks of Q8_0"),
        (header([], [tensor("w", (32,), 99, 0)]), "type 99"),
        (header([], [tensor("w", (1,) * 5, 0, 0)]), "5 dimensions"),
    ],
)
def test_a_header_that_lies_is_refused_at_once(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "liar.gguf"
    path.write_bytes(content)
    assert reason in refused(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 399), st.integers(0, 255)), min_size=1, max_size=8))
def test_no_change_of_bytes_leads_to_anything_but_a_sentence(
    changes: list[tuple[int, int]], tmp_path: Path
) -> None:
    entries = [number("general.alignment", 32), text("x") + struct.pack("<IIQ", 9, 8, 3) + text("abc") * 3]
    content = bytearray(header(entries, [tensor("w", (32, 2), 8, 0)]) + bytes(200))
    for place, value in changes:
        content[place % len(content)] = value
    path = tmp_path / "changed.gguf"
    path.write_bytes(content)
    try:
        read_header(path)
    except ModelFileError as error:
        assert str(error).endswith(".")


class TestSplitModels:
    @pytest.fixture
    def parts(self, tmp_path: Path) -> list[Path]:
        paths = []
        for index in range(3):
            path = tmp_path / f"big-{index + 1:05}-of-00003.gguf"
            entries = [number("split.no", index), number("split.count", 3)]
            path.write_bytes(header(entries, [tensor(f"w{index}", (32,), 0, 0)]) + bytes(200))
            paths.append(path)
        return paths

    def test_all_parts_are_read_as_one_model(self, parts: list[Path]) -> None:
        read = read_header(parts[0])
        assert read.parts == tuple(parts)
        assert [tensor.name for tensor in read.tensors] == ["w0", "w1", "w2"]
        assert read.file_size == sum(path.stat().st_size for path in parts)
        assert read.metadata["split.count"] == 3

    def test_another_part_than_the_first_names_the_first(self, parts: list[Path]) -> None:
        assert f"name {parts[0].name} instead" in refused(parts[1])

    def test_a_missing_part_is_named(self, parts: list[Path]) -> None:
        parts[2].unlink()
        with pytest.raises(ModelFileError, match=parts[2].name):
            read_header(parts[0])

    def test_a_part_cut_short_is_named(self, parts: list[Path]) -> None:
        parts[1].write_bytes(parts[1].read_bytes()[:-200])
        with pytest.raises(ModelFileError, match=f"{parts[1].name} is cut short"):
            read_header(parts[0])

    def test_parts_in_the_wrong_order_are_refused(self, parts: list[Path]) -> None:
        parts[1].write_bytes(parts[2].read_bytes())
        with pytest.raises(ModelFileError, match=f"{parts[1].name} is not part 2"):
            read_header(parts[0])

    def test_a_renamed_part_is_told_about_names(self, parts: list[Path]) -> None:
        renamed = parts[0].rename(parts[0].with_name("model.gguf"))
        assert "must keep their names" in refused(renamed)

    def test_the_fingerprint_covers_every_part(self, parts: list[Path]) -> None:
        before = fingerprint(parts[0])
        content = bytearray(parts[2].read_bytes())
        content[-100] ^= 1
        parts[2].write_bytes(content)
        assert fingerprint(parts[0]) != before
