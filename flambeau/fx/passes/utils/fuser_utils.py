"""Nodes of a graph made into submodules that take their place."""

from __future__ import annotations

import heapq
import operator

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import stable_topological_sort
from .common import lift_subgraph_as_module

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: list[Node]) -> list[Node]:
    """These nodes so that each stands after those that it takes, and otherwise in their order."""
    places = {n: i for i, n in enumerate(nodes)}
    missing = {n: sum(given in places for given in n.all_input_nodes) for n in nodes}
    ready = [i for n, i in places.items() if not missing[n]]
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for user in node.users:
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, places[user])
    if len(order) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return order


def validate_partition(partition: list[Node]) -> bool:
    """Whether nodes can be one: nothing outside lies between them."""
    inside = set(partition)
    seen: set[Node] = set()
    todo = [user for node in partition for user in node.users if user not in inside]
    while todo:
        node = todo.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            todo += node.users
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: list[Node],
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """A module of these nodes, which stand in order, the nodes that it takes, and those that it gives.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.utils.fuser_utils import fuse_as_graphmodule
    >>> whole = torch.fx.symbolic_trace(lambda x: x.sin().cos() + 1)
    >>> part, taken, given = fuse_as_graphmodule(whole, whole.graph.find_nodes(op="call_method"), "part")
    >>> print(part.code.strip(), taken, given)
    def forward(self, x):
        sin = x.sin();  x = None
        cos = sin.cos();  sin = None
        return cos (x,) (cos,)
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes) if partition_lookup_table is None else set(partition_lookup_table)
    part = Graph()
    copies: dict[Node, Node] = {}
    taken: dict[Node, Node] = {}

    for node in nodes:
        for value in node.all_input_nodes:
            if value not in inside and value not in taken:
                taken[value] = part.placeholder(value.name, value.type)
                taken[value].meta = dict(value.meta)
    for node in nodes:
        copies[node] = part.node_copy(node, lambda n: taken.get(n) or copies[n])
    given = tuple(node for node in nodes if any(user not in inside for user in node.users))
    results = tuple(copies[node] for node in given)
    part.output(results if always_return_tuple or len(results) != 1 else results[0])
    part.lint()
    module, _ = lift_subgraph_as_module(gm, part, comp_name="", class_name=module_name)
    return module, tuple(taken), given


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Calls a module behind its inputs (or before `insertion_point`), and gives its results to the users of the nodes it replaces."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is not None:
        place = insertion_point
    else:
        place = max(orig_inputs, default=gm.graph._root).next
    with gm.graph.inserting_before(place):
        call = gm.graph.call_module(name, args=orig_inputs)
        single = len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple)
        for i, old in enumerate(orig_outputs):
            new = call if single else gm.graph.call_function(operator.getitem, (call, i))
            old.replace_all_uses_with(new)
            new.meta = dict(old.meta)
        if not single:
            call.meta["val"] = tuple(old.meta.get("val") for old in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Removes nodes that stand in order."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Each of these sets of nodes becomes a submodule, whose call takes their place."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        module, taken, given = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{i}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, module, taken, given, nodes[-1].next)
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
