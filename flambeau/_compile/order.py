"""The order of operations: one whose results take more memory than its operands waits until the results are needed.

The gradient of a large weight is made of a small input and a small gradient. Nobody reads it before the backward pass is over, and until
then the memory that it will lie in has room for other values (`memory.py`).

A value that the backward pass makes again waits for the derivative of the same operation, with which it becomes one loop.
"""

from __future__ import annotations

from .._ops.records.pointwise_op import Pointwise
from .graph import COMPUTES, Graph, Node, Value, is_view
from .recompute import NEAR, derives
from .writes import changes, is_gift, whole_of

_LARGE = 1 << 14  # bytes of results that are worth it


def delayed(graph: Graph) -> Graph:
    """The same program, in which such operations stand right before the first one that needs them; each value is made by one node.

    At no time in between more memory is needed. Views go with those who need them, and leaves get their first gradients when all are made.
    Pointwise operations stay where they are, beside others with which they become one loop.
    """
    nodes, end = graph.nodes, len(graph.nodes)
    outside = {*graph.inputs, *graph.constants}
    needed = dict.fromkeys(map(whole_of, graph.outputs), end)  # until which node memory is needed
    needed.update(dict.fromkeys(outside - graph.passing.keys(), end))
    wanted: dict[Value, int] = {}  # by which node a value is needed first
    written: dict[Value, int] = {}  # by which node memory is written next
    barrier = end  # the next node that changes something that lasts: what may raise an error stays before it
    waiting: dict[int, list[int]] = {}  # nodes that stand before others now
    gifts: set[int] = set()  # those of them that come last there: what they give is memory for others until it is made
    for i in range(end - 1, -1, -1):
        node, at = nodes[i], i
        operands = dict.fromkeys(map(whole_of, node.operands()))
        until = min([wanted.get(v, end) for v in node.outs if v is not None], default=end)
        until = min([barrier, until, *[written.get(v, end) for v in operands]])
        if is_gift(node):
            at = until
            if not any([wanted.get(v) == at for v in node.outs]):
                gifts.add(i)
        elif changes(node):
            written.update({whole_of(v): i for v in node.writes})
            barrier = i if node.opaque or any([whole_of(v) in outside for v in node.writes]) else barrier
        elif not node.opaque:
            made = sum([v.nbytes for v in node.outs if v is not None and whole_of(v) is v])
            kept = sum([v.nbytes for v in operands if needed.get(v, i) < until])
            if is_view(node) or (made >= _LARGE and made > kept and not isinstance(node.op, Pointwise)):
                at = until
        if at > i:
            waiting.setdefault(at, []).append(i)
        for v in operands:
            needed[v] = max(needed.get(v, at), at)
        for v in node.operands():
            wanted[v] = min(wanted.get(v, at), at)
    moved = {k for others in waiting.values() for k in others}
    together = [sorted(waiting.get(i, []), key=lambda k: (k in gifts, k)) for i in range(end + 1)]
    order = [k for i in range(end + 1) for k in (*together[i], *[i] * (i < end and i not in moved))]
    graph.nodes = [nodes[k] for k in order]
    return graph


def draws_first(graph: Graph) -> Graph:
    """The same program, in which random numbers are drawn before operations by element that do not need them: dropout follows its activation
    at once, with which it becomes one loop."""
    nodes = graph.nodes
    for i, node in enumerate(nodes):
        at, operands = i, set(node.operands())
        while (
            node.opaque == COMPUTES
            and at
            and not node.writes
            and _may_wait(nodes[at - 1])
            and operands.isdisjoint(nodes[at - 1].outs)
        ):
            at -= 1
        nodes.insert(at, nodes.pop(i))
    return graph


def _may_wait(node: Node) -> bool:
    return isinstance(node.op, Pointwise) and not (node.opaque or node.writes or changes(node))


def beside_derivatives(graph: Graph) -> Graph:
    """The same program, in which pointwise operations stand before their derivatives, if all who use their results can wait that long
    and need little besides."""
    nodes = graph.nodes
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if (
            not isinstance(node.op, Pointwise)
            or len(node.outs) != 1
            or node.outs[0] is None
            or node.outs[0].nbytes < _LARGE
        ):
            continue
        end = next((k for k in range(i + 1, min(len(nodes), i + NEAR)) if derives(nodes[k], node)), i)
        between = nodes[i + 1 : end]
        if any([n.opaque or n.writes or changes(n) for n in between]):
            continue
        made, users = set(node.outs), list[Node]()
        for n in between:
            if not made.isdisjoint(n.operands()):
                users.append(n)
                made.update(n.outs)
        longer = sum([v.nbytes for v in {v for n in users for v in n.operands()} - made])  # what stays longer
        if users and made.isdisjoint(nodes[end].operands()) and 2 * longer <= node.outs[0].nbytes:
            others = [n for n in between if n not in users]
            nodes[i : end + 1] = [*others, node, nodes[end], *users]
    return graph
