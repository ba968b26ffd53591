"""What is known of a node while it runs, for the nodes that are recorded meanwhile."""

from __future__ import annotations

import copy
import enum
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node

__all__ = [
    "NodeSource", "NodeSourceAction", "annotate", "annotate_fn", "format_stack", "get_current_meta",
    "get_current_replay_node", "get_graph_provenance_json", "has_preserved_node_meta", "preserve_node_meta",
    "reset_grad_fn_seq_nr", "set_current_meta", "set_current_replay_node", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip

# What a recorded node takes over from the one that runs.
_KEPT = (
    "nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "ac_graph_id", "has_backward_hook",
    "from_node", "quantization_tag", "_numeric_debug_handle", "custom", "partitioner_tag", "stack_trace",
)  # fmt: skip


class NodeSourceAction(enum.Enum):
    """What a pass did with a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Which node another one comes from, and by which pass."""

    def __init__(
        self, node: Node | None, pass_name: str = "", action: NodeSourceAction | list[NodeSourceAction] | None = None
    ) -> None:
        self.pass_name = pass_name
        self.action = action if isinstance(action, list) else [] if action is None else [action]
        self.name = "" if node is None else node.name
        self.target = "" if node is None else str(node.target)
        self.graph_id = -1 if node is None else id(node.graph)
        self.from_node: list[NodeSource] = [] if node is None else copy.copy(node.meta.get("from_node", []))

    def _get_action_string(self) -> str:
        return "+".join(a.name.lower() for a in self.action)

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """This source and those behind it, a line for each."""
        said = ", ".join(
            f"{name}={value}"
            for name, value in (
                ("name", self.name),
                ("pass_name", self.pass_name),
                ("action", self._get_action_string()),
                ("graph_id", self.graph_id),
            )
        )
        return "    " * indent + f"({said})\n" + "".join(s.print_readable(indent + 1) for s in self.from_node)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [s.to_dict() for s in self.from_node],
        }

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        if d is None:
            return None
        made = cls(None, d.get("pass_name", ""))
        made.action = [NodeSourceAction[name.upper()] for name in d.get("action", "").split("+") if name]
        made.name, made.target, made.graph_id = d.get("name", ""), d.get("target", ""), d.get("graph_id", -1)
        made.from_node = [s for s in map(cls._from_dict, d.get("from_node", [])) if s is not None]
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.target, self.graph_id, self.pass_name, tuple(self.from_node)))


_meta: dict[str, Any] = {}
_preserving = False
_replayed: Node | None = None


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A block in which recorded nodes take over what is known of the node that runs."""
    global _preserving, _meta
    before = _preserving, _meta
    _preserving, _meta = enable, dict(_meta)
    try:
        yield
    finally:
        _preserving, _meta = before


def has_preserved_node_meta() -> bool:
    """Whether such a block is on."""
    return _preserving


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A block whose nodes have these entries in `node.meta["custom"]`.

    >>> import flambeau as torch
    >>> with torch.fx.traceback.preserve_node_meta(), torch.fx.traceback.annotate({"stage": 1}):
    ...     graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
    >>> graph.find_nodes(op="call_function")[0].meta["custom"]
    {'stage': 1}
    """
    before = _meta.get("custom")
    _meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            _meta.pop("custom", None)
        else:
            _meta["custom"] = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for all that a function does."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    """The lines of the program that recorded nodes come from."""
    if _preserving and stack:
        _meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """The number of the step of the backward pass that runs."""
    if _preserving:
        _meta["grad_fn_seq_nr"] = [*_meta.get("grad_fn_seq_nr", []), seq_nr]
        _meta["in_grad_fn"] = _meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """The end of that step."""
    if _preserving and _meta.get("in_grad_fn", 0) > 0:
        _meta["in_grad_fn"] -= 1
        _meta["grad_fn_seq_nr"].pop()
        if not _meta["in_grad_fn"]:
            del _meta["in_grad_fn"], _meta["grad_fn_seq_nr"]


def format_stack() -> list[str]:
    """The lines that the node that runs comes from, else those that run now."""
    if _preserving:
        return [_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A block in which a node runs."""
    global _meta
    if not (_preserving and node.meta):
        yield
        return
    before = _meta
    _meta = dict(node.meta)
    if "from_node" not in _meta or _meta["from_node"][-1].graph_id != id(node.graph):
        _meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    try:
        yield
    finally:
        _meta = before


def get_current_meta() -> dict[str, Any]:
    """What is known of the node that runs."""
    return _meta


def carry_over(node: Node) -> None:
    """Gives a node that was just recorded what is known of the one that runs."""
    for name in _KEPT:
        if name in _meta and name not in node.meta:
            value = _meta[name]
            node.meta[name] = dict(value) if name == "custom" else copy.copy(value)


@contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """A block in which a node is run again."""
    global _replayed
    before, _replayed = _replayed, node
    try:
        yield
    finally:
        _replayed = before


def get_current_replay_node() -> Node | None:
    """The node that is run again."""
    return _replayed


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """Where the nodes of a graph come from, by their names."""
    return {n.name: [s.to_dict() for s in n.meta["from_node"]] for n in graph.nodes if "from_node" in n.meta}
