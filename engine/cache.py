"""What an engine finds out about a model on this machine, kept between runs as small files.

Knows nothing of what is kept but that it depends on `Settings`. A file that cannot be read or written only means that
the thing is found out again; a file is written whole or not at all.
"""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.llama import library
from engine.numerics import NumericsPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything it depends on: the file, the process's arithmetic, the library, the processor."""

    fingerprint: str
    threads: int
    value_type: int
    flash_attention: bool
    tiled: bool
    extra_buffers: bool
    library: str
    processor: str

    @classmethod
    def of(cls, plan: NumericsPlan, *, fingerprint: str, threads: int) -> "Settings":
        """Return the settings of a file's plan in this process."""
        return cls(
            fingerprint=fingerprint,
            threads=threads,
            value_type=plan.value_type,
            flash_attention=plan.exact,
            tiled=plan.tiled,
            extra_buffers=plan.extra_buffers,
            library=library.version(),
            processor=library.processor(),
        )


def recall(folder: Path, kind: str, settings: Settings, *, method: int) -> dict[str, Any]:
    """Return what is kept under a kind for these settings; empty if there is nothing, or nothing readable.

    `method` counts up when it is found out in another way, so that older files are not believed.
    """
    try:
        kept: Any = json.loads(_place(folder, kind, settings, method).read_text(encoding="utf-8"))
        if kept["settings"] == asdict(settings):
            return dict(kept)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass  # missing or not ours
    return {}


def keep(folder: Path, kind: str, settings: Settings, values: dict[str, Any], *, method: int) -> None:
    """Keep values; a folder that cannot be written is passed over."""
    text = json.dumps({"settings": asdict(settings), **values}, indent=2)
    with suppress(OSError):
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{kind}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(_place(folder, kind, settings, method))
        finally:
            Path(name).unlink(missing_ok=True)


def _place(folder: Path, kind: str, settings: Settings, method: int) -> Path:
    known = json.dumps([method, asdict(settings)], sort_keys=True)
    return folder / f"{kind}-{hashlib.sha256(known.encode()).hexdigest()[:32]}.json"
