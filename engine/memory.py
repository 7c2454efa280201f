"""How much memory a model will take, and how much there is: asked before anything is loaded.

Knows headers and the system's own figures; nothing of llama.cpp. The estimate is of the order of what llama.cpp
allocates, not exact: weights as they lie in the file, two bytes a value in the key-value cache, and the buffers of one
batch. Weights are mapped, so a model larger than memory would load and then read the disk for every token; it is
refused like one that cannot be loaded at all.
"""

from dataclasses import dataclass
from pathlib import Path

from engine.gguf import ArrayLength, Header, ModelFileError
from engine.hyperparameters import Settings

_BATCH = 512
LARGEST_DEFAULT_CONTEXT = 8192
_SMALLEST_CONTEXT = 256
_STEP = 256
_VALUE_BYTES = 2
_FLOAT_BYTES = 4
_CGROUPS = (  # folder of the hierarchy, limit, use, what of the use is only cached files
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that a model takes: `weights`, `buffers` for computing, and `cache` for each position of the context."""

    weights: int
    buffers: int
    cache: int

    def __add__(self, other: "Need") -> "Need":
        return Need(
            weights=self.weights + other.weights,
            buffers=self.buffers + other.buffers,
            cache=self.cache + other.cache,
        )

    def total(self, length: int) -> int:
        """Return the bytes in all with a context of `length` tokens."""
        return self.weights + self.buffers + self.cache * length

    def largest_context(self, available: int) -> int:
        """Return the longest context that fits into `available` bytes, a multiple of 256; 0 if none does."""
        left = available - self.weights - self.buffers
        return max(0, left // max(1, self.cache) // _STEP * _STEP)


def need(header: Header) -> Need:
    """Estimate what a model takes. Raises `ModelFileError` for settings that make no sense."""
    settings = Settings(header)
    layers = settings.number("block_count", 1, least=1)
    width = settings.number("embedding_length", 1, least=1)
    heads = settings.per_layer("attention.head_count", [0] * layers)
    grouped = settings.per_layer("attention.head_count_kv", heads)
    head = width // max(1, *heads)
    values = settings.number("attention.key_length", head) + settings.number("attention.value_length", head)
    inner = max(settings.per_layer("feed_forward_length", [0] * layers))
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    rows = tokens.length if isinstance(tokens, ArrayLength) else 0
    return Need(
        weights=sum(tensor.size_bytes for tensor in header.tensors),
        buffers=_BATCH * _FLOAT_BYTES * (rows + 4 * width + 2 * inner),
        cache=_VALUE_BYTES * values * sum(grouped) + _FLOAT_BYTES * _BATCH,  # and a row of the attention mask
    )


def choose_context(
    header: Header, wish: int | None, *, draft: Header | None = None, available: int | None
) -> tuple[int, str | None]:
    """Return the context's length and what there is to say of it, a sentence or None.

    Without a wish it is the model's, at most 8,192, and shorter where memory is short; a wish that does not fit raises
    `ModelFileError` with the numbers, and so does a model that does not fit with any context. `available` bytes None:
    the system does not tell, or the model is not for this memory.
    """
    name = header.parts[0].name
    trained = Settings(header).number("context_length", 0, least=1, most=(1 << 31) - 1)
    length = wish or min(trained, LARGEST_DEFAULT_CONTEXT)
    if available is None:
        return length, None
    wanted = need(header) if draft is None else need(header) + need(draft)
    if wanted.total(length) <= available:
        return length, None
    largest = wanted.largest_context(available)
    numbers = (
        f"about {amount(wanted.total(length))} (weights {amount(wanted.weights)}, cache "
        f"{amount(wanted.cache * length)}, buffers {amount(wanted.buffers)}), and {amount(available)} are free"
    )
    if largest < _SMALLEST_CONTEXT:
        small = "; a smaller model, or one with fewer bits a weight, would fit"
        raise ModelFileError(f"{name} does not fit into memory: it takes {numbers}{small}.")
    if wish is not None:
        raise ModelFileError(
            f"{name}: a context of {length:,} tokens does not fit into memory: it takes {numbers}. "
            f"The largest that fits is --context {largest}."
        )
    return (
        largest,
        f"Memory is short, so the context is {largest:,} tokens long: {length:,} would take {numbers}.",
    )


def amount(size: int) -> str:
    """Return a number of bytes in writing."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that can be taken without swapping, None where the system does not tell.

    The smallest of what the machine has free and what the control groups of this process leave it.
    """
    found = [_of_machine(root), *_of_groups(root)]
    return min((size for size in found if size is not None), default=None)


def _of_machine(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_groups(root: Path) -> list[int]:
    """Return what is left under each limit, from the process's own group up to the root of its hierarchy."""
    found: list[int] = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, limit, use, cached = _CGROUPS[bool(controllers)]
        base = root / folder
        group = base / path.lstrip("/")
        if not group.is_relative_to(base) or not group.is_dir():
            group = base  # inside a container the path may be the host's
        for place in (group, *group.parents):
            left = _left(place, limit, use, cached)
            if left is not None:
                found.append(left)
            if place == base:
                break
    return found


def _left(group: Path, limit: str, use: str, cached: str) -> int | None:
    most, used = _number(group / limit), _number(group / use)
    if most is None or used is None or most >= 1 << 60:
        return None  # no limit, which version 1 writes as a number nobody has
    files = 0
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name == cached:
            files = int(value)
    return max(0, most - used + files)


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: Path) -> list[str]:
    """Return the lines of one of the system's own files, none where it has no such file."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
