"""Derivatives of operations whose kernels had to be compiled: another core compiles theirs, too, while the program goes on.

A thread runs such a derivative once, for a gradient of zeros, and drops what comes out. Where all kernels are kept nothing is rehearsed,
and nothing in programs without an optimizer, whose results may have a history that nobody asks for.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from .._core.state import GRAD, local, unobserved
from .._kernel.building import ahead
from .._tensor import Tensor, wrap
from . import engine
from .node import Node, SavedOutput

trains = False  # whether there has been an optimizer
_MOST = 1 << 20  # elements of a result whose derivative takes little beside the compiler


def recorded(op: Any, args: tuple[Any, ...], out: Any) -> None:
    """Attaches a node to the result(s) of a call on plain tensors of the CPU, which no mode sees that looks at derivatives."""
    op.record(args, out)
    if trains and ahead.pays():
        _rehearse([t for t in ((out,) if isinstance(out, Tensor) else out) if isinstance(t, Tensor)])


def expect() -> None:
    """Backward passes will come."""
    global trains
    trains = True


def _rehearse(results: list[Tensor]) -> None:
    node = next((t._edge[0] for t in results if t._edge is not None), None)
    if node is not None and max([t._array.size for t in results]) <= _MOST:
        first = results[0]._array.shape, results[0].dtype
        with unobserved():
            ahead.soon(functools.partial(_run, weakref.ref(node), first))


def _run(reference: Any, first: Any) -> None:
    node = reference()
    if node is None or node.saved is None:  # the program has dropped its results, or the backward pass is over
        return
    before, local.grad = local.grad, False
    try:
        given = [None if about is None else engine.zeros(about[0], about[1], 0) for about in node.outputs or [first]]
        node.op.backward(_copy(node), given[0] if node.outputs is None else given, False)
    finally:
        local.grad = before


def _copy(node: Node) -> Node:
    """A node like another, which shares nothing with it that either could change."""
    made = object.__new__(Node)
    made.op, made.edges, made.outputs, made.info = node.op, node.edges, node.outputs, node.info
    made.versions = made.hooks = made.pre_hooks = None
    made.saved = [_alone(s) for s in node.saved]
    made.__dict__.update(node.__dict__)
    return made


def _alone(value: Any) -> Any:
    """What a node keeps, by itself."""
    if isinstance(value, (list, tuple)):
        found = [_alone(v) for v in value]
        return type(value)(found) if any([isinstance(v, Tensor) for v in found]) else value
    if hasattr(value, "unpack"):
        raise TypeError("what the program's own hooks have packed")
    if not isinstance(value, (Tensor, SavedOutput)):
        return value
    array, k = (value._array, value._k) if isinstance(value, Tensor) else (value.array, value.k)
    if k & ~GRAD:
        raise TypeError("a tensor that is not plain")
    return wrap(array, value.dtype, 0)
