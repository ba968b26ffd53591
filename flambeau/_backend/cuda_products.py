"""Matrix products of CuPy arrays by cuBLAS, through the addresses of its functions; those of integers by CuPy."""

from __future__ import annotations

import ctypes
import math
import threading
from functools import cached_property
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .cuda_driver import address_of
from .cuda_handles import Handles
from .cuda_watch import watching

# What cuBLAS calls the types of elements and those that it adds products up in, by our codes.
_TYPES = {"f32": (0, 68), "f64": (1, 70), "f16": (2, 68), "c64": (4, 68), "c128": (5, 70), "bf16": (14, 68)}
_FACTORS = {"f64": np.float64, "c64": np.complex64, "c128": np.complex128}
_DEFAULT = -1  # the algorithm that cuBLAS chooses
_PASSED = 24
_Call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * _PASSED)


class Products:
    """Products on one GPU."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.handle = Handles(backend, lambda: self.library, "cublasCreate_v2", "cublasSetStream_v2")
        self.lock = threading.RLock()
        numbers = {code: [np.full((), n, _FACTORS.get(code, np.float32)) for n in (0, 1)] for code in _TYPES}
        self.factors = {code: [n.ctypes.data for n in pair] for code, pair in numbers.items()}
        self.keep = numbers

    @cached_property
    def library(self) -> Any:
        """cuBLAS, the one that CuPy has loaded."""
        from cupy_backends.cuda.libs import cublas  # with CuPy, which is loaded by now

        cublas.destroy(cublas.create())
        with open("/proc/self/maps") as file:
            path = next(line.split()[-1] for line in file if "libcublas.so" in line)
        return ctypes.CDLL(path)

    @cached_property
    def functions(self) -> tuple[Any, Any]:
        """The products of two matrices and of two batches: their addresses, with forms that Python calls."""
        names = "cublasGemmEx", "cublasGemmStridedBatchedEx"
        found = [address_of(getattr(self.library, name)) for name in names]
        return tuple([(address, _Call(address)) for address in found])  # type: ignore[return-value]

    def __call__(self, x: Any, y: Any, added: Any = None) -> Any:
        """x @ y for arrays of one dtype, with NumPy's rules for ranks and broadcasting; `added` is added to each row."""
        code = BY_NUMPY[x.dtype].code
        if code not in _TYPES or not x.size or not y.size:
            xp = self.backend.xp
            made = xp.asarray(xp.matmul(x, y))
            return made if added is None else made + added
        if x.ndim == y.ndim == 1:
            return self(x[None], y[:, None]).reshape(())
        if x.ndim == 1:
            return self(x[None], y)[..., 0, :]
        if y.ndim == 1:
            return self(x, y[:, None])[..., 0]
        if x.ndim == y.ndim == 2:
            out = self.backend.empty((x.shape[0], y.shape[1]), x.dtype)
            if added is not None:
                self.backend.copy(added, out)
            self.multiply(code, x[None], y[None], out[None], added is not None)
            return out
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        a, b = (self._spread(z, (*lead, *z.shape[-2:])).reshape(-1, *z.shape[-2:]) for z in (x, y))
        out = self.backend.empty((math.prod(lead), x.shape[-2], y.shape[-1]), x.dtype)
        self.multiply(code, a, b, out, False)
        return out.reshape(*lead, *out.shape[1:])

    def _spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x if x.shape == shape else self.backend.xp.broadcast_to(x, shape)

    def multiply(self, code: str, x: Any, y: Any, out: Any, add: bool) -> None:
        """Batches of matrices. cuBLAS counts lines as columns: out' = y' x' for the turned matrices."""
        with self.lock:  # a handle that streams share works for one of them at a time
            self._multiply(watching(), code, _oriented(x), _oriented(y), out, add)

    def _multiply(self, watch: Any, code: str, left: Any, right: Any, out: Any, add: bool) -> None:
        (x, x_turned, x_line), (y, y_turned, y_line) = left, right
        kind, compute = _TYPES[code]
        batches, rows, columns = out.shape
        size, (zero, one) = out.itemsize, self.factors[code]
        lead = [self.handle(), int(y_turned), int(x_turned), columns, rows, x.shape[2], one]
        beta = one if add else zero
        if batches == 1:
            args = [*lead, y, kind, y_line, x, kind, x_line, beta, out, kind, columns, compute, _DEFAULT]
        else:
            a, b = (z.strides[0] // size for z in (x, y))
            args = [*lead, y, kind, y_line, b, x, kind, x_line, a, beta, out, kind, columns, rows * columns]
            args += [batches, compute, _DEFAULT]
        address, call = self.functions[batches > 1]
        if watch is not None:
            watch.call(address, args)
            return
        words = [a if isinstance(a, int) else a.data.ptr for a in args]
        status = call(*words, *[0] * (_PASSED - len(words)))
        if status:
            raise RuntimeError(f"cuBLAS: a product of {BY_NUMPY[out.dtype]} failed with status {status}")


def _oriented(x: Any) -> tuple[Any, bool, int]:
    """A batch of matrices that cuBLAS can read, whether they are turned, and elements between their lines."""
    size, (_, rows, columns), (between, down, across) = x.itemsize, x.shape, x.strides
    ways = (False, rows, columns, down, across), (True, columns, rows, across, down)
    for turned, lines, length, line, step in ways:
        dense = step == size or length == 1
        if dense and (lines == 1 or (line % size == 0 and line >= length * size)) and between % size == 0:
            return x, turned, length if lines == 1 else line // size
    return _oriented(x.copy())
