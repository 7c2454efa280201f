"""What a person sets in the interface: models, settings, keys and colours, put in force and into the settings file.

Knows the session, the file and the screens it opens. Invariants: what is shown as set is in the file, or it is said why
not; a fault of the file changes nothing that is in force.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from textual.app import App

from app.models import model_places, survey
from app.paths import PathError, config_path, config_place, hugging_face_cache
from app.session import RefusedError, Session
from app.settings import InterfaceSettings, Settings, as_mapping
from app.settings_file import SettingsFileError, change, read_settings
from app.store.values import StoreError
from app.tui.keymap import actions, for_textual, usable
from app.tui.screens.keys import KeysScreen
from app.tui.screens.models import ModelChoice, ModelsScreen
from app.tui.screens.settings import RESET, Changes, SettingsScreen
from app.tui.screens.shape_dialogs import WaysDialog
from app.tui.widgets.plain_fields import PlainArea, PlainInput
from grammars.matcher import allow_effort

FRAMES_PER_S = 15
CALM_FRAMES_PER_S = 8


class Preferences:
    """The settings in force. `say` shows a sentence.

    The first model is loaded with the options of the command line over the settings; what is changed in the settings
    later counts for the models that are loaded after it.
    """

    def __init__(
        self, app: App[Any], session: Session, settings: Settings, *, say: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.keys: Mapping[str, tuple[str, ...]] = {}
        self._app = app
        self._session = session
        self._say = say
        self._began = settings.engine
        self._usual_animations = app.animation_level

    @property
    def frames_per_s(self) -> int:
        """How often the screen is drawn at most."""
        return CALM_FRAMES_PER_S if self.settings.interface.reduced_motion else FRAMES_PER_S

    def put_in_force(self) -> list[str]:
        """Give the interface its colours, motion and keys, and replies their defaults; return what cannot be used."""
        told: list[str] = []
        interface = self.settings.interface
        known = interface.theme in self._app.available_themes
        self._app.theme = interface.theme if known else InterfaceSettings().theme
        if not known:
            told.append(f"There is no theme {interface.theme!r}; the palette lists those there are.")
        self._app.animation_level = "none" if interface.reduced_motion else self._usual_animations
        for screen in self._app.screen_stack:
            for field in (*screen.query(PlainArea), *screen.query(PlainInput)):
                field.hold_still(False)
        try:
            self._session.set_defaults(self.settings.reply, self.settings.system)
        except StoreError as error:
            told.append(str(error))
        allow_effort(self.settings.limits.shape_effort)
        if self.settings.keys or self.keys:
            self.keys, faults = usable(actions(), self.settings.keys)
            told += faults
            self._app.set_keymap(for_textual(self.keys))
        return told

    def open(self, what: str) -> None:
        """Open one of the screens: `models`, `settings`, `keys` or `themes`."""
        {"models": self._models, "settings": self._form, "keys": self._keys, "themes": self._themes}[what]()

    def _models(self) -> None:
        wanted = self._session.engine.wanted
        places = model_places(self.settings.engine.model_folders, hugging_face_cache())
        screen = ModelsScreen(lambda: survey(places), current=wanted.model, draft_model=wanted.draft_model)
        self._app.push_screen(screen, self._load)

    def _load(self, choice: ModelChoice | None) -> None:
        if choice is None:
            return
        engine = self.settings.engine
        changed = {
            name: getattr(engine, name)
            for name in ("context", "threads", "gpu_layers", "numerics")
            if getattr(engine, name) != getattr(self._began, name)
        }
        wanted = self._session.engine.wanted
        try:
            self._session.load(
                replace(
                    wanted,
                    model=choice.model,
                    draft_model=choice.draft_model,
                    shape_effort=self.settings.limits.shape_effort,
                    **changed,
                )
            )
        except RefusedError as error:
            self._say(str(error))
            return
        if choice.remember:
            self._keep(
                {("engine", "model"): choice.model, ("engine", "draft_model"): choice.draft_model},
                "It is loaded at each start from now on.",
            )

    def _form(self) -> None:
        themes = sorted(self._app.available_themes)
        screen = SettingsScreen(self.settings, self._session.chat.settings, themes)
        self._app.push_screen(screen, self._take)

    def _take(self, changes: Changes | None) -> None:
        if changes is None or not (changes.chat or changes.everywhere):
            return
        if changes.everywhere:
            self._keep(changes.everywhere, "The settings are saved.")
        try:
            defaults = as_mapping(self._session.defaults)
            if changes.chat:
                self._session.change_settings(
                    {
                        name: defaults[name] if value is RESET else value
                        for name, value in changes.chat.items()
                    }
                )
        except (RefusedError, StoreError) as error:
            self._say(str(error))

    def _keys(self) -> None:
        self._app.push_screen(KeysScreen(actions(), self.settings.keys), self._take_keys)

    def _take_keys(self, keys: dict[str, tuple[str, ...]] | None) -> None:
        if keys is None:
            return
        new = {("keys", name): keys.get(name) for name in (*self.settings.keys, *keys)}
        old = self.settings.keys
        self._keep(
            {place: value for place, value in new.items() if old.get(place[1]) != value},
            "The keys are saved.",
        )

    def _themes(self) -> None:
        before = self._app.theme
        ways = [
            (name, name, "this one" if name == before else "") for name in sorted(self._app.available_themes)
        ]
        self._app.push_screen(WaysDialog("Theme", ways), self._take_theme)

    def _take_theme(self, name: str | None) -> None:
        if name is not None:
            self._keep({("interface", "theme"): name}, f"The theme is {name}.")

    def _keep(self, values: Mapping[tuple[str, str], Any], done: str) -> None:
        """Write values into the file, read it again and put it in force; what cannot be written is said."""
        try:
            for (table, key), value in values.items():
                change(config_path(), table, key, value)
        except (SettingsFileError, PathError) as error:
            done = str(error)
        self.settings, _ = read_settings(config_place())
        self._say(" ".join([done, *self.put_in_force()]))
