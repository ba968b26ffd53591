"""Matrix products of CuPy arrays by cuBLAS, through the addresses of its functions; those of integers by CuPy."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._core.once import found_once
from .cuda_driver import address_of
from .cuda_handles import Handles
from .cuda_layout import merged, spread
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

    @found_once
    def library(self) -> Any:
        """cuBLAS, the one that CuPy has loaded."""
        from cupy_backends.cuda.libs import cublas  # with CuPy, which is loaded by now

        cublas.destroy(cublas.create())
        with open("/proc/self/maps") as file:
            path = next(line.split()[-1] for line in file if "libcublas.so" in line)
        return ctypes.CDLL(path)

    @found_once
    def functions(self) -> tuple[Any, Any]:
        """The products of two matrices and of two batches: their addresses, with forms that Python calls."""
        names = "cublasGemmEx", "cublasGemmStridedBatchedEx"
        found = [address_of(getattr(self.library, name)) for name in names]
        return tuple([(address, _Call(address)) for address in found])  # type: ignore[return-value]

    def __call__(
        self, x: Any, y: Any, added: Any = None, beta: Any = 1, alpha: Any = 1, dtype: Any = None, out: Any = None
    ) -> Any:
        """alpha * (x @ y) + beta * added for arrays of one dtype, with NumPy's rules for ranks and broadcasting; as another `dtype`, which may
        be float32 for 16-bit floats, or into `out`, both for products of matrices."""
        code = BY_NUMPY[x.dtype].code
        if beta == 0:
            added = None
        if code not in _TYPES or not x.size or not y.size:
            made = self._elsewhere(x, y, added, beta, alpha)
            if out is not None:
                self.backend.copy(made, out)
            return made if out is None else out
        if x.ndim == y.ndim == 1:
            return self(x[None], y[:, None], added, beta, alpha).reshape(())
        if x.ndim == 1:
            return self(x[None], y, added, beta, alpha)[..., 0, :]
        if y.ndim == 1:
            return self(x, y[:, None], None if added is None else added[..., None], beta, alpha)[..., 0]
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        made = out if out is not None and _takes_product(out) else None
        if made is None:
            made = self.backend.empty((*lead, x.shape[-2], y.shape[-1]), dtype or x.dtype)
        if added is not None and added is not made:
            self.backend.copy(added, made)
        left, right = (self._oriented(z, lead) for z in (x, y))
        with self.lock:  # a handle that streams share works for one of them at a time
            self._multiply(code, left, right, made, alpha, 0 if added is None else beta)
        if out is not None and made is not out:
            self.backend.copy(made, out)
        return made if out is None else out

    def _elsewhere(self, x: Any, y: Any, added: Any, beta: Any, alpha: Any) -> Any:
        xp = self.backend.xp
        made = xp.asarray(xp.matmul(x, y))
        made = made if alpha == 1 else made * alpha
        return made if added is None else (made + (added if beta == 1 else beta * added)).astype(x.dtype)

    def _oriented(self, x: Any, lead: tuple[int, ...]) -> tuple[Any, int, bool, int]:
        """Matrices that cuBLAS can read, elements between them, whether they are turned, and elements between their lines."""
        size, (rows, columns), (down, across) = x.itemsize, x.shape[-2:], x.strides[-2:]
        between = merged(lead, [spread(x.shape[:-2], x.strides[:-2], lead)])[1][0]
        ways = (False, rows, columns, down, across), (True, columns, rows, across, down)
        for turned, lines, length, line, step in ways:
            dense = step == size or length == 1
            if dense and (lines == 1 or (line % size == 0 and line >= length * size)):
                if len(between) == 1 and between[0] % size == 0:
                    return x, between[0] // size, turned, length if lines == 1 else line // size
        evenly = x.shape[:-2] if len(between) == 1 else lead  # what is repeated in an uneven way is written out
        made = self.backend.empty((*evenly, rows, columns), x.dtype)
        self.backend.copy(x, made)
        return self._oriented(made, lead)

    def _multiply(self, code: str, left: Any, right: Any, out: Any, alpha: Any, beta: Any) -> None:
        """cuBLAS counts lines as columns: out' = y' x' for the turned matrices."""
        (x, a, x_turned, x_line), (y, b, y_turned, y_line) = left, right
        (kind, compute), own = _TYPES[code], _TYPES[BY_NUMPY[out.dtype].code][0]
        rows, columns = out.shape[-2:]
        c, c_line = _between(out)[0] // out.itemsize, out.strides[-2] // out.itemsize if rows > 1 else columns
        batches, watch = math.prod(out.shape[:-2]), watching()
        factors = [np.full((), n, _FACTORS.get(code, np.float32)) for n in (alpha, beta)]
        by, of = [f.ctypes.data for f in factors]
        lead = [self.handle(), int(y_turned), int(x_turned), columns, rows, x.shape[-1], by]
        if batches == 1:
            args = [*lead, y, kind, y_line, x, kind, x_line, of, out, own, c_line, compute, _DEFAULT]
        else:
            args = [*lead, y, kind, y_line, b, x, kind, x_line, a, of, out, own, c_line, c]
            args += [batches, compute, _DEFAULT]
        address, call = self.functions[batches > 1]
        if watch is not None:
            watch.keep.append(factors)
            watch.call(address, args)
            return
        words = [a if isinstance(a, int) else a.data.ptr for a in args]
        status = call(*words, *[0] * (_PASSED - len(words)))
        if status:
            raise RuntimeError(f"cuBLAS: a product of {BY_NUMPY[out.dtype]} failed with status {status}")


def _between(out: Any) -> list[int]:
    """Bytes between the matrices of a batch; one number if they are even."""
    return merged(out.shape[:-2], [out.strides[:-2]])[1][0]


def _takes_product(out: Any) -> bool:
    """Whether cuBLAS can write to such a batch of matrices."""
    (rows, columns), (down, across) = out.shape[-2:], out.strides[-2:]
    return len(_between(out)) == 1 and across == out.itemsize and (rows == 1 or down >= columns * out.itemsize)
