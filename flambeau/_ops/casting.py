"""Operands brought to one dtype: PyTorch's precedence of tensors and numbers, silent casts, numbers as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend.copies import fill
from .._backend.cpu import PARALLEL, cpu
from .._core.allocation import empty
from .._core.dtypes import (
    BOOL,
    BY_NUMPY,
    COMPLEX,
    FLOATING,
    INTEGER,
    bool_,
    complex32,
    complex64,
    dtype,
    float8_e8m0fnu,
    promote_types,
    scalar_dtype,
)
from .._core.state import CUDA
from .._dispatch import backend_of
from .._tensor import Tensor, wrap

_ndarray = np.ndarray


def combine(best: dtype | None, zero: dtype | None, number: dtype | None) -> dtype:
    """PyTorch's order of precedence: dimensioned tensors, then 0-d tensors, then Python numbers."""
    if best is None:
        best, zero = zero, None
    elif zero is not None and zero.category > best.category:
        best = _raised(best, zero)
    if best is None:
        assert number is not None
        return number
    if number is not None and number.category > best.category:
        return _raised(best, number)
    return best


def _raised(low: dtype, high: dtype) -> dtype:
    """`low` lifted into the category of `high`, which has the lower precedence."""
    if high.category == COMPLEX and low.category == FLOATING:
        return promote_types(low, complex64)
    return promote_types(low, high)


def operand_arrays(backend: Any, op: Any, args: tuple[Any, ...], compute: dtype) -> list[Any]:
    """The operands as arrays of the dtype that the op takes them in; numbers become 0-d arrays (of NumPy, on any device)."""
    arrays = []
    arity, masks = op.arity, op.masks
    for i, a in enumerate(args):
        wanted = bool_ if i in masks else compute if i < arity else compute.wide
        if isinstance(a, Tensor):
            array = a._array
            if array.dtype != wanted.numpy:
                array = cast_array(array, wanted)
        else:
            array = number_array(a, wanted)
        arrays.append(array)
    return arrays


_FLOAT16_MAX = 65504.0


def number_array(value: Any, d: dtype) -> Any:
    """A Python number as a 0-d array; a large integer wraps around, a large float becomes infinite."""
    try:
        if d is float8_e8m0fnu:
            return cast_array(np.asarray(value), d)
        if value.__class__ is float and abs(value) > _FLOAT16_MAX:  # NumPy would warn
            with np.errstate(over="ignore"):
                return np.array(value, d.numpy)
        return np.array(value, d.numpy)
    except OverflowError:
        if d.category == INTEGER:
            if not -(1 << 63) <= value < 1 << 64:
                raise OverflowError("int too big to convert") from None
            bits = 8 * d.itemsize
            value = int(value) & ((1 << bits) - 1)
            return np.array(value - (1 << bits) if d.is_signed and value >> (bits - 1) else value, d.numpy)
        return np.array(np.inf if value > 0 else -np.inf, d.numpy)
    except TypeError:
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None


def as_tensor(value: Any, like: Tensor) -> Tensor:
    """A saved operand for a formula read with tensors; numbers become 0-d tensors as precise as the gradient."""
    if isinstance(value, Tensor):
        return value
    d = scalar_dtype(value)
    if d.category >= FLOATING:
        d = like.dtype if d.category == like.dtype.category else promote_types(like.dtype.to_real(), d)
    return wrap(number_array(value, d), d)


def cast_array(array: Any, d: dtype) -> Any:
    """A copy of an array in another dtype, silently, as PyTorch casts."""
    if not isinstance(array, (_ndarray, np.generic)):
        return backend_of(CUDA).cast(array, d.code)
    kind = array.dtype.kind
    if d is complex32 or array.dtype == complex32.numpy:  # NumPy knows neither its parts nor most casts
        wide = cast_array(array, complex64) if array.dtype != complex32.numpy else array.astype(np.complex64)
        return wide.astype(d.numpy) if d is complex32 else cast_array(wide, d)
    if kind == "c" and d.category != COMPLEX:
        array = array.real if d.category != BOOL else array != 0
    if d.category == INTEGER and kind not in "biu":
        with np.errstate(all="ignore"):
            if d.itemsize < 4 or d.name == "uint32":  # through int64, so that values wrap as they do in C
                return array.astype(np.int64).astype(d.numpy)
            return array.astype(d.numpy)
    if array.size > 4096 and (d.wide is not d or kind == "V" or array.dtype.char == "e" or array.size >= PARALLEL):
        call = _cast_kernel(BY_NUMPY[array.dtype], d)
        if call is not None:
            dense = array.flags.c_contiguous
            return _cast_by(call, array, empty(array.shape, d.numpy) if dense else np.empty_like(array, dtype=d.numpy))
    if d is float8_e8m0fnu:  # powers of two alone: no sign, and the smallest for zero
        array = np.maximum(np.abs(array.astype(np.float32)), np.float32(2.0**-127))
    if array.dtype.itemsize > d.itemsize and d.category >= FLOATING:
        with np.errstate(all="ignore"):
            return array.astype(d.numpy)
    return array.astype(d.numpy)


_casts: dict[tuple[dtype, dtype], Any] = {}


def _cast_kernel(source: dtype, d: dtype) -> Any:
    """The kernel that casts within a category or integers to floats, faster than NumPy's loops; None for other casts."""
    call = _casts.get((source, d))
    same = source.category == d.category or (source.category == INTEGER and d.category == FLOATING)
    if call is None and same and source.code and d.code:
        call = _casts[source, d] = cpu.pointwise("cast", lambda m, x: x, (source.code,), (d.code,), (source.wide.code,))
    return call


def _cast_by(call: Any, source: Any, target: Any) -> Any:
    if target.size >= PARALLEL:
        return cpu.parallel(call, [source], target)
    call(source, out=target)
    return target


def write(target: Any, source: Any, d: dtype) -> None:
    """Writes elements, cast and broadcast, into an array of dtype `d` on the same device, many of them by all cores."""
    if target.size >= PARALLEL and target.__class__ is _ndarray and not np.may_share_memory(target, source):
        call = _cast_kernel(BY_NUMPY[source.dtype], d) if source.dtype != target.dtype else None
        if call is not None:
            cpu.parallel(call, [source], target)
            return
        if source.dtype != target.dtype:
            source = cast_array(source, d)
        if source.shape == target.shape:
            fill(target, source)
            return
    elif source.dtype != target.dtype:
        source = cast_array(source, d)
    target[...] = source


def broadcast_error(args: tuple[Any, ...]) -> RuntimeError:
    shapes = [a._array.shape for a in args if isinstance(a, Tensor)]
    if len(shapes) == 2:
        a, b = shapes
        for i in range(1, min(len(a), len(b)) + 1):
            if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
                return RuntimeError(
                    f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) "
                    f"at non-singleton dimension {max(len(a), len(b)) - i}"
                )
    return RuntimeError("The sizes of tensors do not broadcast together: " + ", ".join(str(list(s)) for s in shapes))
