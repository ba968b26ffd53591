"""Parts of graphs that run in different places: what splitters of a program's own are written with."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...nn.modules.module import Module
from ..graph_module import GraphModule
from ..node import Node

__all__ = [
    "FxNetAccNodesFinder", "FxNetSplitterInternalError", "NodeEvent", "NodeEventTracker", "SplitResult", "Subgraph",
    "generate_inputs_for_submodules",
]  # fmt: skip


class FxNetSplitterInternalError(Exception):
    """A splitter made something that cannot be."""


@dataclass
class Subgraph:
    """Nodes that run together, on the accelerator or not."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """A module of parts, the inputs of each, and what the names of those beside the accelerator begin with."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


class NodeEvent:
    """Something that happened to a node, because of another or not."""

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source, self.desc, self.dep = source, desc, dep

    def to_str(self) -> str:
        """The event in one line."""
        return f"{self.source.name}: {self.desc} {'#' if self.dep is None else self.dep.name}"


class NodeEventTracker:
    """Keeps what happened to nodes. `tracker_mode` 0 keeps nothing, 1 writes all of it to files at the end (`dump`), 2 and 3 show it."""

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode, self.dump_prefix = int(tracker_mode), dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}  # numbers of events by the names of nodes

    def add(self, node: Node, desc: str, dep: Node | None = None) -> None:
        """Notes an event."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(self, node_name: str, recursive: bool = False, tab: str = "", writer: Any = print) -> None:
        """Writes the events of a node, and with `recursive` those of the nodes that they come from."""
        for number in self.node_events.get(node_name, ()):
            event = self.events[number]
            writer(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, True, tab + "| ", writer)

    def to_dict(self) -> dict[str, list[str]]:
        """The events of all nodes as texts."""
        return {name: [self.events[i].to_str() for i in numbers] for name, numbers in self.node_events.items()}

    def print_all(self, writer: Any = print) -> None:
        """Writes the events of all nodes."""
        for name in self.node_events:
            writer(f"Node: {name}:")
            self.print_node(name, tab="  ", writer=writer)

    def dump(self) -> None:
        """Writes all events to a file, in mode 1, or shows them, in modes 2 and 3."""
        if self.tracker_mode == 1:
            with open(f"{self.dump_prefix}_events.txt", "w", encoding="utf-8") as file:
                self.print_all(lambda line: file.write(f"{line}\n"))
        elif self.tracker_mode in (2, 3):
            self.print_all()


class FxNetAccNodesFinder:
    """Finds the nodes of a graph that an accelerator can run: those that `operator_support` names.

    Unless `allow_non_tensor`, values that are no tensors stay on one side: a node that gives one, or takes one from a node
    beside the accelerator, is not among them. `node.meta["type"]` says what a node gives.
    """

    def __init__(self, module: GraphModule, operator_support: Any, allow_non_tensor: bool) -> None:
        self.module, self.operator_support, self.allow_non_tensor = module, operator_support, allow_non_tensor
        self.acc_nodes: set[Node] = set()
        self.tracker = NodeEventTracker(0, "")

    def __call__(self) -> set[Node]:
        submodules = dict(self.module.named_modules())
        for node in self.module.graph.nodes:
            if node.op in ("call_function", "call_method", "call_module"):
                if self.operator_support.is_node_supported(submodules, node):
                    self.acc_nodes.add(node)
                    self.tracker.add(node, "init_acc|callable_and_operator_supported")
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        return self.acc_nodes

    @staticmethod
    def _gives_tensors(node: Node) -> bool:
        kind = node.meta.get("type")
        return isinstance(kind, type) and issubclass(kind, Tensor)

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: list[Node]) -> None:
        """Takes out what uses values that are no tensors and come from nodes beside the accelerator."""
        while cpu_worklist:
            node = cpu_worklist.pop()
            for user in node.users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                    if not self._gives_tensors(user):
                        cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Takes out nodes whose inputs would be no tensors."""
        calls = ("call_function", "call_method", "call_module")
        beside = [n for n in self.module.graph.nodes if n.op in calls and n not in self.acc_nodes]
        self.reduce_acc_nodes_non_tensor_input_helper([n for n in beside if not self._gives_tensors(n)])

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Takes out nodes whose results are no tensors and are used beside the accelerator, until there are none."""
        while True:
            found = [
                n
                for n in self.acc_nodes
                if not self._gives_tensors(n) and any(u not in self.acc_nodes for u in n.users)
            ]
            if not found:
                return
            for node in found:
                self.acc_nodes.remove(node)
                self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user")
            self.reduce_acc_nodes_non_tensor_input_helper(found)


def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """What submodules get when a model runs on `inputs`, by their names.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.splitter_base import generate_inputs_for_submodules
    >>> model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU())
    >>> generate_inputs_for_submodules(model, (torch.ones(1),), ["1"])
    {'1': (tensor([1.]),)}
    """
    found: dict[str, Any] = {}
    wanted = set(target_submodules)
    handles = []
    for name, part in model.named_modules():
        if name in wanted:

            def keep(module: Module, args: Any, name: str = name) -> None:
                found[name] = copy.deepcopy(args) if deepcopy else args

            handles.append(part.register_forward_pre_hook(keep))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
