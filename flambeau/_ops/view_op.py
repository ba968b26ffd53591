"""View records: primitives whose result looks into their input's memory, with a short path for plain tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from weakref import ref

from .._autograd.node import Node
from .._core.state import GRAD, local, modes
from .._dispatch import special
from .._tensor import Storage, Tensor
from .pointwise_op import trace
from .primitive import Primitive

_new = object.__new__


class View(Primitive):
    """A view with one result. Its derivative takes (g, shape of the input, arguments...) and keeps no tensor."""

    def __init__(self, forward: Callable[..., Any], gradient: Callable[..., Any], name: str, backward_name: str | None):
        super().__init__(forward, None, view=True, name=name, backward_name=backward_name)
        self.gradient = gradient
        self.differentiable, self.missing = True, False
        expected, given = len(self.names) + 1, len(inspect.signature(gradient).parameters)
        if expected != given:
            raise TypeError(f"{name}: its derivative takes {given} arguments instead of {expected}")

    def record(self, args: tuple[Any, ...], out: Tensor, traced: bool = False) -> None:
        x = args[0]
        if not x._k & GRAD or out.dtype.category < 2:
            return
        node = Node(self, (x._edge or (x, 0),), args[1:])
        node.info = ((x._array.shape, x.dtype, x._k),)
        out._edge = (node, 0)
        out._k |= GRAD
        if traced:
            trace(node)

    def backward(self, node: Node, g: Any, create_graph: bool) -> list[Any]:
        return [self.gradient(g, node.info[0][0], *node.saved)]  # type: ignore[index]


def view_primitive(gradient: Callable[..., Any], name: str, backward_name: str | None = None) -> Callable[[Any], View]:
    """Declares a view over arrays; `gradient` is its derivative over tensors."""
    return lambda forward: View(forward, gradient, name, backward_name)


def view_of(op: View, x: Tensor, array: Any, static: tuple[Any, ...]) -> Tensor:
    """The tensor around a view of `x`, which has no property but a history: what `op(x, *static)` comes to."""
    t = _new(Tensor)
    t._array = array
    t.dtype = x.dtype
    t._k = 0
    t._edge = t._meta = None
    storage = x._storage
    if storage is None:
        storage = x._storage = Storage(x._array)
    t._storage = storage
    t._view = (x, op, static, None)
    if local.grad:
        views = storage.views
        if len(views) & 63 == 63:
            storage.add_view(t)
        else:
            views.append(ref(t))
        if x._k:
            op.record((x, *static), t)
    return t


def is_plain(x: Tensor) -> bool:
    """Whether views of `x` may be made by NumPy directly."""
    return (x._k | modes.on) <= 1


__all__ = ["View", "is_plain", "special", "view_of", "view_primitive"]
