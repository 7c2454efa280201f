"""The interface: appears at once, loads the model behind it, and leaves no process when it ends.

Knows how the rooms are wired together; each screen knows its own layout.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from app.client import EngineClient
from app.paths import PathError, log_path, store_path
from app.session import Session
from app.settings import Settings
from app.shapes import SavedShape, saved_shapes
from app.store.store import Store
from app.store.values import StoreError
from app.supervisor import Supervisor
from app.terminal import refuse
from app.tui.collector import spare_old, spare_what_is_there
from app.tui.key_order import KeyOrder
from app.tui.preferences import Preferences
from app.tui.screens.chat import ChatScreen
from app.tui.screens.closing import OwnScreen
from app.tui.screens.help import HelpScreen, screen_help
from app.tui.screens.keys import KeyCatcher
from app.tui.terminal_input import install
from app.tui.widgets.transcript import Transcript
from app.tui.words import key_words
from engine.protocol import Load

GATHER_S = 0.1
"""How long what the engine says is gathered: less than goes by between two drawings of it."""
WARM_UP_S = 0.5
ASKED_S = 10.0
"""How long a second Ctrl+Q counts as the answer to what the first one asked."""

THEME = Theme(
    name="stampo",
    primary="#7aa2c8",
    secondary="#9a8fbf",
    accent="#d9a05b",
    foreground="#d5d8dc",
    background="#15181c",
    surface="#1b1f24",
    panel="#23282f",
    success="#8fb573",
    warning="#d9b45b",
    error="#d0685c",
    dark=True,
)


class StampoApp(App[None]):
    """The program a person sees. `worker` replaces the engine's command, for tests."""

    TITLE = "Stampo"
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [
        (0, "-narrow"),
        (72, "-medium"),
        (120, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Keys", id="help", priority=True, tooltip="List the keys of the screen")
    ]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-short"), (20, "-tall")]

    def __init__(
        self,
        *,
        store: Store,
        load: Load,
        shapes: Callable[[], Sequence[SavedShape]] = saved_shapes,
        settings: Settings | None = None,
        trouble: str = "",
        worker: Sequence[str] | None = None,
        log: Path | None = None,
    ) -> None:
        super().__init__()
        settings = settings or Settings()
        self._shapes = shapes
        self.session = Session(
            store,
            lambda on_event: Supervisor(
                load,
                on_event,
                client_factory=partial(EngineClient, gather_s=GATHER_S),
                command=worker,
                log=log,
            ),
            settings=settings.reply,
            system=settings.system,
        )
        self.preferences = Preferences(self, self.session, settings, say=self._say)
        self._trouble = trouble
        self._named: list[str] = []  # what the person knows would be lost
        self._key_order = KeyOrder(self, super().on_event)

    async def on_event(self, event: events.Event) -> None:
        """Take keys and pastes strictly in their order."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._key_order.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Show the chat and begin to load."""
        self.register_theme(THEME)
        faults = self.preferences.put_in_force()
        self.push_screen(ChatScreen(self.session, self._shapes, self.preferences))
        if self._trouble or faults:
            self.call_after_refresh(self._say, " ".join(filter(None, (self._trouble, *faults))))
        # Another process, beside which the first frame would be late.
        self.call_after_refresh(self.session.engine.start)
        self.set_timer(WARM_UP_S, self._warm_up)

    def _warm_up(self) -> None:
        """Do in the background what would be in the way later; leaving does not wait for it."""
        Thread(target=_prepare, name="warm-up", daemon=True).start()

    async def action_quit(self) -> None:
        """Keep unsent text and leave; what cannot be kept is named before."""
        screens = [screen for screen in self.screen_stack if isinstance(screen, OwnScreen)]
        lost = [what for screen in screens for what in screen.keep_all()]
        if not lost or lost == self._named:
            self.exit()
        else:
            self._named = lost
            self.set_timer(ASKED_S, self._named.clear)
            self.notify(
                f"Not saved: {', '.join(lost)}. Ctrl+Q again quits all the same.",
                severity="warning",
                markup=False,
            )

    def action_help(self) -> None:
        """List the keys of the screen in front."""
        screen = self.screen
        if isinstance(screen, ChatScreen):
            screen.action_help()
        elif isinstance(screen, HelpScreen):
            screen.dismiss()
        else:
            self.push_screen(screen_help(screen, keys=self.preferences.keys))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave every key to the screen that asks for one, and help to those that are Stampo's own."""
        screen = self.screen
        if action == "help":
            return type(screen).__module__.startswith("app.tui.") and not isinstance(screen, KeyCatcher)
        return super().check_action(action, parameters)

    def action_help_quit(self) -> None:
        """Say which key quits to those who press Ctrl+C."""
        self.notify("Ctrl+Q quits.", markup=False)

    async def on_unmount(self) -> None:
        """Leave no process behind, however the interface ends."""
        spare_old(False)
        await self.session.close()

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        """Offer the chat's own actions in the command palette, too."""
        if isinstance(screen, ChatScreen):
            for binding in screen.commands():
                action = binding.action
                yield SystemCommand(
                    binding.tooltip,
                    key_words(binding.key),
                    lambda action=action: screen.run_action(action),
                )
            for what, binding in screen.message_commands():
                yield SystemCommand(
                    binding.tooltip,
                    f"{key_words(binding.key)} on the message",
                    lambda what=what: screen.query_one(Transcript).action_ask(what),
                )
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)

    def action_preferences(self, what: str) -> None:
        """Open the models, the settings, the keys or the themes."""
        self.preferences.open(what)

    def action_change_theme(self) -> None:
        """Choose the colours."""
        self.preferences.open("themes")

    def _say(self, text: str) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.say(text)


def _prepare() -> None:
    """Import the validator, which takes a second, before it is needed."""
    import_module("grammars.check")
    spare_what_is_there()


def run(load: Load, settings: Settings | None = None, trouble: str = "") -> None:
    """Open the interface on the person's store; a store that cannot be opened is told in a sentence.

    `trouble` is what is wrong with the settings, to be shown first.
    """
    try:
        with Store(store_path()) as store:
            app = StampoApp(store=store, load=load, settings=settings, trouble=trouble, log=log_path())
            install()
            app.run()
    except (StoreError, PathError) as error:
        refuse(str(error))
    if app.return_code:
        raise SystemExit(app.return_code)
