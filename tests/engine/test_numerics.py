"""The table of numerics: what a file's types allow, what it costs, and what the badge says."""

from pathlib import Path

import pytest
from data import vocabulary
from tiny import write_tiny_recurrent_model

from engine.gguf import read_header
from engine.numerics import GGML_TYPE_BF16, GGML_TYPE_F16, matrices, plan


def weights(body: str, outer: str | None = None) -> dict[str, str]:
    return {"blk.0.attn_q.weight": body, "token_embd.weight": outer or body, "output.weight": outer or body}


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_plain_quantizations_are_exact_by_default_and_keep_their_kernels(kind: str) -> None:
    chosen = plan(weights(kind), "auto")
    assert (chosen.exact, chosen.tiled, chosen.extra_buffers) == (True, True, True)
    assert chosen.value_type == GGML_TYPE_BF16
    assert chosen.badge == "unverified"  # until a probe has compared rows
    assert kind in chosen.reason


@pytest.mark.parametrize("kind", ["Q2_K", "Q4_K", "Q6_K", "IQ2_XXS", "IQ4_XS"])
def test_tiled_kinds_are_fast_by_default_and_exact_on_request(kind: str) -> None:
    chosen = plan(weights(kind), "auto")
    assert not chosen.exact
    assert chosen.badge == "fast"
    assert chosen.value_type == GGML_TYPE_F16
    assert kind in chosen.reason
    exact = plan(weights(kind), "exact")
    assert (exact.exact, exact.tiled, exact.extra_buffers) == (True, False, False)


def test_a_tiled_kind_in_the_outer_matrices_alone_costs_too_little_to_give_up_exactness() -> None:
    chosen = plan(weights("Q4_0", outer="Q6_K"), "auto")
    assert (chosen.exact, chosen.tiled) == (True, False)


@pytest.mark.parametrize("kind", ["F16", "BF16", "F32", "MXFP4"])
@pytest.mark.parametrize("wish", ["auto", "exact"])
def test_kinds_without_an_exact_kernel_are_fast_and_say_why(kind: str, wish: str) -> None:
    chosen = plan(weights(kind), wish)  # type: ignore[arg-type]
    assert chosen.badge == "fast"
    assert kind in chosen.reason


def test_a_kind_that_must_be_repacked_is_exact_unless_another_must_not_be() -> None:
    chosen = plan(weights("IQ4_NL"), "auto")
    assert (chosen.exact, chosen.tiled, chosen.extra_buffers) == (True, True, True)
    mixed = plan(weights("IQ4_NL", outer="Q6_K"), "exact")
    assert not mixed.exact
    assert "IQ4_NL" in mixed.reason
    assert "Q6_K" in mixed.reason


def test_a_gpu_and_a_wish_for_speed_are_obeyed() -> None:
    assert not plan(weights("Q8_0"), "auto", gpu=True).exact
    assert not plan(weights("Q8_0"), "fast").exact


def test_only_matrices_count(smollm2: Path) -> None:
    found = matrices(read_header(smollm2))
    assert set(found.values()) == {"Q4_1", "Q8_0"}
    assert not any("norm" in name for name in found)


@pytest.mark.parametrize("hybrid", [False, True])
def test_matrices_that_are_never_multiplied_decide_nothing(tmp_path: Path, hybrid: bool) -> None:
    """Recurrent files were called fast for the F32 tensors of their convolution and of their state."""
    path = write_tiny_recurrent_model(tmp_path / "state.gguf", vocabulary("llama-spm"), hybrid=hybrid)
    found = matrices(read_header(path))
    assert set(found.values()) == {"Q8_0"}
    assert plan(found, "auto").exact
