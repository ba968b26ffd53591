"""View records: primitives whose result looks into their input's memory, with a short path for plain tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from ..._autograd import engine
from ..._autograd.node import NOWHERE, Node
from ..._backend.cpu import cpu
from ..._core.state import CUDA, GRAD, local
from ..._tensor import MADE_WITH_OTHERS, Storage, Tensor, inherited, is_inference
from ..registry import derivative_name, parameter_names
from .primitive import Primitive, view_link
from .saved import trace

_new = object.__new__


class View(Primitive):
    """A view with one result. Its derivative takes (g, shape of the input, arguments...) and keeps no tensor."""

    def __init__(
        self, forward: Callable[..., Any], gradient: Callable[..., Any], name: str, backward_name: str | None,
        batch: Any = None, picks: bool = False,
    ):  # fmt: skip
        backward_name = backward_name or derivative_name(name)
        super().__init__(forward, None, view=True, name=name, backward_name=backward_name, batch=batch)
        self.gradient, self.picks = gradient, picks
        self.differentiable, self.missing = True, False
        expected, given = len(self.names) + 1, len(parameter_names(gradient))
        if expected != given:
            raise TypeError(f"{name}: its derivative takes {given} arguments instead of {expected}")

    def record(self, args: tuple[Any, ...], out: Tensor, traced: bool = False) -> None:
        x = args[0]
        if not x._k & GRAD or out.dtype.category < 2 or is_inference(x):
            return
        node = Node(self, (x._edge or (x, 0),), args[1:])
        node.info = ((x._array.shape, x.dtype, x._k),)
        out._edge = (node, 0)
        out._k |= GRAD
        if traced:
            trace(node)

    def backward(self, node: Node, g: Any, create_graph: bool) -> list[Any]:
        if not self.picks or create_graph:
            return [self.gradient(g, node.info[0][0], *node.saved)]
        if engine.add_part(node, g, lambda whole: self.forward(cpu, whole, *node.saved)):
            return [None]
        made = self.gradient(g, node.info[0][0], *node.saved)
        engine.own_part(node, made)
        return [made]


def view_primitive(
    gradient: Callable[..., Any], name: str, backward_name: str | None = None, batch: Any = None, picks: bool = False
) -> Callable[[Any], View]:
    """Declares a view over arrays; `gradient` is its derivative over tensors, `batch` its rule for batches. One that `picks` shows some
    elements, each once: its derivative is zeros but for these."""
    return lambda forward: View(forward, gradient, name, backward_name, batch, picks)


def view_of(op: View, x: Tensor, array: Any, static: tuple[Any, ...]) -> Tensor:
    """The tensor around a view of `x`, which has no property but a device and a history: what `op(x, *static)` comes to."""
    t = _new(Tensor)
    t._array = array
    t.dtype = x.dtype
    k = x._k
    t._k = k & CUDA
    t._edge = None
    t._autograd_meta = mark = None if x._autograd_meta is None else x._autograd_meta.inherited
    storage = x._storage
    if storage is None:
        storage = x._storage = Storage(x._array)
    t._storage = storage
    recorded = local.grad
    t._view = (x, op, static, None, 0, 0, 0) if recorded and x._view is None else view_link(t, x, op, static, None)
    if mark is not None and mark.inference:
        t._view = None
    elif recorded:
        views = storage.views
        if views is not None and len(views) & 63 != 63:
            views.append(ref(t))
        else:
            storage.add_view(t)
        if k & GRAD:  # what `record` does
            node = Node(op, (x._edge or (x, 0),), static)
            node.info = ((x._array.shape, x.dtype, k),)
            t._edge = (node, 0)
            t._k = k
    elif k & GRAD:
        t._edge, t._k = NOWHERE, k
    return t


def views_of(op: Any, x: Tensor, arrays: Any, static: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The tensors around several views of `x`, which has no property but a history; `op` keeps no tensor."""
    d, mark = x.dtype, inherited(x)
    storage = x._storage
    if storage is None:
        storage = x._storage = Storage(x._array)
    normal = mark is None or not mark.inference
    recorded, node, k = local.grad and normal, None, x._k if normal else 0
    if recorded and k:
        node = Node(op, (x._edge or (x, 0),), [None, *static], tuple([(a.shape, d, 0) for a in arrays]))
        node.info = [(x._array.shape, d, 1)]
    nowhere = NOWHERE if k and not recorded else None
    first = recorded and x._view is None  # a view of no view: what `view_link` gives
    views, out = storage.views, []
    for number, array in enumerate(arrays):
        t = _new(Tensor)
        t._array = array
        t.dtype = d
        t._k = k
        t._edge = nowhere if node is None else (node, number)
        t._autograd_meta = mark
        t._storage = storage
        if first:
            t._view = (x, op, static, number, 0, MADE_WITH_OTHERS, 0)
        else:
            t._view = view_link(t, x, op, static, number) if normal else None
        if recorded:
            if views is not None and len(views) & 63 != 63:
                views.append(ref(t))
            else:
                storage.add_view(t)
                views = storage.views
        out.append(t)
    return tuple(out)
