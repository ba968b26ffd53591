"""Cuts the graph of a forward and a backward pass into two, with what the first has to keep for the second."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from .. import fx

__all__ = ["default_partition", "draw_graph", "min_cut_rematerialization_partition"]


def _is_primal(node: fx.Node) -> bool:
    return node.op == "placeholder" and "tangents" not in str(node.target)


def _is_tangent(node: fx.Node) -> bool:
    return node.op == "placeholder" and "tangents" in str(node.target)


def _part(
    joint: fx.GraphModule, inputs: Sequence[fx.Node], outputs: Sequence[Any], wanted: set[fx.Node]
) -> fx.GraphModule:
    """The module that computes some outputs from some values of a graph, by nodes of it."""
    made, known = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in inputs:
        known[node] = made.placeholder(node.name)
        known[node].meta = dict(node.meta)
    for node in joint.graph.nodes:
        if node in wanted and node not in known and node.op != "placeholder":
            known[node] = made.node_copy(node, lambda a: known[a])
    made.output(tuple([known[a] if isinstance(a, fx.Node) else a for a in outputs]))
    return fx.GraphModule(joint, made)


def _above(ends: Iterable[Any]) -> set[fx.Node]:
    """The nodes that some nodes are computed from, and these."""
    found, waiting = set[fx.Node](), [a for a in ends if isinstance(a, fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def default_partition(
    joint_module: fx.GraphModule,
    _joint_inputs: Any,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Any = None,
    static_lifetime_input_nodes: Any = None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Two modules for a graph of both passes: the first gives its outputs, then what the second needs before the tangents.

    What the outputs need not is computed by the second, unless something is written in the graph: then its time matters.
    """
    nodes = list(joint_module.graph.nodes)
    (outputs,) = nodes[-1].args
    results, gradients = list(outputs[:num_fwd_outputs]), list(outputs[num_fwd_outputs:])
    later = {node for node in nodes if _is_tangent(node)}
    for node in nodes[:-1]:
        if later.intersection(node.all_input_nodes):
            later.add(node)
    writes = any([node.is_impure() for node in nodes if node.op == "call_function"])
    first = {n for n in nodes[:-1] if n not in later} if writes else _above(results)
    for node in nodes[:-1]:  # parts of what has several results are kept, not all of it
        if node.target is operator.getitem and node.all_input_nodes[0] in first and node.op == "call_function":
            first.add(node)
    needed = _above(gradients) - first
    direct = [a for a in gradients if isinstance(a, fx.Node) and a in first]
    used = {a for node in needed for a in node.all_input_nodes}.union(direct)
    kept = [n for n in nodes if n in used and (n in first or _is_primal(n)) and not _is_tangent(n)]
    forward = _part(joint_module, [n for n in nodes if _is_primal(n)], [*results, *kept], first)
    tangents = [n for n in nodes if _is_tangent(n)]
    return forward, _part(joint_module, [*kept, *tangents], gradients, needed | set(kept))


def min_cut_rematerialization_partition(
    joint_module: fx.GraphModule,
    _joint_inputs: Any,
    compiler: str = "inductor",
    *,
    num_fwd_outputs: int,
    **options: Any,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """`default_partition`: which values are made again is decided where programs of ours are made, not in graphs for others."""
    return default_partition(joint_module, _joint_inputs, num_fwd_outputs=num_fwd_outputs)


def draw_graph(traced: Any, fname: str, figname: str = "fx_graph", **options: Any) -> None:
    """Refused: `torch.fx.passes.graph_drawer` draws graphs."""
    raise NotImplementedError("draw_graph: use torch.fx.passes.graph_drawer.FxGraphDrawer")
