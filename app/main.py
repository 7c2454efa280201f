"""The command `stampo`: the interface when called alone, and its commands."""

import sys
from typing import Annotated, Any

import typer

from app.commands import ask, backup, bench, chats, doctor, export, import_, lint, presets, restore
from app.commands.options import (
    ContextOption,
    DraftModelOption,
    GpuLayersOption,
    ModelOption,
    NumericsOption,
    ThreadsOption,
)
from app.commands.person import Picker, read_person, told
from app.models import NoModel
from app.terminal import OutputError, emit, narrate, output_error, prepare_streams, refuse
from app.version import version
from grammars.matcher import allow_effort

_UsageError: Any = typer.BadParameter.__base__  # typer carries a copy of click, whose names are not public

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
app.command("import")(import_.import_)
app.command("backup")(backup.backup)
app.command("restore")(restore.restore)
app.command("doctor")(doctor.doctor)
app.command("lint")(lint.lint)
app.command("bench")(bench.bench)
app.add_typer(presets.app, name="presets")
app.add_typer(chats.app, name="chats")


def _version(wanted: bool) -> None:
    if wanted:
        emit(f"stampo {version()}\n")
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
    settings, faults = read_person()
    allow_effort(settings.limits.shape_effort)
    if context.invoked_subcommand is not None:
        _refuse_misplaced(context)
        return
    try:
        load = Picker(context, settings).load(context="context_length")
    except NoModel as error:
        refuse(str(error), code=3)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        refuse("The interface needs a terminal; `stampo ask` works without one.")
    from app.tui.app import run

    run(load, settings, told(faults) if faults else "")


def _refuse_misplaced(context: typer.Context) -> None:
    """Refuse options that stand in front of a command, where they would be for the interface and do nothing."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            refuse(f"{parameter.opts[0]} belongs behind `{context.invoked_subcommand}`.")


def main() -> None:
    """Run the command line; what the system refuses on the way ends it with a sentence.

    Every usage error is one sentence and exits with 2, as does a place that cannot be used or an output that cannot
    be written. A reader of standard output that has read enough may leave: that is no fault.
    """
    prepare_streams()
    code: object = 0
    try:
        code = app(prog_name="stampo", standalone_mode=False)
    except SystemExit as ended:
        code = ended.code
    except _UsageError as error:
        if message := error.format_message():  # empty where a command was missing: its help was shown
            narrate(f"{message.rstrip('.')}. Try --help.")
        code = error.exit_code
    except typer.Abort:  # a question that was not answered
        narrate("Nothing was done.")
        code = 1
    except (OSError, OutputError) as error:
        code = _refused(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _refused(output_error(error))
    sys.exit(code)


def _refused(error: OSError | OutputError) -> int:
    if isinstance(error, OutputError) and not str(error):
        return 0
    reason = getattr(error, "strerror", None)
    narrate(f"{error.filename}: {reason.lower()}." if reason and error.filename else reason or str(error))
    return 2
