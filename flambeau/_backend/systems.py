"""Linear systems, inverses, determinants and factors of CPU matrices in their own precision.

Matrices that fit in a core's cache are factored by our own kernels, batches of them on all cores; larger matrices, and complex ones
that are not small, by the LAPACK below NumPy. Row-major memory of a matrix is column-major memory of its transpose, which is what its routines get.
Every function gives None where another way is to be taken, as for arrays of another device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.allocation import empty, zeros
from .._kernel.linear import elimination, factoring, symmetric
from . import lapack
from .copies import row_major
from .cpu import cpu

_SMALL = 32  # rows of matrices that are small
_KNOWN = 4  # rows up to which there are kernels for the very size
_ROTATED = 25  # rows of symmetric matrices up to which LAPACK rotates as our kernel does
_SWEEPS = 8  # multiplications by which the eigenvalues of a matrix cost more than its product
_CODES = {"f": "f32", "d": "f64", "F": "c64", "D": "c128"}
# elements of real matrices that our kernels factor (one thread, 512 rows: LU 3.2 ms where OpenBLAS takes 5.9, QR 13 and 18)
_CACHED = 512 * 512


def _plain(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.char in _CODES and a.size > 0


def _cached(a: Any) -> bool:
    """Whether matrices are factored by our own kernels although they are not small."""
    return a.dtype.char in "fd" and a.shape[-2] * a.shape[-1] <= _CACHED


def _in_rows(a: Any) -> Any:
    """Matrices one after the other, with rows whose elements follow each other."""
    flat = a.reshape(-1, *a.shape[-2:])
    return flat if flat.strides[-1] == a.itemsize else row_major(flat)


def _blocks(count: int, width: int, like: Any) -> Any:
    """Memory for the columns of each matrix that are worked on."""
    return empty((count, factoring.BLOCK, width), like.dtype)


# -- small matrices ---------------------------------------------------------------------------------------------------


def _small_solve(a: Any, b: Any) -> tuple[Any, Any]:
    n, k = b.shape[-2:]
    code, lead = _CODES[a.dtype.char], a.shape[:-2]
    known = n if n <= _KNOWN and n == k else None
    call = cpu.kernel(elimination.solve, (code, code, code, code, "i32"), size=known, width=known)
    x, info, work = empty((*lead, n, k), a.dtype), empty(lead, np.dtype(np.int32)), empty(a.shape, a.dtype)
    operands = [t.reshape(-1, *t.shape[-2:]) for t in (a, b, x, work)]
    cpu.batch(call, [*operands, info.reshape(-1)], info.size * n * n * (n + 2 * k))
    return x, info


def _small_determinant(a: Any) -> Any:
    n = a.shape[-1]
    code = _CODES[a.dtype.char]
    made = empty(a.shape[:-2], a.dtype)
    operands = [a.reshape(-1, n, n), made.reshape(-1)]
    if n <= _KNOWN:
        call = cpu.kernel(elimination.small_determinant, (code, code), size=n)
    else:
        call = cpu.kernel(elimination.determinant, (code, code, code))
        operands.append(empty(operands[0].shape, a.dtype))
    cpu.batch(call, operands, made.size * n**3)
    return made


def _cholesky(a: Any) -> Any:
    n, code = a.shape[-1], _CODES[a.dtype.char]
    made, flat = empty(a.shape, a.dtype), _in_rows(a)
    info = empty(len(flat), np.dtype(np.int32))
    operands = [flat, made.reshape(-1, n, n), info]
    if n <= _SMALL:
        call = cpu.kernel(elimination.cholesky, (code, code, "i32"))
    else:
        call = cpu.kernel(factoring.cholesky, (code, code, "i32", code), adjacent=True)
        operands.append(_blocks(len(flat), n, a))
    cpu.batch(call, operands, flat.size * n)
    return None if lapack.failed(info) else made


def lu(a: Any) -> Any:
    """(L and U in one matrix, pivots, info) of matrices that are not large."""
    m, n = a.shape[-2:]
    small = max(m, n) <= _SMALL
    if not _plain(a) or not (small or _cached(a)):
        return None
    code, lead = _CODES[a.dtype.char], a.shape[:-2]
    made, flat = empty(a.shape, a.dtype), _in_rows(a)
    pivots, info = (empty(shape, np.dtype(np.int32)) for shape in ((*lead, min(m, n)), lead))
    operands = [flat, made.reshape(-1, m, n), pivots.reshape(-1, min(m, n)), info.reshape(-1)]
    if small:
        call = cpu.kernel(elimination.factor, (code, code, "i32", "i32"))
    else:
        call = cpu.kernel(factoring.factor, (code, code, "i32", "i32", code), adjacent=True)
        operands.append(_blocks(len(flat), m, a))
    cpu.batch(call, operands, flat.size * min(m, n))
    return made, pivots, info


def triangular(a: Any, b: Any, upper: bool, unit: bool, low_right: bool = False) -> Any:
    """x with a @ x = b for matrices that are not large, of which one triangle is read; `low_right`: b's upper triangle is zero, as a's."""
    n, k = b.shape[-2:]
    if not _plain(a) or not b.size or a.dtype != b.dtype:
        return None
    code, x = _CODES[a.dtype.char], empty(b.shape, b.dtype)
    if _cached(a):
        call = cpu.kernel(
            factoring.substitute, (code, code, code), upper=upper, unit=unit, low_right=low_right, adjacent=True
        )
    elif n > _SMALL or k > _SMALL or code == "c64":
        return None  # (those of complex64 are solved in complex128)
    else:
        call = cpu.kernel(elimination.solve_triangle, (code, code, code), upper=upper, unit=unit)
    cpu.batch(call, [_in_rows(t) for t in (a, b, x)], x.size * n)
    return x


# -- by LAPACK --------------------------------------------------------------------------------------------------------


def _factors(a: Any) -> tuple[Any, Any, Any] | None:
    """(memory, pivots, info) of the factorisation of each transposed matrix, column by column."""
    n = a.shape[-1]
    if lapack._routine("dgetrf", 6) is None:
        return None
    memory = row_major(a).reshape(-1, n, n)
    pivots = lapack.integers(len(memory), n)
    return memory, pivots, lapack.call("getrf", n, n, memory, n, pivots, size=n * n)


def solve(a: Any, b: Any) -> Any:
    """(x with a @ x = b, zeros) for equal batches of matrices; None also if one of them is singular."""
    if not _plain(a) or not b.size or a.dtype != b.dtype:
        return None
    n, k = b.shape[-2:]
    if n <= _SMALL:
        made = _small_solve(a, b)
        return None if lapack.failed(made[1]) else made
    if _cached(a):
        found = _eliminated(a)
        if found is None:
            return None
        packed, order, info = found
        return triangular(packed, triangular(packed, _in_order(b, order, False), False, True), True, False), info
    found = _factors(a)
    if found is None or found[2].any():
        return None
    memory, pivots, _ = found
    x = row_major(b.swapaxes(-1, -2))
    lapack.call("getrs", b"T", n, k, memory, n, pivots, x.reshape(-1, k, n), n, size=n * max(n, k))
    return x.swapaxes(-1, -2), np.zeros(a.shape[:-2], np.int32)


def _eliminated(a: Any) -> Any:
    """(L and U in one matrix, the order of rows, zeros) of matrices; None if one of them is singular."""
    packed, pivots, info = lu(a)
    return None if lapack.failed(info) else (packed, row_order(pivots, a.shape[-1]), info)


def _in_order(b: Any, order: Any, back: bool) -> Any:
    """Rows of matrices in another order, or back where they were."""
    code, made = _CODES[b.dtype.char], empty(b.shape, b.dtype)
    operands = [_in_rows(b), order.reshape(-1, order.shape[-1]), _in_rows(made)]
    cpu.batch(cpu.kernel(elimination.in_order, (code, "i64", code), back=back), operands, made.size)
    return made


def inverse(a: Any) -> Any:
    """(inverses, zeros) of matrices; None also if one of them is singular."""
    if not _plain(a):
        return None
    n = a.shape[-1]
    units = np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape)
    if n <= _SMALL or not _cached(a):
        return solve(a, units)
    found = _eliminated(a)
    if found is None:
        return None
    packed, order, info = found
    x = triangular(packed, triangular(packed, units, False, True, low_right=True), True, False)
    return _in_order(row_major(x.swapaxes(-1, -2)), order, True).swapaxes(-1, -2), info


def _pivots(a: Any) -> Any:
    """(the elements on the diagonal of U, whether an odd number of rows was exchanged) of matrices."""
    n = a.shape[-1]
    if n <= _SMALL or _cached(a):
        memory, swaps, _ = lu(a)
    else:
        found = _factors(a)
        if found is None:
            return None
        memory, swaps = found[0].reshape(a.shape), found[1].reshape(a.shape[:-1])
    odd = (swaps != np.arange(1, n + 1)).sum(-1) % 2 == 1
    return np.diagonal(memory, axis1=-2, axis2=-1), odd


def determinant(a: Any) -> Any:
    """The determinants of matrices."""
    if not _plain(a):
        return None
    if a.shape[-1] <= _SMALL:
        return _small_determinant(a)
    found = _pivots(a)
    if found is None:
        return None
    with np.errstate(all="ignore"):
        made = found[0].prod(-1)
        return np.where(found[1], -made, made)


def sign_and_size(a: Any) -> Any:
    """(signs, logarithms of the absolute values) of the determinants of matrices."""
    n = a.shape[-1]
    if _plain(a) and n <= _SMALL and a.dtype.kind == "f":
        code, flat = _CODES[a.dtype.char], a.reshape(-1, n, n)
        made = empty(a.shape[:-2], a.dtype), empty(a.shape[:-2], a.dtype)
        call = cpu.kernel(elimination.sign_and_size, (code, code, code, code))
        cpu.batch(call, [flat, *[t.reshape(-1) for t in made], empty(flat.shape, a.dtype)], flat.size * n)
        return made
    found = _pivots(a) if _plain(a) else None
    if found is None:
        return None
    heads, odd = found
    with np.errstate(all="ignore"):
        sizes = np.abs(heads)
        signs = np.where(sizes == 0, 0, heads / sizes).astype(a.dtype).prod(-1)
        return np.asarray(np.where(odd, -signs, signs)), np.asarray(np.log(sizes).sum(-1))


def row_order(pivots: Any, m: int) -> Any:
    """The order of m rows that sequences of exchanges give, or None if one of them is beyond the rows."""
    if not isinstance(pivots, np.ndarray) or pivots.dtype != np.int32:
        return None
    order, wrong = empty((*pivots.shape[:-1], m), np.dtype(np.int64)), empty(pivots.shape[:-1], np.dtype(np.bool_))
    cpu.kernel(elimination.row_order, ("i32", "i64", "b1"))(pivots, order, wrong)
    return None if lapack.failed(wrong) else order


def cholesky(a: Any) -> Any:
    """The lower factors of positive-definite matrices; None also if one is not."""
    if not _plain(a):
        return None
    n = a.shape[-1]
    if n <= _SMALL or _cached(a):
        return _cholesky(a)
    memory = row_major(a.swapaxes(-1, -2)).reshape(-1, n, n)  # column by column
    info = lapack.call("potrf", b"L", n, memory, n, size=n * n)
    if info is None or info.any():
        return None
    code = _CODES[a.dtype.char]
    cpu.small(elimination.clear_lower, (code, code))(np.zeros((), a.dtype), memory)
    return memory.reshape(a.shape).swapaxes(-1, -2)


# -- QR and eigenvalues -----------------------------------------------------------------------------------------------


def qr(a: Any, mode: str) -> Any:
    """(Q, R) of matrices. Q is square if they are 'complete', and None if only R ('r') is wanted."""
    m, n = a.shape[-2:]
    if not _plain(a):
        return None
    lead, k, room, code = a.shape[:-2], min(m, n), lapack.Room(a.dtype), _CODES[a.dtype.char]
    wide = m if mode == "complete" else k
    if _cached(a) and m * wide <= _CACHED:
        return _own_qr(a, wide, mode != "r")
    if lapack._routine("dgeqrf", 8) is None:
        return None
    memory = zeros((a.size // (m * n), max(n, wide), m), a.dtype)
    memory[:, :n] = a.reshape(-1, m, n).swapaxes(-1, -2)
    tau = zeros((len(memory), k), a.dtype)
    lapack.call("geqrf", m, n, memory, m, tau, room, size=m * n)
    r = memory[:, :n, :wide].copy("C").swapaxes(-1, -2)
    cpu.kernel(elimination.clear_lower, (code, code))(np.zeros((), a.dtype), r)
    r = r.reshape(*lead, wide, n)
    if mode == "r":
        return None, r
    lapack.call("ungqr" if a.dtype.kind == "c" else "orgqr", m, wide, k, memory, m, tau, room, size=m * n)
    q = (memory if n <= wide else memory[:, :wide].copy("C")).swapaxes(-1, -2)
    return q.reshape(*lead, m, wide), r


def _own_qr(a: Any, wide: int, whole: bool) -> Any:
    (m, n), k, code = a.shape[-2:], min(a.shape[-2:]), _CODES[a.dtype.char]
    flat = _in_rows(a)
    count = len(flat)
    packed, tau = (empty((count, *shape), a.dtype) for shape in ((m, n), (k,)))
    held, triangle = _blocks(count, m, a), _blocks(count, factoring.BLOCK + 1, a)
    call = cpu.kernel(factoring.reflectors, (code,) * 6, adjacent=True)
    cpu.batch(call, [flat, packed, tau, held, _blocks(count, n, a), triangle], flat.size * k)
    q = None
    if whole:
        q = empty((count, m, wide), a.dtype)
        call = cpu.kernel(factoring.orthogonal, (code,) * 6, adjacent=True)
        cpu.batch(call, [packed, tau, q, held, _blocks(count, wide, a), triangle], q.size * k)
        q = q.reshape(*a.shape[:-2], m, wide)
    r = packed[:, :wide]
    cpu.kernel(elimination.clear_lower, (code, code))(np.zeros((), a.dtype), r)
    return q, r.reshape(*a.shape[:-2], wide, n)


def eigh(a: Any, uplo: str, vectors: bool) -> Any:
    """(eigenvalues, eigenvectors or None) of symmetric or Hermitian matrices, of which one triangle is read."""
    n, lead, whole = a.shape[-1], a.shape[:-2], a.dtype.kind == "c"
    if not _plain(a):
        return None
    if a.dtype.kind == "f" and n <= _ROTATED:
        return _own_eigh(a, uplo, vectors)
    if lapack._routine("dsyevd", 11) is None:
        return None
    # by columns it is the transposed matrix, which is the conjugate one
    memory = (a.conj() if whole else a).copy("C").reshape(-1, n, n)
    values = empty((len(memory), n), np.dtype(a.dtype.char.lower()))
    rooms = [lapack.Room(d) for d in (a.dtype, *([values.dtype] if whole else []), lapack.integers().dtype)]
    head = b"V" if vectors else b"N", b"U" if uplo == "L" else b"L"
    if lapack.failed(lapack.call("heevd" if whole else "syevd", *head, n, memory, n, values, *rooms, size=n * n)):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")
    return values.reshape(*lead, n), memory.swapaxes(-1, -2).reshape(a.shape) if vectors else None


def _own_eigh(a: Any, uplo: str, vectors: bool) -> Any:
    n, code, flat = a.shape[-1], _CODES[a.dtype.char], _in_rows(a)
    values, info, work = (
        empty(flat.shape[:-1], a.dtype),
        empty(len(flat), np.dtype(np.int32)),
        empty(flat.shape, a.dtype),
    )
    made = empty(flat.shape, a.dtype) if vectors else work
    options = {"upper": uplo == "U", "vectors": vectors, "adjacent": True}
    call = cpu.kernel(symmetric.spectrum, (code, code, code, "i32", code, code), **options)
    operands = [flat, values, made, info, work, empty((len(flat), symmetric.ROOM, n), a.dtype)]
    cpu.batch(call, operands, flat.size * n * _SWEEPS)
    if lapack.failed(info):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")
    return values.reshape(a.shape[:-1]), made.swapaxes(-1, -2).reshape(a.shape) if vectors else None


# -- least squares ----------------------------------------------------------------------------------------------------


def least_squares(a: Any, b: Any, rcond: float) -> Any:
    """(solutions of least norm, ranks) by orthogonal factors with pivots, for equal batches of matrices."""
    (m, n), k, lead = a.shape[-2:], b.shape[-1], a.shape[:-2]
    if not _plain(a) or not b.size or a.dtype != b.dtype or lapack._routine("dgelsy", 13) is None:
        return None
    memory = np.array(a.reshape(-1, m, n).swapaxes(-1, -2), order="C", copy=True)  # column after column
    count, long, real = len(memory), max(m, n), np.dtype(a.dtype.char.lower())
    right = np.zeros((count, k, long), a.dtype)
    right[..., :m] = b.reshape(count, m, k).swapaxes(-1, -2)
    places, ranks = lapack.integers(count, n), lapack.integers(count)
    info = lapack.call(
        "gelsy", m, n, k, memory, m, right, long, places, np.full(count, rcond, real), ranks, lapack.Room(a.dtype),
        *([lapack.Room(real, 2 * n)] if a.dtype.kind == "c" else []), size=m * n,
    )  # fmt: skip
    x = np.ascontiguousarray(right[..., :n].swapaxes(-1, -2)).reshape(*lead, n, k)
    return None if info.any() else (x, ranks.astype(np.int64).reshape(lead))
