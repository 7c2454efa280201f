"""`stampo ask`: one turn without the interface. Standard output is the reply, standard error the narration.

Goes through the worker process like the interface. Exit codes: 0 the reply ended properly and fits its shape,
1 it does not, 2 usage or shape error (or standard output or the store cannot be written), 3 model error (also
in the middle of a reply), 130 interrupted, by Ctrl+C or by a reader of standard output that left.
"""

import asyncio
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from app import paths, validation
from app.commands.options import ContextOption, GpuLayersOption, ModelOption, NumericsOption, ThreadsOption
from app.commands.texts import text_of, text_or_file
from app.headless import INTERRUPTED, MODEL, OK, UNFIT, Conversation, Outcome
from app.models import NoModel, resolve_model
from app.record import Record
from app.shapes import load_shape
from app.store.values import StoreError
from app.terminal import emit, narrate, printable, refuse, well_formed
from engine.events import Finished
from engine.protocol import Generate, Load, Message, Sampling
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec, ShapeError, Whitespace

if TYPE_CHECKING:
    from grammars.check import Verdict


def ask(
    prompt: Annotated[str, typer.Argument(help="What to ask; piped standard input is added to it.")] = "",
    model: ModelOption = None,
    preset: Annotated[str | None, typer.Option("--preset", metavar="NAME", help="A saved shape.")] = None,
    json_schema: Annotated[
        str | None, typer.Option("--json-schema", metavar="JSON|@FILE", help="A JSON Schema for the reply.")
    ] = None,
    regex: Annotated[
        str | None, typer.Option("--regex", metavar="RE|@FILE", help="What the whole reply matches.")
    ] = None,
    lark: Annotated[
        str | None, typer.Option("--lark", metavar="GRAMMAR|@FILE", help="A Lark grammar for the reply.")
    ] = None,
    choice: Annotated[
        list[str] | None, typer.Option("--choice", metavar="TEXT", help="A permitted reply; repeat.")
    ] = None,
    system: Annotated[str, typer.Option("--system", metavar="TEXT", help="System prompt.")] = "",
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.7,
    top_k: Annotated[int, typer.Option(help="Keep the K likeliest tokens; 0 sets no limit.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the likeliest tokens up to this probability.")] = 0.95,
    min_p: Annotated[float, typer.Option(help="Keep tokens this likely against the likeliest.")] = 0.05,
    repeat_penalty: Annotated[float, typer.Option(help="1 is none.")] = 1.0,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option("--logit-bias", metavar="ID=F", help="Add F to a token's logit, -inf bans it; repeat."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeats a reply; random if not given.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Longest reply.")] = 1024,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="TEXT", help="End a free reply before this text; repeat."),
    ] = None,
    whitespace: Annotated[
        Whitespace | None, typer.Option(help="White space in JSON; by default the preset's, or compact.")
    ] = None,
    show_shape: Annotated[
        bool, typer.Option("--show-shape/--no-show-shape", help="Show the shape to the model too.")
    ] = True,
    spec: Annotated[
        bool, typer.Option("--spec/--no-spec", help="Guess ahead, or only commit what is forced.")
    ] = True,
    context: ContextOption = None,
    threads: ThreadsOption = None,
    gpu_layers: GpuLayersOption = 0,
    numerics: NumericsOption = "auto",
    save: Annotated[bool, typer.Option("--save", help="Keep the chat among the saved ones.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print figures to standard error.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the reply.")
    ] = False,
) -> None:
    """Ask once and print the reply.

    Exit codes: 0 the reply ended properly and fits its shape, 1 it does not, 2 usage or shape error, or the
    reply cannot be written, 3 model error, 130 interrupted.
    """
    text = _prompt(prompt)
    shape = _shape(preset, json_schema, regex, lark, choice, whitespace)
    if shape is not None and stop:
        refuse("--stop ends free replies only; a shape says itself where a reply ends.")
    try:
        path = resolve_model(model)
    except NoModel as error:
        refuse(str(error), code=MODEL)
    biases, banned = _biases(logit_bias or [])
    try:
        sampling = Sampling(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            logit_bias=biases,
            banned=banned,
            seed=seed,
        )
        messages = [Message(role="user", content=text, shape=shape if show_shape else None)]
        if system:
            messages.insert(0, Message(role="system", content=text_of(system, "--system")))
        request = Generate(
            turn=1,
            messages=tuple(messages),
            shape=shape,
            sampling=sampling,
            max_tokens=max_tokens,
            stop=tuple(text_of(text, "--stop") for text in stop or ()),
            speculate=spec,
        )
        load = Load(
            model=str(path), context=context, threads=threads, gpu_layers=gpu_layers, numerics=numerics
        )
    except ValidationError as error:
        refuse(_option_fault(error))
    if shape is not None:
        validation.warm_up()
    record = _record(request) if save else None
    output = _silent if as_json else _Output()
    conversation = Conversation(load, request, output, record, log=_log())
    outcome = asyncio.run(conversation.run())
    verdict = (
        None if shape is None or outcome.finished is None else validation.check(shape, outcome.finished.text)
    )
    if record is not None:
        record.close(
            outcome.finished,
            finish=outcome.finish,
            error=outcome.error,
            valid=None if verdict is None else verdict.fits,
            trace=conversation.trace,
        )
    raise typer.Exit(_report(outcome, shape, verdict, as_json=as_json, stats=stats))


def _record(request: Generate) -> Record:
    try:
        return Record.open(request)
    except (StoreError, paths.PathError) as error:
        refuse(f"The chat cannot be saved: {error}")


def _log() -> Path | None:
    """Return the engine's log file; without a place for it a reply can be had all the same."""
    try:
        return paths.log_path()
    except paths.PathError as error:
        narrate(f"The engine's log is not kept: {error}")
        return None


class _Output:
    """Streams the reply to standard output; on a terminal nothing in it can act on the terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()

    def __call__(self, text: str) -> None:
        emit(printable(text) if self._terminal else text)


def _silent(_text: str) -> None:
    """Write nothing: the JSON object comes at the end."""


def _prompt(argument: str) -> str:
    piped = ""
    if not sys.stdin.isatty():
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    text = "\n\n".join(part for part in (argument, piped) if part)
    if not text.strip():
        refuse("The prompt is empty: give one, or pipe a text in.")
    if well_formed(text) != text:
        narrate("Bytes of the prompt that are no UTF-8 were replaced.")
    return well_formed(text)


def _shape(
    preset: str | None,
    json_schema: str | None,
    regex: str | None,
    lark: str | None,
    choice: list[str] | None,
    whitespace: Whitespace | None,
) -> GrammarSpec | None:
    """Return the shape that was asked for, compiled once to see that it can be; ends the command if not."""
    given = [
        name
        for name, value in (
            ("--preset", preset),
            ("--json-schema", json_schema),
            ("--regex", regex),
            ("--lark", lark),
            ("--choice", choice),
        )
        if value is not None and value != []
    ]
    if len(given) > 1:
        refuse(f"One reply has one shape: {' and '.join(given)} were given.")
    if not given:
        return None
    try:
        if preset is not None:
            shape = load_shape(text_of(preset, "--preset"))
        elif json_schema is not None:
            shape = GrammarSpec(kind="json_schema", text=text_or_file(json_schema, "--json-schema"))
        elif regex is not None:
            shape = GrammarSpec(kind="regex", text=text_or_file(regex, "--regex"))
        elif lark is not None:
            shape = GrammarSpec(kind="lark", text=text_or_file(lark, "--lark"))
        else:
            shape = GrammarSpec(
                kind="choice",
                text=json.dumps([text_of(text, "--choice") for text in choice or ()], ensure_ascii=False),
            )
        if whitespace is not None:
            shape = replace(shape, whitespace=whitespace)
        compile_grammar(shape)
    except ShapeError as error:
        refuse(f"The shape cannot be used: {error}")
    return shape


def _biases(given: list[str]) -> tuple[dict[int, float], tuple[int, ...]]:
    """Return the finite biases and the ids that are banned by a bias of -inf."""
    biases: dict[int, float] = {}
    banned: list[int] = []
    for text in given:
        token, _, bias = text.partition("=")
        try:
            number, value = int(token), float(bias)
        except ValueError:
            refuse(f"--logit-bias takes ID=NUMBER, not {text!r}.")
        if value == -math.inf:
            banned.append(number)
        elif math.isfinite(value) and number >= 0:
            biases[number] = value
        else:
            refuse(f"--logit-bias takes ID=NUMBER with a finite number or -inf, not {text!r}.")
    return biases, tuple(banned)


def _option_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    name = str(fault["loc"][-1]).replace("_", "-") if fault["loc"] else "option"
    return f"--{name}: {fault['msg'][0].lower()}{fault['msg'][1:]}."


def _report(
    outcome: Outcome, shape: GrammarSpec | None, verdict: "Verdict | None", *, as_json: bool, stats: bool
) -> int:
    """Print what belongs behind the reply and return the exit code."""
    finished = outcome.finished
    if finished is None:
        return outcome.code
    fits = verdict is None or verdict.fits
    if as_json:
        emit(json.dumps(_object(outcome, finished, shape, verdict), ensure_ascii=True) + "\n")
    elif sys.stdout.isatty() and not finished.text.endswith("\n"):
        emit("\n")
    if stats:
        narrate(_figures(finished))
    if finished.finish not in ("stop", "stop_text"):
        narrate(_endings[finished.finish] + (f" {finished.error}" if finished.error else ""))
    if not fits and verdict is not None:
        where = f" at {verdict.where}" if verdict.where else ""
        narrate(f"The reply does not fit its shape{where}: {verdict.problem}")
    if finished.finish == "cancelled":
        return INTERRUPTED
    if finished.finish == "error":
        return MODEL
    return OK if fits and finished.finish in ("stop", "stop_text", "landed") else UNFIT


_endings = {
    "length": "The reply was cut: it reached --max-tokens.",
    "context_full": "The reply was cut: the context is full.",
    "cancelled": "Interrupted.",
    "landed": "The reply was cut short to end within its budget.",
    "loop": "The reply was cut: it repeated itself.",
    "error": "The reply ended with an error:",
}


def _object(
    outcome: Outcome, finished: Finished, shape: GrammarSpec | None, verdict: "Verdict | None"
) -> dict[str, Any]:
    """Return the object that --json prints; its keys stay as they are."""
    model = outcome.model
    assert model is not None  # a reply was finished by a model
    names = ("name", "path", "architecture", "parameters", "quantization", "vocab_size", "context_length")
    return {
        "reply": finished.text,
        "parsed": None if verdict is None else verdict.parsed,
        "valid": None if verdict is None else verdict.fits,
        "finish": finished.finish,
        "reasoning": finished.reasoning,
        "seed": finished.seed,
        "model": {name: getattr(model, name) for name in names},
        "constraint": None if shape is None else {"kind": shape.kind, "hash": shape.hash, "name": shape.name},
        "stats": asdict(finished.stats),
    }


def _figures(finished: Finished) -> str:
    stats = finished.stats
    return (
        f"{stats.prompt_tokens} prompt tokens ({stats.reused_tokens} reused) in {stats.prefill_s:.2f} s; "
        f"{stats.reply_tokens} reply tokens ({stats.forced_tokens} forced, {stats.accepted_tokens} accepted, "
        f"{stats.sampled_tokens} sampled) in {stats.decode_s:.2f} s: {stats.tokens_per_s:.1f} a second, "
        f"{stats.tokens_per_forward:.2f} a forward; numerics {stats.exact}; seed {finished.seed}."
    )
