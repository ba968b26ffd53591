"""A primitive's call on plain tensors, and its derivative at a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._autograd import engine
from ..._autograd.node import Node
from ..._autograd.rehearsal import recorded
from ..._backend.cpu import cpu
from ..._core.config import memory_problem
from ..._core.dtypes import BY_NUMPY, from_numpy_dtype
from ..._core.state import CUDA, GRAD, SPECIAL, local, modes
from ..._dispatch import backend_of, special
from ..._tensor import Tensor, wrap
from ..plans.sites import planned_formula
from ..registry import ops
from .saved import fetch

_ndarray = np.ndarray


def wrapped(made: Any, k: int) -> Any:
    """What a primitive returned, with its arrays as tensors."""
    if made.__class__ is not _ndarray:
        if isinstance(made, tuple):
            return tuple([wrapped(m, k) for m in made])
        if isinstance(made, list):
            return [wrapped(m, k) for m in made]
        if made is None or (isinstance(made, (int, float, bool)) and not isinstance(made, np.generic)):
            return made
        if not hasattr(made, "strides") or isinstance(made, np.generic):
            made = np.asarray(made)
    d = BY_NUMPY.get(made.dtype)
    return wrap(made, d if d is not None else from_numpy_dtype(made.dtype), k)


# -- calls -------------------------------------------------------------------------------------------------------


def plain_call(op: Any) -> Callable[..., Any]:
    n, many = op.tensors, op.many

    def call(*args: Any) -> Any:
        k = modes.on
        for a in args[:n]:
            if isinstance(a, Tensor):
                k |= a._k
        if many:
            for a in args[0]:
                if isinstance(a, Tensor):
                    k |= a._k
        if k > 1:
            return special(op, args, k)
        out = op.compute(args, 0)
        if k and local.grad:
            recorded(op, args, out)
        return out

    return call


def arrays_call(op: Any) -> Callable[..., Any]:
    """The call of a primitive that has no other `compute`: of tensors, some of which may be missing; the first may be a list of them."""
    forward, n, many = op.forward, op.tensors, op.many

    def call(*args: Any) -> Any:
        k, given = modes.on, list(args)
        for i, a in enumerate(args[:n]):
            if isinstance(a, Tensor):
                k |= a._k
                given[i] = a._array
            elif many and not i:
                arrays = given[0] = []
                for x in a:
                    if isinstance(x, Tensor):
                        k |= x._k
                        x = x._array
                    arrays.append(x)
        if k > 1:
            return special(op, args, k)
        try:
            made = forward(cpu, *given)
        except (MemoryError, ValueError) as error:
            raise (memory_problem(error) or error) from None
        out = wrapped(made, 0)
        if k and local.grad:
            recorded(op, args, out)
        return out

    return call


def view_call(op: Any) -> Callable[..., Any]:
    forward = op.forward

    def call(x: Tensor, *static: Any) -> Any:
        k = x._k | modes.on
        if k & SPECIAL:
            return special(op, (x, *static), k)
        try:
            made = forward(backend_of(k) if k & CUDA else cpu, x._array, *static)
        except ValueError as error:
            raise (memory_problem(error) or error) from None
        if made.__class__ is tuple or made.__class__ is list:
            out: Any = tuple(op.wrap_view(x, m, static, i) for i, m in enumerate(made))
        else:
            out = op.wrap_view(x, made, static)
        if k & GRAD and local.grad:
            op.record((x, *static), out)
        return out

    return call


# -- derivatives -------------------------------------------------------------------------------------------------


def single_backward(op: Any) -> Callable[..., Any]:
    """The derivative of a primitive with one tensor."""
    gradient = op.derivatives[0]
    if gradient is None:
        return lambda node, g, create_graph: type(op).backward(op, node, g, create_graph)

    def backward(node: Node, g: Any, create_graph: bool) -> Any:
        made = gradient(node, g)
        return (made if made is None else fitted(made, node.info[0]),)

    return backward


def fitted(g: Tensor, info: Any) -> Tensor:
    """A gradient in the dtype of its input."""
    return g if g.dtype is info[1] else ops.fit_gradient(g, info[0], info[1])


def derivative(op: Any, own: Any, uses: list[tuple[str, Any]]) -> Callable[[Node, Any], Any]:
    """A formula as a function of a node and the incoming gradient."""
    values = [_value(op, *use) for use in uses]

    def formula(*args: Any) -> Any:  # finds plans from the first backward pass on
        nonlocal formula
        formula = planned_formula(own)
        return formula(*args)

    if len(values) == 1:
        (first,) = values
        return lambda node, g: formula(first(node, g))
    if len(values) == 2:
        first, second = values
        return lambda node, g: formula(first(node, g), second(node, g))
    if len(values) == 3:
        first, second, third = values
        return lambda node, g: formula(first(node, g), second(node, g), third(node, g))
    if len(values) == 4:
        first, second, third, fourth = values
        return lambda node, g: formula(first(node, g), second(node, g), third(node, g), fourth(node, g))
    return lambda node, g: formula(*[value(node, g) for value in values])


def _value(op: Any, kind: str, position: Any) -> Callable[[Node, Any], Any]:
    """How one argument of a derivative is had from a node and the incoming gradient."""
    count, tensors = len(op.names), op.tensors
    if kind == "g":
        return lambda node, g: g if node.outputs is None else _defined(g[0], node.outputs[0])
    if kind == "value":
        return (lambda node, g: fetch(node, position)) if position < tensors else (lambda node, g: node.saved[position])
    if kind == "out":
        return lambda node, g: fetch(node, count)
    if kind == "outs":
        return lambda node, g: [fetch(node, i) for i in range(count, len(node.saved))]
    if kind == "others":  # results after the first
        return lambda node, g: [fetch(node, i) for i in range(count + 1, len(node.saved))]
    if kind == "gs":
        return lambda node, g: [g] if not node.outputs else [_defined(part, o) for part, o in zip(g, node.outputs)]
    if kind == "given":  # gradients of several results, None where none came
        return lambda node, g: [g] if node.outputs is None else list(g)
    if kind == "needs":
        return lambda node, g: [e is not None for e in node.edges]
    field = 0 if kind == "shape" else 1
    if position == 0 and op.many:
        return lambda node, g: [i[field] for i in node.info[: len(node.info) - tensors + 1]]
    back = position - tensors  # the first argument may stand for many
    return lambda node, g: node.info[back][field]


def _defined(g: Any, output: Any) -> Any:
    """A gradient, zeros where none came."""
    if g is not None or output is None:
        return g
    return engine.zeros(*output) if output[1].category >= 2 else None
