"""Which arithmetic a model file gets: exact (a batch of rows equals single rows bit for bit) or fast, and why.

Knows tensor types only. The table is measured on CPUs with llama.cpp as pinned: a row of a batch is bitwise
equal to the same row alone if flash attention is on, K and V are not both F16, and the kernels that change their
order of summation with the batch size are off (the tiled one for K-quants and IQ types, and repacked buffers).
tests/bench/file_types.py makes the table. What is repacked depends on the processor, so the plan is the cautious one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.events import Exactness
from engine.gguf import Header
from engine.protocol import Numerics

_PLAIN = frozenset({"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"})
"""Exact with the KV types alone; prompt reading costs at most 17 % (Q4_0), one-row decoding nothing."""

_TILED = frozenset(
    "Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_XS".split()  # noqa: SIM905
)
"""Exact only without the tiled kernel and without extra buffers; reading prompts then takes up to twice as long."""

_REPACKED = frozenset({"IQ4_NL"})
"""Exact with the KV types as long as the matrices are repacked; without, a batch goes through another kernel."""

_OUTER = ("token_embd.", "output.")
"""Matrices used for the few rows with logits only, so their kernels cost nothing worth saving."""

_NO_PRODUCT = ("ssm_conv1d.weight", "shortconv.conv.weight")
"""Convolutions along the sequence: no matrix product, so their type changes no order of summation."""

GGML_TYPE_F16 = 1
GGML_TYPE_BF16 = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericsPlan:
    """The settings that follow from a file's types. `exact` is what was planned; only a probe can verify it."""

    exact: bool
    reason: str
    tiled: bool
    extra_buffers: bool

    @property
    def badge(self) -> Exactness:
        """What to call replies made under this plan as long as no probe has compared rows."""
        return "unverified" if self.exact else "fast"

    @property
    def value_type(self) -> int:
        """The ggml type of V in the cache; K is F16 always."""
        return GGML_TYPE_BF16 if self.exact else GGML_TYPE_F16


def matrices(header: Header) -> dict[str, str]:
    """Return the ggml type names of the matrices of a file, by tensor name.

    Tensors of two or more dimensions that take part in no matrix product are left out: recurrent and hybrid models
    keep some of them as F32. llama.cpp calls what is multiplied `.weight`.
    """
    return {
        tensor.name: tensor.type_name
        for tensor in header.tensors
        if len(tensor.shape) > 1 and tensor.name.endswith(".weight") and not tensor.name.endswith(_NO_PRODUCT)
    }


def plan(types_by_name: Mapping[str, str], wish: Numerics, *, gpu: bool = False) -> NumericsPlan:
    """Choose the numerics for the matrices of a file."""
    if wish == "fast":
        return _fast("asked for")
    if gpu:
        return _fast("layers run on a GPU, whose kernels are not known to be exact")
    types = set(types_by_name.values())
    unknown = sorted(types - _PLAIN - _TILED - _REPACKED)
    if unknown:
        return _fast(f"weights of type {', '.join(unknown)} have no exact batch kernel")
    if types & _REPACKED and types & _TILED:
        kinds = (", ".join(sorted(types & kind)) for kind in (_REPACKED, _TILED))
        return _fast(
            "weights of type {} are exact only if repacked, those of type {} only if not".format(*kinds)
        )
    body = {kind for name, kind in types_by_name.items() if not name.startswith(_OUTER)}
    tiled_off = bool(types & _TILED)
    if body & _TILED and wish == "auto":
        kinds = ", ".join(sorted(body & _TILED))
        return _fast(f"exact numerics would slow prompt reading for weights of type {kinds}")
    names = ", ".join(sorted(types))
    return NumericsPlan(
        exact=True,
        reason=f"weights of type {names} are exact with flash attention and BF16 values",
        tiled=not tiled_off,
        extra_buffers=not tiled_off,
    )


def _fast(reason: str) -> NumericsPlan:
    return NumericsPlan(exact=False, reason=reason, tiled=True, extra_buffers=True)
