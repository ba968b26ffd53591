"""The nodes that came of one module or function of the program, in an exported graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph
from ...node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """Nodes of one call: what it is a call of, what they take from others, give to others, and which attributes they read."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """The calls of the wanted modules (classes) and functions, as `node.meta["source_fn_stack"]` tells them."""
    found: dict[Any, dict[Any, list[Node]]] = {}
    for node in graph.nodes:
        stack = node.meta.get("source_fn_stack") or node.meta.get("torch_fn_stack")
        if stack is None:
            continue
        name, source = stack[-1]
        if source in wanted_sources:
            found.setdefault(source, {}).setdefault(name, []).append(node)

    def partition(nodes: list[Node], source: Any) -> SourcePartition:
        inputs: dict[Node, None] = {}
        outputs: dict[Node, None] = {}
        params: dict[Node, None] = {}
        for node in nodes:
            for given in node.all_input_nodes:
                if given not in nodes and given.op != "get_attr":
                    inputs[given] = None
            if node.op == "get_attr":
                params[node] = None
            params.update((given, None) for given in node.all_input_nodes if given.op == "get_attr")
            if any(user not in nodes for user in node.users):
                outputs[node] = None
        return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))

    made = {source: [partition(n, source) for n in calls.values()] for source, calls in found.items()}
    if filter_fn is None:
        return made
    kept = {s: [p for p in parts if all(filter_fn(n) for n in p.output_nodes)] for s, parts in made.items()}
    return {s: parts for s, parts in kept.items() if parts}


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether a call takes what another gives."""
    return any(node in subgraph2.input_nodes for node in subgraph1.output_nodes)
