"""Products of quantized matrices on the CPU."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.allocation import empty
from .._kernel.products import gemm_int8
from . import blas, threads
from .quantized import FEW, quantizing

# When work is cut: products of bytes that take the time of one of floats.
_SPEED = {"tiles": 32}
_USUAL_SPEED = 8
_BYTE = np.dtype(np.uint8)
_scratch = np.zeros(1, np.uint8)


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
    work = (m * n * k // _SPEED.get(variant, _USUAL_SPEED) + n * k * blas.FETCH // 2) // threads.PRODUCTS
    count = min(cores, threads.worth(work) if m else 1)
    function = gemm_int8.gemm(variant, (1, *blas.cells(m, n, count)) if count > 1 else (1, 1, 1), count)
    return blas.quickly(function) if work < blas.SOON else function


def quantized_rows(x: Any, scale: float, zero_point: int) -> Any:
    """Codes from 0 to 255 of the rows of a float32 matrix for `Weight.linear`."""
    m, k = x.shape
    less, length = gemm_int8.offset(gemm_int8.variants()[0]), gemm_int8.padded(k)
    code, inverse = "i8" if less else "u8", np.float32(1) / np.float32(scale)
    if length == k and x.size <= FEW and x.flags.c_contiguous:
        numbers = float(inverse), float(zero_point - less), float(-less), float(255 - less)
        return quantizing(code)(x, *numbers).view(np.uint8)
    made = empty((m, length), _BYTE)
    if length > k:
        made[:, k:] = 0
    signed = made.view(np.int8)[:, :k] if less else made[:, :k]
    given = inverse, np.float32(zero_point - less), np.float32(-less), np.float32(255 - less)
    quantizing(code)(x, *given, out=signed)
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
