"""Operands brought to one dtype: PyTorch's precedence of tensors and numbers, silent casts, numbers as arrays."""

from __future__ import annotations

import math
import platform
from typing import Any

import ml_dtypes
import numpy as np

from ..._backend.copies import duplicate, place
from ..._backend.cpu import cpu
from ..._core.allocation import empty_like
from ..._core.dtypes import (
    BOOL,
    BY_NUMPY,
    COMPLEX,
    FLOATING,
    INTEGER,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    dtype,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int64,
    promote_types,
    scalar_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ..._core.state import CAPTURE, CUDA, POSTPONED, local, modes
from ..._dispatch import backend_of
from ..._errors import taught
from ..._errors.frames import warn_user
from ..._tensor import Tensor, read_as, wrap

_ndarray = np.ndarray
_FEW = 4096  # elements up to which NumPy's casts are as fast


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
        return promote_types(low, complex32)
    return promote_types(low, high)


def operand_arrays(op: Any, args: tuple[Any, ...], compute: dtype) -> list[Any]:
    """The operands as arrays of the dtype that the op takes them in; numbers become 0-d arrays (of NumPy, on any device)."""
    arrays = []
    arity, masks, checked = op.arity, op.masks, op.checked
    for i, a in enumerate(args):
        wanted = bool_ if i in masks else compute if i < arity else compute.wide
        if isinstance(a, Tensor):
            array = a._array
            if array.dtype != wanted.numpy:
                array = cast_array(array, wanted)
        elif not checked:
            array = number_array(a, wanted)
        elif checked == "narrow":
            array = number_array(checked_number(a, compute), wanted)
        else:
            array = checked_array(a, wanted)
        arrays.append(array)
    return arrays


# -- numbers -----------------------------------------------------------------------------------------------------

_FLOAT16_MAX = 65504.0
_TYPE_NAMES = {
    "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t", "int32": "int", "uint32": "uint32_t",
    "int64": "int64_t", "uint64": "uint64_t", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float",
    "float64": "double", "complex32": "c10::complex<float>", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


class _Limits:
    """What a dtype holds of Python's numbers."""

    __slots__ = ("high", "infinite", "low", "name")

    def __init__(self, d: dtype):
        self.name = _TYPE_NAMES.get(d.name) or (f"c10::F{d.name[1:]}" if d.name.startswith("float8") else d.name)
        self.low: Any
        self.high: Any
        if d.category <= INTEGER:
            bits = 8 * d.itemsize - d.is_signed if d is not bool_ else 1
            self.low, self.high, self.infinite = -(1 << bits) if d.is_signed else 0, (1 << bits) - 1, False
        else:
            real = d.to_real() if d is not complex32 else float32
            self.high = float(ml_dtypes.finfo(real.numpy).max)
            self.low = -self.high if d is not float8_e8m0fnu else 0.0
            self.infinite = d.itemsize > 1 or d is float8_e5m2


_limits: dict[dtype, _Limits] = {}


def limits(d: dtype) -> _Limits:
    found = _limits.get(d)
    if found is None:
        found = _limits[d] = _Limits(d)
    return found


# of the dtypes that hold infinities and NaN
_LARGEST = {d: limits(d).high for d in (float16, bfloat16, float32, float64)}


def _fits(value: float, largest: float) -> bool:
    return -largest <= value <= largest or value - value != 0.0  # the difference is NaN, for infinities


def overflow(d: dtype) -> RuntimeError:
    """The error for a number that a dtype cannot hold."""
    return RuntimeError(f"value cannot be converted to type {limits(d).name} without overflow")


def check_width(value: Any) -> None:
    """OverflowError for a Python integer of more than 64 bits."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError("int too big to convert")


def wrapped(value: int, d: dtype) -> int:
    """An integer cut to the bits of an integer dtype."""
    bits = 8 * d.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if d.is_signed and value >> (bits - 1) else value


def checked_number(value: Any, d: dtype, single: bool = False) -> Any:
    """A Python number as dtype `d` takes it; RuntimeError where it does not fit. Infinities and NaN fit floats, and
    negative integers wrap in unsigned dtypes. A `single` element is laxer: large numbers become infinite in floats of
    less than 32 bits."""
    kind, category = value.__class__, d.category
    if kind is float and d in _LARGEST and _fits(value, _LARGEST[d]):
        return value
    if kind is int and category != BOOL and 0 <= value < 128:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    check_width(value)
    if category == BOOL:
        return bool(value)
    if single and category == FLOATING and d.itemsize < 4:
        d = float64
    held = limits(d)
    if category != COMPLEX and isinstance(value, complex):
        if value.imag:
            raise overflow(d)
        value = value.real
    if category == INTEGER:
        if isinstance(value, float):
            if not held.low <= value <= float(held.high):  # as C compares them
                raise overflow(d)
        elif not (held.low or -held.high) <= value <= held.high:
            raise overflow(d)
        return wrapped(int(value), d)
    for part in (value.real, value.imag) if isinstance(value, complex) else (value,):
        if (part < held.low or part > held.high) and not (held.infinite and math.isinf(part)):
            raise overflow(d)
    return value


def checked_array(value: Any, d: dtype, single: bool = False) -> Any:
    """`checked_number` as a 0-d array."""
    if value.__class__ is float and d in _LARGEST and _fits(value, _LARGEST[d]):
        return np.array(value, d.numpy)
    return number_array(checked_number(value, d, single), d)


def number_array(value: Any, d: dtype) -> Any:
    """A Python number as a 0-d array; a large integer wraps around, a large float becomes infinite."""
    kind = value.__class__
    try:
        if (kind is float or kind is int) and -_FLOAT16_MAX <= value <= _FLOAT16_MAX and d is not float8_e8m0fnu:
            return np.array(value, d.numpy)
        check_width(value)
        if kind is int and d.category >= FLOATING:
            value = float(value)  # bfloat16 takes no integer of 64 bits
        with np.errstate(all="ignore"):  # NumPy warns of what becomes infinite
            if d.category == FLOATING and d.itemsize == 1:
                return cast_array(np.asarray(value, np.float32), d)
            return np.array(value, d.numpy)
    except OverflowError:
        if d.category != INTEGER:
            raise
        check_width(value)
        return np.array(wrapped(int(value), d), d.numpy)
    except TypeError:
        raise overflow(d) from None


def as_tensor(value: Any, like: Tensor) -> Tensor:
    """A saved operand for a formula read with tensors; numbers become 0-d tensors as precise as the gradient."""
    if isinstance(value, Tensor):
        return value
    d = scalar_dtype(value)
    if d.category >= FLOATING:
        d = like.dtype if d.category == like.dtype.category else promote_types(like.dtype.to_real(), d)
    t = wrap(number_array(value, d), d)
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].born(t)
    return t


def cast_array(array: Any, d: dtype) -> Any:
    """A copy of an array in another dtype, silently, as PyTorch casts."""
    if not isinstance(array, (_ndarray, np.generic)):
        return backend_of(CUDA).cast(array, d.code)
    kind = array.dtype.kind
    if d is complex32 or array.dtype == complex32.numpy:  # NumPy knows neither its parts nor most casts
        if complex32.numpy.kind == "V":
            raise NotImplementedError("complex32 needs ml_dtypes 0.6 or newer: pip install --upgrade ml_dtypes")
        wide = cast_array(array, complex64) if array.dtype != complex32.numpy else array.astype(np.complex64)
        return wide.astype(d.numpy) if d is complex32 else cast_array(wide, d)
    if kind == "c" and d.category != COMPLEX:
        array = array.real if d.category != BOOL else np.asarray(array != 0)
    call = cast_kernel(BY_NUMPY[array.dtype], d) if array.size > _FEW else None
    if call is not None:
        return cpu.into(call, [array], empty_like(array, d.numpy))
    if d.category == INTEGER and kind not in "biu":
        with np.errstate(all="ignore"):
            if 0 in array.strides and not array.flags.c_contiguous:
                array = duplicate(array)
            if d.itemsize < 4 or d.name == "uint32":  # through int64, so that values wrap as they do in C
                return array.astype(np.int64).astype(d.numpy)
            return array.astype(d.numpy)
    if d is float8_e8m0fnu:  # powers of two alone: no sign, and the smallest for zero
        array = np.asarray(np.maximum(np.abs(array.astype(np.float32)), np.float32(2.0**-127)))
    if d is float8_e4m3fn:  # it has no infinity: what is too large is its largest number
        with np.errstate(all="ignore"):
            array = np.asarray(array.astype(np.float32).clip(-448.0, 448.0))
    if 0 in array.strides and not array.flags.c_contiguous:  # NumPy would put what is repeated innermost
        made = empty_like(array, d.numpy)
        with np.errstate(all="ignore"):
            np.copyto(made, array, casting="unsafe")
        return made
    if d.category >= FLOATING and (array.dtype.itemsize > d.itemsize or d.itemsize < 4):
        with np.errstate(all="ignore"):
            return array.astype(d.numpy)
    return array.astype(d.numpy)


def tell_of_lost_parts(source: dtype, d: dtype) -> None:
    """Warns where a program casts complex numbers to real ones."""
    if source.category == COMPLEX and d.category in (INTEGER, FLOATING):
        warn_user("Casting complex values to real discards the imaginary part")


_casts: dict[tuple[dtype, dtype], Any] = {}


def cast_kernel(source: dtype, d: dtype) -> Any:
    """The kernel that casts between real numbers or between complex ones, faster than NumPy's loops; None for others."""
    call = _casts.get((source, d))
    both = (source.category == COMPLEX) == (d.category == COMPLEX) and source.code and d.code
    if call is None and both and d is not uint64:
        body = _truncated(source, d) if d.category == INTEGER and source.category == FLOATING else _as_it_is
        call = _casts[source, d] = cpu.pointwise("cast", body, (source.code,), (d.code,), (source.wide.code,))
    return call


def moving(size: int) -> tuple[Any, Any]:
    """The kernel that copies elements of so many bytes, and the dtype that it takes them for."""
    if size == 16:
        return cast_kernel(complex128, complex128), complex128.numpy
    bits = {1: uint8, 2: uint16, 4: uint32, 8: int64}[size]
    return cast_kernel(bits, bits), bits.numpy


def _as_it_is(m: Any, x: Any) -> Any:
    return x


_SATURATES = platform.machine() in ("aarch64", "arm64")  # what this CPU makes of floats that no integer can hold


def _truncated(source: dtype, d: dtype) -> Any:
    """The cast of floats to an integer dtype, which keeps the low bits of a wider integer, as casts of few elements do.

    What does not fit the wider one is what the CPU's own instruction gives, as in PyTorch: the nearest integer on ARM,
    the lowest on x86.
    """
    if _SATURATES:
        code = "i32" if d.name == "int32" and source.itemsize < 8 else "i64"
        return lambda m, x: m.cast(m.cast(x, code), d.code)
    code = "i32" if d.name == "int32" else "i64"
    bound = 1 << (31 if code == "i32" else 63)

    def body(m: Any, x: Any) -> Any:
        fits = (x >= float(-bound)) & (x < float(bound))
        whole = x.r.truncate(m.where(fits, x, 0.0), code)
        return m.cast(m.where(fits, whole, m.constant(-bound, whole)), d.code)

    return body


def laid(array: Any, t: Tensor) -> Any:
    """What must lie in the memory of a tensor for it to read as `array`."""
    if not t._k & POSTPONED:
        return array
    return read_as(array if array.dtype == t._array.dtype else cast_array(array, t.dtype), t._k)


def write(target: Any, source: Any, d: dtype) -> None:
    """Writes elements, cast and broadcast, into an array of dtype `d` on the same device, many of them by all cores."""
    if target.size <= _FEW or target.__class__ is not _ndarray:
        target[...] = source if source.dtype == target.dtype else cast_array(source, d)
        return
    call = cast_kernel(BY_NUMPY[source.dtype], d) if source.dtype != target.dtype else None
    if call is not None:
        cpu.into(call, [source], target)
    else:
        place(target, source if source.dtype == target.dtype else cast_array(source, d))


def broadcast_error(args: tuple[Any, ...]) -> RuntimeError:
    shapes = [a._array.shape for a in args if isinstance(a, Tensor)]
    if len(shapes) == 2:
        a, b = shapes
        for i in range(1, min(len(a), len(b)) + 1):
            if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
                return taught(RuntimeError(
                    f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) "
                    f"at non-singleton dimension {max(len(a), len(b)) - i}"
                ))  # fmt: skip
    return RuntimeError("The sizes of tensors do not broadcast together: " + ", ".join(str(list(s)) for s in shapes))
