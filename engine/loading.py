"""From a model file to an engine: header, numerics, weights, context, vocabulary, template, in this order.

The header is read and judged before llama.cpp sees the file, because it decides the numerics of the process.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from engine import gguf
from engine.events import ModelInfo, Ready
from engine.gguf import ModelFileError
from engine.llama.context import LlamaContext
from engine.llama.library import available_memory, physical_cores
from engine.llama.vocabulary import LlamaVocabulary
from engine.llama.weights import Weights
from engine.numerics import NumericsPlan, matrices, plan
from engine.protocol import Load
from engine.template import ChatTemplate
from engine.turn import Engine

LARGEST_DEFAULT_CONTEXT = 8192


def load_engine(
    request: Load,
    *,
    progress: Callable[[float], bool] = lambda _fraction: True,
) -> tuple[Engine, Ready]:
    """Load a model and describe it.

    `progress` hears fractions from 0 to 1 and returns False to cancel (`LoadCancelled`). Raises `ModelFileError`.
    The exact kernels are a setting of the process that llama.cpp reads once: one process, one numerics.
    """
    path = Path(request.model)
    header = gguf.read_header(path)
    numerics = plan(matrices(header), request.numerics, gpu=request.gpu_layers != 0)
    if not numerics.tiled:
        os.environ["GGML_CPU_TILED_MM"] = "0"
    weights = Weights(
        path, gpu_layers=request.gpu_layers, extra_buffers=numerics.extra_buffers, progress=progress
    )
    try:
        return _assemble(request, path, weights, numerics)
    except BaseException:
        weights.close()
        raise


def _assemble(request: Load, path: Path, weights: Weights, numerics: NumericsPlan) -> tuple[Engine, Ready]:
    if not weights.has_decoder:
        raise ModelFileError(f"{path.name} is an encoder or embedding model and cannot chat.")
    notices: list[str] = []
    length = request.context or min(weights.trained_context, LARGEST_DEFAULT_CONTEXT)
    if length > weights.trained_context:
        notices.append(
            f"The context of {length} tokens is longer than the {weights.trained_context} this model was trained for."
        )
    _refuse_above_memory(weights, length)
    threads = request.threads or physical_cores()
    context = LlamaContext(weights, length=length, threads=threads, numerics=numerics)
    if request.context is not None and context.length != request.context:
        notices.append(f"llama.cpp made the context {context.length} tokens long.")
    vocabulary = LlamaVocabulary(weights.vocabulary_pointer, owner=weights, size=weights.vocab_size)
    source = weights.metadata("tokenizer.chat_template")
    template = ChatTemplate(source, vocabulary)
    if template.notice:
        notices.append(template.notice)
    engine = Engine(
        model=_model_info(path, weights, vocabulary, source),
        vocabulary=vocabulary,
        context=context,
        template=template,
        exact=numerics.badge,
    )
    return engine, _ready(engine, threads, numerics, notices)


def _refuse_above_memory(weights: Weights, length: int) -> None:
    """Raise `ModelFileError` if the cache does not fit: the system would end this process, or others."""
    wanted, available = weights.cache_bytes(length), available_memory()
    if available is not None and wanted > available:
        raise ModelFileError(
            f"{weights.path.name}: a context of {length} tokens takes about {wanted / 1e9:.1f} GB, and "
            f"{available / 1e9:.1f} GB of memory are free; ask for a smaller one with --context."
        )


def _ready(engine: Engine, threads: int, numerics: NumericsPlan, notices: list[str]) -> Ready:
    return Ready(
        model=engine.model,
        context=engine.context.length,
        threads=threads,
        exact=numerics.badge,
        numerics_reason=numerics.reason,
        notices=tuple(notices),
    )


def _model_info(path: Path, weights: Weights, vocabulary: LlamaVocabulary, template: str | None) -> ModelInfo:
    return ModelInfo(
        name=weights.metadata("general.name") or path.stem,
        path=str(path),
        architecture=weights.metadata("general.architecture") or "unknown",
        parameters=weights.parameters,
        quantization=weights.quantization,
        vocab_size=weights.vocab_size,
        context_length=weights.trained_context,
        size_bytes=weights.size_bytes,
        fingerprint=gguf.fingerprint(path),
        vocabulary=vocabulary.fingerprint,
        template_hash=hashlib.sha256((template or "").encode("utf-8", "replace")).hexdigest(),
        has_template=template is not None,
    )
