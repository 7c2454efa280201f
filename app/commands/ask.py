"""`stampo ask`: one turn without the interface. Standard output is the reply, standard error the narration.

Goes through the worker process like the interface. Exit codes: 0 the reply ended properly and fits its shape,
1 it does not, 2 usage or shape error (or standard output or the store cannot be written), 3 model error (also
in the middle of a reply), 130 interrupted. A reader of standard output that leaves early ends the turn with 0.
"""

import asyncio
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from app import paths, validation
from app.commands.options import (
    ChoiceOption,
    ContextOption,
    DraftModelOption,
    GpuLayersOption,
    JsonSchemaOption,
    LarkOption,
    ModelOption,
    NumericsOption,
    RegexOption,
    ThreadsOption,
)
from app.commands.person import Picker, earlier_replies, person_settings
from app.commands.report import Report, write_reply
from app.commands.texts import text_of, text_or_file
from app.headless import MODEL, Conversation
from app.models import NoModel
from app.record import Record
from app.shapes import load_shape
from app.store.values import StoreError
from app.terminal import narrate, refuse, well_formed
from engine.protocol import Generate, Message
from grammars.compile import compile_grammar
from grammars.lint import summary
from grammars.spec import GrammarSpec, ShapeError, Whitespace


def ask(
    given: typer.Context,
    prompt: Annotated[str, typer.Argument(help="What to ask; piped standard input is added to it.")] = "",
    model: ModelOption = None,
    draft_model: DraftModelOption = None,
    preset: Annotated[str | None, typer.Option("--preset", metavar="NAME", help="A saved shape.")] = None,
    json_schema: JsonSchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    choice: ChoiceOption = None,
    system: Annotated[str, typer.Option("--system", metavar="TEXT", help="System prompt.")] = "",
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.7,
    top_k: Annotated[int, typer.Option(help="Keep the K likeliest tokens; 0 sets no limit.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the likeliest tokens up to this probability.")] = 0.95,
    min_p: Annotated[float, typer.Option(help="Keep tokens this likely against the likeliest.")] = 0.05,
    typical_p: Annotated[
        float, typer.Option(help="Keep tokens of typical surprise up to this probability; 1 keeps all.")
    ] = 1.0,
    top_n_sigma: Annotated[
        float, typer.Option(help="Keep tokens within N standard deviations of the best; 0 keeps all.")
    ] = 0.0,
    repeat_penalty: Annotated[float, typer.Option(help="1 is none.")] = 1.0,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option("--logit-bias", metavar="ID=F", help="Add F to a token's logit, -inf bans it; repeat."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeats a reply; random if not given.")] = None,
    max_tokens: Annotated[
        int, typer.Option(metavar="N", help="Longest reply, reasoning not counted.")
    ] = 1024,
    think: Annotated[
        bool | None,
        typer.Option(
            "--think/--no-think", help="Reason first, or do not; by default as the model's template has it."
        ),
    ] = None,
    think_tokens: Annotated[int, typer.Option(metavar="N", help="Longest reasoning.")] = 1024,
    land: Annotated[
        bool,
        typer.Option("--land/--no-land", help="End a shaped reply properly within --max-tokens, or cut it."),
    ] = True,
    loop_guard: Annotated[
        bool, typer.Option("--loop-guard/--no-loop-guard", help="End a free reply that repeats itself.")
    ] = True,
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
    streams: Annotated[
        int,
        typer.Option(min=1, max=64, metavar="N", help="Write N replies at once, one seed after the other."),
    ] = 1,
    verify: Annotated[
        bool, typer.Option("--verify", help="Write the reply again token by token and compare.")
    ] = False,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory/--no-memory", help="Guess from saved replies under the same shape, or do not."
        ),
    ] = True,
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
    if "" in (stop or ()):
        refuse("--stop takes a text; an empty one would end every reply before it begins.")
    if shape is not None and stop:
        refuse("--stop ends free replies only; a shape says itself where a reply ends.")
    if streams > 1 and save:
        refuse("--save keeps a chat with one reply; --streams asks for several.")
    settings = person_settings()
    pick = Picker(given, settings)
    try:
        load = pick.load()
    except NoModel as error:
        refuse(str(error), code=MODEL)
    biases, banned = _biases(logit_bias or [])
    try:
        names = (
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "typical_p",
            "top_n_sigma",
            "repeat_penalty",
            "seed",
        )
        sampling = replace(
            settings.reply.sampling(),
            **{name: pick.reply(name) for name in names},
            logit_bias=biases,
            banned=banned,
        )
        messages = [Message(role="user", content=text, shape=shape if show_shape else None)]
        if system := text_of(pick.system(), "--system"):
            messages.insert(0, Message(role="system", content=system))
        speculate = pick.reply("speculate", "spec")
        request = Generate(
            turn=1,
            messages=tuple(messages),
            shape=shape,
            sampling=sampling,
            max_tokens=pick.reply("max_tokens"),
            stop=()
            if shape is not None
            else tuple(text_of(end, "--stop") for end in pick.reply("stop") or ()),
            think=pick.reply("think"),
            think_tokens=pick.reply("think_tokens"),
            land=pick.reply("land"),
            stop_loops=pick.reply("stop_loops", "loop_guard"),
            speculate=speculate,
            earlier=earlier_replies(shape) if speculate and pick.reply("remember", "memory") else (),
            streams=streams,
            verify=verify,
        )
    except ValidationError as error:
        refuse(_option_fault(error))
    if shape is not None:
        validation.warm_up()
    record = _record(request) if save else None
    output = _silent if as_json or streams > 1 else write_reply
    conversation = Conversation(load, request, output, record, log=_log())
    outcome = asyncio.run(conversation.run())
    report = Report(shape, outcome.model, as_json=as_json, stats=stats, several=streams > 1)
    verdicts = [None if shape is None else validation.check(shape, end.text) for end in outcome.replies]
    saved = None
    if record is not None:
        saved = record.close(
            outcome.replies[0] if outcome.replies else None,
            finish=outcome.finish,
            error=outcome.error,
            valid=None if not verdicts or verdicts[0] is None else verdicts[0].fits,
            trace=conversation.trace,
        )
    try:
        codes = [report.give(end, verdict) for end, verdict in zip(outcome.replies, verdicts, strict=True)]
    finally:  # also when the reader of the reply has left
        if saved is not None:
            narrate(saved)
    raise typer.Exit(max(codes) if len(codes) == streams else outcome.code)


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
        for sentence in summary(compile_grammar(shape)):
            narrate(sentence)
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
