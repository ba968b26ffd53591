"""Products of CPU arrays: which routine computes them, and how the work is split over the cores."""

from __future__ import annotations

import functools
import threading
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.allocation import empty
from .._core.dtypes import bfloat16
from .._kernel import gemm, gemm_bf16, pool
from . import threads
from .cpu import native_call

# Multiplications from which a second thread pays: a hand-over costs what some 10^6 of them do.
_PARALLEL = 1 << 21
_CODES = {
    np.dtype(t): code
    for t, code in (
        ("f4", "f32"), ("f8", "f64"), ("f2", "f16"), (bfloat16.numpy, "bf16"), ("i8", "i64"), ("i4", "i32"),
        ("i2", "i16"), ("i1", "i8"), ("u1", "u8"),
    )
}  # fmt: skip
_PLAIN = frozenset(("f32", "f64", "i64", "i32"))  # computed in their own type
_single, _bits = np.dtype(np.float32), np.dtype(np.uint16)
_VECTORS_BY_BLAS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class _Scratch(threading.local):
    """Memory for packed panels, one piece for each thread, so that its pages stay warm."""

    memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Any:
        memory = self.memory
        if memory.size < size:
            memory = self.memory = np.empty(size, np.uint8)
        return memory


_scratch = _Scratch()


@functools.cache
def _kernel(code: str, rows: int, added: bool) -> tuple[Any, int]:
    """(ufunc, bytes of scratch) of a product with so many rows."""
    return gemm.gemm(code, gemm.height(max(rows, 1)), added)


def product(x: Any, y: Any) -> Any:
    """x @ y for arrays of one dtype, with NumPy's rules for ranks and broadcasting."""
    d = x.dtype
    code = _CODES.get(d)
    if code is None:  # complex
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(x, y))
    if x.ndim == 2 == y.ndim:
        m, k = x.shape
        n = y.shape[1]
        if m * n * k < _PARALLEL and m > 1 and n > 1 and code in _PLAIN:
            function, size = _kernel(code, m, False)
            return function(x, y, _scratch.take(size))
    if d in _VECTORS_BY_BLAS and (x.ndim == 1 or y.ndim == 1 or x.shape[-2] == 1 or y.shape[-1] == 1):
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(x, y))
    return _with_vectors(code, x, y, None, 1, 1)


def add_product(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta * c + alpha * (x @ y), where `c` broadcasts to the product; a beta of 0 leaves `c` unread."""
    d = x.dtype
    code = _CODES.get(d)
    if code is not None:
        if x.ndim == 2 == y.ndim and code in _PLAIN and x.size * y.shape[1] < _PARALLEL:
            m, n = x.shape[0], y.shape[1]
            function, size = _kernel(code, m, True)
            return function(x, y, _expanded(c, m, n), alpha, beta, _scratch.take(size))
        return _with_vectors(code, x, y, c, beta, alpha)
    with np.errstate(all="ignore"):
        made = np.asarray(np.matmul(x if alpha == 1 else x * d.type(alpha), y))
        if beta != 0:
            made += c if beta == 1 else c * d.type(beta)
        return made


def _expanded(c: Any, m: int, n: int) -> Any:
    """`c` as an (m, n) array; for a row this way is much shorter than NumPy's `broadcast_to`."""
    if c.ndim == 1 and c.flags.c_contiguous and c.shape[0] == n:
        return np.ndarray((m, n), c.dtype, c, 0, (0, c.itemsize))
    return c if c.shape == (m, n) else np.broadcast_to(c, (m, n))


def _with_vectors(code: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    """Vectors count as a row on the left and as a column on the right."""
    left, right = x.ndim == 1, y.ndim == 1
    if c is not None and right:
        c = c[..., None]
    made = _multiply(code, x[None] if left else x, y[:, None] if right else y, c, beta, alpha)
    if left and right:
        return made.reshape(made.shape[:-2])
    return made[..., 0] if right else made[..., 0, :] if left else made


def _multiply(code: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    d, k = x.dtype, x.shape[-1]
    pairs = gemm_bf16.instructions() if code == "bf16" and k <= gemm_bf16.DEPTH else None
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    half = code in ("bf16", "f16")
    out = empty(shape, d if pairs or not half else _single)
    operands: list[Any] = [x, y, out]
    if c is not None:
        operands.append(np.broadcast_to(c if pairs or not half else c.astype(_single), shape))
    if code == "bf16":
        operands = [a.view(_bits) if a.dtype == d else a for a in operands]
    factors = None
    if c is not None:
        compute = _single if half else np.dtype(np.int32) if code in ("i16", "i8", "u8") else d
        factors = (np.asarray(alpha, compute), np.asarray(beta, compute))
    work = out.size * k
    if pairs:
        work >>= 4 if pairs == "tiles" else 1  # so much less time they take
    parts = _split(operands, work) if work >= _PARALLEL else [operands]

    if pairs:
        function, size = gemm_bf16.gemm(pairs, c is not None), gemm_bf16.scratch(k)
    else:
        function, size = _kernel(code, min(part[2].shape[-2] for part in parts), c is not None)
    size = -(-size // 64) * 64
    scratch = _scratch.take(size * len(parts))
    calls = []
    for i, (a, b, to, *rest) in enumerate(parts):
        own = scratch[i * size : (i + 1) * size]
        calls.append([a, b, own, to] if factors is None else [a, b, rest[0], *factors, own, to])
    if not _run_batch(function, operands, calls, size):
        _run(function, calls)
    return out.astype(d) if half and not pairs else out


def _run_batch(function: Any, operands: list[Any], calls: list[list[Any]], size: int) -> bool:
    """The parts of a batch as one description that is moved along: much shorter than describing each."""
    out = operands[2]
    first = calls[0][-1].shape
    if len(calls) < 2 or out.ndim != 3 or first[1:] != out.shape[1:] or first[0] < 2:  # one alone shows no steps
        return False
    described = native_call(function, calls[0])
    if described is None:
        return False
    address, places, extents, steps = described
    count, scratch = len(places), len(places) - 2
    moved = []
    done = 0
    for i, operands in enumerate(calls):
        length = operands[-1].shape[0]
        here = [p + done * s for p, s in zip(places, steps[:count])]
        here[scratch] = places[scratch] + i * size
        moved.append((address, here, [length, *extents[1:]], steps))
        done += length
    pool.run_calls(moved, min(threads.get_num_threads(), len(calls)))
    return True


def _run(function: Any, calls: list[list[Any]]) -> None:
    """Calls a product's ufunc on each list of operands, side by side."""
    if len(calls) > 1:
        native = [native_call(function, operands) for operands in calls]
        if all(native):
            pool.run_calls(native, min(threads.get_num_threads(), len(calls)))  # type: ignore[arg-type]
            return
        threads.run([functools.partial(function, *operands) for operands in calls])
        return
    function(*calls[0])


def _split(operands: list[Any], work: int) -> list[list[Any]]:
    """Cuts a product along its batch or its rows and columns, one part for each thread."""
    x, y, out, *rest = operands
    most = max(1, work // (_PARALLEL // 2))
    count = min(threads.get_num_threads(), most)
    if out.ndim > 2 and out.shape[0] >= count:
        whole = [a.reshape((1,) * (out.ndim - a.ndim) + a.shape) for a in operands]
        cuts = _cuts(out.shape[0], count, 1)
        return [[a[start:stop] if a.shape[0] > 1 else a for a in whole] for start, stop in cuts]
    rows, columns = _grid(out.shape[-2], out.shape[-1], count, x.strides[-1] == x.itemsize)
    return [
        [x[..., a:b, :], y[..., c:d], *[r[..., a:b, c:d] for r in (out, *rest)]]
        for a, b in _cuts(out.shape[-2], rows, gemm.tile()) for c, d in _cuts(out.shape[-1], columns, 64)
    ]  # fmt: skip


def _cuts(length: int, parts: int, unit: int) -> list[tuple[int, int]]:
    """Bounds of nearly equal parts that are multiples of `unit`, but for the last."""
    units = -(-length // unit)
    parts = max(1, min(parts, units))
    bounds = [min(length, units * i // parts * unit) for i in range(parts + 1)]
    return list(pairwise(bounds))


def _grid(m: int, n: int, count: int, by_rows: bool) -> tuple[int, int]:
    """How many parts along rows and columns. Each thread packs its share of both operands, so squares are best;
    an operand that has to be turned while it is packed counts more."""
    weight = 1.5 if by_rows else 1.0
    return min(
        ((i, count // i) for i in range(1, count + 1) if count % i == 0), key=lambda p: weight * m / p[0] + n / p[1]
    )
