"""`split_module`: a graph as several modules, each with the nodes that a function gives it, and one that calls them in order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...nn.modules.module import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg

__all__ = ["Partition", "split_module"]


class Partition:
    """A part: its nodes, what it takes and gives (nodes of the whole, in the order of their use), and the parts that it needs."""

    def __init__(self, name: str):
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.targets: dict[str, Any] = {}  # modules and tensors that its nodes name

    def __repr__(self) -> str:
        return f"name: {self.name}, nodes: {self.node_names}, inputs: {[n.name for n in self.inputs]}, outputs: {[n.name for n in self.outputs]}"

    def build(
        self, root: Module, qualnames: dict[str, str] | None, keep_names: bool, input_names: bool, as_tuple: bool
    ) -> GraphModule:
        """The part as a module."""
        copies: dict[Node, Node] = {}
        for i, node in enumerate(self.inputs):
            copies[node] = self.graph.placeholder(node.name if input_names else f"arg_{i}", node.type)
            copies[node].meta = dict(node.meta)
        for node in self.nodes:
            target = node.target
            if node.op == "call_module":
                target = str(node.target).replace(".", "_")
                self.targets[target] = root.get_submodule(str(node.target))
                if qualnames is not None:
                    qualnames[f"{self.submod_name}.{target}"] = str(node.target)
            args, named = (map_arg(a, copies.__getitem__) for a in (node.args, node.kwargs))
            made = self.graph.create_node(node.op, target, args, named, node.name if keep_names else None, node.type)
            made.meta = dict(node.meta)
            copies[node] = made
        given = tuple(copies[node] for node in self.outputs)
        self.graph.output(given if as_tuple or len(given) != 1 else given[0])
        return GraphModule(self.targets, self.graph)


def split_module(
    m: GraphModule, root_m: Module, split_callback: Callable[[Node], Any], qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False, keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
    partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """A module of `submod_…` modules, one for each answer of `split_callback(node)`; together they do what `m` does.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_module import split_module
    >>> whole = torch.fx.symbolic_trace(lambda x: (x.sin() + 1).cos())
    >>> parts = split_module(whole, whole, lambda node: int(node.name == "cos"))
    >>> print(parts.code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    >>> torch.equal(parts(torch.ones(2)), whole(torch.ones(2)))
    True
    """
    root = m if root_m is None else root_m
    partitions = _divided(m, split_callback, partition_affix)
    names = list(partitions) if keep_original_order else _ordered(partitions)
    graph, copies, held = Graph(), dict[Node, Any](), dict[str, Any]()
    for op in ("placeholder", "get_attr"):  # what parts need of the whole is given to them
        for node in m.graph.nodes:
            if node.op == op:
                copies[node] = graph.node_copy(node)
                if op == "get_attr":
                    held[str(node.target)] = _found(root, str(node.target))
    done: set[str] = set()
    for name in names:
        part = partitions[name]
        if not done.issuperset(part.dependencies):
            raise RuntimeError("cycle exists between partitions!")
        done.add(name)
        held[part.submod_name] = part.build(
            root, qualname_map, bool(keep_original_node_name), keep_original_input_name, tuple_return
        )
        call = graph.call_module(part.submod_name, tuple(copies[node] for node in part.inputs))
        if len(part.outputs) == 1 and not tuple_return:
            copies[next(iter(part.outputs))] = call
        else:
            for i, node in enumerate(part.outputs):
                copies[node] = graph.call_function(operator.getitem, (call, i))
    for node in m.graph.nodes:
        if node.op == "output":
            graph.output(map_arg(node.args[0], copies.__getitem__))
    return GraphModule(held, graph)


def _divided(m: GraphModule, choose: Callable[[Node], Any], affix: str | None) -> dict[str, Partition]:
    """The parts by name, in the order of their first nodes."""
    partitions: dict[str, Partition] = {}
    home: dict[Node, Partition] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        answer = str(choose(node))
        name = answer if affix is None else f"{affix}_{answer}"
        part = home[node] = partitions.setdefault(name, Partition(name))
        part.nodes.append(node)
        part.node_names.append(node.name)
    for node in m.graph.nodes:
        user = home.get(node)
        for given in node.all_input_nodes:
            maker = home.get(given)
            if maker is user or (user is None and maker is None):
                continue
            if maker is not None:
                maker.outputs[given] = None
            if user is not None:
                user.inputs[given] = None
            if maker is not None and user is not None:
                maker.dependents[user.name] = None
                user.dependencies[maker.name] = None
    return partitions


def _ordered(partitions: dict[str, Partition]) -> list[str]:
    """The parts so that each comes after those that it needs."""
    ready = [name for name, part in partitions.items() if not part.dependencies]
    order: list[str] = []
    while ready:
        order.append(ready.pop())
        for name in partitions[order[-1]].dependents:
            if name not in order and name not in ready and partitions[name].dependencies.keys() <= set(order):
                ready.append(name)
    if len(order) != len(partitions):
        raise RuntimeError("cycle exists between partitions!")
    return order


def _found(root: Module, path: str) -> Any:
    found: Any = root
    for name in path.split("."):
        found = getattr(found, name)
    return found
