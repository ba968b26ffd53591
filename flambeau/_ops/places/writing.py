"""Writing into tensors: copies, constants, diagonals, Python functions of the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.copies import duplicate, place
from ..._core.allocation import fill as fill_memory
from ..._core.dtypes import FLOATING, INTEGER, dtype, from_numpy_dtype
from ..._core.state import BATCHED, CAPTURE, CUDA, DUAL, GRAD, META, OVERRIDE, QUANTIZED, SPARSE, local, modes
from ..._dispatch import backend_of
from ..._tensor import Tensor, alias, bump, read_as, wrap
from .. import basic, registry
from ..making.conversion import move_array, tensor_type_name
from ..plans.device_plans import Writing
from ..records import inplace
from ..records.batched_places import filled
from ..records.batching import leading
from ..records.casting import broadcast_error, cast_array, checked_array, laid, tell_of_lost_parts
from ..records.casting import write as write_array
from ..records.inplace import assign
from ..records.primitive import Primitive, primitive
from ..records.rewriting import rewrite_history
from ..records.shape_rules import dense
from ..records.writable import apart_or_same, check_partial_overlap, check_writable, is_frozen
from ..registry import frequent, ops, public, relabel


def _record_write(t: Tensor, op: Primitive, args: tuple[Any, ...]) -> None:
    """Gives a written tensor the history of the op that made its new value."""
    result = wrap(t._array, t.dtype, t._k & ~(GRAD | OVERRIDE))
    op.record(args, result)
    if result._edge is not None:
        rewrite_history(t, result._edge)


def _told(t: Tensor, source: Any, counted: bool = False) -> None:
    """Counts a write of a tensor or a number into another tensor, and tells those who record."""
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].add_write(t, source)
    if not counted:
        bump(t)


def _place_there(t: Tensor, src: Tensor) -> Tensor:
    target, source = t._array, src._array
    if t._storage is not None and t._storage.has_memory_of(src._storage) and not apart_or_same(target, source):
        check_partial_overlap(target, source)
        source = duplicate(source)
    backend_of(CUDA).copy(source, target)
    bump(t)
    return t


def _fill_there(t: Tensor, value: Any) -> Tensor:
    backend_of(CUDA).copy(read_as(checked_array(value, t.dtype, True), t._k), t._array)
    bump(t)
    return t


_placing = Writing("copy_", ("input", "src"), _place_there)  # of a tensor on a GPU into another
_filling = Writing("fill_", ("input", "value"), _fill_there)  # of a number into such a tensor


def _has_plans(k: int) -> bool:
    """Whether writes into a tensor of these properties are planned: a plain one but for its device."""
    return k & ~GRAD == CUDA and backend_of(CUDA).ready()


def writes_there(t: Tensor, value: Any) -> bool:
    """Writes a number or a tensor into one on a GPU, if that needs no history, no cast and nobody's attention; whether it did."""
    meta, array = t._autograd_meta, t._array
    if t._k & ~GRAD != CUDA or modes.on or modes.inferring is not None or local.before_write is not None:
        return False
    if (meta is not None and meta.inference) or (local.grad and (t._k & GRAD or t._view is not None)):
        return False
    if 0 in array.strides or not backend_of(CUDA).ready():
        return False
    if value.__class__ is not Tensor:
        if not _is_small(value, t.dtype):
            return False
        _filling(t, value)
        return True
    if value._k & ~GRAD != CUDA or (local.grad and value._k & GRAD) or value.dtype is not t.dtype:
        return False
    if value._array.shape != array.shape:
        return False
    _placing(t, value)
    return True


def _is_plain(k: int, target: Tensor) -> bool:
    """Whether a write needs no history, checks of devices or anybody's attention."""
    k |= modes.on
    view, meta = target._view, target._autograd_meta
    if (meta is not None and meta.inference) or modes.inferring is not None or (view is not None and is_frozen(target)):
        return False
    return not k or (k == GRAD and not local.grad)


@frequent(function=False)
def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copies the elements of `src`, broadcast and cast, into this tensor."""
    if modes.overrides and (taken := registry.overridden(copy_, (input, src, non_blocking), {})) is not NotImplemented:
        return taken
    if not isinstance(src, Tensor):
        return fill_(input, src)
    if src is input:  # counts as a write; its gradient comes from what was there
        src = alias(input)
    k, target, source, memory = input._k | src._k, input._array, src._array, input._storage
    if _is_plain(k, input) and src.dtype is input.dtype and target.shape == source.shape:
        if (memory is None or memory is not src._storage) and 0 not in target.strides and target.flags.writeable:
            place(target, source)
            bump(input)
            return input
    if k & CUDA and writes_there(input, src):
        return input
    if k & BATCHED:
        return ops.write_batched(input, src)
    check_writable(input, (src,))
    if k & DUAL:
        return assign(input, basic.copied(alias(input), src), "copy")
    if k & GRAD and local.grad:
        before = alias(input)  # its gradient is zero, but it has one
        _told(input, src, _write(input, src, k))
        _record_write(input, basic.copied, (before, src))
        return input
    _told(input, src, _write(input, src, k))
    return input


def _write(t: Tensor, src: Tensor, k: int) -> bool:
    """The elements of `src` into the memory of `t`, between any dtypes and devices. Whether that is counted already."""
    tell_of_lost_parts(src.dtype, t.dtype)
    target, source = t._array, laid(read_as(src._array, src._k), t)
    if k & QUANTIZED:
        source = ops.quantized_source(t, src)
        _check_fits(target.shape, source.shape, (t, src))
        target[...] = source
        return False
    if k & SPARSE:
        if not t._k & src._k & SPARSE or target.shape != source.shape:
            raise RuntimeError(
                "copy_() between dense and sparse Tensors is not implemented, nor between sparse ones of different sizes: "
                f"found {target.shape} and {source.shape}; use to_dense() or to_sparse()"
            )
        target[...] = ops.to_dtype(src, t.dtype)._array
        return False
    if k & (CUDA | META):
        _check_fits(target.shape, source.shape, (t, src))
        if t._k & META:
            return False
        if src._k & META:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if (t._k ^ src._k) & CUDA:
            source = move_array(source, src._k, src.dtype, t.device)
        if _has_plans(t._k):
            _placing(t, src if source is src._array else wrap(source, from_numpy_dtype(source.dtype), CUDA))
            return True
        write_array(target, source, t.dtype)
        return False
    if source.ndim > target.ndim:  # NumPy would leave out dimensions of extent 1
        _check_fits(target.shape, source.shape, (t, src))
    try:
        write_array(target, source, t.dtype)
    except ValueError:
        _check_fits(target.shape, source.shape, (t, src))
        raise
    return False


def _check_fits(target: Any, source: Any, both: Any) -> None:
    try:
        full = np.broadcast_shapes(target, source)
    except ValueError:
        raise broadcast_error(both) from None
    if full != tuple(target):
        raise RuntimeError(f"output with shape {list(target)} doesn't match the broadcast shape {list(full)}")


def _filled_tangent(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    """That of the value: what was there before does not count."""
    return ops.zeros_like(out) if tangents[1] is None else op(args[0], tangents[1])


@primitive(
    meta=dense,
    tensors=2,
    grad={"x": lambda g: ops.zeros_like(g), "value": lambda g: ops.sum(g)},
    backward_name=lambda node: f"FillBackward{2 if node.info[1] is None else 3}",
    name="fill",
    batch=filled,
    tangent=_filled_tangent,
)
def fill_op(backend: Any, x: Any, value: Any) -> Any:
    made = duplicate(x)
    made[...] = value
    return made


@primitive(
    batch=leading, meta=dense, grad={"x": lambda g: ops.zeros_like(g)}, backward_name="ZeroBackward0", name="zero"
)
def zero_op(backend: Any, x: Any) -> Any:
    return backend.xp.zeros_like(x)


def _filled(t: Tensor, value: Any) -> Any:
    """What `fill` writes: an element of the tensor's dtype, as an array."""
    if t._k & QUANTIZED:
        return ops.quantized_source(t, ops.full(t._array.shape, float(value)))
    if not isinstance(value, Tensor):
        if not isinstance(value, (int, float, complex, np.generic)):
            raise TypeError(f"fill_(): argument 'value' must be Tensor or Number, not {type(value).__name__}")
        return checked_array(value, t.dtype, t._array.size == 1)
    array = read_as(value._array, value._k)
    if array.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor, got {array.ndim} dimensions")
    if value._k & CUDA and not t._k & CUDA:
        array = backend_of(CUDA).asnumpy(array)
    return array if value.dtype is t.dtype else cast_array(array, t.dtype)


def _is_small(value: Any, d: dtype) -> bool:
    """Whether a number surely fits a dtype."""
    kind = value.__class__
    if d.category == FLOATING:
        return (kind is float or kind is int) and -60000 < value < 60000 and d.itemsize > 1
    return d.category == INTEGER and kind is int and 0 <= value < 128


@frequent()
def fill_(input: Tensor, value: Any) -> Tensor:
    """Sets every element to a number or to the value of a 0-d tensor."""
    if modes.overrides and (taken := registry.overridden(fill_, (input, value), {})) is not NotImplemented:
        return taken
    if _is_plain(input._k, input) and _is_small(value, input.dtype) and 0 not in input._array.strides:
        if input._array.flags.writeable:
            fill_memory(input._array, value)
            bump(input)
            return input
    if input._k & CUDA and value.__class__ is not Tensor and writes_there(input, value):
        return input
    if (input._k | value._k if isinstance(value, Tensor) else input._k) & BATCHED:
        return ops.write_batched(input, value)
    if isinstance(value, Tensor) and value._storage is not None and value._storage is input._storage:
        value = ops.clone(value)  # it is one number, read before anything is written
    check_writable(input, (value,), expanded=not isinstance(value, Tensor))
    made = _filled(input, value)
    tracked = local.grad and (input._k & GRAD or (isinstance(value, Tensor) and value._k & GRAD))
    before, counted = alias(input) if tracked else None, _has_plans(input._k)
    if counted and made.__class__ is np.ndarray:
        _filling(input, made.item())
    elif counted:
        _placing(input, wrap(made, input.dtype, CUDA))
    elif not input._k & META:
        input._array[...] = read_as(made, input._k)
    _told(input, value if isinstance(value, Tensor) else made, counted)
    if (input._k | value._k if isinstance(value, Tensor) else input._k) & DUAL:
        like = isinstance(value, Tensor) and value._k & DUAL
        wide = ops.clone(ops.expand_as(ops.to_dtype(value, input.dtype), input)) if like else None
        inplace.write_tangent(input, wide)
    if tracked:
        _record_write(input, fill_op, (before, value))
    return input


@public(method=False, out=True)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the same shape whose elements all are `value`."""
    made = _filled(input, value)
    if isinstance(value, Tensor):
        value = value if value.dtype is input.dtype else basic.to_dtype(value, input.dtype)
        return relabel(fill_op(input, value), "FillBackward1")
    return relabel(fill_op(input, made), "FillBackward0")


@frequent()
def zero_(input: Tensor) -> Tensor:
    """Sets every element to zero."""
    if modes.overrides and (taken := registry.overridden(zero_, (input,), {})) is not NotImplemented:
        return taken
    if input._k & CUDA and writes_there(input, 0):
        return input
    if input._k & BATCHED:
        return ops.write_batched(input, 0)
    check_writable(input, expanded=True)
    before = alias(input) if input._k & GRAD and local.grad else None
    if input._k & SPARSE:
        input._array[...] = ops.sparse_zeros_like(input, input.dtype)._array
    elif not input._k & META:
        fill_memory(input._array, 0)
    _told(input, 0)
    if input._k & DUAL:
        zero_(input._autograd_meta.tangent)  # type: ignore[union-attr]
    if before is not None:
        _record_write(input, zero_op, (before,))
    return input


@public("Tensor.fill_diagonal_")
def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Sets the main diagonal of a matrix (or of a tensor whose extents are equal)."""
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides, offset = input.stride(), input.storage_offset()
    fill_(ops.as_strided(input, (min(shape),), (sum(strides),), offset), fill_value)
    height, width = shape[0], shape[-1]
    if wrap and len(shape) == 2 and height > width + 1:  # the diagonal starts again every width + 1 rows
        whole, rest = divmod(height - width - 1, width + 1)
        step = strides[0] * (width + 1)
        parts = [
            ((whole, width), (step, sum(strides)), step),
            ((min(rest, width),), (sum(strides),), step * (whole + 1)),
        ]
        for size, stride, start in parts:
            if 0 not in size:
                fill_(ops.as_strided(input, size, stride, offset + start), fill_value)
    return input


def _number_function(t: Tensor, name: str) -> None:
    if t._k & GRAD:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad; use detach().{name}()")
    if t._k & (CUDA | META):
        raise TypeError(f"{name} is only implemented on CPU tensors")


def _write_numbers(t: Tensor, made: list[Any]) -> None:
    array = np.array([value.item() if isinstance(value, Tensor) else value for value in made])
    if array.dtype.kind in "OSU":
        wrong = next((value for value in made if not isinstance(value, (int, float, complex, np.generic))), None)
        raise TypeError(f"must be real number, not {type(wrong).__name__}")
    t._array[...] = cast_array(array.reshape(t._array.shape), t.dtype)


@public("Tensor.apply_")
def apply_(input: Tensor, callable: Any) -> Tensor:
    """Replaces every element by a Python function of it (slow: meant for trying things out)."""
    _number_function(input, "apply_")
    check_writable(input)
    _write_numbers(input, [callable(value) for value in input._array.ravel().tolist()])
    bump(input)
    return input


@public("Tensor.map_")
def map_(input: Tensor, other: Tensor, callable: Any) -> Tensor:
    """Replaces every element by a Python function of it and of `other`'s (slow)."""
    _number_function(input, "map_")
    _number_function(other, "map_")
    if other.dtype is not input.dtype:
        raise TypeError(
            f"map_: expected argument 2 to be of type {tensor_type_name(input)}, got {tensor_type_name(other)}"
        )
    check_writable(input)
    _check_fits(input._array.shape, other._array.shape, (input, other))
    pairs = zip(input._array.ravel().tolist(), np.broadcast_to(other._array, input._array.shape).ravel().tolist())
    _write_numbers(input, [callable(a, b) for a, b in pairs])
    bump(input)
    return input


@public("Tensor.map2_")
def map2_(input: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replaces every element by a Python function of it and of those of two other tensors (slow)."""
    for t in (input, x, y):
        _number_function(t, "map2_")
        if t.dtype is not input.dtype:
            raise TypeError(f"map2_: expected arguments of type {tensor_type_name(input)}, got {tensor_type_name(t)}")
    check_writable(input)
    shape = input._array.shape
    for t in (x, y):
        _check_fits(shape, t._array.shape, (input, t))
    columns = [np.broadcast_to(t._array, shape).ravel().tolist() for t in (input, x, y)]
    made = [callable(a, b, c) for a, b, c in zip(*columns)]
    input._array[...] = cast_array(np.array(made).reshape(shape), input.dtype)
    bump(input)
    return input


SCHEMAS = """
copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
copy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
copy_.int(Tensor(a!) self, int other) -> Tensor(a!)
copy_.float(Tensor(a!) self, float other) -> Tensor(a!)
fill.Scalar(Tensor self, Scalar value) -> Tensor
fill.Tensor(Tensor self, Tensor value) -> Tensor
zero_(Tensor(a!) self) -> Tensor(a!)
fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)
"""
