"""Quantized arrays on the CPU: floats to codes and back."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.allocation import empty
from .._core.dtypes import dtype
from .._core.quantizers import LIMITS, Quantizer
from .._kernel.loops import pointwise

_CODES = {np.dtype(t): code for t, code in (("u1", "u8"), ("i1", "i8"), ("i4", "i32"))}
FEW = 1 << 14  # elements beside which numbers need no array


def _body(m: Any, x: Any, inverse: Any, zero: Any, low: Any, high: Any) -> Any:
    """Rounded half to even and held to a range; NaN becomes the largest."""
    q = m.cast(m.rint(x * inverse + zero), high.type)
    q = m.where(q < high, q, high)
    q = m.where(q > low, q, low)
    return q.r.truncate(q, "i32")


@functools.cache
def quantizing(code: str) -> Any:
    types = ("f32", "f32", "f32", *["f64" if code == "i32" else "f32"] * 2)  # the largest int32 is no float32
    return pointwise.pointwise_ufunc("quantize", _body, types, (code,), types)


@functools.cache
def _dequantize(code: str) -> Any:
    wide = "f64" if code == "i32" else "f32"  # more digits than float32 has

    def body(m: Any, q: Any, zero: Any, scale: Any) -> Any:
        return (q - m.cast(zero, wide)) * m.cast(scale, wide)

    return pointwise.pointwise_ufunc("dequantize", body, (code, "f32", "f32"), ("f32",), (wide, "f32", "f32"))


@functools.lru_cache(1024)
def _numbers(scale: float, zero_point: int) -> list[Any]:
    """The scale, its inverse and the zero point as arrays, which ufuncs take faster than numbers."""
    with np.errstate(all="ignore"):
        return [np.asarray(n, np.float32) for n in (scale, np.float32(1) / np.float32(scale), zero_point)]


def quantize(x: Any, quantizer: Quantizer, d: dtype) -> Any:
    """The integers for float32 values, in the memory format of these."""
    if quantizer.axis is None:
        _, inverse, zero = _numbers(quantizer.scale, quantizer.zero_point)
        if x.size <= FEW and x.dtype.char == "f" and d.numpy.itemsize == 1:
            low, high = LIMITS[d]
            return np.asarray(quantizing(_CODES[d.numpy])(x, float(inverse), float(zero), float(low), float(high)))
    else:
        scale, zero = quantizer.along(x.ndim)
        with np.errstate(all="ignore"):
            inverse = np.float32(1) / scale
    out = empty(x.shape, d.numpy) if x.flags.c_contiguous else None
    return np.asarray(quantizing(_CODES[d.numpy])(x, inverse, zero, *_limits(d), out=out))


@functools.cache
def _limits(d: dtype) -> list[Any]:
    return [np.asarray(limit, np.float64 if d.numpy.itemsize == 4 else np.float32) for limit in LIMITS[d]]


def dequantize(q: Any, quantizer: Quantizer) -> Any:
    """The float32 values of integers."""
    if quantizer.axis is None:
        scale, _, zero = _numbers(quantizer.scale, quantizer.zero_point)
    else:
        scale, zero = quantizer.along(q.ndim)
    out = empty(q.shape, np.dtype(np.float32)) if q.flags.c_contiguous else None
    return np.asarray(_dequantize(_CODES[q.dtype])(q, zero, scale, out=out))
