"""The command `stampo`: the interface when called alone, and its commands."""

import sys
from typing import Annotated

import typer

from app.commands import ask, chats, doctor, export, presets
from app.commands.options import (
    ContextOption,
    DraftModelOption,
    GpuLayersOption,
    ModelOption,
    NumericsOption,
    ThreadsOption,
)
from app.models import NoModel, resolve_model
from app.terminal import OutputError, emit, narrate, output_error, prepare_streams, refuse
from engine.protocol import Load

app = typer.Typer(
    name="stampo",
    help="Chat with a local GGUF model whose replies are poured into a shape.",
    invoke_without_command=True,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask.ask)
app.command("export")(export.export)
app.command("doctor")(doctor.doctor)
app.add_typer(presets.app, name="presets")
app.add_typer(chats.app, name="chats")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        emit(f"stampo {version('stampo')}\n")
        raise typer.Exit


@app.callback()
def stampo(
    context: typer.Context,
    model: ModelOption = None,
    draft_model: DraftModelOption = None,
    context_length: ContextOption = None,
    threads: ThreadsOption = None,
    gpu_layers: GpuLayersOption = 0,
    numerics: NumericsOption = "auto",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Open the interface, or run a command."""
    if context.invoked_subcommand is not None:
        _refuse_misplaced(context)
        return
    try:
        path = resolve_model(model)
        draft = None if draft_model is None else str(resolve_model(draft_model))
    except NoModel as error:
        refuse(str(error), code=3)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        refuse("The interface needs a terminal; `stampo ask` works without one.")
    from app.tui.app import run

    run(
        Load(
            model=str(path),
            draft_model=draft,
            context=context_length,
            threads=threads,
            gpu_layers=gpu_layers,
            numerics=numerics,
        )
    )


def _refuse_misplaced(context: typer.Context) -> None:
    """Refuse options that stand in front of a command, where they would be for the interface and do nothing."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            refuse(f"{parameter.opts[0]} belongs behind `{context.invoked_subcommand}`.")


def main() -> None:
    """Run the command line; what the system refuses on the way ends it with a sentence.

    A place that cannot be used or an output that cannot be written exits with 2, a reader of standard output
    that has left with 130.
    """
    prepare_streams()
    code: object = 0
    try:
        app()
    except SystemExit as ended:
        code = ended.code
    except (OSError, OutputError) as error:
        code = _refused(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _refused(output_error(error))
    sys.exit(code)


def _refused(error: OSError | OutputError) -> int:
    if isinstance(error, OutputError) and not str(error):
        return 130
    narrate(getattr(error, "strerror", None) or str(error))
    return 2
