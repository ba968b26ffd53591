"""`CapabilityBasedPartitioner`: the largest parts of a graph that a place can run, each as one submodule."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from ..._names import qualified_name
from ...graph_module import GraphModule
from ...node import Node
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes that run together."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None
    ) -> None:
        self.id = id
        members = list(nodes or ())
        orders: list[int | None] = list(node_orders) if node_orders is not None else [None] * len(members)
        self.nodes: dict[Node, int | None] = dict(zip(members, orders))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Takes a node in."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Takes a node out."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Finds parts of a graph whose nodes are all supported, and makes them submodules.

    Parts never depend on each other in a circle. A part of one node is kept if `allows_single_node_partition`, and a
    part of nothing but `non_compute_ops` is not.

    >>> import operator
    >>> import flambeau as torch
    >>> from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from flambeau.fx.passes.operator_support import create_op_support
    >>> whole = torch.fx.symbolic_trace(lambda x: ((x + 1) + x).relu())
    >>> adds = create_op_support(lambda modules, node: node.target is operator.add)
    >>> print(CapabilityBasedPartitioner(whole, adds).partition_and_fuse().code.strip())
    def forward(self, x):
        fused_0 = self.fused_0(x);  x = None
        relu = fused_0.relu();  fused_0 = None
        return relu
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """The parts, those at the end of the graph first."""
        nodes = list(self.graph_module.graph.nodes)
        places = {n: i for i, n in enumerate(nodes)}
        modules = dict(self.graph_module.named_modules())
        parts = _Parts()
        for node in reversed(nodes):
            if not self.operator_support.is_node_supported(modules, node):
                continue
            parts.begin(node)
            beside = dict.fromkeys(parts.home[user] for user in node.users if user in parts.home)
            if not self.skip_horizontal_fusion:
                beside.update(dict.fromkeys(parts.members))
            beside.pop(parts.home[node], None)
            for other in beside:
                parts.join(other, parts.home[node])
        self._keep_items_together(nodes, parts)
        found = []
        for i, members in parts.members.items():
            ordered = sorted(members, key=places.__getitem__)
            if ordered and self._worthwhile(ordered):
                found.append(Partition(i, ordered, [places[n] for n in ordered]))
        found.sort(key=lambda p: -max(places[n] for n in p.nodes))
        for i, partition in enumerate(found):
            partition.id = i
        return found

    @staticmethod
    def _keep_items_together(nodes: list[Node], parts: _Parts) -> None:
        """Items of a result are where it is computed: parts give tensors to each other, not tuples."""
        for node in nodes:
            if node.op == "call_function" and node.target is operator.getitem and isinstance(node.args[0], Node):
                source = parts.home.get(node.args[0])
                if node in parts.home and source != parts.home[node]:
                    parts.members[parts.home.pop(node)].remove(node)
                if source is not None and node not in parts.home:
                    parts.home[node] = source
                    parts.members[source].add(node)

    def _worthwhile(self, nodes: list[Node]) -> bool:
        idle = {*self.non_compute_ops, "_operator.getitem"}
        names = [qualified_name(n.target) for n in nodes if n.op == "call_function"]
        if not self.allows_single_node_partition:
            computing = [name for name in names if name not in idle]
            others = [n for n in nodes if n.op in ("call_module", "call_method")]
            if len(computing) + len(others) <= 1:
                return any(name in self.allowed_single_node_partition_ops for name in names)
        return True

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Each part as a submodule, whose call takes its place."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes nodes that compute nothing out of parts, where they begin or end one."""
        for partition in partitions:
            idle = {
                n
                for n in partition.nodes
                if n.op == "call_function" and qualified_name(n.target) in self.non_compute_ops
            }
            for beside in (lambda n: n.all_input_nodes, lambda n: list(n.users)):
                changed = True
                while changed:
                    outer = [
                        n for n in idle if n in partition.nodes and not any(m in partition.nodes for m in beside(n))
                    ]
                    changed = bool(outer)
                    for node in outer:
                        partition.remove_node(node)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Finds the parts and makes them submodules."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


class _Parts:
    """Parts while they grow. None of them depends on itself through what lies outside of it."""

    def __init__(self) -> None:
        self.home: dict[Node, int] = {}
        self.members: dict[int, set[Node]] = {}

    def begin(self, node: Node) -> None:
        """A part of one node."""
        self.home[node] = max(self.members, default=-1) + 1
        self.members[self.home[node]] = {node}

    def join(self, first: int, second: int) -> None:
        """Makes one part of two, unless something outside would lie between its nodes."""
        if first == second or self._reaches_itself(self.members[first] | self.members[second]):
            return
        for node in self.members[second]:
            self.home[node] = first
        self.members[first] |= self.members.pop(second)

    def _reaches_itself(self, joined: set[Node]) -> bool:
        seen = set(joined)
        todo = [user for node in joined for user in node.users if user not in joined]
        while todo:
            node = todo.pop()
            if node in joined:
                return True
            if node not in seen:  # a part on the way runs as a whole
                group = self.members[self.home[node]] if node in self.home else {node}
                seen |= group
                todo += [user for member in group for user in member.users if user not in group]
        return False
