"""Types for items of containers whose types are known."""

from __future__ import annotations

import operator
import typing

from ..graph import Graph
from ..node import Node

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Gives each node that takes an item of a typed tuple, list, dictionary or named tuple the type of that item.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
    >>> graph = torch.fx.symbolic_trace(lambda x: x[1]).graph
    >>> graph.find_nodes(op="placeholder")[0].type = tuple[int, float]
    >>> annotate_getitem_nodes(graph)
    >>> graph.find_nodes(op="call_function")[0].type
    <class 'float'>
    """
    for node in graph.nodes:
        if node.target is not operator.getitem or not isinstance(node.args[0], Node) or not node.args[0].type:
            continue
        kind, index = node.args[0].type, node.args[1]
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple and isinstance(index, int):
            if len(inside) == 2 and inside[1] is ...:
                node.type = inside[0]
            elif -len(inside) <= index < len(inside):
                node.type = inside[index]
        elif origin is list and inside:
            node.type = inside[0]
        elif origin is dict and len(inside) == 2:
            node.type = inside[1]
        elif hasattr(kind, "_fields") and isinstance(index, int):
            node.type = kind.__annotations__.get(kind._fields[index])
