"""A recorded graph as an `fx.GraphModule` of aten operators, for backends that users write."""

from __future__ import annotations

from typing import Any

from .. import fx
from .._compile.graph import Graph, Value, replaced
from .._interception.torch_dispatch import aten_call
from ..fx._recorded import part_of


def graph_module(graph: Graph) -> fx.GraphModule:
    """The graph; its inputs are those of the graph, then its constants; it gives a tuple."""
    made = fx.Graph()
    nodes: dict[Value, Any] = {}
    for i, v in enumerate((*graph.inputs, *graph.constants)):
        nodes[v] = made.placeholder(f"arg{i}_1")
    for node in graph.nodes:
        if node.opaque:
            function, args, named = node.op, node.args, node.named
        else:
            function, args, named = aten_call(node.op, node.args)
        call = made.call_function(
            function, replaced(tuple(args), Value, nodes.__getitem__), replaced(named, Value, nodes.__getitem__)
        )
        call.meta["line"] = node.line
        nodes.update((v, part_of(call, i) if node.several else call) for i, v in enumerate(node.outs) if v is not None)
    made.output(tuple(nodes[v] for v in graph.outputs))
    return fx.GraphModule({}, made)
