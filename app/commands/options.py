"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

ModelOption = Annotated[
    Path | None,
    typer.Option("--model", "-m", metavar="GGUF", help="Model file; of a split model, its first part."),
]
DraftModelOption = Annotated[
    Path | None,
    typer.Option(
        "--draft-model", metavar="GGUF", help="A smaller model with the same vocabulary, to guess ahead."
    ),
]
ContextOption = Annotated[
    int | None,
    typer.Option(
        "--context", min=16, metavar="N", help="Context in tokens; by default the model's, at most 8192."
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="Threads; by default the physical cores.")
]
GpuLayersOption = Annotated[
    int, typer.Option("--gpu-layers", min=-1, metavar="N", help="Layers on the GPU; -1 means all.")
]
NumericsOption = Annotated[
    Literal["auto", "exact", "fast"],
    typer.Option(
        "--numerics", help="exact: replies repeat bit for bit; fast: quicker prompts; auto: exact if cheap."
    ),
]
JsonSchemaOption = Annotated[
    str | None, typer.Option("--json-schema", metavar="JSON|@FILE", help="A JSON Schema for the reply.")
]
RegexOption = Annotated[
    str | None, typer.Option("--regex", metavar="RE|@FILE", help="What the whole reply matches.")
]
LarkOption = Annotated[
    str | None, typer.Option("--lark", metavar="GRAMMAR|@FILE", help="A Lark grammar for the reply.")
]
ChoiceOption = Annotated[
    list[str] | None, typer.Option("--choice", metavar="TEXT", help="A permitted reply; repeat.")
]
