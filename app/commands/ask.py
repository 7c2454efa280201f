"""`stampo ask`: one turn without the interface. Standard output is the reply, standard error the narration.

Goes through the worker process like the interface. Exit codes: 0 the reply ended properly and fits its shape,
1 it does not, 2 usage or shape error, 3 model error, 130 interrupted.
"""

import asyncio
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from app import paths, validation
from app.client import EngineClient
from app.commands.options import (
    ContextOption,
    DraftModelOption,
    GpuLayersOption,
    ModelOption,
    NumericsOption,
    ThreadsOption,
)
from app.conversation import title
from app.models import NoModel, resolve_model
from app.replay import describe_verification
from app.session import CHECKPOINT_S
from app.shapes import load_shape
from app.store.store import Store
from app.store.values import StoreError
from app.terminal import narrate, printable, refuse, well_formed
from engine.events import Exited, Failed, Finished, Loading, ModelInfo, Notice, Ready, Started, Token, Tokens
from engine.protocol import Cancel, Generate, Load, Message, Sampling
from grammars.compile import compile_grammar
from grammars.spec import GrammarSpec, ShapeError, Whitespace

if TYPE_CHECKING:
    from grammars.check import Verdict

OK, UNFIT, USAGE, MODEL, INTERRUPTED = 0, 1, 2, 3, 130

_FAILED_CODES = {"usage": USAGE, "shape": USAGE, "model": MODEL, "cancelled": INTERRUPTED, "internal": MODEL}


def ask(
    prompt: Annotated[str, typer.Argument(help="What to ask; piped standard input is added to it.")] = "",
    model: ModelOption = None,
    draft_model: DraftModelOption = None,
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
    streams: Annotated[
        int,
        typer.Option(min=1, max=64, metavar="N", help="Write N replies at once, one seed after the other."),
    ] = 1,
    verify: Annotated[
        bool, typer.Option("--verify", help="Write the reply again token by token and compare.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Keep the chat among the saved ones.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print figures to standard error.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line instead of the reply.")
    ] = False,
) -> None:
    """Ask once and print the reply; several replies (--streams) have lines with --- between them.

    Exit codes: 0 the reply ended properly and fits its shape, 1 it (or one of several) does not, 2 usage or shape
    error, 3 model error, 130 interrupted.
    """
    if save and streams > 1:
        refuse("--save keeps one reply; it does not go with --streams.")
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
            messages.insert(0, Message(role="system", content=well_formed(system)))
        request = Generate(
            turn=1,
            messages=tuple(messages),
            shape=shape,
            sampling=sampling,
            max_tokens=max_tokens,
            stop=tuple(stop or ()),
            speculate=spec,
            streams=streams,
            verify=verify,
        )
        load = Load(
            model=str(path),
            draft_model=None if draft_model is None else str(draft_model.expanduser()),
            context=context,
            threads=threads,
            gpu_layers=gpu_layers,
            numerics=numerics,
        )
    except ValidationError as error:
        refuse(_option_fault(error))
    if shape is not None:
        validation.warm_up()
    record = _Record.open(request) if save else None
    output = _silent if as_json or streams > 1 else _Output()
    outcome = asyncio.run(_Conversation(load, request, output, record).run())
    codes: list[int] = []
    for finished in outcome.replies:
        verdict = None if shape is None else validation.check(shape, finished.text)
        if record is not None:
            record.finish(finished, outcome.trace, None if verdict is None else verdict.fits)
        if as_json:
            print(json.dumps(_object(outcome, finished, shape, verdict), ensure_ascii=True))
        elif streams > 1:
            _print_one_of_several(finished, first=not codes)
        codes.append(_report(finished, verdict, as_json=as_json, stats=stats, several=streams > 1))
    if record is not None:
        record.close()
    raise typer.Exit(max(codes) if len(codes) == streams else outcome.code)


@dataclass(slots=True)
class _Outcome:
    """How the turn went; `code` counts when a reply is missing. `trace` is that of a single reply."""

    code: int = MODEL
    model: ModelInfo | None = None
    replies: list[Finished] = field(default_factory=list)
    trace: tuple[Token, ...] = ()


class _Conversation:
    """Drives one worker through loading and one turn."""

    def __init__(
        self, load: Load, request: Generate, output: Callable[[str], None], record: "_Record | None"
    ) -> None:
        self._load = load
        self._request = request
        self._output = output
        self._record = record
        self._trace: list[Token] = []
        self._interrupted = False

    async def run(self) -> _Outcome:
        """Return how it went; the worker is gone afterwards."""
        client = EngineClient()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt, client)
        await client.start(log=paths.log_path())
        client.send(self._load)
        outcome = _Outcome()
        progress = _Progress()
        try:
            async for event in client.events():
                match event:
                    case Loading():
                        progress.show(f"Loading the model {event.fraction:.0%}")
                    case Ready():
                        progress.clear()
                        outcome.model = event.model
                        for sentence in event.notices:
                            narrate(sentence)
                        if self._record is not None:
                            self._record.begin(event.model)
                        client.send(self._request)
                    case Started():
                        for sentence in event.notices:
                            narrate(sentence)
                    case Tokens():
                        self._trace.extend(event.tokens)
                        self._output(event.text)
                        if self._record is not None:
                            self._record.grow(event.text, self._trace)
                    case Notice():
                        narrate(event.message)
                    case Finished():
                        outcome.replies.append(event)
                        outcome.trace = tuple(self._trace)
                        if len(outcome.replies) == self._request.streams:
                            break
                    case Failed():
                        progress.clear()
                        outcome.code = _FAILED_CODES[event.kind]
                        narrate(event.message)
                        break
                    case Exited():
                        progress.clear()
                        narrate(event.message)
                        break
        except BrokenPipeError:  # the reader of standard output has left
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            outcome.code = INTERRUPTED
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await client.close()
        if self._interrupted:
            outcome.code = INTERRUPTED
        outcome.replies.sort(key=lambda reply: reply.stream)
        return outcome

    def _interrupt(self, client: EngineClient) -> None:
        """Stop the turn at the first Ctrl+C; a second one ends at once."""
        if self._interrupted:
            os._exit(INTERRUPTED)
        self._interrupted = True
        client.send(Cancel())


class _Output:
    """Streams the reply to standard output; on a terminal nothing in it can act on the terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()

    def __call__(self, text: str) -> None:
        sys.stdout.write(printable(text) if self._terminal else text)
        sys.stdout.flush()


def _silent(_text: str) -> None:
    """Write nothing: the JSON object comes at the end."""


class _Progress:
    """One line on standard error that replaces itself; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


class _Record:
    """The chat of this turn among the saved ones: the prompt before the first token, the reply as it grows."""

    def __init__(self, store: Store, chat: int, user: int, request: Generate) -> None:
        self._store = store
        self._chat = chat
        self._user = user
        self._request = request
        self._reply: int | None = None
        self._text = ""
        self._saved = 0.0

    @classmethod
    def open(cls, request: Generate) -> "_Record":
        """Save the prompt. Ends the command if that cannot be done."""
        *before, message = request.messages
        try:
            store = Store(paths.store_path())
            chat = store.create_chat(title=title(message.content), system=before[0].content if before else "")
            store.set_shape(
                chat, request.shape, on=request.shape is not None, shown=message.shape is not None
            )
            user = store.add_user(chat, None, message.content, shape=message.shape)
        except (StoreError, paths.PathError) as error:
            refuse(f"The chat cannot be saved: {error}")
        return cls(store, chat, user, request)

    def begin(self, model: ModelInfo) -> None:
        """Open the reply."""
        self._reply = self._store.begin_reply(
            self._chat,
            self._user,
            shape=self._request.shape,
            sampling=self._request.sampling,
            seed=self._request.sampling.seed,
            model=model,
            options={"max_tokens": self._request.max_tokens, "stop": list(self._request.stop)},
        )

    def grow(self, text: str, trace: list[Token]) -> None:
        """Take more of the reply; about once a second it is written."""
        self._text += text
        if self._reply is not None and time.monotonic() - self._saved >= CHECKPOINT_S:
            self._saved = time.monotonic()
            self._store.checkpoint(self._reply, self._text, trace)

    def finish(self, finished: Finished, trace: tuple[Token, ...], valid: bool | None) -> None:
        """Close the reply as it ended."""
        if self._reply is not None:
            self._store.finish_reply(self._reply, finished, valid=valid, trace=trace)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
        narrate(f"Saved as chat {self._chat}.")


def _prompt(argument: str) -> str:
    piped = ""
    if not sys.stdin.isatty():
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    text = "\n\n".join(part for part in (argument, piped) if part)
    if not text.strip():
        refuse("The prompt is empty: give one, or pipe a text in.")
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
            shape = load_shape(preset)
        elif json_schema is not None:
            shape = GrammarSpec(kind="json_schema", text=_text_or_file(json_schema, "--json-schema"))
        elif regex is not None:
            shape = GrammarSpec(kind="regex", text=_text_or_file(regex, "--regex"))
        elif lark is not None:
            shape = GrammarSpec(kind="lark", text=_text_or_file(lark, "--lark"))
        else:
            shape = GrammarSpec(kind="choice", text=json.dumps(choice, ensure_ascii=False))
        if whitespace is not None:
            shape = replace(shape, whitespace=whitespace)
        compile_grammar(shape)
    except ShapeError as error:
        refuse(f"The shape cannot be used: {error}")
    return shape


def _text_or_file(value: str, option: str) -> str:
    """Return the option's text: `@FILE` is read, `@@` is a literal `@`."""
    if value.startswith("@@"):
        return value[1:]
    if not value.startswith("@"):
        return well_formed(value)
    path = Path(value[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        refuse(f"{option}: {path} cannot be read: {(error.strerror or str(error)).lower()}.")
    except UnicodeDecodeError as error:
        refuse(f"{option}: {path} is no UTF-8 text (byte {error.start}).")


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


def _print_one_of_several(finished: Finished, *, first: bool) -> None:
    """Print a whole reply, with a line between it and the one before."""
    output = _Output()
    output(finished.text if first else f"---\n{finished.text}")
    if not finished.text.endswith("\n") and not sys.stdout.isatty():
        output("\n")


def _report(
    finished: Finished, verdict: "Verdict | None", *, as_json: bool, stats: bool, several: bool
) -> int:
    """Print what belongs behind the reply and return the exit code."""

    def say(sentence: str) -> None:
        narrate(f"Reply {finished.stream + 1}: {sentence}" if several else sentence)

    fits = verdict is None or verdict.fits
    if not as_json and sys.stdout.isatty() and not finished.text.endswith("\n"):
        print()
    if stats:
        say(_figures(finished))
    if finished.verification is not None:
        say(describe_verification(finished.verification))
    if finished.finish not in ("stop", "stop_text"):
        say(_endings[finished.finish] + (f" {finished.error}" if finished.error else ""))
    if not fits and verdict is not None:
        where = f" at {verdict.where}" if verdict.where else ""
        say(f"The reply does not fit its shape{where}: {verdict.problem}")
    if finished.finish == "cancelled":
        return INTERRUPTED
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
    outcome: _Outcome, finished: Finished, shape: GrammarSpec | None, verdict: "Verdict | None"
) -> dict[str, Any]:
    """Return the object that --json prints; its keys stay as they are, `verification` comes with --verify."""
    model = outcome.model
    assert model is not None  # a reply was finished by a model
    names = ("name", "path", "architecture", "parameters", "quantization", "vocab_size", "context_length")
    checked = {} if finished.verification is None else {"verification": asdict(finished.verification)}
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
    } | checked


def _figures(finished: Finished) -> str:
    stats = finished.stats
    return (
        f"{stats.prompt_tokens} prompt tokens ({stats.reused_tokens} reused) in {stats.prefill_s:.2f} s; "
        f"{stats.reply_tokens} reply tokens ({stats.forced_tokens} forced, {stats.accepted_tokens} accepted, "
        f"{stats.sampled_tokens} sampled) in {stats.decode_s:.2f} s: {stats.tokens_per_s:.1f} a second, "
        f"{stats.tokens_per_forward:.2f} a forward; numerics {stats.exact}; seed {finished.seed}."
    )
