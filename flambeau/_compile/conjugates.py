"""Conjugates and negatives that are views: computed at once where nobody could tell, as kernels read plain memory only."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.state import POSTPONED
from .._ops.layout.postponed import conj_op, neg_view_op
from .._ops.registry import records
from .graph import Node, Value, is_view
from .writes import changes

_VIEWS = (conj_op, neg_view_op)


def computed_at_once(nodes: Sequence[Node], outputs: Sequence[Value]) -> bool:
    """Lets nodes that write nothing compute such values, if no output lies in the memory of one; whether they do."""
    if not any([node.op in _VIEWS for node in nodes]) or any(map(changes, nodes)) or any(map(_shows_one, outputs)):
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


def _shows_one(v: Value) -> bool:
    while v.node is not None and is_view(v.node):
        if v.node.op in _VIEWS:
            return True
        v = next(iter(v.node.operands()))
    return False
