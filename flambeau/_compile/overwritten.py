"""Values that are written over as a whole: whoever reads one afterwards reads what was written, and nothing is copied.

`relu_()` is a new value, and a copy of it over the old one. A backward pass may need both, which are the same by then.
"""

from __future__ import annotations

from .._core.state import GRAD
from .graph import COMPUTES, Graph, Node, Value, replaced, shows
from .writes import WRITES, whole_of


def without_copies(graph: Graph) -> dict[Value, Value]:
    """Takes copies of values over others that nobody else sees out of a program; what is read in the place of these afterwards."""
    copies: dict[Value, list[Node]] = {}
    last: dict[Value, int] = {}  # where a value is written last
    seen = {*graph.outputs, *graph.inputs, *graph.constants}  # values in memory that others may see
    for i, node in enumerate(graph.nodes):
        for v in node.writes:
            if _is_copy(node):
                copies.setdefault(v, []).append(node)
                last[v] = i
            else:
                seen.add(whole_of(v))
    if not copies:
        return {}
    for i, node in enumerate(graph.nodes):
        numbers = {v.number for v in node.outs if v is not None}
        opaque = node.opaque not in (False, COMPUTES)
        for v in node.operands():
            if opaque or v.number in numbers or (shows(node) and i < last.get(v, -1)):
                seen.add(v)
        if opaque:
            seen.update([v for v in node.outs if v is not None])
    gone = {
        target for target, nodes in copies.items()
        if target not in seen and whole_of(target) not in seen and not any([(v := node.args[1]) in seen or v in copies for node in nodes])
    }  # fmt: skip
    names, nodes = dict[Value, Value](), list[Node]()
    for node in graph.nodes:
        if node.writes and node.writes[0] in gone:
            names[node.args[0]] = names.get(node.args[1], node.args[1])
            continue
        node.args, node.named = replaced((node.args, node.named), Value, lambda v: names.get(v, v))
        nodes.append(node)
    graph.nodes = nodes
    return names


def _is_copy(node: Node) -> bool:
    """Whether a node writes a value over a whole other one that lies as it does."""
    if node.op not in WRITES or not isinstance(node.args[1], Value):
        return False
    both = target, source = node.args
    alike = target.shape == source.shape and target.strides == source.strides and target.dtype is source.dtype
    return alike and not (target.k ^ source.k) & ~GRAD and not any([v.node is None or shows(v.node) for v in both])
