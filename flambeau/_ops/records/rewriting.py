"""The history of a tensor after a write: its own, and that of its base and of other views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._autograd.hooks import follow
from ..._autograd.node import Node
from ..._core.state import GRAD, local
from ..._tensor import MADE_WITH_OTHERS, Storage, Tensor, wrap
from ..registry import ops
from .writable import WITH_OTHERS, frozen


def rewrite_history(t: Tensor, edge: Any) -> None:
    """After a write: the tensor's value now comes from `edge`. A view passes this on to its base and other views."""
    old = t._edge
    renewed = [t]
    if t._view is None:
        t._edge = edge
        t._k |= GRAD
    else:
        renewed = []
        base = t
        while base._view is not None:
            renewed.append(base)
            base = base._view[0]
        renewed.reverse()
        chain = [view._view[1:4] for view in renewed]
        node = edge[0]
        first = (base._edge or (base, 0)) if base._k & GRAD else None
        whole = Node(CopySlices(), (first, *node.edges[1:]))
        geometry = (base._array.shape, base._array.strides, base.dtype, base._k)
        whole.saved = (node, chain, geometry)
        base_old, base._edge = base._edge, (whole, 0)
        base._k |= GRAD
        if base._autograd_meta is not None and base._autograd_meta.retains:
            follow(base, base_old)
        for view in renewed:  # a view's history begins with that of what it is a view of
            _renew(view)
    if t._view is None and t._autograd_meta is not None and t._autograd_meta.retains:
        follow(t, old)
    if t._storage is not None:
        renew_views(t._storage, renewed)


def renew_views(storage: Storage, besides: Sequence[Tensor] = ()) -> None:
    """Gives the views of what was written to the histories that their bases have now, but for those that have them already."""
    for reference in list(storage.views or ()):
        view = reference()
        if view is not None and not any(view is done for done in besides):
            _renew(view)


def _renew(view: Tensor) -> None:
    """Gives a view the history that its base has now."""
    parent, op, static, _, _, made, _ = view._view
    if not parent._k & GRAD:
        return
    if made == MADE_WITH_OTHERS:
        stale = frozen(view, "its base or another view of its base has been modified inplace", WITH_OTHERS)
        view._edge, view._k = (Node(Stale(stale), (parent._edge,)), 0), view._k | GRAD
        return
    out = wrap(view._array, view.dtype, view._k & ~GRAD)
    op.record((parent, *static), out)
    old, view._edge, view._k = view._edge, out._edge, view._k | GRAD
    if not local.view_replay and out._edge is not None:  # PyTorch takes it anew by its strides
        out._edge[0].label = "AsStridedBackward0"
    if view._autograd_meta is not None and view._autograd_meta.retains:
        follow(view, old)


def replay(chain: Any, t: Tensor) -> Tensor:
    """Takes the same views of another tensor."""
    for op, static, number in chain:
        t = op(t, *static)
        if number is not None:
            t = t[number]
    return t


class Stale:
    """The history of a view that could not be renewed when its base was written to: using it raises."""

    name = backward_name = "stale"

    def __init__(self, reason: str):
        self.reason = reason

    def backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        raise RuntimeError(self.reason)


class CopySlices:
    """Derivative of a write into a part of a tensor: the part's gradient goes through the written operation."""

    backward_name = "torch::autograd::CopySlices"
    name = "copy_slices"

    def backward(self, node: Node, g: Tensor, create_graph: bool) -> list[Any]:
        inner, chain, (shape, strides, *_) = node.saved
        whole = ops.clone_strided(g, shape, strides)
        part = replay(chain, whole)
        results = inner.op.backward(inner, ops.clone(part), create_graph)
        first = results[0]
        if first is None:
            ops.zero_(part)
        else:
            ops.copy_(part, first)
        return [whole, *results[1:]]
