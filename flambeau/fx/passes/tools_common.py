"""What tools that take graphs apart ask of nodes, and the order of nodes."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._tensor import Tensor
from .._names import _as_torch, qualified_name
from ..graph_module import GraphModule
from ..node import Node

__all__ = [
    "FxNetAccFusionsFinder", "get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph",
    "stable_topological_sort",
]  # fmt: skip

Tensors = tuple[Tensor] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: Any) -> str:
    """The name of an operator: of a text itself, of a function or class where it is found."""
    if isinstance(k, str):
        return k
    if "acc_ops" in (getattr(k, "__module__", None) or ""):
        return f"acc_ops.{k.__name__}"
    return _as_torch(f"{k.__module__}.{k.__name__}") if isinstance(k, type) else qualified_name(k)


def get_node_target(submodules: Mapping[str, Any], node: Node) -> str:
    """What a node calls, as a name: of a function, of a method, or of the class of a module.

    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> get_node_target(dict(module.named_modules()), module.graph.find_nodes(op="call_module")[0])
    'torch.nn.modules.activation.ReLU'
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of call_method, call_module, call_function, but found {node.op}")
    if node.op == "call_method":
        return str(node.target)
    if node.op == "call_module":
        module = submodules[str(node.target)]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    return get_acc_ops_name(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, as `ShapeProp` has noted."""
    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, Tensor)


class FxNetAccFusionsFinder:
    """Finds groups of an accelerator's nodes that values other than tensors hold together; they must not be parted."""

    @dataclass
    class FusionGroup:
        """Nodes that stay together, the number of the first of them, what they take, and who is still to be looked at."""

        top_node_idx: int
        nodes: set[Node]
        inputs: set[Node]
        nodes_need_process: set[Node]

        def add_node(self, node: Node) -> None:
            """Takes a node in."""
            if node in self.nodes:
                return
            self.nodes_need_process.add(node)
            self.nodes.add(node)
            self.inputs.discard(node)
            self.inputs.update(n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS and n not in self.nodes)

    def __init__(self, module: GraphModule, acc_nodes: set[Node]) -> None:
        self.module, self.acc_nodes = module, acc_nodes
        self.nodes = list(module.graph.nodes)

    def recursive_add_node(
        self, fusion_group: FxNetAccFusionsFinder.FusionGroup, inputs: Iterable[Node], visited: set[Node] | None = None
    ) -> bool:
        """Takes in what lies between the group and nodes of the group that these inputs come from; whether anything does."""
        seen = set() if visited is None else visited
        places = {n: i for i, n in enumerate(self.nodes)}
        found = False
        for node in inputs:
            if node in fusion_group.nodes:
                found = True
                continue
            if node in seen or places[node] < fusion_group.top_node_idx:
                continue
            seen.add(node)
            if self.recursive_add_node(fusion_group, node.all_input_nodes, seen):
                fusion_group.add_node(node)
                found = True
        return found

    def __call__(self) -> dict[Node, set[Node]]:
        result: dict[Node, set[Node]] = {}
        places = {n: i for i, n in enumerate(self.nodes)}
        for node in self.nodes:
            if node not in self.acc_nodes or node in result or is_node_output_tensor(node):
                continue
            group = self.FusionGroup(places[node], {node}, set(node.all_input_nodes), {node})
            while group.nodes_need_process:
                current = group.nodes_need_process.pop()
                self.recursive_add_node(group, group.inputs)
                if "tensor_meta" not in current.meta and not is_node_output_tensor(current):
                    for user in current.users:  # a value that is no tensor stays where it is used
                        if user.op in CALLABLE_NODE_OPS and user not in group.nodes:
                            group.add_node(user)
                for given in current.all_input_nodes:
                    if given.op not in CALLABLE_NODE_OPS or is_node_output_tensor(given) or given in group.nodes:
                        continue
                    group.add_node(given)
                    group.top_node_idx = min(group.top_node_idx, places[given])
            if not group.nodes <= self.acc_nodes:
                self.acc_nodes -= group.nodes
            else:
                result.update({n: group.nodes for n in group.nodes})
        return result


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Puts nodes after what they take, and leaves them in their order otherwise."""
    places = {n: i for i, n in enumerate(gm.graph.nodes)}
    missing = {n: len(n.all_input_nodes) for n in places}
    nodes = list(places)
    ready = [i for n, i in places.items() if not missing[n]]  # in order: a heap
    order: list[Node] = []
    while ready:
        order.append(nodes[heapq.heappop(ready)])
        for user in order[-1].users:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, places[user])
    return _in_order(gm, order, missing)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Puts nodes after what they take: inputs first, then attributes, then the others as soon as they can be computed."""
    missing = {n: len(n.all_input_nodes) for n in gm.graph.nodes}
    first = {"placeholder": 0, "get_attr": 1, "output": 3}
    ready = deque(sorted((n for n in missing if not missing[n]), key=lambda n: first.get(n.op, 2)))
    order: list[Node] = []
    while ready:
        order.append(ready.popleft())
        for user in order[-1].users:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return _in_order(gm, order, missing)


def _in_order(gm: GraphModule, order: list[Node], missing: dict[Node, int]) -> GraphModule:
    if len(order) != len(missing):
        late = ", ".join(n.name for n, count in missing.items() if count)
        raise RuntimeError(f"Input graph has cycles, unable to add {late}")
    for node in order:
        gm.graph._root.prepend(node)
    return gm
