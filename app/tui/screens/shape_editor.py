"""The editor of shapes: what is written at the left, what there is to say about it and what it forces at the right.

Knows drafts, no store and no engine; a draft is looked at a moment after the last key, in a thread. Invariants: leaving
never loses what was written: it stays in `drafts` until Stampo ends; nothing is saved that does not compile.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from app.deep_thread import deeply
from app.shape_draft import KINDS as ALL_KINDS
from app.shape_draft import Look, ShapeDraft, Unsaved, look, new_draft, place_of, visible, with_fixes
from app.terminal import one_line
from app.tui.editor import EditorError, edit
from app.tui.screens.closing import OwnScreen
from app.tui.screens.document_check import DocumentCheck
from app.tui.screens.shape_dialogs import GuardsDialog
from app.tui.screens.shape_save import SaveShape
from app.tui.shape_words import counts_words, finding_content, guards_words, skeleton_content
from app.tui.until_closed import until_closed
from app.tui.widgets.code_area import CodeArea
from app.tui.widgets.keys_line import KeysLine
from app.tui.widgets.line import Line
from app.tui.widgets.plain_list import PlainList, is_listed
from app.tui.words import KINDS, shown
from grammars.spec import Guards, ShapeError, Whitespace

LOOK_S = 0.3
MOST_FINDINGS = 200
_SUFFIXES = {"json_schema": ".json", "choice": ".txt", "regex": ".txt", "lark": ".lark"}


class ShapeEditor(OwnScreen[str | None]):
    """Returns the name under which the shape was saved, or None when it was left.

    `unsaved` is what there is to go on with; it began as what is `saved`, or as a new shape. `drafts` keeps unsaved
    changes by the shape's name.
    """

    CSS_PATH = "shapes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="editor.save", priority=True),
        Binding("ctrl+t", "test", "Test a document", id="editor.test", priority=True),
        Binding("f2", "kind", "Kind", id="editor.kind", priority=True),
        Binding("f3", "guards", "Guards", id="editor.guards", priority=True),
        Binding("f5", "fix", "Apply fixes", id="editor.fix", priority=True),
        Binding("f6", "switch", "Findings", id="editor.findings", priority=True),
        Binding("f8", "revert", "As saved", id="editor.revert", priority=True),
        Binding("ctrl+e", "external", "$EDITOR", id="editor.external", priority=True),
        Binding("escape", "leave", "Back", id="editor.leave"),
    ]

    def __init__(self, unsaved: Unsaved, drafts: MutableMapping[str, Unsaved], *, saved: bool) -> None:
        super().__init__()
        self._draft = unsaved.draft
        self._begun = unsaved.begun
        self._saved = saved
        self._drafts = drafts
        self._timer: Timer | None = None
        self._look: Look | None = None
        self._save_typed: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """The text, the findings, the skeleton."""
        yield Line(classes="top")
        with Horizontal(classes="panes"):
            yield CodeArea(compact=True, show_line_numbers=True)
            with Vertical(classes="side"):
                yield Line(classes="state")
                yield PlainList()
                yield Static("What the shape forces; ‹…› is free", markup=False, classes="caption")
                with VerticalScroll(classes="preview"):
                    yield Static(markup=False)
        yield Line(classes="state said")
        yield KeysLine()

    def on_mount(self) -> None:
        """Show the draft and look at it."""
        area = self.query_one(CodeArea)
        area.json = self._draft.kind == "json_schema"
        area.text = self._draft.text
        area.focus()
        self._keep()  # what comes from shorthand or an example is unsaved from the beginning
        self._show_top()
        self._say("Ctrl+S saves. Escape goes back; what is not saved is kept until Stampo ends.")
        self._look_soon(0.01)

    # --- looking

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        """Take over what is typed; look at it a moment after the last key."""
        message.stop()
        text = self.query_one(CodeArea).text
        if text != self._draft.text:
            self._change(text=text)

    def _change(self, **parts: str | Whitespace | Guards) -> None:
        self._draft = replace(self._draft, **parts)  # type: ignore[arg-type]
        self._keep()
        self._show_top()
        self._look_soon(LOOK_S)

    def _keep(self) -> None:
        """Keep unsaved changes, whatever comes."""
        if self._draft != (self._begun if self._saved else new_draft(self._draft.kind)):
            self._drafts[self._draft.name] = Unsaved(draft=self._draft, begun=self._begun)
        else:
            self._drafts.pop(self._draft.name, None)

    def _look_soon(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._begin_look)

    def _begin_look(self) -> None:
        self.run_worker(self._take_look(self._draft), group="look", exclusive=True)

    @until_closed
    async def _take_look(self, draft: ShapeDraft) -> None:
        found = await deeply(look, draft)
        if draft is not self._draft:
            return
        self._look = found
        counts = counts_words(found.findings)
        verdict = ("Usable", "bold $text-success") if found.usable else ("Not usable", "bold $text-error")
        told = "".join(f"\n{one_line(sentence)}" for sentence in found.told)
        self.query_one(".side .state", Line).put(
            Content.assemble(verdict, f": {counts or 'nothing to say'}", (told, "dim"))
        )
        listed = found.findings[:MOST_FINDINGS]
        options = [Option(finding_content(finding)) for finding in listed]
        if len(found.findings) > len(listed):
            options.append(Option(f"… {len(found.findings) - len(listed):,} more", disabled=True))
        self.query_one(PlainList).set_options(options)
        self.query_one(".preview Static", Static).update(skeleton_content(found.parts))

    @on(OptionList.OptionSelected)
    def _jump(self, event: OptionList.OptionSelected) -> None:
        """Go to the place of a finding."""
        if self._look is None or not is_listed(event):
            return
        place = place_of(self._draft, self._look.findings[event.option_index])
        area = self.query_one(CodeArea)
        if place is None:
            self._say("This is about the shape as a whole.")
        else:
            area.go_to(place)
        area.focus()

    # --- actions

    def action_switch(self) -> None:
        """Go from the text to the findings, or back."""
        area, findings = self.query_one(CodeArea), self.query_one(PlainList)
        if not area.has_focus:
            area.focus()
        elif findings.option_count:
            findings.highlighted = findings.highlighted or 0
            findings.focus()
        else:
            self._say("There is nothing to say about this shape.")

    def action_kind(self) -> None:
        """Take the text for another kind; an untouched example becomes that of the new kind."""
        kind = ALL_KINDS[(ALL_KINDS.index(self._draft.kind) + 1) % len(ALL_KINDS)]
        untouched = self._draft.text == new_draft(self._draft.kind).text
        self.query_one(CodeArea).json = kind == "json_schema"
        self._change(kind=kind)
        if untouched:
            self._replace(new_draft(kind).text)
        self.query_one(CodeArea).notify_style_update()
        self._say(f"The text is taken for a {KINDS[kind]} now.")

    def action_guards(self) -> None:
        """Change white space and guards."""

        def take(chosen: tuple[Whitespace, Guards] | None) -> None:
            if chosen is not None:
                self._change(whitespace=chosen[0], guards=chosen[1])

        self.app.push_screen(GuardsDialog(self._draft.whitespace, self._draft.guards), take)

    @until_closed
    async def action_fix(self) -> None:
        """Apply the fixes that the findings offer; Ctrl+Z takes them back."""
        try:
            better = await deeply(with_fixes, self._draft)
        except ShapeError as error:
            self._say(f"The fixes need readable JSON: {error}")
            return
        if better is self._draft:
            self._say("There is nothing that could be fixed without asking.")
        else:
            self._replace(visible(better.text))
            self._say("Fixed; Ctrl+Z takes it back.")

    def action_revert(self) -> None:
        """Go back to what is saved, a new shape to its beginning; Ctrl+Z brings the text back."""
        begun = self._begun
        self.query_one(CodeArea).json = begun.kind == "json_schema"
        self._replace(begun.text)
        self._change(kind=begun.kind, whitespace=begun.whitespace, guards=begun.guards, text=begun.text)
        now = "As it is saved" if self._saved else "A new shape, as at its beginning"
        self._say(f"{now}; Ctrl+Z brings the text back.")

    def action_external(self) -> None:
        """Edit the text in the person's own editor."""
        self.run_worker(self._edit_outside(), group="editor")

    @until_closed
    async def _edit_outside(self) -> None:
        try:
            text = await edit(self.app, self._draft.text, suffix=_SUFFIXES[self._draft.kind])
        except EditorError as error:
            self._say(str(error))
        else:
            self._replace(visible(text))

    @until_closed
    async def action_test(self) -> None:
        """Test a document against the shape as it stands."""
        if (await deeply(look, self._draft)).usable:  # what is shown may be older than the last key
            self.app.push_screen(DocumentCheck(self._draft.spec()))
        else:
            self._say("The shape cannot be used yet; a document can be tested when it can.")

    def action_save(self) -> None:
        """Save the shape under a name."""

        def saved(name: str | None) -> None:
            if name is not None:
                self._drafts.pop(self._draft.name, None)
                self.dismiss(name)

        self.app.push_screen(SaveShape(self._draft, self._save_typed), saved)

    def action_leave(self) -> None:
        """Go back; unsaved changes are kept."""
        self._keep()
        self.dismiss(None)

    def _replace(self, text: str) -> None:
        """Replace the text as one edit."""
        self.query_one(CodeArea).put(text)

    def _show_top(self) -> None:
        draft = self._draft
        facts = [KINDS[draft.kind]]
        if draft.kind in ("json_schema", "lark"):
            facts += [f"white space {draft.whitespace}", guards_words(draft.guards) or "usual guards"]
        state = "" if self._saved and draft == self._begun else "  unsaved changes"
        self.query_one(".top", Line).put(
            Content.assemble(
                f"Shape {one_line(draft.name) or '(new)'}", (f"  {', '.join(facts)}", "dim"), state
            )
        )

    def _say(self, sentence: str) -> None:
        self.query_one(".said", Line).put(shown(sentence))
