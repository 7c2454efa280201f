"""A JSON value as a tree that folds, for long replies."""

import json
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static, Tree
from textual.widgets.tree import TreeNode

from app.terminal import one_line
from app.tui.screens.closing import Dialog
from grammars.schema import step

CHILDREN = 500
"""How many members or elements of one value are listed; the rest is counted."""


class JsonTree(Dialog[None]):
    """Shows a value; the path of the member under the cursor stands below. Children are made when a node opens."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close", id="tree.close"),
        Binding("a", "all(True)", "Unfold all", id="tree.open"),
        Binding("z", "all(False)", "Fold all", id="tree.close_all"),
    ]

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def compose(self) -> ComposeResult:
        """The tree, the path, the keys."""
        with Vertical(classes="dialog"):
            tree: Tree[tuple[str, Any]] = Tree(_label("", self._value), data=("$", self._value))
            yield tree
            yield Static("$", markup=False, classes="path")
            yield Static(
                "Enter folds, A unfolds all, Z folds all, Escape closes", markup=False, classes="hint"
            )

    def on_mount(self) -> None:
        """Open the first level."""
        tree = self.query_one(Tree)
        tree.root.expand()
        tree.focus()

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[tuple[str, Any]]) -> None:
        """Make the children of a node when they are first seen."""
        _fill(event.node)

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[tuple[str, Any]]) -> None:
        """Show the path of what is under the cursor."""
        if event.node.data is not None:
            self.query_one(".path", Static).update(one_line(event.node.data[0]))

    def action_all(self, unfold: bool) -> None:
        """Unfold or fold everything but the first level."""
        root = self.query_one(Tree).root
        for node in list(root.children):
            if unfold:
                _unfold(node)
            else:
                node.collapse_all()


def _unfold(node: TreeNode[tuple[str, Any]]) -> None:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        _fill(node)
        if node.children:
            node.expand()
        waiting.extend(node.children)


def _fill(node: TreeNode[tuple[str, Any]]) -> None:
    if node.children or node.data is None:
        return
    path, value = node.data
    if not isinstance(value, dict | list):
        return
    members = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, child in members[:CHILDREN]:
        data = (step(path, key), child)
        label = _label(f"{key}: " if isinstance(key, str) else f"{key}  ", child)
        if isinstance(child, dict | list) and child:
            node.add(label, data)
        else:
            node.add_leaf(label, data)
    if len(members) > CHILDREN:
        node.add_leaf(Text(f"… {len(members) - CHILDREN:,} more", style="dim"))


def _label(key: str, value: Any) -> Text:
    if isinstance(value, dict):
        text, style = f"{{{len(value)}}}", "dim"
    elif isinstance(value, list):
        text, style = f"[{len(value)}]", "dim"
    else:
        text, style = json.dumps(value, ensure_ascii=False), ""
    return Text.assemble((one_line(key), "bold"), (one_line(text), style))
