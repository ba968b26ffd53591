"""Values that are computed twice, computed once."""

from __future__ import annotations

from typing import Any

from ....._library.namespaces import ops
from .....utils import _pytree as pytree
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node, map_arg
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = (
    "_fused_dropout _standard_gamma bernoulli binomial dropout multinomial native_dropout normal poisson rand rand_like "
    "randint randn randperm rrelu"
)
_IN_PLACE = "add_ div_ lerp_ mul_ pow_ relu_ sigmoid_ sub_ tanh_"


def get_CSE_banned_ops() -> set[Any]:
    """Operators whose calls are not alike even with the same arguments: random ones, and writes."""
    return {getattr(ops.aten, name) for name in f"{_RANDOM} {_IN_PLACE}".split() if hasattr(ops.aten, name)}


class CSEPass(PassBase):
    """Takes the first of several calls of an operator with the same arguments for all of them.

    Calls of `banned_ops`, and all calls that write, stay as they are.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.dialect.common.cse_pass import CSEPass
    >>> module = torch.fx.symbolic_trace(lambda x: torch.sin(x) + torch.sin(x))
    >>> print(CSEPass()(module).graph_module.code.strip())
    def forward(self, x):
        sin = torch.sin(x);  x = None
        add = sin + sin;  sin = None
        return add
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        super().__init__()
        self.banned_ops = banned_ops or set()

    def call(self, graph_module: GraphModule) -> PassResult:
        """A module with each value computed once, and whether that changed anything."""
        made = Graph()
        copies: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        modified = False
        for node in graph_module.graph.nodes:
            key = self._key(node, copies)
            if key is not None and key in known:
                copies[node], modified = known[key], True
                continue
            copies[node] = made.node_copy(node, copies.__getitem__)
            if key is not None:
                known[key] = copies[node]
        made._codegen = graph_module.graph._codegen
        return PassResult(GraphModule(graph_module, made), modified)

    def _key(self, node: Node, copies: dict[Node, Node]) -> Any:
        """What calls that are alike have in common; None if this one is like no other."""
        target: Any = node.target
        packet = getattr(target, "overloadpacket", target)
        if node.op in ("placeholder", "output", "get_attr") or packet in self.banned_ops or target in self.banned_ops:
            return None
        if node.is_impure(impure_random=False):
            return None
        leaves, spec = pytree.tree_flatten(
            (map_arg(node.args, copies.__getitem__), map_arg(dict(node.kwargs), copies.__getitem__))
        )
        key = target, node.op, tuple((type(leaf), leaf) for leaf in leaves), spec
        try:
            hash(key)
        except TypeError:
            return None
        return key
