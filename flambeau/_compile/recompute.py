"""Recomputation: what a backward pass needs and can make again by a few instructions is not kept for it.

A loop of the backward pass makes such a value in registers; to keep it would cost memory, and a way to it and back. An operation whose
derivative follows costs nothing either: the loop that computes the derivative computes most of it anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from .._core.dtypes import bool_
from .._kernel.loops.pointwise import survey
from .._kernel.render.value import COMPUTE, PART
from .._ops.records.pointwise_op import Pointwise
from .arguments import overlap
from .graph import Graph, Node, Value, is_view, replaced
from .writes import changes, is_gift

_LARGE = 1 << 14  # bytes from which a value is not kept
_INSTRUCTIONS = 8  # of an operation that is done again, at most
_FAR = 16  # nodes between two uses of a value from which it need not be kept
NEAR = 16  # nodes between the first use of a value and a derivative with which it shares a loop


def recompute(forward: Graph, backward: Graph, needed: dict[Value, None]) -> None:
    """Moves cheap operations to where the backward pass first needs their results, which are not `needed` of the forward pass then.

    Their operands are needed anyway, and nobody writes to them. What views show is needed in their place: it is in memory as long as they are.
    Of light operations (layer norm) the first result, which is large, is made again.
    """
    written = {v for node in forward.nodes for v in node.writes}
    if any([v not in forward.constants for v in written]):  # views of what is written may be operands
        return
    again = list[Node]()
    for node in reversed(forward.nodes):
        outs = [v for v in node.outs if v in needed]
        operands = list(node.operands())
        if not outs or not written.isdisjoint(operands):
            continue
        if _is_light(node) and outs[0] is node.outs[0] and outs[0].nbytes >= _LARGE and outs[0] not in forward.outputs:
            if needed.keys() >= {v for v in operands if v not in forward.constants}:
                del needed[outs[0]]
                needed.update(dict.fromkeys(operands))
                again.append(
                    Node(node.op, node.args, (outs[0], *[None] * (len(node.outs) - 1)), node.several, line=node.line)
                )
            continue
        if is_view(node) or (
            len(node.outs) == 1
            and _is_pointwise(node)
            and needed.keys() >= set(operands)
            and (_is_short(node) or _derived(node, backward.nodes))
        ):
            for v in outs:
                del needed[v]
            needed.update(dict.fromkeys(operands))
            again.append(node)
    for node in again:  # the latest first, so that each stands before those that need it
        users = [i for i, user in enumerate(backward.nodes) if not set(node.outs).isdisjoint(user.operands())]
        at = min(users, default=len(backward.nodes))
        backward.nodes.insert(at, Node(node.op, node.args, node.outs, node.several, line=node.line))


def made_again(graph: Graph) -> Graph:
    """The same program, in which values are made a second time where they would be kept long for a later use.

    That is what a recorded training step needs: its two passes are one graph, with their uses of a value far apart.
    """
    if any([v not in graph.constants for node in graph.nodes for v in node.writes]):
        return graph
    uses: dict[Value, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for v in dict.fromkeys(node.operands()):
            uses.setdefault(v, []).append(i)
    lasting = {*graph.outputs, *graph.inputs, *graph.constants}
    changing = [i for i, node in enumerate(graph.nodes) if changes(node) and not is_gift(node)]
    others: dict[int, dict[Value, Value]] = {}  # by node: which values it reads instead of which
    before: dict[int, list[Node]] = {}
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        value = node.outs[0] if node.outs else None
        light = _is_light(node)
        if value is None or value in lasting or not (light or (len(node.outs) == 1 and _is_pointwise(node))):
            continue
        late = _late(uses.get(value, []), i)
        if not late or value.nbytes < _LARGE:
            continue
        known = [v for v in node.operands() if v in graph.constants] if light else []
        own = [v for v in node.operands() if v not in known]
        if any([v in lasting or uses[v][-1] < late[0] for v in own]):
            continue
        if any([v.node is None or v.node.opaque for v in own]):  # somebody else might write to them
            continue
        if any([_may_write(graph, graph.nodes[k], v) for k in changing if i < k < late[0] for v in known]):
            continue
        if not light and not _is_short(node) and not _derived(node, graph.nodes[late[0] : late[0] + NEAR]):
            continue
        again = Node(node.op, node.args, (), node.several, line=node.line)
        new = copy(value)
        new.node, again.outs = again, (new, *[None] * (len(node.outs) - 1))
        before.setdefault(late[0], []).insert(0, again)
        for user in late:
            others.setdefault(user, {})[value] = new
        uses[value] = [u for u in uses[value] if u < late[0]]
        for v in own:  # it is read there, too
            uses[v] = sorted({*uses[v], late[0]})
    return _with(graph, before, others) if before else graph


def _is_light(node: Node) -> bool:
    return getattr(node.op, "light", False) and not node.opaque


def _may_write(graph: Graph, node: Node, constant: Value) -> bool:
    """Whether a node may write to a tensor that the program knows."""
    array = graph.constants[constant]._array
    written = [graph.constants.get(v) for v in node.writes]
    return bool(node.opaque) or any([t is None or overlap(t._array, array) for t in written])


def _late(uses: Sequence[int], made: int) -> list[int]:
    """The uses after the longest time without one, if that is long."""
    marks = [made, *uses]
    gaps = [b - a for a, b in zip(marks, uses)]
    longest = max(gaps, default=0)
    return list(uses[gaps.index(longest) :]) if longest >= _FAR and gaps.index(longest) else []


def _with(graph: Graph, before: dict[int, list[Node]], others: dict[int, dict[Value, Value]]) -> Graph:
    """A graph with nodes before others, which read some other values instead of their own."""
    nodes: list[Node] = []
    for i, node in enumerate(graph.nodes):
        here, instead = [*before.get(i, ()), node], others.get(i, {})
        for n in here if instead else ():
            n.args, n.named = replaced((n.args, n.named), Value, lambda v: instead.get(v, v))
        nodes += here
    graph.nodes = nodes
    return graph


def _derived(node: Node, later: Sequence[Node]) -> bool:
    """Whether the derivative of an operation is among later ones: made in one loop with it, its result comes nearly for free."""
    return any([derives(n, node) for n in later])


def derives(later: Node, node: Node) -> bool:
    """Whether a node computes a derivative of an operation from the same operands."""
    if not isinstance(later.op, Pointwise):
        return False
    kernels = [d.kernel for d in node.op.grads if d is not None and getattr(d, "kernel", None) is not None]
    return later.op in kernels and set(node.operands()) <= set(later.operands())


def _is_pointwise(node: Node) -> bool:
    """Whether a node is a pointwise operation over operands of its large result's shape and dtype."""
    op, (out,) = node.op, node.outs
    if not isinstance(op, Pointwise) or node.opaque or node.named or node.writes or out is None:
        return False
    code = COMPUTE.get(out.dtype.code, out.dtype.code)
    if code in PART or out.nbytes < _LARGE:
        return False
    return all([v.dtype is out.dtype or v.dtype is bool_ for v in node.args if isinstance(v, Value)])


def _is_short(node: Node) -> bool:
    """Whether a pointwise operation takes few instructions, always the same ones."""
    op, (out,) = node.op, node.outs
    assert out is not None
    code = COMPUTE.get(out.dtype.code, out.dtype.code)
    operands = [a for a in node.args if isinstance(a, Value)]

    def body(m: object, *values: object) -> object:
        given = iter(values)
        return op.body(m, *[next(given) if isinstance(a, Value) else a for a in node.args])

    try:
        rare, _, length = survey(body, ["b1" if v.dtype is bool_ else code for v in operands])
    except (TypeError, ValueError, AttributeError):  # a body that takes other arguments than the operation
        return False
    return not rare and length <= _INSTRUCTIONS
