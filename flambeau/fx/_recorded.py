"""Calls that were recorded, as nodes of a graph: what a call gave stands in `meta["val"]`."""

from __future__ import annotations

import operator
from typing import Any

from .._tensor import Tensor
from .graph import Graph
from .node import Node


def add_call(
    graph: Graph, target: Any, args: Any, kwargs: Any, val: Any, meta: Any = (), name: str | None = None
) -> list[Any]:
    """Adds a call; gives the nodes of its results, one for each where there are several (None for what is no tensor)."""
    name = name or getattr(target, "_opname", None)
    node = graph.create_node("call_function", target, tuple(args), dict(kwargs), name=name)
    node.meta.update(meta, val=val)
    if not isinstance(val, (list, tuple)):
        return [node]
    return [part_of(node, i) if isinstance(v, Tensor) else None for i, v in enumerate(val)]


def part_of(node: Node, i: int) -> Node:
    """One of several results of a node."""
    part = node.graph.create_node("call_function", operator.getitem, (node, i))
    part.meta.update(node.meta)
    if "val" in node.meta:
        part.meta["val"] = node.meta["val"][i]
    return part
