"""Products of CPU arrays: which routine computes them, and how the work is split over the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtypes import bfloat16
from .._kernel import gemm
from . import threads

_HALVES = (np.dtype(np.float16), bfloat16.numpy)
_single = np.dtype(np.float32)
_bits = np.dtype(np.uint16)
# Multiplications from which a second thread pays: a hand-over costs what some 10^6 of them do.
_PARALLEL = 1 << 21
_CODES = {np.dtype(t): c for t, c in (("f4", "f32"), ("f8", "f64"), ("i4", "i32"), ("i8", "i64"), ("i2", "i16"), ("i1", "i8"), ("u1", "u8"))}


class _Scratch(threading.local):
    """Memory for packed panels, one piece for each thread, so that its pages stay warm."""

    memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Any:
        if self.memory.size < size:
            self.memory = np.empty(size, np.uint8)
        return self.memory


_scratch = _Scratch()


def product(x: Any, y: Any) -> Any:
    """x @ y for arrays of one dtype, with NumPy's rules for ranks and broadcasting."""
    d = x.dtype
    code = _CODES.get(d)
    if code is not None and x.ndim >= 2 and y.ndim >= 2 and y.shape[-1] > 1 and x.shape[-2] > 1:
        return _multiply(code, d, x, y)
    with np.errstate(all="ignore"):
        if d in _HALVES:
            return np.asarray(np.matmul(x.astype(_single), y.astype(_single))).astype(d)
        return np.asarray(np.matmul(x, y))


def _multiply(code: str, d: Any, x: Any, y: Any) -> Any:
    m, k = x.shape[-2:]
    n = y.shape[-1]
    if x.ndim == 2 == y.ndim:
        out = np.empty((m, n), d)
    else:
        out = np.empty((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), m, n), d)
    if out.size * k < _PARALLEL:
        function, size = gemm.gemm(code, gemm.height(m), False)
        return function(x, y, _scratch.take(size), out)
    _split(code, x, y, out)
    return out


def _split(code: str, x: Any, y: Any, out: Any) -> None:
    """Cuts the result along its batch, or its rows and columns, into a part for each thread."""
    *lead, m, n = out.shape
    count = min(threads.get_num_threads(), out.size * x.shape[-1] // (_PARALLEL // 2))
    if lead and lead[0] >= count:
        x, y = _lead(x, out.ndim), _lead(y, out.ndim)
        bounds = _cuts(lead[0], count, 1)
        parts = [
            (x[a:b] if x.shape[0] > 1 else x, y[a:b] if y.shape[0] > 1 else y, out[a:b]) for a, b in bounds
        ]
    else:
        rows, columns = _grid(m, n, count)
        parts = [
            (x[..., a:b, :], y[..., c:d], out[..., a:b, c:d])
            for a, b in _cuts(m, rows, gemm.tile()) for c, d in _cuts(n, columns, 64)
        ]  # fmt: skip
    function, size = gemm.gemm(code, gemm.height(parts[0][2].shape[-2]), False)

    def job(x: Any, y: Any, out: Any) -> Callable[[], Any]:
        return lambda: function(x, y, _scratch.take(size), out)

    threads.run([job(*part) for part in parts])


def _lead(a: Any, ndim: int) -> Any:
    return a.reshape((1,) * (ndim - a.ndim) + a.shape)


def _cuts(length: int, parts: int, unit: int) -> list[tuple[int, int]]:
    """Bounds of nearly equal parts that are multiples of `unit`, but for the last."""
    units = -(-length // unit)
    parts = max(1, min(parts, units))
    bounds = [min(length, units * i // parts * unit) for i in range(parts + 1)]
    return list(zip(bounds, bounds[1:]))


def _grid(m: int, n: int, count: int) -> tuple[int, int]:
    """How many parts along rows and columns: each thread packs its share of both operands, so squares are best."""
    return min(
        ((i, count // i) for i in range(1, count + 1) if count % i == 0), key=lambda p: m / p[0] + n / p[1]
    )


def add_product(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta * c + alpha * (x @ y), where `c` broadcasts to the product; a beta of 0 leaves `c` unread."""
    d = x.dtype
    half = d in _HALVES
    if half:
        x, y, c = x.astype(_single), y.astype(_single), c.astype(_single)
    with np.errstate(all="ignore"):
        if alpha != 1 and d.kind == "c":
            x = x * d.type(alpha)
        made = product(x, y)
        if alpha != 1 and d.kind != "c":
            made *= np.array(alpha, made.dtype)
        if beta == 1:
            made += c
        elif beta != 0:
            made += np.array(beta, made.dtype) * c
        return made if made.dtype == d else made.astype(d)
