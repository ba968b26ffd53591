"""Factorisations of matrices by the LAPACK that NumPy itself is linked with, for batches of matrices.

`call` runs a routine for each matrix of a batch. Where NumPy's build shows no routines, and for CuPy's arrays, LU and triangular
systems are array code.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core import allocation
from .._core.allocation import empty, zeros
from .._core.state import FACTORISING, held_over_forks
from .._kernel.linear.routines import routine_ufunc
from .._kernel.native.direct import address_function, direct
from . import threads

_PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
_CODES = {"f": "f32", "d": "f64", "F": "c64", "D": "c128", "i": "i32", "l": "i64", "q": "i64"}
_SPELLINGS = {  # of routines, and their integers
    "scipy_{}_64_": "i8", "{}_64_": "i8", "{}64_": "i8", "{}$NEWLAPACK$ILP64": "i8", "{}_": "i4",
}  # fmt: skip
_TINY = 1024  # elements up to which the library has no use for threads, and preparation costs more than the work
_ROOM = 1 << 20  # bytes in which routines work for as many small matrices as have room there
_UNTHREADED = 512  # elements from which it has threads for triangular systems, though
_FEW = 512 * 512  # elements up to which the library's threads cost more than they bring
_EXACT = 64  # rows up to which complex64 triangular systems are solved in complex128
_BLOCK = 32  # rows of a triangular system that are solved one after the other


@functools.cache
def _library() -> Any:
    """NumPy's own linear algebra module: symbols of the LAPACK below it are found through it."""
    from numpy.linalg import _umath_linalg  # private: used only if it is there

    return ctypes.CDLL(_umath_linalg.__file__)


@functools.cache
def _spelling() -> tuple[str, Any]:
    """How routines are spelt, and the dtype of integers in arrays."""
    for spelling, integers in _SPELLINGS.items():
        if hasattr(_library(), spelling.format("dgetrf")):
            return spelling, np.dtype(integers)
    raise AttributeError("NumPy's build shows no routines of LAPACK")


@functools.cache
def _routine(name: str, arguments: int) -> Any:
    """A LAPACK routine, all of whose arguments are by reference; None if there is none."""
    try:
        function = getattr(_library(), _spelling()[0].format(name))
    except (ImportError, OSError, AttributeError):
        return None
    function.restype, function.argtypes = None, [ctypes.c_void_p] * arguments
    return function


@functools.lru_cache(4096)
def _integer(value: int) -> Any:
    return ctypes.byref(ctypes.c_int64(value))  # routines with short integers read its first half, which comes first


def integers(*shape: int) -> Any:
    """Zeros in the integers of the library."""
    return np.zeros(shape, _spelling()[1])


class Room(NamedTuple):
    """Memory that a routine works in. Without a length it is as long as the routine wishes, which is told the length then."""

    kind: Any
    length: int | None = None


def call(name: str, *arguments: Any, size: int) -> Any:
    """Runs a routine for each matrix of a batch, on all cores if there are several; the library itself on one thread if matrices
    of this size are small. Arguments are letters, numbers, arrays with an entry for each matrix, and `Room`s, as the routine
    has them but for the last, the state it ends with: an array of these is what is given back, or None if there is no routine."""
    first = next(a for a in arguments if isinstance(a, np.ndarray))
    if 0 < size <= _TINY and len(first):
        return _small_call(name, arguments, size * len(first) > _TINY)
    allocation.not_planned()
    given: list[Any] = []
    moving, rooms, address = [], [], address_function()
    for a in arguments:
        kind = a.__class__
        if kind is np.ndarray:
            moving.append((len(given), address(a), a.strides[0], a))
            given.append(moving[-1][1])
        elif kind is Room:
            rooms.append((len(given), a))
            given += (None, None) if a.length is None else (None,)
        else:
            given.append(_integer(a) if kind is int else a)
    _check(name, tuple([a.dtype.char for *_, a in moving]))
    name = _PREFIXES[first.dtype.char] + name
    routine = _routine(name, len(given) + 1)
    if routine is None:
        return None
    if rooms:
        lengths = _lengths(name, tuple([None if a.__class__ is np.ndarray else a for a in arguments]))
        rooms = [(at, a.kind, length, a.length is None) for (at, a), length in zip(rooms, lengths)]
    info = integers(len(first))
    moving.append((len(given), address(info), info.itemsize, info))
    given.append(moving[-1][1])

    def run(start: int, stop: int) -> None:
        passed, held = given.copy(), []
        for at, kind, length, told in rooms:
            held.append(np.empty(length, kind))
            passed[at] = address(held[-1])
            if told:
                passed[at + 1] = _integer(length)
        for i in range(start, stop):
            for at, place, step, _ in moving if i else ():
                passed[at] = place + i * step
            routine(*passed)

    with few_threads(size):
        if len(first) == 1:
            run(0, 1)
        else:
            threads.over(threads.ranges(len(first)), run)
    return info


@functools.lru_cache(1024)
def _check(name: str, kinds: tuple[str, ...]) -> None:
    """Raises unless arrays are of one precision (letters of dtypes), but for integers: routines take memory for what they expect."""
    if {k.lower() for k in kinds} - {kinds[0].lower(), _spelling()[1].char}:
        raise RuntimeError(f"{name}: arrays of the dtypes {', '.join(kinds)} cannot be given to one routine")


def _small_call(name: str, arguments: Sequence[Any], several: bool) -> Any:
    """The same as a loop over operands: those who watch a call write it down, and others have it without ctypes. Threads share
    `several` matrices."""
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    count, kind = len(arrays[0]), arrays[0].dtype.char
    statics = tuple([a.dtype.char if isinstance(a, np.ndarray) else a for a in arguments])
    found = _loop_of(_PREFIXES[kind] + name, statics)
    if found is None:
        _loop_of.cache_clear()  # there may be one later
        return None
    plain, loop, words, rooms = found
    info, parts = zeros(count, _spelling()[1]), threads.ranges(count) if several else [(0, count)]
    operands, states = [a.reshape(count, -1) for a in arrays], info.reshape(count, 1)
    most = max(1, _ROOM // max(1, sum([n * d.itemsize for d, n in rooms])))
    if len(parts) > 1:
        allocation.not_planned()
        loop = plain  # other threads of the interpreter run meanwhile

    def run(start: int, stop: int) -> None:
        memory = [empty((min(most, stop - start), n), d) for d, n in rooms]
        for i in range(start, stop, most):
            now = slice(i, min(i + most, stop))
            held = [r[: now.stop - i] for r in memory]
            loop(words, *[a[now] for a in operands], *held, states[now])

    threads.over(parts, run)
    return info


@functools.lru_cache(1024)
def _loop_of(name: str, statics: tuple[Any, ...]) -> Any:
    """(loop, the same as a function, its words, dtypes and lengths of its rooms) of a routine whose arguments are the kinds of arrays (letters), letters (bytes),
    numbers and `Room`s; None if there is none."""
    routine = _routine(name, 1 + sum([2 if isinstance(a, Room) and a.length is None else 1 for a in statics]))
    if routine is None:
        return None
    kinds, given = [a for a in statics if isinstance(a, str)], [a for a in statics if isinstance(a, Room)]
    _check(name, tuple(kinds))
    lengths = _lengths(name, tuple([None if isinstance(a, str) else a for a in statics])) if given else []
    rooms = [(np.dtype(a.kind), n) for a, n in zip(given, lengths)]
    operands, rest = iter(range(1, len(kinds) + 1)), iter(range(len(kinds) + 1, len(kinds) + len(rooms) + 1))
    words, order = [0], []
    for a in statics:
        if isinstance(a, str):
            order.append(next(operands))
            continue
        if isinstance(a, Room):
            order.append(next(rest))
        if not isinstance(a, Room) or a.length is None:
            words.append(
                rooms[order[-1] - len(kinds) - 1][1] if isinstance(a, Room) else a if isinstance(a, int) else ord(a)
            )
            order.append(1 - len(words))
    order.append(len(kinds) + len(rooms) + 1)
    words[0] = ctypes.cast(routine, ctypes.c_void_p).value or 0
    codes = tuple([_CODES[c] for c in (*kinds, *[d.char for d, _ in rooms], _spelling()[1].char)])
    made = routine_ufunc(name, tuple(order), codes)
    return made, direct(made), allocation.unchanging(np.array(words)), rooms


def failed(info: Any) -> bool:
    """Whether any of the states that a routine or kernel ended with is not 0."""
    return bool(np.count_nonzero(info) if info.__class__ is np.ndarray else info.any())


@functools.lru_cache(1024)
def _lengths(name: str, arguments: tuple[Any, ...]) -> list[int]:
    """How many elements each `Room` has: a routine says how many it likes when asked with lengths of -1."""
    rooms = [a for a in arguments if isinstance(a, Room)]
    best = [np.zeros(1, a.kind) for a in rooms]
    given, places, nothing = [], iter(best), ctypes.byref(ctypes.c_int64())
    for a in arguments:
        if isinstance(a, Room):
            given += [next(places).ctypes.data] if a.length is not None else [next(places).ctypes.data, _integer(-1)]
        else:
            given.append(_integer(a) if isinstance(a, int) else nothing if a is None else a)
    _routine(name, len(given) + 1)(*given, nothing)
    return [max(1, int(made[0].real)) if a.length is None else a.length for a, made in zip(rooms, best)]


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


def _column_major(a: Any) -> Any:
    """A fresh copy of a batch of matrices, each lying column after column; and that memory, as rows."""
    memory = np.array(a.swapaxes(-1, -2), order="C", copy=True)
    return memory.swapaxes(-1, -2), memory


# -- LU ------------------------------------------------------------------------------------------------------------


def lu_factor(xp: Any, a: Any, pivot: bool = True) -> tuple[Any, Any, Any]:
    """(L and U in one matrix, pivots counted from 1, position of the first zero on U's diagonal or 0)."""
    m, n = a.shape[-2:]
    if pivot and xp is np and m and n and a.dtype.char in _PREFIXES and _routine("dgetrf", 6) is not None:
        packed, memory = _column_major(a)
        flat, lead = memory.reshape(-1, n, m), a.shape[:-2]
        pivots = integers(len(flat), min(m, n))
        info = call("getrf", m, n, flat, m, pivots, size=m * n)
        return packed, pivots.reshape(*lead, min(m, n)).astype(np.int32), info.reshape(lead).astype(np.int32)
    return _array_lu(xp, a, m, n, pivot)


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


def svd(a: Any, full: bool, vectors: bool) -> tuple[Any, Any, Any] | None:
    """(U, S, Vh) of matrices, U and Vh None without `vectors`; None if NumPy should do it."""
    m, n = a.shape[-2:]
    kind, least, lead = a.dtype.char, min(m, n), a.shape[:-2]
    if kind not in _PREFIXES or not a.size or _routine("dgesdd", 14) is None:
        return None
    memory = a.swapaxes(-1, -2).copy("C").reshape(-1, n, m)  # column after column, as the results are
    count, real, rows = len(memory), np.dtype(kind.lower()), n if full else least
    values = empty((count, least), real)
    left = empty((count, m if full else least, m) if vectors else (count, 1), a.dtype)
    right = empty((count, n, rows) if vectors else (count, 1), a.dtype)
    extra = max(5 * least * least + 7 * least, 2 * max(m, n) * least + 2 * least * least + least)
    info = call(
        "gesdd", (b"A" if full else b"S") if vectors else b"N", m, n, memory, m, values, left, m, right, rows,
        Room(kind), *([Room(real, extra)] if kind in "FD" else []), Room(_spelling()[1], 8 * least), size=m * n,
    )  # fmt: skip
    if failed(info):
        raise np.linalg.LinAlgError("SVD did not converge")
    values = values.reshape(*lead, least)
    if not vectors:
        return None, values, None
    u, vh = (t.swapaxes(-1, -2).reshape(*lead, t.shape[2], t.shape[1]) for t in (left, right))
    return u, values, vh


# -- eigenvalues ---------------------------------------------------------------------------------------------------


def eig(a: Any, vectors: bool) -> tuple[Any, Any] | None:
    """(eigenvalues, right eigenvectors or None) of single-precision matrices, which NumPy would compute in double
    precision, with another order of eigenvalues; None if there is no routine for them."""
    n, whole = a.shape[-1], a.dtype.kind == "c"
    if a.dtype.char not in "fF" or not n or _routine("sgeev", 14) is None:
        return None
    memory = _column_major(a)[1].reshape(-1, n, n)
    values = np.zeros((len(memory), 1 if whole else 2, n), a.dtype)  # real matrices: their real and imaginary parts
    made = np.zeros((len(memory), n, n) if vectors else (len(memory), 1, 1), a.dtype)
    parts = [values[:, i] for i in range(values.shape[1])]
    info = call(
        "geev", b"N", b"V" if vectors else b"N", n, memory, n, *parts, made, n, made, n, Room(a.dtype),
        *([Room(np.float32, 2 * n)] if whole else []), size=n * n,
    )  # fmt: skip
    if info.any():
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
    if xp is np and a.dtype.char == "F" and n <= _EXACT:
        # OpenBLAS multiplies by rounded reciprocals of complex diagonals
        return solve_triangular(xp, a.astype("D"), b.astype("D"), upper, unit).astype("F")
    if xp is np and n and k and a.dtype == b.dtype and a.dtype.char in _PREFIXES:
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
        elif count == 1:
            threads.over(threads.ranges(k, 16, n * n * k // threads.PRODUCTS), functools.partial(run, 0))
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


def ldl_factor(a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """Bunch and Kaufman's factorisation of lower triangles; pivots as LAPACK writes them."""
    n, lead = a.shape[-1], a.shape[:-2]
    packed, memory = _column_major(np.tril(a))
    if not a.size:
        return packed, np.zeros(a.shape[:-1], np.int32), np.zeros(lead, np.int32)
    pivots = integers(memory.size // (n * n), n)
    name = "hetrf" if hermitian else "sytrf"
    info = _needed(call(name, b"L", n, memory.reshape(-1, n, n), n, pivots, Room(a.dtype), size=n * n))
    return packed, pivots.reshape(a.shape[:-1]).astype(np.int32), info.reshape(lead).astype(np.int32)


def ldl_solve(packed: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    """x of a @ x = b, with the factorisation of `a` from `ldl_factor`; equal batch dimensions."""
    n, k = b.shape[-2:]
    x, memory = _column_major(b)
    if not x.size:
        return x
    low = int(np.abs(pivots).min()), int(np.abs(pivots).max())
    if low[0] < 1 or low[1] > n:
        raise RuntimeError("linalg.ldl_solve: pivots must be between 1 and the number of rows")
    factors = _column_major(packed)[1].reshape(-1, n, n)
    places = np.ascontiguousarray(pivots.reshape(-1, n).astype(integers().dtype))
    name = "hetrs" if hermitian else "sytrs"
    _needed(call(name, b"L", n, k, factors, n, places, memory.reshape(-1, k, n), n, size=n * max(n, k)))
    return x


def _needed(info: Any) -> Any:
    if info is None:
        raise NotImplementedError(
            "linalg.ldl: this build of NumPy shows no LAPACK, which does it; its wheels bring one"
        )
    return info
