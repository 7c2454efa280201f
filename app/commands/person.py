"""What a command takes from the person's settings and saved chats, where its options say nothing.

Knows the settings file and the store, not what they are for. Invariants: an option on the command line wins; what is
wrong with the settings is narrated and never ends a command; nothing is made that is not there.
"""

from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from app import paths
from app.commands.kept import store_is_there
from app.models import resolve_model
from app.settings import Settings
from app.settings_file import read_settings
from app.store import Store, StoreError
from app.terminal import narrate, refuse
from engine.protocol import Load
from grammars.spec import GrammarSpec


def read_person() -> tuple[Settings, list[str]]:
    """Return the person's settings and what is wrong with their file, a sentence each."""
    try:
        return read_settings(paths.config_place())
    except paths.PathError as error:
        return Settings(), [str(error)]


def person_settings() -> Settings:
    """Return the person's settings; faults of their file are narrated in one line."""
    settings, faults = read_person()
    if faults:
        narrate(told(faults))
    return settings


def told(faults: list[str]) -> str:
    """Return the first of some faults, and how many more there are."""
    more = f" There are {len(faults) - 1} more; `stampo doctor` names them." if len(faults) > 1 else ""
    return f"{faults[0]}{more}"


class Picker:
    """Picks each value from the command line if it stands there, else from the settings."""

    def __init__(self, context: typer.Context, settings: Settings) -> None:
        self._context = context
        self._settings = settings

    def reply(self, name: str, option: str = "") -> Any:
        """Return a setting of replies; `option` is the name of its parameter if that is another one."""
        return self._given(option or name, getattr(self._settings.reply, name))

    def system(self) -> str:
        """Return the system prompt."""
        return self._given("system", self._settings.system)

    def load(self, *, context: str = "context") -> Load:
        """Return what to load. Raises `NoModel`; ends the command for what the engine does not take.

        `context` is the name of the parameter that holds the context's length. A draft model from the settings goes
        with the model from the settings only.
        """
        engine = self._settings.engine
        model = self._given("model", engine.model and Path(engine.model))
        own = not self._on_command_line("model")
        draft = self._given("draft_model", engine.draft_model and own and Path(engine.draft_model))
        try:
            return Load(
                model=str(resolve_model(model)),
                draft_model=str(resolve_model(draft)) if draft else None,
                context=self._given(context, engine.context),
                threads=self._given("threads", engine.threads),
                gpu_layers=self._given("gpu_layers", engine.gpu_layers),
                numerics=self._given("numerics", engine.numerics),
                shape_effort=self._settings.limits.shape_effort,
            )
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            refuse(
                f"--{str(fault['loc'][-1]).replace('_', '-')}: {fault['msg'][0].lower()}{fault['msg'][1:]}."
            )

    def _given(self, option: str, otherwise: Any) -> Any:
        return self._context.params[option] if self._on_command_line(option) else otherwise

    def _on_command_line(self, option: str) -> bool:
        source = self._context.get_parameter_source(option)
        return source is not None and source.name == "COMMANDLINE"


def earlier_replies(shape: GrammarSpec | None) -> tuple[str, ...]:
    """Return what was saved under a shape, the oldest first; a store that cannot be read is narrated."""
    if shape is None:
        return ()
    try:
        if not store_is_there():
            return ()
        with Store(paths.store_place()) as store:
            return store.earlier_replies(shape)
    except (StoreError, paths.PathError) as error:
        narrate(f"Saved replies are not used: {error}")
        return ()
