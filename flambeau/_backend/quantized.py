"""Quantized arrays on the CPU: floats to codes and back, and products of codes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.allocation import empty
from .._core.dtypes import dtype
from .._core.quantizers import LIMITS, Quantizer
from .._kernel import gemm_int8, loops
from .._kernel.native.elementwise import by_layout
from . import blas, threads

_CODES = {np.dtype(t): code for t, code in (("u1", "u8"), ("i1", "i8"), ("i4", "i32"))}
# When work is cut: products of bytes that take the time of one of floats.
_SPEED = {"tiles": 32}
_USUAL_SPEED = 8
_FEW = 1 << 14  # elements beside which numbers need no array
_BYTE = np.dtype(np.uint8)
_scratch = np.zeros(1, np.uint8)


def _body(m: Any, x: Any, inverse: Any, zero: Any, low: Any, high: Any) -> Any:
    """Rounded half to even and held to a range; NaN becomes the largest."""
    q = m.cast(m.rint(x * inverse + zero), high.type)
    q = m.where(q < high, q, high)
    q = m.where(q > low, q, low)
    return q.r.truncate(q, "i32")


@functools.cache
def _quantize(code: str) -> Any:
    types = ("f32", "f32", "f32", *["f64" if code == "i32" else "f32"] * 2)  # the largest int32 is no float32
    return loops.pointwise_ufunc("quantize", _body, types, (code,), types)


@functools.cache
def _quantize_few(code: str) -> Any:
    """The same with numbers beside few elements."""
    return by_layout(_quantize(code), (np.dtype(np.int8 if code == "i8" else np.uint8),))


@functools.cache
def _dequantize(code: str) -> Any:
    wide = "f64" if code == "i32" else "f32"  # more digits than float32 has

    def body(m: Any, q: Any, zero: Any, scale: Any) -> Any:
        return (q - m.cast(zero, wide)) * m.cast(scale, wide)

    return loops.pointwise_ufunc("dequantize", body, (code, "f32", "f32"), ("f32",), (wide, "f32", "f32"))


@functools.lru_cache(1024)
def _numbers(scale: float, zero_point: int) -> list[Any]:
    """The scale, its inverse and the zero point as arrays, which ufuncs take faster than numbers."""
    with np.errstate(all="ignore"):
        return [np.asarray(n, np.float32) for n in (scale, np.float32(1) / np.float32(scale), zero_point)]


def quantize(x: Any, quantizer: Quantizer, d: dtype) -> Any:
    """The integers for float32 values, in the memory format of these."""
    if quantizer.axis is None:
        _, inverse, zero = _numbers(quantizer.scale, quantizer.zero_point)
        if x.size <= _FEW and x.dtype.char == "f" and d.numpy.itemsize == 1:
            low, high = LIMITS[d]
            return np.asarray(_quantize_few(_CODES[d.numpy])(x, float(inverse), float(zero), float(low), float(high)))
    else:
        scale, zero = quantizer.along(x.ndim)
        with np.errstate(all="ignore"):
            inverse = np.float32(1) / scale
    out = empty(x.shape, d.numpy) if x.flags.c_contiguous else None
    return np.asarray(_quantize(_CODES[d.numpy])(x, inverse, zero, *_limits(d), out=out))


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


class Weight:
    """The integers (n, k) of a layer as products take them, with the sum of each row.

    Their zero points must be zero; `scale` is a number, or one for each row.
    """

    __slots__ = ("_arranged", "_scales", "_sums", "depth")

    def __init__(self, integers: Any, scale: Any):
        rows, self.depth = integers.shape
        length = gemm_int8.padded(self.depth)
        if length == self.depth and integers.flags.c_contiguous:
            padded = integers
        else:
            padded = np.zeros((rows, length), np.int8)
            padded[:, : self.depth] = integers
        self._arranged = gemm_int8.arranged(gemm_int8.variants()[0], padded).T
        self._sums = integers.sum(1, dtype=np.int32)
        self._scales = np.broadcast_to(np.asarray(scale, np.float32), rows).copy()

    def linear(self, codes: Any, scale: float, zero_point: int, bias: Any) -> Any:
        """(codes - zero point) * scale @ weight.T + bias; the codes are those of `room`."""
        m, (k, n) = codes.shape[0], self._arranged.shape
        variant = gemm_int8.variants()[0]
        out = empty((m, n), np.dtype(np.float32))
        corrections = self._sums * np.int32(zero_point - gemm_int8.offset(variant))
        scales = self._scales * np.float32(scale)
        if bias is None:
            bias = np.zeros(n, np.float32)
        function = _planned(variant, m, k, n, threads.get_num_threads())
        function(codes, self._arranged, corrections, scales, bias, _scratch, out)
        return out


@functools.lru_cache(1024)
def _planned(variant: str, m: int, k: int, n: int, cores: int) -> Any:
    work = m * n * k // _SPEED.get(variant, _USUAL_SPEED) + n * k * blas.FETCH // 2
    grid = (1, 1, 1)
    if work >= blas.PARALLEL and m * n:
        grid = (1, *blas.grid(m, n, min(cores, work // (blas.PARALLEL // 2))))
    function = gemm_int8.gemm(variant, grid)
    return blas.quickly(function) if work < blas.SOON else function


def quantized_rows(x: Any, scale: float, zero_point: int, low: int, high: int) -> Any:
    """Codes of the rows of a float32 matrix for `Weight.linear`."""
    m, k = x.shape
    less, length = gemm_int8.offset(gemm_int8.variants()[0]), gemm_int8.padded(k)
    code, inverse = "i8" if less else "u8", np.float32(1) / np.float32(scale)
    if length == k and x.size <= _FEW and x.flags.c_contiguous:
        numbers = float(inverse), float(zero_point - less), float(low - less), float(high - less)
        return _quantize_few(code)(x, *numbers).view(np.uint8)
    made = empty((m, length), _BYTE)
    if length > k:
        made[:, k:] = 0
    signed = made.view(np.int8)[:, :k] if less else made[:, :k]
    given = inverse, np.float32(zero_point - less), np.float32(low - less), np.float32(high - less)
    _quantize(code)(x, *given, out=signed)
    return made


def padded_rows(codes: Any) -> Any:
    """Unsigned codes of a quantized matrix for `Weight.linear`."""
    m, k = codes.shape
    less, length = gemm_int8.offset(gemm_int8.variants()[0]), gemm_int8.padded(k)
    if not less and length == k and codes.flags.c_contiguous:
        return codes
    made = np.zeros((m, length), np.uint8)
    np.subtract(codes, np.uint8(less), out=made[:, :k])
    return made
