"""Views backwards: a tensor with another part where a view showed one."""

from __future__ import annotations

from collections.abc import Callable

from .._library.namespaces import ops
from .._tensor import Tensor
from ..fx import Node

aten = ops.aten
_SHAPES = frozenset(
    ["view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as", "reshape_as"]
)


def scattered(b: Callable[..., Node], view: Node, whole: Node, part: Node) -> Node | None:
    """The value `whole`, but with `part` where the operator of a node shows something of it; None if that is not known.

    `b(operator, …)` adds nodes.
    """
    name, args, shown = getattr(view.target, "_opname", ""), view.args[1:], view.meta["val"]
    if view.kwargs or any(isinstance(a, Node) for a in args) or not name or not isinstance(shown, Tensor):
        return None
    rank = whole.meta["val"].dim()
    if name in _SHAPES:
        dense = part if part.meta["val"].is_contiguous() else b(aten.clone.default, part)
        return b(aten.view.default, dense, list(whole.meta["val"].shape)) if dense.meta["val"].is_contiguous() else None
    if name == "select":
        return b(aten.select_scatter.default, whole, part, *args)
    if name == "slice":
        return b(aten.slice_scatter.default, whole, part, *args)
    if name == "narrow":
        dim, start, length = args
        return b(aten.slice_scatter.default, whole, part, dim, start, start + length)
    if name == "diagonal":
        return b(aten.diagonal_scatter.default, whole, part, *args)
    if name in ("alias", "detach"):
        return part
    order = list(range(rank))
    if name == "permute":
        order = [0] * rank
        for place, dim in enumerate(args[0]):
            order[dim % rank] = place
    elif name == "transpose" or (name == "t" and rank == 2):
        one, two = args or (0, 1)
        order[one], order[two] = order[two], order[one]
    elif name != "t":
        return None
    return b(aten.permute.default, part, order)
