"""Views that programs compute at once where nobody could tell: kernels read plain memory whose place is known.

These are conjugates and negatives, and entries at positions that tensors hold (`x[i]`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .._core.sizes import contiguous_strides
from .._core.state import POSTPONED
from .._ops.layout.postponed import conj_op, neg_view_op
from .._ops.places.positions import part_at, taken_at
from .._ops.registry import records
from .graph import Node, Value, shows
from .writes import changes, is_gift, whole_of

_VIEWS = (conj_op, neg_view_op)
_LARGE = 1 << 16  # bytes that take longer to copy than Python takes to make a view


def computed_at_once(nodes: Sequence[Node], outputs: Sequence[Value]) -> bool:
    """Lets nodes that write nothing compute conjugates, if no output lies in the memory of one; whether they do."""
    seen = [v.node.op for output in outputs for v in _chain(output) if v.node is not None]
    if not any([node.op in _VIEWS for node in nodes]) or any(map(changes, nodes)) or any([op in _VIEWS for op in seen]):
        return False
    for node in nodes:
        if any([v.k & POSTPONED for v in node.operands()]):  # of an argument that is one
            continue
        if node.op in _VIEWS:
            node.op = records["conj_physical" if node.op is conj_op else "neg"]
        for v in node.outs:
            if v is not None:
                v.k &= ~POSTPONED
    return True


def taken_at_once(nodes: Sequence[Node], outputs: Sequence[Value]) -> None:
    """Lets kernels copy small entries at positions that tensors hold, if no output shows them and nobody writes to what they show before they
    are read for the last time."""
    found = [i for i, node in enumerate(nodes) if node.op is part_at and _is_small(node)]
    if not found:
        return
    shown = {v for output in outputs for v in _chain(output)}
    last: dict[Value, int] = {}  # where a value, or what shows it, is read for the last time
    for i, node in enumerate(nodes):
        for v in {*node.operands(), *node.writes}:
            last.update(dict.fromkeys(_chain(v), i))
    for i in found:
        node, (out,) = nodes[i], nodes[i].outs
        own = whole_of(node.args[0])
        between = nodes[i + 1 : last.get(out, i) + 1]
        if out not in shown and not any([changes(n) and not is_gift(n) and _may_write(n, own) for n in between]):
            x, at, dim, _, named = node.args
            node.op, node.args = taken_at, (x, at, dim, named)


def _is_small(node: Node) -> bool:
    """Whether a node shows one entry, which is small and lies as a copy would."""
    (out,) = node.outs
    steps = [s * out.dtype.itemsize for s in contiguous_strides(out.shape)]
    return node.args[3] is None and out.nbytes <= _LARGE and [*out.strides] == steps


def _may_write(node: Node, whole: Value) -> bool:
    """Whether a node that changes something may write to the memory of a value."""
    written = [whole_of(v) for v in node.writes]
    return bool(node.opaque) or any([v is whole or (v.node is None and whole.node is None) for v in written])


def _chain(v: Value) -> list[Value]:
    """A value, and those in whose memory it lies as their part."""
    found = [v]
    while v.node is not None and shows(v.node):
        v = next(v.node.operands())
        found.append(v)
    return found
