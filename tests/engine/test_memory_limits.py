"""What does not fit into memory is refused before loading, with the numbers; a short memory shortens the context."""

from collections.abc import Callable
from pathlib import Path

import pytest
from data import vocabulary
from tiny import write_tiny_model, write_tiny_recurrent_model

from engine import loading, memory
from engine.gguf import Header, ModelFileError, read_header
from engine.llama.weights import Weights
from engine.memory import Need, amount, available_memory, choose_context, need
from engine.protocol import Load


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(
        tmp_path_factory.mktemp("memory") / "tiny.gguf", vocabulary("llama-spm"), layers=2
    )


@pytest.fixture(scope="module")
def header(smollm2: Path) -> Header:
    return read_header(smollm2)


def test_the_estimate_counts_weights_cache_and_buffers(header: Header, smollm2: Path) -> None:
    wanted = need(header)
    with Weights(smollm2) as weights:
        assert wanted.weights == weights.size_bytes
    # 30 layers of 3 key-value heads of 64 values, keys and values of two bytes each, and a row of the mask
    assert wanted.cache == 30 * 3 * (64 + 64) * 2 + 4 * 512
    assert (
        100e6 < wanted.buffers < 200e6
    )  # llama.cpp says 101.6 MB of compute buffers for 512 rows of 49,152 logits


def test_layers_without_attention_take_no_cache(tmp_path: Path) -> None:
    paths = [tmp_path / "state.gguf", tmp_path / "hybrid.gguf"]
    caches = [
        need(read_header(write_tiny_recurrent_model(path, vocabulary("llama-spm"), hybrid=hybrid))).cache
        for path, hybrid in zip(paths, (False, True), strict=True)
    ]
    assert caches == [4 * 512, 4 * 512 + 1 * (64 + 64) * 2]


def test_a_model_larger_than_memory_is_refused_with_the_numbers(header: Header) -> None:
    with pytest.raises(ModelFileError) as refusal:
        choose_context(header, None, available=90_000_000)
    text = str(refusal.value)
    assert "does not fit into memory" in text
    assert f"weights {amount(need(header).weights)}" in text
    assert "90 MB are free" in text


def test_a_context_that_does_not_fit_is_refused_with_the_largest_that_does(header: Header) -> None:
    wanted = need(header)
    room = wanted.total(3000)
    with pytest.raises(
        ModelFileError, match=r"8,192 tokens does not fit.*largest that fits is --context 2816"
    ):
        choose_context(header, 8192, available=room)
    assert choose_context(header, 2816, available=room) == (2816, None)


def test_without_a_wish_the_context_shrinks_to_what_fits_and_says_so(header: Header) -> None:
    length, notice = choose_context(header, None, available=need(header).total(3000))
    assert length == 2816
    assert notice is not None
    assert "2,816 tokens" in notice
    assert choose_context(header, None, available=1 << 40) == (8192, None)
    assert choose_context(header, None, available=None) == (8192, None)


def test_a_draft_model_counts_too(header: Header, tiny: Path) -> None:
    both = need(header) + need(read_header(tiny))
    assert choose_context(header, 512, draft=read_header(tiny), available=both.total(512)) == (512, None)
    with pytest.raises(ModelFileError, match="does not fit"):
        choose_context(header, 512, draft=read_header(tiny), available=both.total(512) - 1)


def test_nothing_is_loaded_that_was_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "available_memory", lambda: 1_000_000)
    loaded: list[object] = []
    monkeypatch.setattr(loading, "Weights", lambda *given, **_options: loaded.append(given))
    with pytest.raises(ModelFileError, match="does not fit into memory"):
        loading.load_engine(Load(model=str(tiny), threads=1))
    assert loaded == []


def test_a_shortened_context_is_told_when_the_model_is_ready(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "available_memory", lambda: need(read_header(tiny)).total(1000))
    _, ready = loading.load_engine(Load(model=str(tiny), threads=1))
    assert ready.context == 768
    assert any("Memory is short" in notice for notice in ready.notices)


def test_the_largest_context_is_never_negative() -> None:
    assert Need(weights=10, buffers=10, cache=1).largest_context(5) == 0
    assert Need(weights=0, buffers=0, cache=0).largest_context(1000) == 768


class TestAvailableMemory:
    @pytest.fixture
    def machine(self, tmp_path: Path) -> Callable[..., int | None]:
        """Return a function that asks a made-up system; keyword names are paths with __ for /."""

        def ask(**files: str) -> int | None:
            for name, text in files.items():
                path = tmp_path / name.replace("__", "/").replace("_DOT_", ".")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return available_memory(tmp_path)

        return ask

    def test_a_system_that_does_not_tell(self, machine) -> None:
        assert machine() is None

    def test_the_machine_alone(self, machine) -> None:
        assert machine(proc__meminfo="MemTotal: 9 kB\nMemAvailable:  1000 kB\n") == 1_024_000

    def test_a_group_of_version_2_and_its_parents(self, machine) -> None:
        files = {
            "proc__meminfo": "MemAvailable: 1000 kB\n",
            "proc__self__cgroup": "0::/a/b\n",
            "sys__fs__cgroup__a__b__memory_DOT_max": "max\n",
            "sys__fs__cgroup__a__b__memory_DOT_current": "1\n",
            "sys__fs__cgroup__a__memory_DOT_max": "500000\n",
            "sys__fs__cgroup__a__memory_DOT_current": "300000\n",
            "sys__fs__cgroup__a__memory_DOT_stat": "anon 5\ninactive_file 100000\n",
        }
        assert machine(**files) == 500_000 - 300_000 + 100_000

    def test_a_container_of_version_1_whose_path_is_the_hosts(self, machine) -> None:
        files = {
            "proc__meminfo": "MemAvailable: 1000 kB\n",
            "proc__self__cgroup": "5:cpu:/x\n4:memory:/of/the/host\n0::/\n",
            "sys__fs__cgroup__memory__memory_DOT_limit_in_bytes": "400000\n",
            "sys__fs__cgroup__memory__memory_DOT_usage_in_bytes": "350000\n",
        }
        assert machine(**files) == 50_000

    def test_no_limit_of_version_1_is_a_number_nobody_has(self, machine) -> None:
        files = {
            "proc__meminfo": "MemAvailable: 1000 kB\n",
            "proc__self__cgroup": "4:memory:/\n",
            "sys__fs__cgroup__memory__memory_DOT_limit_in_bytes": "9223372036854771712\n",
            "sys__fs__cgroup__memory__memory_DOT_usage_in_bytes": "350000\n",
        }
        assert machine(**files) == 1_024_000

    def test_this_system(self) -> None:
        left = available_memory()
        assert left is None or left > 0
        assert memory.amount(1_500_000_000) == "1.5 GB"
