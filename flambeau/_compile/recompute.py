"""Recomputation: what a backward pass needs and can make again by a few instructions is not kept for it.

A loop of the backward pass makes such a value in registers; to keep it would cost memory, and a way to it and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from .._core.dtypes import bool_
from .._kernel.loops import survey
from .._kernel.value import COMPUTE, PART
from .._ops.pointwise_op import Pointwise
from .graph import Graph, Node, Value

_LARGE = 1 << 14  # bytes from which a value is not kept
_INSTRUCTIONS = 8  # of an operation that is done again, at most


def recompute(forward: Graph, backward: Graph, needed: Iterable[Value]) -> set[Value]:
    """Moves cheap operations to where the backward pass first needs their results; gives those of them that need not be kept.

    Their operands are needed anyway, and nobody writes to them.
    """
    written = {v for node in forward.nodes for v in node.writes}
    if any([v not in forward.constants for v in written]):  # views of what is written may be operands
        return set()
    kept, again = set(needed), list[Node]()
    for node in reversed(forward.nodes):
        if len(node.outs) == 1 and node.outs[0] in kept and _is_cheap(node):
            operands = set(node.operands())
            if operands <= kept and not operands & written:
                kept.discard(node.outs[0])  # type: ignore[arg-type]
                again.append(node)
    for node in again:  # the latest first, so that each stands before those that need it
        users = [i for i, user in enumerate(backward.nodes) if node.outs[0] in list(user.operands())]
        at = min(users, default=len(backward.nodes))
        backward.nodes.insert(at, Node(node.op, node.args, node.outs, node.several, line=node.line))
    return {v for node in again for v in node.outs if v is not None}


def _is_cheap(node: Node) -> bool:
    """Whether a node is a pointwise operation of few instructions over operands of its result's shape and dtype."""
    op, (out,) = node.op, node.outs
    if not isinstance(op, Pointwise) or node.opaque or node.named or node.writes or out is None:
        return False
    code = COMPUTE.get(out.dtype.code, out.dtype.code)
    if code in PART or prod(out.shape) * out.dtype.itemsize < _LARGE:
        return False
    operands = [a for a in node.args if isinstance(a, Value)]
    if any([v.dtype is not out.dtype and v.dtype is not bool_ for v in operands]):
        return False

    def body(m: object, *values: object) -> object:
        given = iter(values)
        return op.body(m, *[next(given) if isinstance(a, Value) else a for a in node.args])

    try:
        rare, _, length = survey(body, ["b1" if v.dtype is bool_ else code for v in operands])
    except (TypeError, ValueError, AttributeError):  # a body that takes other arguments than the operation
        return False
    return not rare and length <= _INSTRUCTIONS
