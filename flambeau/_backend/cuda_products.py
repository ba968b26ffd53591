"""Matrix products of CuPy arrays: CuPy's own, and cuBLAS directly for batches of a type that CuPy does not multiply."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.dtypes import bfloat16

_BFLOAT16, _COMPUTE_FLOAT32, _TENSOR_CORES = 14, 68, 99  # cuBLAS's numbers for these
_ONE, _ZERO = np.ones((), np.float32), np.zeros((), np.float32)


def product(xp: Any, x: Any, y: Any) -> Any:
    """x @ y for arrays of one dtype, with NumPy's rules for ranks and broadcasting."""
    if x.dtype != bfloat16.numpy or max(x.ndim, y.ndim) <= 2 or not x.size or not y.size:
        return xp.asarray(xp.matmul(x, y))
    if x.ndim == 1:
        return product(xp, x[None], y)[..., 0, :]
    if y.ndim == 1:
        return product(xp, x, y[:, None])[..., 0]
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    a, b = (xp.broadcast_to(z, (*lead, *z.shape[-2:])).reshape(-1, *z.shape[-2:]) for z in (x, y))
    out = xp.empty((math.prod(lead), x.shape[-2], y.shape[-1]), x.dtype)
    _batches(xp, a, b, out)
    return out.reshape(*lead, *out.shape[1:])


def _oriented(x: Any) -> tuple[Any, bool, int]:
    """A batch of matrices that cuBLAS can read, whether they are turned, and elements between their lines."""
    size = x.itemsize
    for turned, (line, step) in ((False, x.strides[1:]), (True, x.strides[:0:-1])):
        length = x.shape[1] if turned else x.shape[2]
        if step == size and line % size == 0 and line >= length * size and x.strides[0] % size == 0:
            return x, turned, line // size
    return _oriented(x.copy())


def _batches(xp: Any, x: Any, y: Any, out: Any) -> None:
    """cuBLAS counts lines as columns: out' = y' x' for the turned matrices."""
    from cupy_backends.cuda.libs import cublas  # with CuPy, which is loaded by now

    (x, x_turned, x_line), (y, y_turned, y_line) = _oriented(x), _oriented(y)
    batches, rows, columns = out.shape
    size = out.itemsize
    cublas.gemmStridedBatchedEx(
        xp.cuda.device.get_cublas_handle(), int(y_turned), int(x_turned), columns, rows, x.shape[2],
        _ONE.ctypes.data, y.data.ptr, _BFLOAT16, y_line, y.strides[0] // size, x.data.ptr, _BFLOAT16, x_line,
        x.strides[0] // size, _ZERO.ctypes.data, out.data.ptr, _BFLOAT16, columns, rows * columns, batches,
        _COMPUTE_FLOAT32, _TENSOR_CORES,
    )  # fmt: skip
