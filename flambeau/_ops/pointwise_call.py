"""The hot path: `unary` and `binary` make the functions behind `torch.exp(x)` and `a + b`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np

from .._autograd.node import Node, SavedOutput, sequence
from .._backend.cpu import PARALLEL
from .._core.dtypes import FLOATING, INTEGER, bool_
from .._core.state import local, modes
from .._dispatch import special
from .._kernel.elementwise import elementwise
from .._tensor import InferenceMeta, Tensor, refuse_inference, wrap
from . import registry
from .casting import broadcast_error, checked_array, number_array
from .saved import check_version, save
from .sites import pointwise_site

_new = object.__new__
_ndarray = np.ndarray
_asarray = np.asarray


@functools.lru_cache(4096)
def grows(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether small operands of such shapes broadcast to a large result."""
    if x == y:
        return False
    try:
        return math.prod(np.broadcast_shapes(x, y)) >= PARALLEL
    except ValueError:
        return False


_LARGE = 3e38


class Quick(dict[Any, Any]):
    """By dtype: (callable for small operands, callable, result dtype), from what an op has in `fast`."""

    def __init__(self, op: Any):
        self.fast, self.rows = op.fast, op.rows

    def __missing__(self, d: Any) -> Any:
        function, result = self.fast[d]
        entry = self[d] = elementwise(function, (result.numpy,), self.rows), function, result
        return entry


def _named(call: Any, op: Any) -> Any:
    call.__name__ = call.__qualname__ = op.name
    operands = ", ".join(["input", "other"][: op.arity] + op.names[2:])
    call.__doc__ = f"{op.name}({operands}, *, out=None)\n--\n\n{op.doc}"  # the first lines are its signature
    return call


def unary(op: Any) -> Callable[..., Any]:
    quick = Quick(op)
    keeps_input = op.grads[0] is not None and 0 in op.grads[0].uses
    keeps_output = op.grads[0] is not None and 1 in op.grads[0].uses

    def record(t: Tensor, input: Tensor) -> Tensor:
        if local.grad and op.differentiable and t.dtype.category >= 2:
            node = _new(Node)
            node.op, node.edges, node.seq = op, (input._edge or (input, 0),), sequence()
            node.info = node.hooks = node.pre_hooks = node.outputs = None
            if keeps_output:
                kept = t._storage = _new(SavedOutput)
                kept.array, kept.dtype, kept.k, kept.number, kept.version = t._array, t.dtype, 1, 0, 0
                kept.shared = kept.views = None
            else:
                kept = None
            if t.dtype is not input.dtype:
                node.info = ((input._array.shape, input.dtype),)
            if keeps_input and input._autograd_meta.__class__ is InferenceMeta:
                refuse_inference((input,))
            node.saved = [input if keeps_input else None, kept]
            storage = input._storage
            node.versions = None if storage is None else (storage.version, 0)
            t._k, t._edge = 1, (node, 0)
        return t

    def call(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if out is not None:
            return registry.into_out(out, op.call, (input,), {})
        try:
            k = input._k | modes.on
            small, function, result = quick[input.dtype]
        except (AttributeError, KeyError):
            return slow(op, (input,))
        if k > 1:
            return special(op, (input,), k)
        array = input._array
        if array.size < PARALLEL:
            made = small(array)
            if made.__class__ is not _ndarray:
                made = _asarray(made)
        else:
            try:
                made = op.large(function, [array], result)
            except (ValueError, MemoryError) as error:
                raise (registry.memory_problem(error) or error) from None
        t = _new(Tensor)
        t._array, t.dtype, t._k = made, result, 0
        t._edge = t._storage = t._view = None
        marks = modes.inferring
        t._autograd_meta = None if marks is None else marks.get(get_ident())
        return record(t, input) if k else t

    return pointwise_site(op, _named(call, op), record, 0)


def binary(op: Any) -> Callable[..., Any]:
    quick, plans = Quick(op), op.save_plans
    assert plans is not None
    if op.arity < 2:  # the second operand is a parameter
        plans = plans + plans
    numbers: dict[Any, Any] = {}
    checked = op.checked

    def record(t: Tensor, a: Any, b: Any) -> Tensor:
        if not (local.grad and op.differentiable and t.dtype.category >= 2):
            return t
        if b.__class__ is float or b.__class__ is int:
            op.record((a, b), t)
            return t
        d, result, x, y, made = a.dtype, t.dtype, a._array, b._array, t._array
        left, right = a._k & 1, b._k & 1
        node = _new(Node)
        node.op, node.seq = op, sequence()
        node.edges = ((a._edge or (a, 0)) if left else None, (b._edge or (b, 0)) if right else None)
        node.hooks = node.pre_hooks = node.outputs = None
        plan = plans[left + 2 * right]
        if plan[2]:
            t._k, t._edge = 1, (node, 0)
            save(node, (a, b), plan, t)
        else:
            node.saved = [a if plan[0] else None, b if plan[1] else None, None]
            if a._autograd_meta.__class__ is InferenceMeta or b._autograd_meta.__class__ is InferenceMeta:
                refuse_inference(node.saved)
            first, second = a._storage, b._storage
            if first is None and second is None:
                node.versions = None
            else:
                node.versions = (0 if first is None else first.version, 0 if second is None else second.version, 0)
        size, rank = made.size, made.ndim  # broadcasting changes one or the other, unless there is nothing
        if size and x.size == size and y.size == size and x.ndim == rank and y.ndim == rank and result is d:
            node.info = None
        else:
            node.info = ((x.shape, d), (y.shape, d))
        t._k, t._edge = 1, (node, 0)
        return t

    def with_number(a: Tensor, number: Any) -> Tensor:
        """tensor ∘ number of the same or a lower category: the number becomes a 0-d operand."""
        d = a.dtype
        entry = numbers.get((d, number.__class__))
        if entry is None:
            fits = (d.category == INTEGER and number.__class__ is int) or (d.category == FLOATING and d.itemsize > 2)
            if op.numbers == "none" or not fits or d not in op.fast:
                return slow(op, (a, number))
            whole = d.category == FLOATING and number.__class__ is int
            entry = numbers[d, number.__class__] = *quick[d], whole
        k = a._k | modes.on
        if k > 1:
            return special(op, (a, number), k)
        small, function, result, whole = entry
        array = a._array
        try:
            if array.size < PARALLEL:
                operand = float(number) if whole else number
                if not -_LARGE <= operand <= _LARGE:  # NumPy would warn of what the dtype cannot hold
                    if checked:
                        return slow(op, (a, number))
                    operand = number_array(number, d)
                made = small(array, operand)
                if made.__class__ is not _ndarray:
                    made = _asarray(made)
            else:
                operand = checked_array(number, d) if checked else number_array(number, d)
                made = op.large(function, [array, operand], result)
        except (ValueError, OverflowError, MemoryError):
            return slow(op, (a, number))
        t = _new(Tensor)
        t._array, t.dtype, t._k = made, result, 0
        t._edge = t._storage = t._view = None
        marks = modes.inferring
        t._autograd_meta = None if marks is None else marks.get(get_ident())
        if k and local.grad and op.differentiable:
            op.record((a, number), t)
        return t

    def call(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        if out is not None:
            return registry.into_out(out, op.call, (input, other), {})
        kind = other.__class__
        a, b = input, other
        if kind is float or kind is int:
            return with_number(a, b) if isinstance(a, Tensor) else slow(op, (a, b))
        try:
            k = a._k | b._k | modes.on
            d = a.dtype
            small, function, result = quick[d]
        except (AttributeError, KeyError):
            return slow(op, (a, b))
        if d is not b.dtype:
            return slow(op, (a, b))
        if k > 1:
            return special(op, (a, b), k)
        x, y = a._array, b._array
        try:
            n, m = x.size, y.size
            if n < PARALLEL and m < PARALLEL and (n * m < PARALLEL or not grows(x.shape, y.shape)):
                made = small(x, y)
                if made.__class__ is not _ndarray:
                    made = _asarray(made)
            else:
                made = op.large(function, [x, y], result)
        except (ValueError, MemoryError) as error:
            raise registry.memory_problem(error) or broadcast_error((a, b)) from error
        t = _new(Tensor)
        t._array, t.dtype, t._k = made, result, 0
        t._edge = t._storage = t._view = None
        marks = modes.inferring
        t._autograd_meta = None if marks is None else marks.get(get_ident())
        return record(t, a, b) if k else t

    return pointwise_site(op, _named(call, op), record, 2)


def general(op: Any) -> Callable[..., Any]:
    quick = Quick(op)
    several, masks = op.outputs > 1, op.masks
    lead = 1 if 0 in masks else 0

    def call(*args: Any, out: Any = None) -> Any:
        if out is not None:
            return registry.into_out(out, op.call, args, {})
        if several:
            return slow(op, args)
        try:
            d = args[lead].dtype
            function, _, result = quick[d]
        except (AttributeError, KeyError, IndexError):
            return slow(op, args)
        k = modes.on
        numbers_fit = d.category == FLOATING and d.itemsize > 2
        arrays = []
        for i, a in enumerate(args):
            if isinstance(a, Tensor):
                if a.dtype is not (bool_ if i in masks else d) or a._array.size >= PARALLEL:
                    return slow(op, args)
                k |= a._k
                arrays.append(a._array)
            elif numbers_fit and (a.__class__ is float or a.__class__ is int) and -2e9 < a < 2e9:
                arrays.append(a)
            else:
                return slow(op, args)
        if k > 1:
            return special(op, args, k)
        try:
            made = function(*arrays)
        except (ValueError, OverflowError):
            return slow(op, args)
        out = wrap(made if made.__class__ is _ndarray else _asarray(made), result)
        if k and local.grad:
            op.record(args, out)
        return out

    def record(t: Tensor, *args: Any) -> Tensor:
        if local.grad:
            op.record(args, t)
        return t

    call = _named(call, op)
    return call if several else pointwise_site(op, call, record, ((1 << len(op.names)) - 1) & ~(1 << lead))


def backward(op: Any) -> Callable[..., Any]:
    """The derivative of an op at a node, with a short way for plain operands of one dtype and shape."""
    general = op.differentiate
    if op.outputs > 1 or op.arity > 2 or op.stepwise or any(d is None for d in op.grads[: op.arity]):
        return general
    first, *rest = [_gradient(d) for d in op.grads[: op.arity]]
    second = rest[0] if rest else None

    def call(node: Node, g: Tensor, create_graph: bool) -> Any:
        if create_graph or g._k or modes.on or node.info is not None:
            return general(node, g, create_graph)
        if second is None:
            return (first(node, g),)
        left, right = node.edges
        return (None if left is None else first(node, g), None if right is None else second(node, g))

    return call


def _gradient(derivative: Any) -> Callable[[Node, Tensor], Tensor]:
    """The gradient by one input as a function of a node and the incoming gradient, which is plain."""
    if derivative.identity:
        return lambda node, g: g
    if len(derivative.uses) != 1:
        return derivative.apply
    quick, index = Quick(derivative.kernel), derivative.uses[0]

    def call(node: Node, g: Tensor) -> Tensor:
        saved, incoming = node.saved[index], g._array
        if saved.__class__ is SavedOutput:
            storage: Any = saved if saved.shared is None else saved.shared
            array, k = saved.array, saved.k
        elif saved.__class__ is Tensor:
            storage, array, k = saved._storage, saved._array, saved._k
        else:
            return derivative.apply(node, g)
        size = incoming.size
        if k > 1 or not 1 < size < PARALLEL or array.size != size or array.dtype is not incoming.dtype:
            return derivative.apply(node, g)
        try:
            function, _, result = quick[g.dtype]
        except KeyError:  # the first time
            return derivative.apply(node, g)
        if storage is not None and storage.version:
            check_version(node, index, storage)
        t = _new(Tensor)
        t._array, t.dtype, t._k = function(incoming, array), result, 0
        t._edge = t._autograd_meta = t._storage = t._view = None
        return t

    return call


def slow(op: Any, args: tuple[Any, ...]) -> Any:
    """Any operands: numbers, mixed dtypes, first use of a dtype."""
    k = modes.on
    tensors = False
    for a in args:
        if isinstance(a, Tensor):
            k |= a._k
            tensors = True
        elif not isinstance(a, (int, float, complex, bool, np.generic)):
            function = registry.public_form(op)  # a class like a tensor may know what to do
            taken = NotImplemented if function is None else registry.overridden(function, args, {})
            if taken is not NotImplemented:
                return taken
            raise TypeError(f"{op.name}(): argument must be Tensor, not {type(a).__name__}")
    if op.numbers != "both":
        for a in args[: 1 if op.numbers == "right" else op.arity]:
            if not isinstance(a, Tensor):
                raise TypeError(f"{op.name}(): argument 'other' must be Tensor, not {type(a).__name__}")
    if not tensors and op.number_pairs:
        args = (registry.ops.full((), args[0]), *args[1:])
    elif not tensors:
        raise TypeError(f"{op.name}(): argument 'input' must be Tensor, not {type(args[0]).__name__}")
    op = for_number(op, args)
    if k > 1:
        return special(op, args, k)
    out = op.compute(args, k)
    if k and local.grad:
        op.record(args, out)
    return out


def for_number(op: Any, args: tuple[Any, ...]) -> Any:
    """The form of an op that keeps a number's precision beside a 16-bit float, if it has one."""
    if op.wide_number is None or isinstance(args[1], (Tensor, complex)) or not isinstance(args[0], Tensor):
        return op
    d = args[0].dtype
    return op.wide_number if d.wide is not d else op
