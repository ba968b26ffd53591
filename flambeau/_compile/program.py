"""Runs a graph: steps over the memory of its values, in the graph's order."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.state import local
from .._tensor import Tensor, detached
from .graph import Graph, Node, Value, replaced


class Program:
    """A graph that can be run on other inputs.

    >>> import flambeau as torch
    >>> from flambeau._compile.capture import Capture
    >>> x = torch.tensor([1.0, 2.0])
    >>> with Capture([x]) as tape:
    ...     y = x * 3
    >>> Program(tape.finish([y])).run([torch.tensor([2.0, 4.0])])
    [tensor([ 6., 12.])]
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        last: dict[Value, Node] = {}
        for node in graph.nodes:
            for v in (*node.operands(), *node.outs):
                if v is not None:
                    last[v] = node
        kept = {*graph.outputs, *graph.inputs, *graph.constants}
        self._dead = {id(node): [v for v, n in last.items() if n is node and v not in kept] for node in graph.nodes}

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these inputs, without history."""
        values: dict[Value, Tensor] = {v: detached(t) for v, t in self.graph.constants.items()}
        values.update(zip(self.graph.inputs, map(detached, inputs)))
        outer, local.grad = local.grad, False
        try:
            for node in self.graph.nodes:
                out = node.op(
                    *replaced(node.args, Value, values.__getitem__),
                    **replaced(node.named or {}, Value, values.__getitem__),
                )
                values.update(zip(node.outs, out if node.several else (out,)))  # type: ignore[arg-type]
                for v in self._dead[id(node)]:
                    values.pop(v, None)
        finally:
            local.grad = outer
        return [values[v] for v in self.graph.outputs]
