"""Writing into tensors: in-place forms and `out=`, with PyTorch's checks, version counts and rewritten history."""

from __future__ import annotations

import functools
import warnings
from typing import Any
from weakref import ref

import numpy as np

from .._autograd.functions import FunctionRecord
from .._autograd.hooks import follow
from .._autograd.node import Node, edge_of
from .._backend.cpu import PARALLEL, cpu
from .._core.dtypes import COMPLEX, FLOATING, bool_, can_cast, dtype
from .._core.layouts import like_strides
from .._core.return_types import with_out
from .._core.state import (
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
from .._dispatch import _check_devices, backend_of, tensors_in
from .._errors import taught
from .._tensor import (
    MADE_IN_FUNCTION,
    MADE_IN_INFERENCE,
    MADE_WITH_OTHERS,
    MADE_WITHOUT_GRAD,
    BirthMeta,
    Tensor,
    alias,
    bump,
    meta_of,
    read_as,
    storage_of,
    wrap,
)
from . import registry
from .casting import broadcast_error, laid, operand_arrays, write
from .pointwise_call import slow
from .pointwise_op import Pointwise
from .registry import ops, records
from .rules import type_name

# -- checks ------------------------------------------------------------------------------------------------------


def overlaps_itself(array: Any) -> bool:
    """Whether two elements of an array share memory."""
    shape, strides = array.shape, array.strides
    if array.size < 2:
        return False
    extent = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1):
        if stride < extent:
            return True
        extent = stride * (n - 1) + extent
    return False


def check_writable(
    t: Tensor, others: Any = (), expanded: bool = False, partial: bool = True, captured: bool = False
) -> None:
    """Raises unless an in-place operation may write to `t` (PyTorch's rules for leaves, views and overlap).

    `expanded` allows elements that share memory: fills and single elements may be written there. `partial` asks whether
    the others overlap it in part. `captured` allows what a function under a transform did not make.
    """
    if modes.inferring is not None and local.transforms and not captured:
        check_captured(t)
    if local.grad:
        check_history(t, others)
    check_inference(t)
    if local.before_write is not None:
        local.before_write(t)
    array = t._array
    if not expanded and 0 in array.strides and not t._k & SPARSE and overlaps_itself(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location; clone() it first"
        )
    if not isinstance(array, np.ndarray) or array.flags.writeable:
        storage = t._storage
        if storage is not None and partial:
            for other in others:
                if isinstance(other, Tensor) and other is not t and other._storage is storage:
                    _check_partial_overlap(array, other._array)
    elif not t._k & META:
        t._array = array = _writable(array)


def check_history(t: Tensor, others: Any = ()) -> None:
    """Raises unless a recorded write to `t` can become part of its history."""
    if t._view is not None:
        check_view(t, others)
    if t._k & GRAD:
        if t._edge is None:
            raise taught(RuntimeError("a leaf Variable that requires grad is being used in an in-place operation."))
        node, number = t._edge
        if node.op.__class__ is FunctionRecord and number in node.__dict__.get("as_is", ()):
            raise RuntimeError(_frozen(t, "is being modified inplace", _IN_FUNCTION))


def check_inference(t: Tensor) -> None:
    """Raises if `t` was made in inference mode and is written to outside of it."""
    meta = t._autograd_meta
    if meta is not None and meta.inference and not local.inference:
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed; clone() it first")


def check_captured(t: Any) -> None:
    """Raises if a function that is being differentiated by a transform writes to what it did not make or was not given."""
    while t._k & BATCHED:
        t = t.value
    meta = t._autograd_meta
    born = None if meta is None else meta.inherited
    if born.__class__ is not BirthMeta or not any(one is local.transforms[-1] for one in born.transforms):  # type: ignore[union-attr]
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation that "
            "would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
            "explicitly accept the mutated Tensor(s) as inputs, or clone() what it captured."
        )


def _writable(array: Any) -> Any:
    """Read-only NumPy memory that a user handed in cannot be written."""
    raise RuntimeError("the tensor's memory is read-only (it came from a read-only NumPy array); clone() it first")


def _same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays are the same elements in the same places."""
    return a is b or (a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype and _span(a) == _span(b))


def _apart_or_same(written: Any, read: Any) -> bool:
    """Whether each element of a pointwise result may be written as soon as its operands are read."""
    if isinstance(written, np.ndarray) and isinstance(read, np.ndarray):
        return not np.may_share_memory(written, read) or _same_memory(written, read)
    (first, last), (start, stop) = _span(written), _span(read)
    return last <= start or stop <= first or _same_memory(written, read)


def _check_partial_overlap(written: Any, read: Any) -> None:
    same = written.shape == read.shape and written.strides == read.strides and _span(written) == _span(read)
    if not same:
        _check_overlap(written, read)


def check_apart(t: Tensor, others: Any) -> None:
    """Raises if a tensor that is written piece by piece shares memory with one that is read."""
    storage = t._storage
    for other in others:
        if isinstance(other, Tensor) and (other is t or (storage is not None and other._storage is storage)):
            _check_overlap(t._array, other._array)


def warn_of_expanded(name: str, stacklevel: int = 4) -> None:
    warnings.warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation: elements that share memory are all written.",
        stacklevel=stacklevel + 1,
    )


def _check_overlap(written: Any, read: Any) -> None:
    if written.size and read.size and _dense_overlap(written, read):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
            "a single memory location; clone() one of them first"
        )


def _span(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last, on any device."""
    start = array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr
    return start, start + sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize


def _dense_overlap(a: Any, b: Any) -> bool:
    """Whether two arrays without gaps share memory; of others PyTorch does not ask, and NumPy copies where need be."""
    (first, last), (start, stop) = _span(a), _span(b)
    return last - first == a.nbytes and stop - start == b.nbytes and first < stop and start < last


_IN_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is): rewriting its history "
    "would lose the Function's own backward. Clone the output of the Function first."
)
_WITH_OTHERS = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be "
    "modified inplace. Use the form of the operation that is not in place."
)


def check_view(t: Tensor, others: Any = ()) -> None:
    """Raises if a recorded operation may not write to a view."""
    base, inside, made, of_leaf = t, None, t._view[5], False
    while base._view is not None:
        edge = base._edge
        if edge is not None and edge[0].op.__class__ is FunctionRecord:
            inside = edge[0]
        base = base._view[0]
        of_leaf = of_leaf or (base._edge is None and bool(base._k & GRAD))  # a leaf may be a view itself
    if not ((t._k | base._k) & GRAD or of_leaf) and not any(isinstance(a, Tensor) and a._k & GRAD for a in others):
        return
    if inside is not None:
        several = inside.outputs is not None and len(inside.outputs) > 1
        raise RuntimeError(_frozen(t, "is being modified inplace", _WITH_OTHERS if several else _IN_FUNCTION))
    if made in (MADE_WITH_OTHERS, MADE_IN_FUNCTION):
        reason = _WITH_OTHERS if made == MADE_WITH_OTHERS else _IN_FUNCTION
        raise RuntimeError(_frozen(t, "is being modified inplace", reason))
    if made and t.dtype.category >= FLOATING:
        raise RuntimeError(_unrecorded(t, "is being modified inplace"))
    if of_leaf and t.dtype.category >= FLOATING:
        raise taught(
            RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        )


def _unrecorded(t: Tensor, event: str) -> str:
    """Why a view that was made in a block without recording has no history after a write."""
    plain = t._view[5] == MADE_WITHOUT_GRAD
    before, now = ("no_grad", "with grad mode enabled") if plain else ("inference", "in normal mode")
    block = "no_grad" if plain else "inference_mode"
    what = "A view" if t._edge is None else f"{_output(t)} is a view of a view which"
    return (
        f"{what} was created in {before} mode and {event} {now}. It is unclear whether the write should be recorded: do both, "
        f"the view and the write, inside the {block} block (to leave the write out), or both outside of it."
    )


def stale(t: Tensor) -> str | None:
    """Why nobody can tell the history of a view: it was made without recording, and its memory written to since."""
    view = t._view
    if view is None or view[5] not in (MADE_WITHOUT_GRAD, MADE_IN_INFERENCE) or t._storage.version == view[6]:  # type: ignore[union-attr]
        return None
    base = view[0]
    while base._view is not None:
        base = base._view[0]
    if not base._k & GRAD or t.dtype.category < FLOATING:
        return None
    return _unrecorded(t, "its base or another view of its base has been modified inplace")


def is_frozen(t: Tensor) -> bool:
    """Whether a view may be one that `check_view` refuses, though it needs no gradient itself."""
    base = t._view[0]
    while base._view is not None:
        base = base._view[0]
    return bool(t._view[5] or base._k & GRAD) and local.grad


def _output(t: Tensor) -> str:
    node, number = t._edge
    return f"Output {number} of {node.name().removesuffix('0').removesuffix('Backward')}"


def _frozen(t: Tensor, event: str, reason: str) -> str:
    if t._edge is None:
        return f"A view {event}. {reason}"
    return f"{_output(t)} is a view and {event}. {reason}"


# -- history -----------------------------------------------------------------------------------------------------


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
    storage = t._storage
    if storage is not None and storage.views:
        for reference in list(storage.views):
            view = reference()
            if view is not None and not any(view is done for done in renewed):
                _renew(view)


def _renew(view: Tensor) -> None:
    """Gives a view the history that its base has now."""
    parent, op, static, _, _, made, _ = view._view
    if not parent._k & GRAD:
        return
    if made == MADE_WITH_OTHERS:
        stale = _frozen(view, "its base or another view of its base has been modified inplace", _WITH_OTHERS)
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
            t = t[number]  # type: ignore[index]
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


# -- in-place forms ----------------------------------------------------------------------------------------------


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
        if memory is not None and first._storage is memory:
            return False
    for a in rest:
        if isinstance(a, Tensor):
            y = a._array
            if a.dtype is not d or (memory is not None and a._storage is memory and a is not t):
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
        if array.size < PARALLEL:
            call(*arrays, array)
        else:
            arrays = [a if a.__class__ is np.ndarray else np.asarray(a, d.numpy) for a in arrays]
            for a in arrays:
                if a is not array and ((a.shape != shape and _widens(a.shape, shape)) or not _apart_or_same(array, a)):
                    return False
            cpu.parallel(call, arrays, array)
    except (ValueError, OverflowError):  # shapes that do not fit, read-only memory, a huge number
        return False
    bump(t)
    return True


def pointwise_in_place(op: Pointwise, t: Tensor, *args: Any) -> Tensor:
    """t = op(t, *args), written into t's memory."""
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
        taken = registry.overridden(getattr(ops, op.name + "_", None) or pointwise_in_place_form(op), others, {})
        if taken is not NotImplemented:
            return taken
    if k & (POSTPONED | DUAL | META):
        if not k & BATCHED:
            check_writable(t, args)
        before = before_write(t)
        result = op(before, *args)
        keep_original(before, result)
        return assign(t, result, op.name)
    if k & (BATCHED | SPARSE | QUANTIZED | ~(GRAD | CUDA | FUNCTION_MODE | PROFILE | SAVED_HOOKS | 0x3FF)):
        before = before_write(t) if local.grad else t
        result = op(before, *args)
        if before is not t:
            keep_original(before, result)
        return assign(t, result, op.name)
    check_writable(t, args)
    common = op.common(others)
    if k & CUDA:
        _check_devices(op, others)
    backend = backend_of(k)
    call, results, compute = op.variant(backend, common)
    if not can_cast(results[0], t.dtype):
        raise RuntimeError(
            f"result type {type_name(results[0])} can't be cast to the desired output type {type_name(t.dtype)}"
        )
    tracked = bool(k & GRAD and local.grad)
    before = alias(t) if tracked else t
    if tracked and op.differentiable:
        mask = sum(1 << i for i, a in enumerate(others[: op.arity]) if isinstance(a, Tensor) and a._k & GRAD)
        if op._save_plan(mask)[0]:
            before = _copy_with_history(t)  # a derivative needs the value that is about to go
    arrays = operand_arrays(backend, op, others, compute)
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
        if backend.name == "cpu" and target.size >= PARALLEL and all(_apart_or_same(target, a) for a in arrays):
            backend.parallel(call, arrays, target)
        else:  # NumPy copies operands that overlap
            call(*arrays, out=target)
    else:
        write(t._array, op.run(backend, call, arrays, results), t.dtype)
    bump(t)
    if tracked:
        result = alias(t)
        result._edge = None
        result._k &= ~GRAD
        result._view = None
        forgets = op.in_place_name is not None and not op.differentiable  # what stood there has no gradient any more
        (records["zero"] if forgets else op).record((before, *args), result)
        if result._edge is not None:
            if forgets:
                result._edge[0].label = f"{op.in_place_name}{int(isinstance(args[0], Tensor))}"
            elif op.in_place_name is not None:
                result._edge[0].label = op.in_place_name
            rewrite_history(t, result._edge)
    return t


def _widens(shape: Any, target: Any) -> bool:
    if len(shape) > len(target):
        return True
    return any(n != m and n != 1 for n, m in zip(reversed(shape), reversed(target)))


def _check_result(name: str, t: Tensor, d: Any, shape: Any) -> None:
    if not can_cast(d, t.dtype):
        raise RuntimeError(f"result type {type_name(d)} can't be cast to the desired output type {type_name(t.dtype)}")
    if tuple(shape) != tuple(t._array.shape):
        raise RuntimeError(f"output with shape {list(t._array.shape)} doesn't match the broadcast shape {list(shape)}")


def _copy_with_history(t: Tensor) -> Tensor:
    if modes.on & CAPTURE and local.captures:
        array = ops.clone(ops.detach(t))._array  # for those who record
    else:
        array = t._array if t._k & META else t._array.copy()
    copy = wrap(array, t.dtype, t._k)
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


def assign(t: Tensor, result: Tensor, name: str, check: bool = True) -> Tensor:
    """Writes the result of an operation on `t` back into it and takes over the result's history."""
    if check:
        _check_result(name, t, result.dtype, result._array.shape)
    if (t._k | result._k) & BATCHED:
        if modes.inferring is not None and local.transforms:
            check_captured(t)
        return ops.write_batched(t, result, name + "_")
    if local.before_write is not None:  # the operation itself may have saved `t`
        local.before_write(t)
    if not t._k & META:
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


def in_place_form(name: str, function: Any) -> Any:
    """The form with an underscore of any function whose result has its first argument's shape."""

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, **named: Any) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}_(): argument 'input' must be Tensor, not {type(input).__name__}")
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
            raise TypeError(f"{op.name}_(): argument 'input' must be Tensor, not {type(input).__name__}")
        return pointwise_in_place(op, input, *args)

    call.__name__ = call.__qualname__ = op.name + "_"
    return call


_WORTH_A_COPY = 1 << 20  # bytes of a result from which it pays to see whether it can be made in its place

# -- out= --------------------------------------------------------------------------------------------------------


def into_out(target: Any, function: Any, args: Any, named: Any) -> Any:
    """Runs a function and writes its result(s) into the given tensor(s), resizing them if need be."""
    record: Any = records.get(function.__name__)
    pointwise = record.__class__ is Pointwise
    plain = isinstance(target, Tensor)
    if pointwise and not record.takes_out:
        raise TypeError(f"{function.__name__}() got an unexpected keyword argument 'out'")
    if pointwise and plain and args and function is record.call and write_plain(record, target, args[0], args[1:]):
        return target
    if local.grad:
        for a in [*args, *named.values(), *(target if isinstance(target, (tuple, list)) else (target,))]:
            if isinstance(a, Tensor) and a._k & (GRAD | DUAL):
                if a._k & DUAL:
                    raise NotImplementedError(
                        f"Trying to use forward AD with {function.__name__}_out that does not support it because it is an "
                        "out= function"
                    )
                raise RuntimeError(
                    f"{function.__name__}(): functions with out=... arguments don't support automatic differentiation, but "
                    "one of the arguments requires grad. detach() it, or leave out= away"
                )
    if local.duals is not None and any(t._k & DUAL for t in tensors_in((*args, *named.values(), target))):
        raise RuntimeError(
            f"{function.__name__}(): an out= function cannot be used with tensors that have a forward gradient; leave out= away"
        )
    if plain and pointwise and not target._k & META:
        for a in args:
            if isinstance(a, Tensor) and a is not target and a._storage is not None and a._storage is target._storage:
                _check_partial_overlap(target._array, a._array)
    rule = getattr(function, "out_rule", None)
    if rule == "dtype" and plain and named.get("dtype") is None:
        named = {**named, "dtype": target.dtype}
    place = _destination(target, (*args, *named.values()), pointwise) if plain else None
    if place is None:
        result = function(*args, **named)
    else:
        before, local.destination = local.destination, place
        try:
            result = function(*args, **named)
        finally:
            local.destination = before
        if isinstance(result, Tensor) and _same_memory(target._array, result._array):
            bump(target)
            return target
    if pointwise and record.exact_out and plain and result.dtype is not target.dtype:
        _refuse_cast(record, args[0] if args else named["input"], result.dtype, target.dtype)
    if rule == "exact" and plain and isinstance(result, Tensor):
        check_out_dtype(target, result.dtype)
    elif rule.__class__ is tuple and plain and target.dtype is not result.dtype:
        text, also, of = rule
        if target.dtype in also:
            result = ops.to_dtype(result, target.dtype)
        elif of is None or of(*args, **named):
            raise RuntimeError(text.format(out=type_name(target.dtype), made=type_name(result.dtype)))
    if isinstance(result, (tuple, list)):
        if not isinstance(target, (tuple, list)) or len(target) != len(result):
            raise TypeError(f"{function.__name__}(): argument 'out' must be a tuple of {len(result)} Tensors")
        for t, r in zip(target, result):
            if isinstance(t, Tensor):
                check_out_dtype(t, r.dtype)
            write_out(t, r, function.__name__)
        return type(result)(target) if type(result) in (tuple, list) else with_out(type(result))(*target)
    return write_out(target, result, function.__name__)


def check_out_dtype(t: Tensor, made: dtype) -> None:
    """Raises for an `out=` of another dtype than the result's."""
    if t.dtype is not made:
        raise RuntimeError(
            f"Expected out tensor to have dtype {made.name} (scalar type {type_name(made)}), but got {t.dtype.name} instead "
            f"(expected scalar_type {type_name(made)} but found {type_name(t.dtype)})"
        )


def _refuse_cast(op: Pointwise, input: Tensor, made: dtype, wanted: dtype) -> None:
    """Raises for an `out=` of another dtype than the result's; a part of a complex number may be cast."""
    if made is bool_ and input.dtype is not bool_:
        raise RuntimeError(f"{op.name} does not support non-boolean outputs.")
    if input.dtype.category != COMPLEX or made.category == COMPLEX:
        raise RuntimeError(f"Found dtype {type_name(wanted)} but expected {type_name(made)}")


def _destination(target: Tensor, args: tuple[Any, ...], pointwise: bool) -> Any:
    """What to offer as the place of the result (see `Local.destination`); None where it must be written later.

    An operand may lie in the very same place if the function is one pointwise record: nothing reads it later.
    """
    k = target._k | modes.on
    array = target._array
    if k & ~(GRAD | CUDA) or array.nbytes < _WORTH_A_COPY or overlaps_itself(array):
        return None
    shared = False
    for a in tensors_in(args):
        if a._k & ~(GRAD | CUDA):
            return None
        if (a._k ^ target._k) & CUDA:  # a number, or an error
            continue
        if not _apart_or_same(array, a._array):
            return None
        if _same_memory(array, a._array):
            shared = True
            if not pointwise:
                return None
    if k & CUDA:
        return array, False
    return (array, array.flags.c_contiguous and not shared) if array.flags.writeable else None


def write_out(t: Any, result: Tensor, name: str) -> Tensor:
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    if (t._k | result._k) & BATCHED:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}.out; the fallback path doesn't work on out= or view ops: inside "
            "vmap leave out=, and use the result."
        )
    if not can_cast(result.dtype, t.dtype):
        raise RuntimeError(
            f"result type {type_name(result.dtype)} can't be cast to the desired output type {type_name(t.dtype)}"
        )
    if (t._k ^ result._k) & (CUDA | META):
        raise RuntimeError(f"{name}(): Expected out tensor to have device {result.device}, but got {t.device} instead")  # type: ignore[attr-defined]
    made = result._array
    if tuple(t._array.shape) != made.shape:
        resize_out(t, made.shape)
        if made.__class__ is np.ndarray and not made.flags.c_contiguous and not t._k & META:
            t._array = strided_like(t._array, made)
    check_writable(t, captured=True)
    if not t._k & META:
        write(t._array, laid(read_as(result._array, result._k), t), t.dtype)
        if modes.on & CAPTURE and local.captures:
            local.captures[-1].add_write(t, result)
    bump(t)
    return t


def strided_like(array: Any, made: Any) -> Any:
    """A row-major array's memory, addressed in the order of another array of that shape."""
    steps = tuple([s * array.itemsize for s in like_strides(made.shape, made.strides, made.itemsize)])
    return np.ndarray(made.shape, array.dtype, array.reshape(-1).view(np.uint8), 0, steps)


def resize_out(t: Tensor, shape: Any) -> None:
    if tuple(t._array.shape) == tuple(shape):
        return
    if t._array.size:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(t._array.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. Pass one of that shape, or an empty one.",
            UserWarning,
            stacklevel=4,
        )
    ops.resize_(t, shape)


registry.into_out = into_out
registry.in_place_form = in_place_form

__all__ = ["assign", "check_writable", "in_place_form", "into_out", "pointwise_in_place_form", "slow", "storage_of"]


SCHEMAS = """
ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)
__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
__ior__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
__iand__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
__ixor__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
__ixor__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
"""
