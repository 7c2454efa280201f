"""The shapes by name: found, looked at, used, and, where they are the person's own, changed, renamed and removed.

Knows the files of shapes and when a shape was last used, no engine. Invariant: nothing goes without a version of it
being kept, which U brings back here and the list of versions later.
"""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.deep_thread import deeply
from app.paths import PathError
from app.shape_draft import ShapeDraft, Unsaved, look, new_draft, saved_draft
from app.shape_files import own_text, removed_shapes
from app.shapes import SavedShape, copy_shape, remove_shape, rename_shape, restore_version
from app.store.store import Store
from app.store.values import StoreError
from app.terminal import one_line
from app.tui.screens.closing import OwnScreen
from app.tui.screens.document_check import DocumentCheck
from app.tui.screens.results import ResultsScreen, Reveal
from app.tui.screens.shape_dialogs import NameDialog, WaysDialog
from app.tui.screens.shape_editor import ShapeEditor
from app.tui.screens.shape_picker import Picked
from app.tui.screens.shape_source import WAYS, ShapeSource
from app.tui.screens.shape_versions import ShapeVersions
from app.tui.shape_words import ORIGINS, preview, searched, skeleton_content
from app.tui.until_closed import until_closed
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.plain_fields import PlainInput
from app.tui.widgets.plain_list import PlainList, is_listed
from app.tui.words import shown, when
from grammars.spec import ShapeError

LOOK_S = 0.15
_HINT = "Enter pours the next reply into the shape, / searches, Escape goes back."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    saved: SavedShape
    used: datetime | None


class ShapeLibrary(OwnScreen[Picked | Reveal | None]):
    """Returns the shape to use, a reply to go to, or None when nothing is to change.

    `drafts` keeps unsaved shapes by name and `typed` what was typed to begin one, longer than this screen lives.
    """

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "use", "Use", id="library.use"),
        Binding("n", "new", "New", id="library.new"),
        Binding("e", "edit", "Edit", id="library.edit"),
        Binding("c", "copy", "Copy", id="library.copy"),
        Binding("r", "rename", "Rename", id="library.rename"),
        Binding("d,delete", "remove", "Remove", id="library.remove"),
        Binding("u", "undo", "Undo", id="library.undo"),
        Binding("v", "versions", "Versions", id="library.versions"),
        Binding("t", "test", "Test", id="library.test"),
        Binding("l", "replies", "Replies", id="library.replies"),
        Binding("slash", "search", "Search", id="library.search"),
        Binding("escape", "back", "Back", id="library.back"),
    ]

    def __init__(
        self,
        shapes: Callable[[], Sequence[SavedShape]],
        store: Store,
        drafts: MutableMapping[str, Unsaved],
        typed: MutableMapping[str, str],
        name: str = "",
    ) -> None:
        super().__init__()
        self._shapes = shapes
        self._store = store
        self._drafts = drafts
        self._typed = typed
        self._begin_at = name
        self._entries: list[_Entry] = []
        self._listed: list[_Entry] = []
        self._removed: list[tuple[str, str]] = []
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """The search, the list, and a look at the highlighted shape."""
        yield Line(classes="top")
        yield PlainInput(placeholder="/ searches names, titles, tags and kinds", compact=True)
        with Horizontal(classes="panes"):
            yield PlainList()
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(markup=False)
        yield Line(classes="state")
        yield KeysLine()

    def on_mount(self) -> None:
        """List everything."""
        self._read(self._begin_at)
        self.query_one(PlainList).focus()
        began = "A new shape was not saved; N goes on with it. " if "" in self._drafts else ""
        self._say(began + _HINT)

    def on_resize(self) -> None:
        """Set out the rows for the new width."""
        self.call_later(self._list)

    # --- listing

    def _read(self, name: str = "") -> None:
        """Read all shapes again and highlight one."""
        try:
            self._entries = [_Entry(saved=saved, used=self._used(saved)) for saved in self._shapes()]
        except StoreError as error:
            self._say(str(error))
        self._list(name)

    def _used(self, saved: SavedShape) -> datetime | None:
        return self._store.last_used(saved.preset.spec().hash) if saved.preset is not None else None

    def _list(self, name: str = "") -> None:
        options = self.query_one(PlainList)
        name = name or self._highlighted_name
        needles = self.query_one(PlainInput).value.lower().split()
        self._listed = [
            entry for entry in self._entries if all(needle in searched(entry.saved) for needle in needles)
        ]
        now, wide = datetime.now(UTC), options.size.width >= 56
        options.set_options(
            [_option(entry, now, entry.saved.name in self._drafts, wide) for entry in self._listed]
        )
        names = [entry.saved.name for entry in self._listed]
        if names:
            options.highlighted = names.index(name) if name in names else 0
        else:
            self._show(Content("No shape has these words."))
        own = sum(entry.saved.origin == "own" for entry in self._entries)
        self.query_one(".top", Line).put(
            f"Shapes  {len(self._listed)} of {len(self._entries)}, {own} of your own"
        )

    @property
    def _entry(self) -> _Entry | None:
        place = self.query_one(PlainList).highlighted
        return self._listed[place] if place is not None and place < len(self._listed) else None

    @property
    def _highlighted_name(self) -> str:
        entry = self._entry
        return entry.saved.name if entry else ""

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._list()

    @on(Input.Submitted)
    def _to_list(self) -> None:
        self.query_one(PlainList).focus()

    @on(OptionList.OptionHighlighted)
    def _look(self, event: OptionList.OptionHighlighted) -> None:
        if not is_listed(event):
            return
        entry = self._listed[event.option_index]
        self._show(_content(entry, self._drafts))
        if self._timer is not None:
            self._timer.stop()
        if entry.saved.preset is not None:
            self._timer = self.set_timer(
                LOOK_S,
                lambda: self.run_worker(self._add_skeleton(entry), group="look", exclusive=True),
            )

    @until_closed
    async def _add_skeleton(self, entry: _Entry) -> None:
        found = await deeply(look, saved_draft(entry.saved, ""))
        if entry is self._entry and found.parts:
            told = "".join(f"\n{shown(sentence)}" for sentence in found.told)
            forced = Content.assemble(skeleton_content(found.parts), (told, "dim"))
            self._show(_content(entry, self._drafts, forced))

    def _show(self, content: Content) -> None:
        self.query_one(".preview Static", Static).update(content)

    # --- actions

    @on(OptionList.OptionSelected)
    def action_use(self) -> None:
        """Pour the next replies into the shape."""
        if (saved := self._usable()) is not None and saved.preset is not None:
            self.dismiss(Picked(shape=saved.preset.spec(), example=saved.preset.example_prompt))

    def action_search(self) -> None:
        """Go to the search."""
        self.query_one(PlainInput).focus()

    def action_back(self) -> None:
        """Leave the search, else the library."""
        field = self.query_one(PlainInput)
        if field.has_focus or field.value:
            field.value = ""
            self.query_one(PlainList).focus()
        else:
            self.dismiss(None)

    def action_new(self) -> None:
        """Begin a shape; one that was begun and not saved goes on."""
        if "" in self._drafts:
            self._edit(self._drafts[""], saved=False)
            return

        def begin(way: str | None) -> None:
            if way in ("shorthand", "example", "class", "file"):
                self.app.push_screen(ShapeSource(way, self._typed), edit)
            elif way is not None:
                edit(new_draft(way))  # type: ignore[arg-type]

        def edit(draft: ShapeDraft | None) -> None:
            if draft is not None:
                self._edit(Unsaved(draft=draft, begun=draft), saved=False)

        self.app.push_screen(WaysDialog("A new shape from", WAYS), begin)

    def action_edit(self) -> None:
        """Edit the shape, going on with unsaved changes; of a shipped one a copy of the same name is saved."""
        entry = self._entry
        if entry is None:
            return
        saved = entry.saved
        try:
            text = own_text(saved.name) if saved.preset is None else ""
        except (ShapeError, PathError) as error:
            self._say(str(error))
            return
        begun = saved_draft(saved, text)
        kept = self._drafts.get(saved.name)
        self._edit(Unsaved(draft=kept.draft if kept else begun, begun=begun), saved=True)

    def _edit(self, unsaved: Unsaved, *, saved: bool) -> None:
        draft = unsaved.draft

        def left(name: str | None) -> None:
            self._read(name or draft.name)
            if name is not None:
                self._say(f"Saved {name}. Enter uses it.")
            elif draft.name in self._drafts:
                key = "E" if draft.name else "N"
                self._say(f"Unsaved changes are kept until Stampo ends; {key} goes on with them.")
            else:
                self._say(_HINT)

        self.app.push_screen(ShapeEditor(unsaved, self._drafts, saved=saved), left)

    def action_copy(self) -> None:
        """Save the shape under a second name."""
        if (saved := self._usable()) is not None:
            self._ask_name(
                f"Copy {saved.name} as", f"{saved.name}-2"[:64], lambda new: copy_shape(saved.name, new)
            )

    def action_rename(self) -> None:
        """Give the shape another name; its versions go with it."""
        if (saved := self._usable()) is not None:
            self._ask_name(f"Rename {saved.name} to", saved.name, lambda new: self._rename(saved.name, new))

    def _rename(self, old: str, new: str) -> None:
        if new != old:
            rename_shape(old, new)
            if old in self._drafts:  # unsaved changes go with it
                kept = self._drafts.pop(old)
                self._drafts[new] = replace(kept, draft=replace(kept.draft, name=new))

    def _ask_name(self, heading: str, name: str, attempt: Callable[[str], object]) -> None:
        def done(new: str | None) -> None:
            if new is not None:
                self._read(new)

        self.app.push_screen(NameDialog(heading, name, attempt), done)

    def action_remove(self) -> None:
        """Remove the shape; U brings it back."""
        entry = self._entry
        if entry is None:
            return
        name = entry.saved.name
        try:
            self._removed.append((name, remove_shape(name)))
        except (ShapeError, PathError) as error:
            self._say(str(error))
        else:
            self._read()
            self._say(f"Removed {name}; U brings it back.")

    def action_undo(self) -> None:
        """Bring back what was removed last: here, or in an earlier session."""
        try:
            gone = removed_shapes()
            waiting = [(name, kept) for name, kept in self._removed if name in gone]
            if waiting:
                name, kept = waiting[-1]
                restore_version(name, kept)
                self._removed.remove((name, kept))
                self._read(name)
                self._say(f"{name} is back.")
            elif gone:
                self._offer_removed(gone)
            else:
                self._say("No shape was removed.")
        except (ShapeError, PathError) as error:
            self._say(str(error))

    def _offer_removed(self, names: Sequence[str]) -> None:
        def chosen(name: str | None) -> None:
            if name is not None:
                self.app.push_screen(ShapeVersions(name), lambda _: self._read(name))

        ways = [(name, name, "look at its versions") for name in names]
        self.app.push_screen(WaysDialog("Removed shapes", ways), chosen)

    def action_versions(self) -> None:
        """Look at what the shape was, and bring a version back."""
        entry = self._entry
        if entry is None:
            return

        def restored(kept: str | None) -> None:
            if kept is not None:
                self._read(entry.saved.name)
                self._say(f"Version {kept} is the current one; what was current is kept.")

        self.app.push_screen(ShapeVersions(entry.saved.name), restored)

    def action_test(self) -> None:
        """Test a document against the shape."""
        if (saved := self._usable()) is not None and saved.preset is not None:
            self.app.push_screen(DocumentCheck(saved.preset.spec()))

    def action_replies(self) -> None:
        """Show all replies that were held to the shape as a table."""
        if (saved := self._usable()) is None or saved.preset is None:
            return

        def chosen(reveal: Reveal | None) -> None:
            if reveal is not None:
                self.dismiss(reveal)

        self.app.push_screen(ResultsScreen(saved.preset.spec(), self._store), chosen)

    def _usable(self) -> SavedShape | None:
        """Return the highlighted shape; say so if its file cannot be used."""
        entry = self._entry
        if entry is not None and entry.saved.preset is None:
            self._say(f"{entry.saved.name} cannot be used; E opens it in the editor.")
            return None
        return entry.saved if entry else None

    def _say(self, sentence: str) -> None:
        self.query_one(".state", Line).put(one_line(sentence))


def _content(entry: _Entry, drafts: MutableMapping[str, Unsaved], forced: Content | None = None) -> Content:
    saved = entry.saved
    used = f"last used {when(entry.used, datetime.now(UTC))}" if entry.used else "not used yet"
    tags = ", ".join(saved.preset.tags) if saved.preset else ""
    facts = [f"{ORIGINS[saved.origin]}, {used}", f"Tags: {tags}" if tags else ""]
    if saved.name in drafts:
        facts.append("There are unsaved changes; E goes on with them.")
    return preview(saved, facts, forced)


def _option(entry: _Entry, now: datetime, unsaved: bool, wide: bool) -> Option:
    saved = entry.saved
    name = (
        Content(one_line(saved.name) + ("*" if unsaved else "")).truncate(20, ellipsis=True, pad=True).plain
    )
    used = f"{when(entry.used, now) if entry.used else '':<12}"
    title = one_line(saved.preset.title) if saved.preset else f"cannot be used: {one_line(saved.fault or '')}"
    tags = f"  {' '.join('#' + one_line(tag) for tag in saved.preset.tags)}" if saved.preset else ""
    own = "own      " if saved.origin == "own" else "shipped  "
    return Option(Content.assemble((name, "bold"), (own + used if wide else "", "dim"), title, (tags, "dim")))
