"""A model's weights in memory. Knows nothing of contexts; free the contexts before the weights."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from engine.gguf import ModelFileError
from engine.llama import library
from engine.llama.library import llama_cpp


class LoadCancelled(Exception):
    """Loading was stopped by its progress callback."""


class Weights:
    """The weights of one GGUF file (or of its split parts).

    `progress` hears fractions from 0 to 1 and returns False to cancel, which raises `LoadCancelled`.
    Raises `ModelFileError` with llama.cpp's own reason when the file cannot be loaded.
    """

    def __init__(
        self,
        path: Path,
        *,
        gpu_layers: int = 0,
        extra_buffers: bool = True,
        vocabulary_only: bool = False,
        progress: Callable[[float], bool] = lambda _fraction: True,
    ) -> None:
        self.path = path
        cancelled = False

        def report(fraction: float, _data: object) -> bool:
            nonlocal cancelled
            cancelled = not progress(fraction)
            return not cancelled

        callback = llama_cpp.llama_progress_callback(report)
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.use_extra_bufts = extra_buffers
        params.vocab_only = vocabulary_only
        params.progress_callback = callback
        library.forget_errors()
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not model:
            if cancelled:
                raise LoadCancelled
            raise ModelFileError(f"{path.name}: {_reason()}")
        self._model: llama_cpp.llama_model_p | None = model
        vocabulary = llama_cpp.llama_model_get_vocab(model)
        assert vocabulary is not None  # part of every model
        self.vocabulary_pointer = vocabulary

    @property
    def pointer(self) -> llama_cpp.llama_model_p:
        """The llama_model pointer. Raises `ValueError` after `close`."""
        if self._model is None:
            raise ValueError(f"{self.path.name}: the weights are closed")
        return self._model

    @property
    def vocab_size(self) -> int:
        """The number of logits in a row."""
        return llama_cpp.llama_vocab_n_tokens(self.vocabulary_pointer)

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return llama_cpp.llama_model_n_params(self.pointer)

    @property
    def size_bytes(self) -> int:
        """The size of the weights."""
        return llama_cpp.llama_model_size(self.pointer)

    @property
    def trained_context(self) -> int:
        """The context length the model was trained for, in tokens."""
        return llama_cpp.llama_model_n_ctx_train(self.pointer)

    @property
    def quantization(self) -> str:
        """llama.cpp's name of the file type, such as `Q4_1`."""
        name = llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(self.pointer))
        return name.decode().removesuffix(" - Medium") if name else "unknown"

    @property
    def has_decoder(self) -> bool:
        """False for encoders and embedding models, which cannot chat."""
        return bool(llama_cpp.llama_model_has_decoder(self.pointer)) and not bool(
            llama_cpp.llama_model_has_encoder(self.pointer)
        )

    def metadata(self, key: str) -> str | None:
        """Return a metadata value as llama.cpp prints it, or None."""
        room = 256
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = llama_cpp.llama_model_meta_val_str(
                self.pointer,
                key.encode(),
                buffer,  # pyright: ignore[reportArgumentType] (the binding says bytes, it means a buffer)
                room,
            )
            if size < 0:
                return None
            if size < room:
                return buffer.value.decode("utf-8", "replace")
            room = size + 1

    def close(self) -> None:
        """Free the weights; harmless when repeated."""
        if self._model is not None:
            llama_cpp.llama_model_free(self._model)
            self._model = None

    def __enter__(self) -> "Weights":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reason() -> str:
    for line in library.errors():
        text = line.split(": ", 1)[-1] if line.startswith(("llama_", "gguf_")) else line
        if "error loading model" in text or "failed" in text:
            return text
    return (library.errors() or ["llama.cpp could not load it"])[0]
