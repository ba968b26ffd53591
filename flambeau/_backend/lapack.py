"""Matrix factorisations that NumPy has no function for: LU with pivots, LDL, triangular systems.

LU and triangular systems use the LAPACK that NumPy itself is linked with, where its 64-bit symbols can be found, and
array code otherwise (which also serves CuPy arrays). Everything works on batches of matrices.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
from typing import Any

import numpy as np

from .._core.state import FACTORISING, held_over_forks
from .._kernel.native.direct import address_function
from . import threads

_PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
_SPELLINGS = ("scipy_{}_64_", "{}_64_", "{}64_")
_NATIVE_SVD = 256  # elements from which one call for each matrix costs less than NumPy's working memory does
_TINY = 1024  # elements up to which the library has no use for threads, and preparation costs more than the work
_UNTHREADED = 512  # elements from which it has threads for triangular systems, though
_FEW = 512 * 512  # elements up to which the library's threads cost more than they bring
_SPLIT = 1 << 20  # multiplications of a triangular system that are worth a second thread
_BLOCK = 32  # rows of a triangular system that are solved one after the other


@functools.cache
def _library() -> Any:
    """NumPy's own linear algebra module: symbols of the LAPACK below it are found through it."""
    from numpy.linalg import _umath_linalg  # type: ignore[attr-defined]  # private: used only if it is there

    return ctypes.CDLL(_umath_linalg.__file__)


@functools.cache
def _routine(name: str, arguments: int) -> Any:
    """A LAPACK routine with 64-bit integers, all arguments by reference; None if there is none."""
    try:
        library = _library()
    except (ImportError, OSError, AttributeError):
        return None
    for spelling in _SPELLINGS:
        function = getattr(library, spelling.format(name), None)
        if function is not None:
            function.restype, function.argtypes = None, [ctypes.c_void_p] * arguments
            return function
    return None


class few_threads:
    """A block in which the library works on one thread, if the matrices in it are small."""

    lock = threading.RLock()  # a finalizer that runs in the midst may factorise, too
    inside = 0
    usual = 0

    def __init__(self, size: int):
        self.set = _routine_with("openblas_set_num_threads") if _TINY < size <= _FEW else None

    def __enter__(self) -> None:
        if self.set is not None:
            get = _routine_with("openblas_get_num_threads")
            with self.lock:
                if not few_threads.inside and get is not None:
                    few_threads.usual = get()
                few_threads.inside += 1
                self.set(1)

    def __exit__(self, *problem: object) -> None:
        if self.set is not None:
            with self.lock:
                few_threads.inside -= 1
                if not few_threads.inside and few_threads.usual:
                    self.set(few_threads.usual)


def _after_fork() -> None:
    """The threads that were in such a block are not in the child."""
    restore = _routine_with("openblas_set_num_threads") if few_threads.inside and few_threads.usual else None
    few_threads.inside = 0
    if restore is not None:
        restore(few_threads.usual)


held_over_forks(few_threads.lock, FACTORISING)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _routine_with(name: str) -> Any:
    """One of the library's own functions, about its threads."""
    try:
        return getattr(_library(), f"scipy_{name}64_", None)
    except (ImportError, OSError, AttributeError):
        return None


# What NumPy's functions are made of, with the dtypes they work in: double precision, here called {0}.
_FORMS = {
    "cholesky_lo": "{0}->{0}", "inv": "{0}->{0}", "solve": "{0}{0}->{0}", "det": "{0}->{0}", "svd_f": "{0}->{0}d{0}",
    "svd_s": "{0}->{0}d{0}",
}  # fmt: skip


@functools.cache
def _bare(name: str, kind: str) -> Any:
    """(function of arrays, its signature, dtypes of its results) for elements of a kind; None if there is none."""
    try:
        from numpy.linalg import _umath_linalg  # type: ignore[attr-defined]  # private: used only if it is there
    except ImportError:
        return None
    function = getattr(_umath_linalg, name, None)
    if function is None or kind not in _PREFIXES:
        return None
    signature = _FORMS[name].format("D" if kind in "FD" else "d")
    real = "f" if kind in "fF" else "d"
    return function, signature, [np.dtype(kind if c == signature[0] else real) for c in signature.partition("->")[2]]


def tiny(name: str, *operands: Any) -> Any:
    """One of NumPy's functions on few elements, without its preparations; None if it failed or is not there."""
    first = operands[0]
    if first.__class__ is not np.ndarray or not 0 < first.size <= _TINY or not 0 < operands[-1].size <= _TINY:
        return None
    bare = _bare(name, first.dtype.char)
    if bare is None:
        return None
    function, signature, dtypes = bare
    with np.errstate(all="ignore"):
        made = function(*operands, signature=signature)
        if len(dtypes) > 1:
            return (
                None
                if _has_nan(made[1], first.ndim > 2)
                else tuple([m.astype(d, copy=False) for m, d in zip(made, dtypes)])
            )
        return None if _has_nan(made, first.ndim > 2) else made.astype(dtypes[0], copy=False)


def _has_nan(array: Any, several: bool) -> bool:
    """Whether a matrix failed: it is filled with NaN then. That may also come from the operands."""
    if several:
        return bool(np.isnan(array).any())
    first = array.item(0)
    return first != first


def _integer(value: int) -> Any:
    return ctypes.byref(ctypes.c_int64(value))


def _column_major(a: Any) -> Any:
    """A fresh copy of a batch of matrices, each lying column after column; and that memory, as rows."""
    memory = np.array(a.swapaxes(-1, -2), order="C", copy=True)
    return memory.swapaxes(-1, -2), memory


# -- LU ------------------------------------------------------------------------------------------------------------


def lu_factor(xp: Any, a: Any, pivot: bool = True) -> tuple[Any, Any, Any]:
    """(L and U in one matrix, pivots counted from 1, position of the first zero on U's diagonal or 0)."""
    m, n = a.shape[-2:]
    if pivot and xp is np and m and n and a.dtype.char in _PREFIXES:
        routine = _routine(_PREFIXES[a.dtype.char] + "getrf", 6)
        if routine is not None:
            return _native_lu(routine, a, m, n)
    return _array_lu(xp, a, m, n, pivot)


def _native_lu(routine: Any, a: Any, m: int, n: int) -> tuple[Any, Any, Any]:
    packed, memory = _column_major(a)
    lead, k = a.shape[:-2], min(m, n)
    pivots, info = np.zeros((*lead, k), np.int64), np.zeros(lead, np.int64)
    rows, columns = _integer(m), _integer(n)
    start, step = memory.ctypes.data, m * n * a.itemsize
    with few_threads(m * n):
        for i in range(info.size):
            place = pivots.ctypes.data + 8 * k * i
            routine(rows, columns, start + i * step, rows, place, info.ctypes.data + 8 * i)
    return packed, pivots.astype(np.int32), info.astype(np.int32)


def _array_lu(xp: Any, a: Any, m: int, n: int, pivot: bool) -> tuple[Any, Any, Any]:
    lead, k = a.shape[:-2], min(m, n)
    count = math.prod(lead)
    w = a.reshape(count, m, n).copy()
    each = xp.arange(count)
    pivots, info = xp.zeros((count, k), xp.int32), xp.zeros(count, xp.int32)
    with np.errstate(all="ignore"):
        for j in range(k):
            chosen = xp.abs(w[:, j:, j]).argmax(-1) + j if pivot else xp.full(count, j)
            pivots[:, j] = chosen + 1
            if pivot:
                row = w[each, chosen].copy()
                w[each, chosen] = w[:, j]
                w[:, j] = row
            head = w[:, j, j]
            info = xp.where((head == 0) & (info == 0), j + 1, info)
            w[:, j + 1 :, j] /= xp.where(head == 0, 1, head)[:, None]
            w[:, j + 1 :, j + 1 :] -= w[:, j + 1 :, j, None] * w[:, j, None, j + 1 :]
    return w.reshape(a.shape), pivots.reshape(*lead, k), info.astype(xp.int32).reshape(lead)


def exchanged(m: int, swaps: Any) -> list[int]:
    """The order of m rows after exchanges of row i with row swaps[i]."""
    made = list(range(m))
    for i, j in enumerate(swaps.tolist()):
        made[i], made[j] = made[j], made[i]
    return made


def permutation(xp: Any, pivots: Any, m: int) -> Any:
    """The order of rows that a sequence of exchanges gives: row i of PᵀA is row order[i] of A."""
    lead, k = pivots.shape[:-1], pivots.shape[-1]
    count = math.prod(lead)
    swaps = pivots.reshape(count, k).astype(xp.int64) - 1
    if swaps.size and (int(swaps.min()) < 0 or int(swaps.max()) >= m):
        raise RuntimeError("pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive")
    if count == 1 and xp is np:
        return np.array(exchanged(m, swaps[0])).reshape(*lead, m)
    order = xp.broadcast_to(xp.arange(m), (count, m)).copy()
    each = xp.arange(count)
    for j in range(k):
        other = swaps[:, j]
        held = order[each, other].copy()
        order[each, other] = order[:, j]
        order[:, j] = held
    return order.reshape(*lead, m)


# -- singular values -----------------------------------------------------------------------------------------------


@functools.cache
def _svd_room(kind: str, m: int, n: int, job: bytes) -> int:
    """How many elements of working memory the routine likes to have."""
    best, failed = np.zeros(1, kind), ctypes.c_int64(0)
    rows, columns, least = _integer(m), _integer(n), _integer(min(m, n))
    one = best.ctypes.data
    extra = (one,) if kind in "FD" else ()
    routine = _routine(_PREFIXES[kind] + "gesdd", 14 + len(extra))
    tall = least if job == b"S" else columns
    query = _integer(-1)
    routine(job, rows, columns, one, rows, one, one, rows, one, tall, one, query, *extra, one, ctypes.byref(failed))
    return int(best[0].real)


def svd(a: Any, full: bool, vectors: bool) -> tuple[Any, Any, Any] | None:
    """(U, S, Vh) of matrices that are not tiny, U and Vh None without `vectors`; None if NumPy should do it.

    Row-major memory of A is column-major memory of Aᵀ, whose factors lie as those of A do in rows: nothing is turned.
    """
    n, m = a.shape[-2:]  # the routine sees the transposed matrix
    kind, least = a.dtype.char, min(m, n)
    if kind not in _PREFIXES or m * n < _NATIVE_SVD or not a.size:
        return None
    whole = kind in "FD"
    routine = _routine(_PREFIXES[kind] + "gesdd", 15 if whole else 14)
    if routine is None:
        return None
    job = (b"A" if full else b"S") if vectors else b"N"
    lead = a.shape[:-2]
    source = np.array(a, order="C", copy=True)
    values = np.empty((*lead, least), np.dtype(kind.lower()))
    left = np.empty((*lead, m if full else least, m) if vectors else (1,), kind)
    right = np.empty((*lead, n, n if full else least) if vectors else (1,), kind)
    room = _svd_room(kind, m, n, job)
    work, places = np.empty(room, kind), np.empty(8 * least, np.int64)
    extra: tuple[Any, ...] = ()
    if whole:
        size = max(5 * least * least + 7 * least, 2 * max(m, n) * least + 2 * least * least + least)
        spare = np.empty(size, values.dtype)
        extra = (spare.ctypes.data,)
    failed = ctypes.c_int64(0)
    rows, columns, width = _integer(m), _integer(n), _integer(n if full else least)
    starts = [x.ctypes.data for x in (source, values, left, right)]
    steps = [m * n * a.itemsize, least * values.itemsize, *([0, 0] if not vectors else [])]
    if vectors:
        steps += [left.shape[-1] * left.shape[-2] * a.itemsize, right.shape[-1] * right.shape[-2] * a.itemsize]
    with few_threads(m * n):
        for i in range(values.size // least):
            x, s, u, v = (start + i * step for start, step in zip(starts, steps))
            routine(
                job, rows, columns, x, rows, s, u, rows, v, width, work.ctypes.data, _integer(room), *extra,
                places.ctypes.data, ctypes.byref(failed),
            )  # fmt: skip
            if failed.value:
                raise np.linalg.LinAlgError("SVD did not converge")
    return (right, values, left) if vectors else (None, values, None)


# -- eigenvalues ---------------------------------------------------------------------------------------------------


def eig(a: Any, vectors: bool) -> tuple[Any, Any] | None:
    """(eigenvalues, right eigenvectors or None) of single-precision matrices, which NumPy would compute in double
    precision, with another order of eigenvalues; None if there is no routine for them."""
    n = a.shape[-1]
    whole = a.dtype.kind == "c"
    if a.dtype.char not in "fF" or not n:
        return None
    routine = _routine(_PREFIXES[a.dtype.char] + "geev", 14)
    if routine is None:
        return None
    memory = _column_major(a)[1].reshape(-1, n, n)
    count = memory.shape[0]
    parts = 1 if whole else 2  # real and imaginary parts lie apart for real matrices
    values = np.zeros((count, parts, n), a.dtype)
    made = np.zeros((count, n, n) if vectors else (1, 1, 1), a.dtype)
    work, extra = np.zeros(max(1, 34 * n), a.dtype), np.zeros(2 * n, np.float32)
    failed, order, room = ctypes.c_int64(0), _integer(n), _integer(work.size)
    flag, step = b"V" if vectors else b"N", n * n * a.itemsize
    for i in range(count):
        w = values.ctypes.data + i * parts * n * a.itemsize
        v = made.ctypes.data + (i * step if vectors else 0)
        head = (b"N", flag, order, memory.ctypes.data + i * step, order)
        tail = (v, order, v, order, work.ctypes.data, room)
        if whole:
            routine(*head, w, *tail, extra.ctypes.data, ctypes.byref(failed))
        else:
            routine(*head, w, w + n * a.itemsize, *tail, ctypes.byref(failed))
        if failed.value:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
    together = values[:, 0] if whole else values[:, 0] + np.complex64(1j) * values[:, 1]
    columns: Any = made.swapaxes(-1, -2)
    if vectors and not whole:
        columns = _paired(columns, values[:, 1])
    return together.reshape(a.shape[:-1]), columns.reshape(a.shape) if vectors else None


def _paired(columns: Any, imaginary: Any) -> Any:
    """Complex eigenvectors of real matrices: LAPACK keeps those of a conjugate pair as two real columns."""
    made = columns.astype(np.complex64)
    first = imaginary > 0
    second = np.zeros_like(first)
    second[:, 1:] = first[:, :-1]
    following = np.roll(columns, -1, -1)
    before = np.roll(columns, 1, -1)
    made += 1j * np.where(first[:, None, :], following, 0)
    return np.where(second[:, None, :], before - 1j * columns, made).astype(np.complex64)


# -- triangular systems --------------------------------------------------------------------------------------------


def solve_triangular(xp: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """x with a @ x = b, where only one triangle of `a` is read; both have the same batch dimensions."""
    n, k = b.shape[-2:]
    if xp is np and n and k and a.dtype.char in _PREFIXES:
        routine = _routine(_PREFIXES[a.dtype.char] + "trsm", 11)
        if routine is not None:
            return _native_triangular(routine, a, b, upper, unit)
    with np.errstate(all="ignore"):
        x = b.copy()
        _substitute(xp, a, x, upper, unit)
        return x


def _native_triangular(routine: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """Solves the transposed system xᵀ aᵀ = bᵀ, whose column-major memory is the row-major memory of this one.

    `a` is read where it lies if it is dense in either order.
    """
    n, k = b.shape[-2:]
    turned = a.swapaxes(-1, -2)
    by_columns = turned.flags.c_contiguous
    if not by_columns and not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    x = np.array(b, order="C", copy=True)
    size, address, width = _integer(n), address_function(), _integer(k)
    one = _ones(a.dtype)
    triangle, how = b"U" if upper == by_columns else b"L", b"T" if by_columns else b"N"
    kind = b"U" if unit else b"N"
    count = x.size // (n * k)
    start, to, factor = address(turned if by_columns else a), address(x), address(one)
    step, further = n * n * a.itemsize, n * k * x.itemsize
    single = _routine(_PREFIXES[a.dtype.char] + "trsv", 8) if k == 1 else None

    def run(i: int, first: int, last: int) -> None:
        routine(b"R", triangle, how, kind, _integer(last - first), size, factor, start + i * step, size,
                to + i * further + first * x.itemsize, width)  # fmt: skip

    extent = n * max(n, k)
    with few_threads(max(extent, _TINY + 1) if extent > _UNTHREADED else extent):
        if single is not None:
            turn = b"N" if by_columns else b"T"
            for i in range(count):
                single(triangle, turn, kind, size, start + i * step, size, to + i * further, width)
        elif count == 1 and n * n * k >= _SPLIT and k >= 32:
            threads.over(threads.ranges(k, 16), functools.partial(run, 0))
        else:
            for i in range(count):
                run(i, 0, k)
    return x


@functools.cache
def _ones(d: Any) -> Any:
    return np.ones((), d)


def _substitute(xp: Any, a: Any, x: Any, upper: bool, unit: bool) -> None:
    """In place, by halves down to small blocks."""
    n = x.shape[-2]
    if n > _BLOCK:
        h = n // 2
        first, second = (slice(h, n), slice(0, h)) if upper else (slice(0, h), slice(h, n))
        _substitute(xp, a[..., first, first], x[..., first, :], upper, unit)
        x[..., second, :] -= xp.matmul(a[..., second, first], x[..., first, :])
        _substitute(xp, a[..., second, second], x[..., second, :], upper, unit)
        return
    for i in range(n - 1, -1, -1) if upper else range(n):
        done = slice(i + 1, n) if upper else slice(0, i)
        x[..., i, :] -= xp.matmul(a[..., i, None, done], x[..., done, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]


# -- LDL -----------------------------------------------------------------------------------------------------------

_ALPHA = (1 + 17**0.5) / 8  # bounds the growth of elements in Bunch and Kaufman's pivoting


def ldl_factor(a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """Bunch and Kaufman's factorisation of a lower triangle, one matrix after another; pivots as LAPACK writes them."""
    n = a.shape[-1]
    packed = np.tril(a)
    pivots, info = np.zeros(a.shape[:-1], np.int32), np.zeros(a.shape[:-2], np.int32)
    places, marks = pivots.reshape(-1, n) if n else pivots, info.reshape(-1)
    matrices = packed.reshape(-1, n, n) if n else packed
    with np.errstate(all="ignore"):
        for i in range(marks.size if n else 0):
            marks[i] = _ldl_one(matrices[i], places[i], hermitian)
    return packed, pivots, info


def _size(z: Any, hermitian: bool) -> Any:
    """The size that pivots are compared by: |re| + |im| for vectors, as LAPACK does."""
    return np.abs(z.real) + np.abs(z.imag) if np.iscomplexobj(z) else np.abs(z)


def _ldl_one(a: Any, pivots: Any, hermitian: bool) -> int:
    n, k, info = a.shape[0], 0, 0
    while k < n:
        step, place = _ldl_pivot(a, k, hermitian)
        if step == 0:
            info = info or k + 1
            pivots[k] = k + 1
            if hermitian:
                a[k, k] = a[k, k].real
            k += 1
            continue
        _exchange(a, k + step - 1, place, k, step, hermitian)
        if hermitian:
            for i in (k, k + step - 1, place):
                a[i, i] = a[i, i].real
        below = slice(k + step, n)
        column = a[below, k : k + step].copy()
        turned = column.conj() if hermitian else column
        if step == 1:
            if k + 1 < n:
                a[below, k : k + 1] = column / a[k, k]
                a[below, below] -= np.tril(column / a[k, k] @ turned.T)
            pivots[k] = place + 1
        else:
            if k + 2 < n:
                corner = a[k + 1, k].conj() if hermitian else a[k + 1, k]
                block = np.array([[a[k, k], corner], [a[k + 1, k], a[k + 1, k + 1]]])
                factor = np.linalg.solve(block.T, column.T).T  # column @ block⁻¹
                a[below, below] -= np.tril(factor @ turned.T)
                a[below, k : k + 2] = factor
            pivots[k] = pivots[k + 1] = -(place + 1)
        if hermitian:
            rest = np.arange(k + step, n)
            a[rest, rest] = a[rest, rest].real
        k += step
    return info


def _ldl_pivot(a: Any, k: int, hermitian: bool) -> tuple[int, int]:
    """(size of the next pivot block, row to exchange its last row with); size 0 for a column of zeros."""
    n = a.shape[0]
    own = abs(a[k, k].real) if hermitian else _size(a[k, k], hermitian)
    largest, row = 0.0, k
    if k + 1 < n:
        sizes = _size(a[k + 1 :, k], hermitian)
        row = k + 1 + int(sizes.argmax())
        largest = sizes[row - k - 1]
    if max(own, largest) == 0 or np.isnan(own):
        return 0, k
    if own >= _ALPHA * largest:
        return 1, k
    across = _size(a[row, k:row], hermitian).max()
    if row + 1 < n:
        across = max(across, _size(a[row + 1 :, row], hermitian).max())
    if own >= _ALPHA * largest * (largest / across):
        return 1, k
    other = abs(a[row, row].real) if hermitian else _size(a[row, row], hermitian)
    return (1, row) if other >= _ALPHA * across else (2, row)


def _exchange(a: Any, i: int, j: int, k: int, step: int, hermitian: bool) -> None:
    """Exchanges rows and columns i < j of a matrix of which the lower triangle is stored."""
    if i == j:
        return
    below = slice(j + 1, None)
    a[below, i], a[below, j] = a[below, j].copy(), a[below, i].copy()
    middle_column, middle_row = a[i + 1 : j, i].copy(), a[j, i + 1 : j].copy()
    a[i + 1 : j, i] = middle_row.conj() if hermitian else middle_row
    a[j, i + 1 : j] = middle_column.conj() if hermitian else middle_column
    if hermitian:
        a[j, i] = a[j, i].conj()
    a[i, i], a[j, j] = a[j, j].copy(), a[i, i].copy()
    if step == 2:
        a[i, k], a[j, k] = a[j, k].copy(), a[i, k].copy()


def ldl_solve(packed: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    """x of a @ x = b, with the factorisation of `a` from `ldl_factor`; equal batch dimensions."""
    n = packed.shape[-1]
    x = np.array(b, order="C", copy=True)
    if not x.size:
        return x
    low = int(np.abs(pivots).min()), int(np.abs(pivots).max())
    if low[0] < 1 or low[1] > n:
        raise RuntimeError("linalg.ldl_solve: pivots must be between 1 and the number of rows")
    rows = x.reshape(-1, *x.shape[-2:])
    with np.errstate(all="ignore"):
        for a, places, right in zip(packed.reshape(-1, n, n), pivots.reshape(-1, n), rows):
            _ldl_solve_one(a, places, right, hermitian)
    return x


def _ldl_solve_one(a: Any, pivots: Any, x: Any, hermitian: bool) -> None:
    n, k = a.shape[0], 0
    steps = []
    while k < n:  # x = D⁻¹ L⁻¹ Pᵀ x
        step = 1 if pivots[k] > 0 or k + 1 == n else 2
        i, j = k + step - 1, abs(int(pivots[k])) - 1
        x[[i, j]] = x[[j, i]]
        below = slice(k + step, n)
        x[below] -= a[below, k : k + step] @ x[k : k + step]
        if step == 1:
            x[k] /= a[k, k].real if hermitian else a[k, k]
        else:
            corner = a[k + 1, k].conj() if hermitian else a[k + 1, k]
            x[k : k + 2] = np.linalg.solve(np.array([[a[k, k], corner], [a[k + 1, k], a[k + 1, k + 1]]]), x[k : k + 2])
        steps.append((k, step, i, j))
        k += step
    for k, step, i, j in reversed(steps):  # x = P L⁻ᵀ x
        column = a[k + step :, k : k + step]
        x[k : k + step] -= (column.conj() if hermitian else column).T @ x[k + step :]
        x[[i, j]] = x[[j, i]]
