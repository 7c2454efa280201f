"""What each slash command does: from its argument to a call of the session or of what opens a screen.

Knows the session and the main screen's helpers; the table of commands is in slash.py.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.app import App

from app.models import NoModel, resolve_model
from app.session import RefusedError, Session
from app.shapes import SavedShape
from app.terminal import one_line
from app.text_files import named_path
from app.tui.chat_desk import ChatDesk
from app.tui.sending import Sending
from app.tui.shelf import Shelf
from app.tui.slash import SlashRunner, number, whole_number

_THINK = {"on": True, "off": False, "auto": None}


class SlashActs:
    """The functions behind the commands; `find` opens the bar that finds a text in the open chat."""

    def __init__(
        self,
        app: App[Any],
        session: Session,
        shapes: Callable[[], Sequence[SavedShape]],
        *,
        desk: ChatDesk,
        sending: Sending,
        shelf: Shelf,
        say: Callable[[str], None],
        find: Callable[[str], None],
    ) -> None:
        self._app = app
        self._session = session
        self._shapes = shapes
        self._desk = desk
        self._sending = sending
        self._shelf = shelf
        self._say = say
        self._find = find

    def runner(self) -> SlashRunner:
        """Return what carries the commands out."""
        return SlashRunner(
            {
                "help": lambda _: self._screen_does("help"),
                "new": lambda _: self._screen_does("new_chat"),
                "title": lambda text: self._desk.keeping.rename(self._session.chat.id, text),
                "shape": self._shape,
                "system": self._system,
                "attach": self._attach,
                "retry": lambda _: self._retry(),
                "continue": lambda _: self._continue(),
                "find": self._find,
                "search": self._desk.search,
                "seed": self._seed,
                "temperature": self._temperature,
                "max": self._max,
                "think": self._think,
                "whole": lambda _: self._whole(),
                "model": self._model,
                "export": self._export,
                "import": self._desk.import_,
                "trash": lambda _: self._desk.trash(),
                "quit": lambda _: self._app.run_action("quit"),
            }
        )

    def _screen_does(self, action: str) -> Any:
        return self._app.screen.run_action(action)

    def _shape(self, name: str) -> None:
        if not name:
            self._shelf.pick()
        elif name.lower() == "none":
            self._session.set_shape(None)
        else:
            saved = self._shape_named(name)
            if saved.preset is None:
                raise RefusedError(f"The shape {one_line(saved.name)} cannot be used: {saved.fault}")
            self._session.set_shape(saved.preset.spec())

    def _shape_named(self, name: str) -> SavedShape:
        shapes = {saved.name.lower(): saved for saved in self._shapes()}
        if (found := shapes.get(name.lower())) is not None:
            return found
        near = difflib.get_close_matches(name[:64].lower(), shapes, n=1)
        hint = f"did you mean {near[0]}?" if near else "Ctrl+T lists all."
        raise RefusedError(f"There is no shape named {one_line(name[:64])}; {hint}")

    def _system(self, text: str) -> Any:
        if not text:
            return self._screen_does("system_prompt")
        self._session.set_system(text)
        self._say("The system prompt of this chat is set; F4 shows it.")
        return None

    def _attach(self, path: str) -> None:
        if path:
            self._sending.attach_file(path)
        else:
            self._sending.ask_for_file()

    def _retry(self) -> None:
        self._session.regenerate(self._last_reply("There is no reply yet that could be tried again."))

    def _continue(self) -> None:
        self._session.continue_reply(self._last_reply("There is no reply yet that could go on."))

    def _last_reply(self, otherwise: str) -> int:
        last = self._session.path[-1] if self._session.path else None
        self._session.need_rest()
        if last is None or last.reply is None:
            raise RefusedError(otherwise)
        return last.id

    def _seed(self, text: str) -> None:
        seed = None if text.lower() == "random" else whole_number(text, 0, "A seed")
        self._change("seed", seed, "Each reply of this chat has its own seed." if seed is None else None)

    def _temperature(self, text: str) -> None:
        self._change("temperature", number(text, 0, 100, "A temperature"))

    def _max(self, text: str) -> None:
        self._change("max_tokens", whole_number(text, 1, "The most tokens of a reply"))

    def _think(self, text: str) -> None:
        if text.lower() not in _THINK:
            raise RefusedError("Write /think on, /think off or /think auto.")
        self._change("think", _THINK[text.lower()], f"Reasoning before replies in this chat: {text.lower()}.")

    def _change(self, name: str, value: Any, words: str | None = None) -> None:
        self._session.change_settings({name: value})
        self._say(words or f"From the next reply of this chat on: {name.replace('_', ' ')} {value}.")

    def _whole(self) -> None:
        self._session.leave_out(0)
        self._say("The model reads this whole chat again.")

    def _model(self, path: str) -> None:
        try:
            model = resolve_model(Path(named_path(path)))
        except NoModel as error:
            raise RefusedError(str(error)) from error
        if not model.is_file():  # before the model that is loaded goes
            raise RefusedError(f"There is no file {one_line(str(model))}.")
        self._session.load(replace(self._session.engine.wanted, model=str(model), draft_model=None))

    def _export(self, argument: str) -> None:
        word, *rest = argument.split(maxsplit=1) or [""]
        keeping = self._desk.keeping
        every = word == "all"
        path = keeping.export_all("".join(rest)) if every else keeping.export(argument)
        self._say(f"Written to {path}")
