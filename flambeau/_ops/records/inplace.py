"""In-place forms: operations whose results are written into an operand, with version counts and rewritten history."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from ..._autograd.node import edge_of
from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core.dtypes import can_cast
from ..._core.state import (
    AUTOCAST,
    BATCHED,
    CAPTURE,
    CUDA,
    DISPATCH,
    DUAL,
    FUNCTION_MODE,
    GRAD,
    META,
    OVERRIDE,
    POSTPONED,
    PROFILE,
    QUANTIZED,
    SAVED_HOOKS,
    SPARSE,
    local,
    modes,
)
from ..._dispatch import _check_devices, backend_of
from ..._tensor import Tensor, alias, bump, meta_of, storage_of, wrap
from .. import registry
from ..plans.sites import in_place_site
from ..registry import ops, records
from .casting import broadcast_error, laid, operand_arrays, write
from .pointwise_op import Pointwise
from .rewriting import rewrite_history
from .rules import type_name
from .writable import apart_or_same, check_captured, check_writable, is_frozen


def write_plain(op: Pointwise, t: Tensor, first: Any, rest: tuple[Any, ...]) -> bool:
    """The common case of a pointwise operation whose result goes into `t`, done at once: plain operands of one dtype
    and no history."""
    try:
        d, x = first.dtype, first._array
        call, result = op.fast[d]
    except (AttributeError, KeyError):
        return False
    if result is not t.dtype or len(rest) + 1 != len(op.names):
        return False
    array, k, memory, meta = t._array, t._k | modes.on, t._storage, t._autograd_meta
    if meta is not None and meta.inference:
        return False
    if modes.inferring is not None or (t._view is not None and is_frozen(t)):
        return False
    arrays, shape, whole = [x], array.shape, True
    if first is not t:
        k |= first._k
        whole = x.shape == shape  # NumPy would also repeat a smaller result
        if memory is not None and memory.has_memory_of(first._storage):
            return False
    for a in rest:
        if isinstance(a, Tensor):
            y = a._array
            if a.dtype is not d or (memory is not None and a is not t and memory.has_memory_of(a._storage)):
                return False
            k |= a._k
            if not whole:
                whole = y.shape == shape
            arrays.append(y)
        elif (
            (a.__class__ is float or a.__class__ is int)
            and d.is_floating_point
            and d.itemsize > 2
            and op.numbers != "none"
            and -2e9 < a < 2e9  # NumPy warns of numbers beyond the dtype
        ):
            arrays.append(a)
        else:
            return False
    if k > 1 or not whole or (k and local.grad) or 0 in array.strides:
        return False
    try:
        if not threads.pay(array.size):
            call(*arrays, array)
        else:
            arrays = [a if a.__class__ is np.ndarray else np.asarray(a, d.numpy) for a in arrays]
            for a in arrays:
                if a is not array and ((a.shape != shape and _widens(a.shape, shape)) or not apart_or_same(array, a)):
                    return False
            cpu.into(call, arrays, array)
    except (ValueError, OverflowError):  # shapes that do not fit, read-only memory, a huge number
        return False
    bump(t)
    return True


def pointwise_in_place(op: Pointwise, t: Tensor, *args: Any) -> Tensor:
    """t = op(t, *args), written into t's memory."""
    return (op.in_place or _writing(op))(t, *args)


def _writing(op: Pointwise) -> Any:
    """Gives an operation its function that writes in place."""

    def call(*args: Any) -> Tensor:
        return _written(op, *args)

    count = len(op.names)
    op.in_place = in_place_site(op, call, [f"operand{i}" for i in range(count)], (1 << count) - 2)
    return op.in_place


# By record: functions that write what has few entries into a dense tensor where these are; False if they cannot.
sparse_writers: dict[str, Callable[..., bool]] = {}


def _written(op: Pointwise, t: Tensor, *args: Any) -> Tensor:
    """The same, whatever the operands are."""
    if write_plain(op, t, t, args):
        return t
    others = (t, *args)
    if op.numbers == "none" and not all(isinstance(a, Tensor) for a in others[: op.arity]):
        raise TypeError(f"{op.name}_(): argument 'other' must be Tensor, not a number")
    if op.wide_number is not None:
        op = op.for_number(others)
    k = modes.on
    for a in others:
        if isinstance(a, Tensor):
            k |= a._k
    if k & (OVERRIDE | FUNCTION_MODE | PROFILE | DISPATCH):
        # the function itself has become one on batches
        asked = registry.watched if local.batches else registry.overridden
        taken = asked(getattr(ops, op.name + "_", None) or pointwise_in_place_form(op), others, {})
        if taken is not NotImplemented:
            return taken
    usual = GRAD | CUDA | AUTOCAST | FUNCTION_MODE | PROFILE | SAVED_HOOKS | 0x3FF  # autocast leaves writes alone
    special = k & (BATCHED | SPARSE | QUANTIZED | ~usual)
    if special or k & (POSTPONED | DUAL | META):
        if not k & BATCHED:
            check_writable(t, args)
        if k & ~GRAD == SPARSE and not t._k & SPARSE and not (k & GRAD and local.grad) and local.before_write is None:
            writer = sparse_writers.get(op.name)
            if writer is not None and writer(t, *args):
                return t
        before = before_write(t) if local.grad or k & (POSTPONED | DUAL | META) else t
        result = op(before, *args)
        if before is not t:
            keep_original(before, result)
        return assign(t, result, op.name)
    check_writable(t, args)
    tracked = bool(k & GRAD and local.grad)
    before = alias(t) if tracked else t
    if tracked and op.differentiable:
        mask = sum(1 << i for i, a in enumerate(others[: op.arity]) if isinstance(a, Tensor) and a._k & GRAD)
        if op._save_plan(mask)[0]:
            before = _copy_with_history(t)  # a derivative needs the value that is about to go
    if tracked and k & ~AUTOCAST == CUDA | GRAD:
        _write_by_plan(op, t, args)
    else:
        _compute(op, t, others, k)
    if tracked:
        result = alias(t)
        result._edge = None
        result._k &= ~GRAD
        result._view = None
        forgets = op.in_place_name is not None and not op.differentiable  # what stood there has no gradient any more
        (records["zero"] if forgets else op).record((before, *args), result)
        if result._edge is not None:
            _kept_before(result._edge[0], t)
            if forgets:
                result._edge[0].label = f"{op.in_place_name}{int(isinstance(args[0], Tensor))}"
            elif op.in_place_name is not None:
                result._edge[0].label = op.in_place_name
            rewrite_history(t, result._edge)
    return t


def _kept_before(node: Any, t: Tensor) -> None:
    """What a node keeps of the memory of `t`, besides a result, is what stood there before the write (`t.mul_(t)`): its backward pass refuses it."""
    if node.versions is not None:
        node.versions = [
            version - (isinstance(s, Tensor) and s._storage is t._storage)
            for s, version in zip(node.saved, node.versions)
        ]


def _write_by_plan(op: Pointwise, t: Tensor, args: tuple[Any, ...]) -> None:
    """Writes without history, which calls of a GPU have plans for."""
    storage_of(t)
    local.grad = False
    try:
        pointwise_in_place(op, t, *args)
    finally:
        local.grad = True


def _compute(op: Pointwise, t: Tensor, others: tuple[Any, ...], k: int) -> None:
    """Writes the result into `t`, the first of the operands."""
    common = op.common(others)
    if k & CUDA:
        _check_devices(op, others)
    backend = backend_of(k)
    call, results, compute = op.variant(backend, common)
    if not can_cast(results[0], t.dtype):
        raise RuntimeError(
            f"result type {type_name(results[0])} can't be cast to the desired output type {type_name(t.dtype)}"
        )
    arrays = operand_arrays(op, others, compute)
    shape = t._array.shape
    if any(_widens(a.shape, shape) for a in arrays[1:]):
        shapes = [a.shape for a in arrays]
        try:
            full = np.broadcast_shapes(*shapes)
        except ValueError:
            raise broadcast_error(others) from None
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(full)}")
    if results[0] is t.dtype and t.dtype is compute:
        target = t._array
        backend.into(call, arrays, target)
    else:
        write(t._array, op.run(backend, call, arrays, results), t.dtype)
    bump(t)


def _widens(shape: Any, target: Any) -> bool:
    if len(shape) > len(target):
        return True
    return any(n != m and n != 1 for n, m in zip(reversed(shape), reversed(target)))


def _check_result(t: Tensor, d: Any, shape: Any) -> None:
    if not can_cast(d, t.dtype):
        raise RuntimeError(f"result type {type_name(d)} can't be cast to the desired output type {type_name(t.dtype)}")
    if tuple(shape) != tuple(t._array.shape):
        raise RuntimeError(f"output with shape {list(t._array.shape)} doesn't match the broadcast shape {list(shape)}")


def _copy_with_history(t: Tensor) -> Tensor:
    k = t._k
    if modes.on & CAPTURE and local.captures:
        array, k = ops.clone(ops.detach(t))._array, k & ~POSTPONED  # for those who record
    else:
        array = t._array if k & META else t._array.copy()
    copy = wrap(array, t.dtype, k)
    copy._edge = edge_of(t)
    if t._k & DUAL:  # its tangent is written to as well
        meta_of(copy).tangent = ops.clone(meta_of(t).tangent)
        local.duals.append(ref(copy))
    return copy


def before_write(t: Any) -> Any:
    """A tensor that is about to be written to, as an operand: in forward mode a copy, since the history of tangents may keep it."""
    if local.duals is None or not local.grad:
        return alias(t)
    if t._k & BATCHED:
        return t.around(before_write(t.value))
    return alias(t) if t._k & DISPATCH else _copy_with_history(t)


def keep_original(before: Any, result: Any) -> None:
    """If the history of `result` saved `before`, whose memory is about to be written, it gets a copy instead."""
    while before._k & result._k & BATCHED:
        before, result = before.value, result.value
    edge = result._edge
    if edge is not None and edge[0].saved:
        saved = edge[0].saved
        for i, s in enumerate(saved):
            if s is before:
                saved[i] = _copy_with_history(before)
                if edge[0].versions is not None:
                    edge[0].versions = [0 if j == i else v for j, v in enumerate(edge[0].versions)]


write_tangent: Any = None  # set by forward mode: what a tensor's tangent is after a write
show_write: Any = None  # set by `torch_dispatch`: shows a write to a mode, which carries it out


def shown(t: Tensor, result: Tensor) -> bool:
    """Whether a mode that takes operators over has written a result into a tensor: it was shown the operation, not the write."""
    return (modes.on | t._k) & DISPATCH != 0 and show_write(t, result)


def assign(t: Tensor, result: Tensor, name: str, check: bool = True) -> Tensor:
    """Writes the result of an operation on `t` back into it and takes over the result's history."""
    if check:
        _check_result(t, result.dtype, result._array.shape)
    if (t._k | result._k) & BATCHED:
        if modes.inferring is not None and local.transforms:
            check_captured(t)
        return ops.write_batched(t, result, name + "_")
    if local.before_write is not None:  # the operation itself may have saved `t`
        local.before_write(t)
    if not shown(t, result) and not t._k & META:
        if result._k & SPARSE and result.dtype is not t.dtype:
            result = ops.to_dtype(result, t.dtype)
        if result._k & ~t._k & SPARSE:
            result = ops.to_dense(result)
        write(t._array, laid(result._array, t), t.dtype)
        if modes.on & CAPTURE and local.captures:
            local.captures[-1].add_write(t, result)
    bump(t)
    if (t._k | result._k) & DUAL:
        write_tangent(t, result)
    edge = result._edge
    if edge is not None and local.grad:
        if result.dtype is not t.dtype:
            edge = ops.to_dtype(result, t.dtype)._edge
        rewrite_history(t, edge)
    return t


def _foreign(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A function in place of something that is no tensor, which may know what to do."""
    taken = registry.ask_foreign(registry.functions.get(function.__name__, function), args, named)
    if taken is NotImplemented:
        raise TypeError(f"{function.__name__}(): argument 'input' must be Tensor, not {type(args[0]).__name__}")
    return taken


def in_place_form(name: str, function: Any) -> Any:
    """The form with an underscore of any function whose result has its first argument's shape."""

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, **named: Any) -> Tensor:
        if not isinstance(input, Tensor):
            return _foreign(call, (input, *args), named)
        if modes.overrides:
            taken = registry.overridden(call, (input, *args), named)
            if taken is not NotImplemented:
                return taken
        check_writable(input, args)
        before = before_write(input) if local.grad else input
        result = function(before, *args, **named)
        keep_original(before, result)
        return assign(input, result, name)

    call.__name__ = call.__qualname__ = name + "_"
    return call


def pointwise_in_place_form(op: Pointwise) -> Any:
    def call(input: Tensor, *args: Any) -> Tensor:
        if not isinstance(input, Tensor):
            return _foreign(call, (input, *args), {})
        return pointwise_in_place(op, input, *args)

    call.__name__ = call.__qualname__ = op.name + "_"
    return call


registry.in_place_form = in_place_form


SCHEMAS = """
ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)
__ior__|__iand__|__ixor__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
__ior__|__iand__|__ixor__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
"""
