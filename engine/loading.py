"""From a model file to an engine: header, numerics, weights, vocabulary, context, template, in this order.

The header is read and judged before llama.cpp sees the file, because it decides the numerics of the process. A draft
model is loaded first: it is the smaller file, and a vocabulary that does not fit is refused before the large one is
read.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engine import gguf
from engine.cache import Settings
from engine.drafting import cost_cache
from engine.drafting.draft_model import DraftModelSource
from engine.drafting.drafts import Drafts
from engine.events import ModelInfo, Ready
from engine.gguf import Header, ModelFileError
from engine.hyperparameters import refuse_unusable
from engine.llama.context import LlamaContext
from engine.llama.library import physical_cores
from engine.llama.vocabulary import LlamaVocabulary, VocabularyError
from engine.llama.weights import Weights
from engine.memory import available_memory, choose_context
from engine.numerics import NumericsPlan, matrices, plan
from engine.probe import judge, recall
from engine.protocol import Load
from engine.template import ChatTemplate, PromptMessage, TemplateError
from engine.turn import Engine
from grammars.matcher import allow_effort

_TEMPLATE_KEY = "tokenizer.chat_template"


def load_engine(
    request: Load,
    *,
    progress: Callable[[float], bool] = lambda _fraction: True,
    cache: Path | None = None,
) -> tuple[Engine, Ready]:
    """Load a model, and the draft model if one is named, and describe them.

    `progress` hears fractions from 0 to 1 and returns False to cancel (`LoadCancelled`). Raises `ModelFileError`.
    `cache` is the folder where verdicts of the numerics probe and costs of forwards are kept.
    The exact kernels are a setting of the process that llama.cpp reads once: one process, one numerics. What shapes may
    cost is one of the process, too.
    """
    allow_effort(request.shape_effort)
    path = Path(request.model)
    header = _read_header(path)
    draft = None if request.draft_model is None else _read_header(Path(request.draft_model))
    length, notice = choose_context(
        header,
        request.context,
        draft=draft,
        available=available_memory() if request.gpu_layers == 0 else None,
    )
    numerics = plan(matrices(header), request.numerics, gpu=request.gpu_layers != 0)
    if not numerics.tiled:
        os.environ["GGML_CPU_TILED_MM"] = "0"
    with ExitStack() as undo:
        small = _load_draft(path, request, progress)
        if small is not None:
            undo.callback(small[0].close)
        weights = Weights(
            path, gpu_layers=request.gpu_layers, extra_buffers=numerics.extra_buffers, progress=progress
        )
        undo.callback(weights.close)
        loaded = _assemble(request, weights, numerics, small, cache, length, [notice] if notice else [])
        undo.pop_all()
    return loaded


def _assemble(
    request: Load,
    weights: Weights,
    numerics: NumericsPlan,
    small: tuple[Weights, LlamaVocabulary] | None,
    cache: Path | None,
    length: int,
    notices: list[str],
) -> tuple[Engine, Ready]:
    if not weights.has_decoder:
        raise ModelFileError(f"{weights.path.name} is an encoder or embedding model and cannot chat.")
    if length > weights.trained_context:
        notices.append(
            f"The context of {length} tokens is longer than the {weights.trained_context} this model was trained for."
        )
    threads = request.threads or physical_cores()
    vocabulary = _vocabulary(weights)
    context = LlamaContext(weights, length=length, threads=threads, numerics=numerics)
    if request.context is not None and context.length != request.context:
        notices.append(f"llama.cpp made the context {context.length} tokens long.")
    draft: ModelInfo | None = None
    guesser: DraftModelSource | None = None
    if small is not None and context.can_rollback:
        draft = _model_info(*small)
        guesser = _draft_source(small[0], vocabulary, length=length, threads=threads)
    elif small is not None:
        small[0].close()
        notices.append("The draft model is not used: this model's memory cannot take guessed tokens back.")
    template, notice = _template(weights.metadata(_TEMPLATE_KEY), vocabulary)
    if notice:
        notices.append(notice)
    model = _model_info(weights, vocabulary)
    settings = Settings.of(numerics, fingerprint=model.fingerprint, threads=threads)
    exact, reason = judge(numerics, None if cache is None else recall(cache, settings))
    engine = Engine(
        model=model,
        vocabulary=vocabulary,
        context=context,
        template=template,
        exact=exact,
        drafts=Drafts(
            vocabulary.size,
            draft_model=guesser,
            cost=None if cache is None else cost_cache.recall(cache, settings),
        ),
        numerics=numerics,
        settings=settings,
    )
    return engine, _ready(engine, draft, threads, reason, notices)


def _read_header(path: Path) -> Header:
    """Read and judge a header, of all parts. Raises `ModelFileError`."""
    header = gguf.read_header(path)
    refuse_unusable(header)
    return header


def _load_draft(
    path: Path, request: Load, progress: Callable[[float], bool]
) -> tuple[Weights, LlamaVocabulary] | None:
    """Load the draft model, if one is named and its vocabulary fits the model at `path`. Raises `ModelFileError`."""
    if request.draft_model is None:
        return None
    draft_path = Path(request.draft_model)
    weights = Weights(draft_path, gpu_layers=request.gpu_layers, progress=lambda _fraction: progress(0.0))
    try:
        if not weights.has_decoder:
            raise ModelFileError(f"{draft_path.name} is an encoder or embedding model and cannot draft.")
        vocabulary = _vocabulary(weights)
        with Weights(path, vocabulary_only=True) as large:
            reason = _vocabulary(large).incompatible_with(vocabulary)
        if reason is not None:
            raise ModelFileError(f"{draft_path.name} cannot draft for {path.name}: {reason}")
    except ModelFileError:
        weights.close()
        raise
    return weights, vocabulary


def _draft_source(
    weights: Weights, vocabulary: LlamaVocabulary, *, length: int, threads: int
) -> DraftModelSource:
    """Give the draft model a context beside that of the model with `vocabulary`. Raises `ModelFileError`."""
    # Guesses need not be exact: they decide nothing.
    context = LlamaContext(weights, length=length, threads=threads, numerics=plan({}, "fast"))
    if not context.can_rollback:
        raise ModelFileError(
            f"{weights.path.name} cannot draft: its memory cannot take rejected tokens back."
        )
    return DraftModelSource(
        context, vocab_size=min(weights.vocab_size, vocabulary.size), end_ids=vocabulary.end_ids
    )


def _template(source: str | None, vocabulary: LlamaVocabulary) -> tuple[ChatTemplate, str | None]:
    """Return the model's chat template, tried on one message, or a plain one where there is none or it fails."""
    template = ChatTemplate(source, vocabulary)
    if source is None:
        return template, template.notice
    try:
        template.render([PromptMessage(role="user", content="Hello.")])
    except TemplateError as error:
        return ChatTemplate(None, vocabulary), (
            f"This model's chat template cannot be used ({_shortened(str(error))}); a plain one with the lines "
            "“User:” and “Assistant:” takes its place, and replies may suffer."
        )
    return template, None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}…"


def _vocabulary(weights: Weights) -> LlamaVocabulary:
    try:
        return LlamaVocabulary(weights.vocabulary_pointer, owner=weights, size=weights.vocab_size)
    except VocabularyError as error:
        raise VocabularyError(f"{weights.path.name}: {error}") from error


def _ready(engine: Engine, draft: ModelInfo | None, threads: int, reason: str, notices: list[str]) -> Ready:
    return Ready(
        model=engine.model,
        draft=draft,
        context=engine.context.length,
        threads=threads,
        exact=engine.exact,
        numerics_reason=reason,
        notices=tuple(notices),
    )


def _model_info(weights: Weights, vocabulary: LlamaVocabulary) -> ModelInfo:
    path, template = weights.path, weights.metadata(_TEMPLATE_KEY)
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
