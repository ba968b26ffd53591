"""Orthogonal and spectral factorisations: QR, Householder products, singular values, eigenvalues, low rank."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._backend import lapack, systems
from ..._backend.copies import rows_of
from ..._core import return_types
from ..._core.config import deprecated
from ..._core.dtypes import COMPLEX, int64
from ..._core.steps import python_step
from ..._tensor import Tensor
from ..basic import answer
from ..records.batching import is_differentiated, leading
from ..records.primitive import primitive
from ..records.shape_rules import dense, dtype_of, matrices, same
from ..registry import labelled, ops, public
from .checks import (
    check_floating,
    check_matrix,
    check_same,
    check_square,
    column_major,
    converged,
    eye_like,
    in_columns,
    svd_arrays,
)  # fmt: skip
from .factors import triangular_op
from .matmul import adjoint
from .solvers import solve_op, tolerances


def _diagonal(t: Tensor) -> Tensor:
    return ops.diagonal(t, 0, -2, -1)


def _gaps(values: Tensor) -> Tensor:
    """values[j] - values[i] at (i, j), and 1 on the diagonal."""
    return ops.unsqueeze(values, -2) - ops.unsqueeze(values, -1) + eye_like(values, values._array.shape[-1])


# -- QR ------------------------------------------------------------------------------------------------------------


def _qr_grad(gs: Any, outs: Any, mode: str) -> Tensor:
    """For full column rank; of a wide matrix the square part on the left decides."""
    (gq, gr), (q, r) = gs, outs
    if mode == "r":
        raise RuntimeError("linalg.qr: the derivative needs Q, which mode='r' does not compute; use mode='reduced'")
    m, n = q._array.shape[-2], r._array.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError("linalg.qr: no derivative for mode='complete' of matrices with more rows than columns")
    inner = ops.matmul(gr, adjoint(r)) - ops.matmul(adjoint(q), gq)
    if m >= n:
        inner = ops.triu(inner)
        half = inner + adjoint(ops.triu(inner, 1))
        # a diagonal has to be real to be symmetric
        half = half - ops.diag_embed(_diagonal(inner) - _real_as(_diagonal(inner)))
        return adjoint(triangular_op(r, adjoint(gq + ops.matmul(q, half)), True, False))
    skew = inner - adjoint(inner)
    low = -ops.tril(skew, -1) - ops.diag_embed(_diagonal(skew)) * 0.5
    low = adjoint(triangular_op(ops.narrow(r, -1, 0, m), adjoint(low), True, False))
    return ops.matmul(q, gr + ops.pad(low, (0, n - m)))


def _real_as(t: Tensor) -> Tensor:
    return ops.to_dtype(ops.real(t), t.dtype) if t.dtype.category == COMPLEX else t


def _qr_shapes(a: Any, mode: str) -> list[Any]:
    *lead, m, n = a.shape
    k, d = m if mode == "complete" else min(m, n), dtype_of(a)
    return [((0,) if mode == "r" else (*lead, m, k), d), ((*lead, k, n), d)]


@primitive(batch=leading, meta=_qr_shapes, grad=_qr_grad, name="linalg_qr", planned=True)
@column_major(0, 1)
def qr_op(backend: Any, a: Any, mode: str) -> Any:
    xp = backend.xp
    made = systems.qr(a, mode) or converged("linalg.qr", xp.linalg.qr, a, mode=mode)
    return (xp.zeros((0,), a.dtype), made[1] if isinstance(made, tuple) else made) if mode == "r" else tuple(made)


@public("linalg.qr", method=False, out=True, planned=True)
def linalg_qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q @ R, Q's columns orthonormal and R upper triangular.

    >>> import flambeau as torch
    >>> torch.linalg.qr(torch.eye(2)).R.shape
    torch.Size([2, 2])
    """
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got '{mode}'")
    return return_types.linalg_qr(*qr_op(A, mode))


@public(out=True)
def qr(input: Tensor, some: bool = True) -> Any:
    """(Q, R) of matrices: the older form of `linalg.qr`."""
    deprecated("qr", "torch.linalg.qr")
    check_matrix("linalg.qr", input)
    return return_types.qr(*qr_op(input, "reduced" if some else "complete"))


@primitive(batch=leading, meta=lambda a: [same(a), ((*a.shape[:-2], min(a.shape[-2:])), dtype_of(a))], name="geqrf")
@column_major(0)
def geqrf_op(backend: Any, a: Any) -> Any:
    packed, tau = converged("geqrf", backend.xp.linalg.qr, a, mode="raw")
    return packed.swapaxes(-1, -2), tau


@public(out=True)
def geqrf(input: Tensor) -> Any:
    """(a, tau): R and the reflectors that make Q, in LAPACK's compact form.

    >>> import flambeau as torch
    >>> torch.geqrf(torch.eye(2)).tau.shape
    torch.Size([2])
    """
    check_matrix("torch.geqrf", input, "input")
    return return_types.geqrf(*geqrf_op(input))


def _reflected(packed: Tensor, tau: Tensor, c: Tensor, turned: bool) -> Tensor:
    """Q @ c, or Qᴴ @ c if `turned`, where Q is the product of the reflectors I - tau v vᴴ."""
    m, k = packed._array.shape[-2], tau._array.shape[-1]
    eye = eye_like(packed, m, k)
    vectors = ops.tril(ops.narrow(packed, -1, 0, k), -1) + eye
    if turned:
        tau = ops.conj(tau)
    for i in range(k) if turned else range(k - 1, -1, -1):
        v = ops.narrow(vectors, -1, i, 1)
        c = c - ops.unsqueeze(ops.narrow(tau, -1, i, 1), -1) * ops.matmul(v, ops.matmul(adjoint(v), c))
    return c


@primitive(batch=leading, meta=dense, grad={"x": lambda g: None}, name="unused")
def unused(backend: Any, x: Any) -> Any:
    """Zeros that have a tensor in their history, for results that require grad but do not depend on it."""
    return backend.xp.zeros_like(x)


def _check_reflectors(name: str, packed: Tensor, tau: Tensor) -> None:
    check_floating(name, packed)
    if packed._array.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    check_same(name, packed, tau, "input", "tau")
    if tau._array.shape[:-1] != packed._array.shape[:-2]:
        raise RuntimeError(
            f"{name}: tau must have the batch dimensions of input, {list(packed._array.shape[:-2])}, "
            f"got {list(tau._array.shape[:-1])}"
        )


@public("linalg.householder_product", "orgqr", method="orgqr", out=True)
@labelled("LinalgHouseholderProductBackward0")
def linalg_householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflectors that `geqrf` gives.

    >>> import flambeau as torch
    >>> torch.linalg.householder_product(*torch.geqrf(torch.eye(2))).abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    name = "torch.linalg.householder_product"
    if A._array.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = A._array.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if tau._array.ndim < 1 or n < tau._array.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_reflectors(name, A, tau)
    eye = eye_like(A, m, n)
    start = eye + unused(A)
    return in_columns(_reflected(A, tau, start, False) if A._array.size else start, 0)


@public(out="exact")
@labelled("OrmqrBackward0")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other (other @ Q if not `left`; with Qᴴ if `transpose`), where Q is made of the reflectors of `geqrf`.

    >>> import flambeau as torch
    >>> torch.ormqr(*torch.geqrf(torch.eye(2)), torch.ones(2, 1)).abs().flatten()
    tensor([1., 1.])
    """
    name = "torch.ormqr"
    if input._array.ndim < 2 or other._array.ndim < 2:
        raise RuntimeError(f"{name}: input and other must have at least 2 dimensions.")
    side = other._array.shape[-2 if left else -1]
    if tau._array.ndim < 1 or side < tau._array.shape[-1]:
        raise RuntimeError(f"{name}: other.shape[{-2 if left else -1}] must be greater than or equal to tau.shape[-1]")
    if side != input._array.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    if tau._array.shape[-1] > input._array.shape[-1]:
        raise RuntimeError(f"{name}: tau.shape[-1] must be less than or equal to input.shape[-1]")
    _check_reflectors(name, input, tau)
    check_same(name, input, other, "input", "other")
    if other._array.shape[:-2] != input._array.shape[:-2]:
        raise RuntimeError(f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2]")
    if not other._array.size:  # depends on neither
        input, tau = ops.detach(input), ops.detach(tau)
    made = _reflected(input, tau, other if left else adjoint(other), transpose == left)
    return in_columns(made if left else adjoint(made), 0)


# -- singular values -----------------------------------------------------------------------------------------------


def _svd_grad(given: Any, outs: Any) -> Tensor:
    gu, gs, gvh = given
    u, s, vh = outs
    k = s._array.shape[-1]
    u, vh = ops.narrow(u, -1, 0, k), ops.narrow(vh, -2, 0, k)
    if gu is None and gvh is None:
        return ops.matmul(u * ops.unsqueeze(_as(gs, u), -2), vh)
    is_complex = u.dtype.category == COMPLEX
    inner = ops.zeros_like(ops.matmul(adjoint(u), u)) if gs is None else ops.diag_embed(_as(gs, u))
    column, row = ops.unsqueeze(s, -1), ops.unsqueeze(s, -2)
    gaps = (row - column) * (row + column) + eye_like(s, k)
    turns: Any = None
    free: list[Tensor] = []
    if gu is not None:
        gu = ops.narrow(gu, -1, 0, k)
        by_u = ops.matmul(adjoint(u), gu)
        skew = (by_u - adjoint(by_u)) / gaps
        inner = inner + (skew - ops.diag_embed(_diagonal(skew))) * row
        turns = _diagonal(by_u)
        free.append(by_u)
    if gvh is not None:
        gv = adjoint(ops.narrow(gvh, -2, 0, k))
        by_v = ops.matmul(vh, gv)
        skew = (by_v - adjoint(by_v)) / gaps
        inner = inner + column * (skew - ops.diag_embed(_diagonal(skew)))
        turns = -_diagonal(by_v) if turns is None else turns - _diagonal(by_v)
        free.append(by_v)
    if is_complex:
        _refuse_phases("linalg.svd", "singular vectors", *free)
        inner = inner + ops.diag_embed((turns - _real_as(turns)) / (2 * s))
    made = ops.matmul(ops.matmul(u, inner), vh)
    if gu is not None and u._array.shape[-2] > k:
        rest = gu / row
        made = made + ops.matmul(rest - ops.matmul(u, ops.matmul(adjoint(u), rest)), vh)
    if gvh is not None and vh._array.shape[-1] > k:
        rest = adjoint(gv / row)
        made = made + ops.matmul(u, rest - ops.matmul(ops.matmul(rest, adjoint(vh)), vh))
    return made


def _as(t: Tensor, like: Tensor) -> Tensor:
    return t if t.dtype is like.dtype else ops.to_dtype(t, like.dtype)


@python_step
def _refuse_phases(name: str, what: str, *turns: Tensor) -> None:
    """Complex vectors are free up to a phase: what is differentiated must not depend on it."""
    turn: Any = functools.reduce(ops.add, [ops.imag(_diagonal(t)) for t in turns])
    if not answer(ops.all(ops.le(ops.abs(turn), 1e-2)), True):
        raise RuntimeError(
            f"{name}: what is differentiated depends on the phase of complex {what}, which is arbitrary: it has no derivative"
        )


def _svd_shapes(a: Any, full: bool) -> list[Any]:
    *lead, m, n = a.shape
    k, d = min(m, n), dtype_of(a)
    u, vh = (*lead, m, m if full else k), (*lead, n if full else k, n)
    return [(u, d), ((*lead, k), d.to_real()), (vh, d)]


@primitive(batch=leading, meta=_svd_shapes, grad=_svd_grad, name="linalg_svd", planned=True)
@column_major(0, 2)
def svd_op(backend: Any, a: Any, full: bool) -> Any:
    return svd_arrays("linalg.svd", backend.xp, a, full)


@primitive(
    batch=leading, meta=lambda a: ((*a.shape[:-2], min(a.shape[-2:])), dtype_of(a).to_real()), differentiable=False,
    planned=True,
)  # fmt: skip
def singular_values(backend: Any, a: Any) -> Any:
    return rows_of(svd_arrays("linalg.svdvals", backend.xp, a, vectors=False)[1])


def _check_driver(a: Tensor, driver: str | None) -> None:
    if driver is not None and a.device.type != "cuda":
        raise RuntimeError("linalg.svd: driver= can only be given for CUDA tensors")


@public("linalg.svd", method=False, out=True, planned=True)
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh, the singular values falling.

    >>> import flambeau as torch
    >>> torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    check_matrix("linalg.svd", A)
    _check_driver(A, driver)
    return return_types.linalg_svd(*svd_op(A, full_matrices))


@public("linalg.svdvals", method=False, out="exact", planned=True)
def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, falling.

    >>> import flambeau as torch
    >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    check_matrix("linalg.svdvals", A)
    _check_driver(A, driver)
    return svd_op(A, False)[1] if is_differentiated(A) else singular_values(A)


@public(out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V): the older form of `linalg.svd`, with V and not its adjoint."""
    if input._array.ndim < 2:
        raise RuntimeError(f"svd: input must have at least 2 dimensions, got {input._array.ndim}")
    check_matrix("svd", input, "input")
    if compute_uv:
        u, s, vh = svd_op(input, not some)
        return return_types.svd(u, s, adjoint(vh))
    lead, (m, n) = input._array.shape[:-2], input._array.shape[-2:]
    u, v = (ops.new_zeros(input, (*lead, i, i)) for i in (m, n))
    return return_types.svd(u, linalg_svdvals(input), v)


# -- eigenvalues ---------------------------------------------------------------------------------------------------


def _eigh_grad(given: Any, outs: Any, uplo: str) -> Tensor:
    g_values, g_vectors = given
    values, v = outs
    turned = adjoint(v)
    if g_vectors is None:
        return ops.matmul(v * ops.unsqueeze(_as(g_values, v), -2), turned)
    inner = ops.matmul(turned, g_vectors)
    if v.dtype.category == COMPLEX:
        _refuse_phases("linalg.eigh", "eigenvectors", inner)
    inner = inner / _gaps(values)
    inner = inner - ops.diag_embed(_diagonal(inner))
    inner = (inner + adjoint(inner)) * 0.5
    if g_values is not None:
        inner = inner + ops.diag_embed(_as(g_values, v))
    return ops.matmul(ops.matmul(v, inner), turned)


@primitive(
    batch=leading,
    meta=lambda a, uplo: [(a.shape[:-1], dtype_of(a).to_real()), same(a)],
    grad=_eigh_grad,
    name="linalg_eigh",
    planned=True,
)
@column_major(1)
def eigh_op(backend: Any, a: Any, uplo: str) -> Any:
    made = converged("linalg.eigh", systems.eigh, a, uplo, True)
    return tuple(made or converged("linalg.eigh", backend.xp.linalg.eigh, a, UPLO=uplo))


@primitive(
    batch=leading, meta=lambda a, uplo: (a.shape[:-1], dtype_of(a).to_real()), differentiable=False, planned=True
)
def eigvalsh_op(backend: Any, a: Any, uplo: str) -> Any:
    made = converged("linalg.eigvalsh", systems.eigh, a, uplo, False)
    return rows_of(made[0] if made else converged("linalg.eigvalsh", backend.xp.linalg.eigvalsh, a, UPLO=uplo))


def _uplo(value: str) -> str:
    side = value.upper()
    if side not in ("U", "L"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {value}")
    return side


@public("linalg.eigh", method=False, out=True, planned=True)
def linalg_eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of symmetric or Hermitian matrices, of which one triangle is read.

    >>> import flambeau as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_square("linalg.eigh", A)
    return return_types.linalg_eigh(*eigh_op(A, _uplo(UPLO)))


@public("linalg.eigvalsh", method=False, out="exact", planned=True)
def linalg_eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, rising.

    >>> import flambeau as torch
    >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    check_square("linalg.eigvalsh", A)
    side = _uplo(UPLO)
    return eigh_op(A, side)[0] if is_differentiated(A) else eigvalsh_op(A, side)


def _eig_grad(given: Any, outs: Any) -> Tensor:
    """V⁻ᴴ (diag(gL) + (Vᴴ gV - Vᴴ V Re diag(Vᴴ gV)) / conj(gaps)) Vᴴ, for eigenvectors of norm 1."""
    g_values, g_vectors = given
    values, v = outs
    turned = adjoint(v)
    inner = ops.zeros_like(v)
    if g_vectors is not None:
        by_v = ops.matmul(turned, g_vectors)
        _refuse_phases("linalg.eig", "eigenvectors", by_v)
        by_v = by_v - ops.matmul(turned, v) * ops.unsqueeze(_real_as(_diagonal(by_v)), -2)
        inner = by_v / ops.conj(_gaps(values))
        inner = inner - ops.diag_embed(_diagonal(inner))
    if g_values is not None:
        inner = inner + ops.diag_embed(g_values)
    return solve_op(turned, ops.matmul(inner, turned))[0]


def _eig_shapes(a: Any) -> list[Any]:
    d = dtype_of(a).to_complex()
    return [(a.shape[:-1], d), matrices(d, a.shape[:-2], *a.shape[-2:])]


@primitive(batch=leading, meta=_eig_shapes, grad=_eig_grad, name="linalg_eig")
def eig_op(backend: Any, a: Any) -> Any:
    return _eigen(backend, a, True)


@primitive(batch=leading, meta=lambda a: (a.shape[:-1], dtype_of(a).to_complex()), differentiable=False)
def eigvals_op(backend: Any, a: Any) -> Any:
    return _eigen(backend, a, False)[0]


def _eigen(backend: Any, a: Any, vectors: bool) -> Any:
    _check_finite(backend, a)
    xp, kind = backend.xp, np.result_type(a.dtype, np.complex64)
    made: Any = converged("linalg.eig", lapack.eig, a, vectors) if xp is np else None
    if made is None and vectors:
        made = converged("linalg.eig", xp.linalg.eig, a)
    elif made is None:
        made = converged("linalg.eig", xp.linalg.eigvals, a), None
    return made[0].astype(kind, copy=False), made[1].astype(kind, copy=False) if vectors else None


def _check_finite(backend: Any, a: Any) -> None:
    if not bool(backend.xp.isfinite(a).all()):
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")


@public("linalg.eig", method=False, out=True)
def linalg_eig(A: Tensor) -> Any:
    """(eigenvalues, eigenvectors) of square matrices; both complex.

    >>> import flambeau as torch
    >>> torch.linalg.eig(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([2.+0.j, 1.+0.j])
    """
    check_square("linalg.eig", A)
    return return_types.linalg_eig(*eig_op(A))


@public("linalg.eigvals", method=False, out=True)
def linalg_eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices; complex.

    >>> import flambeau as torch
    >>> torch.linalg.eigvals(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).imag.abs()
    tensor([1., 1.])
    """
    check_square("linalg.eigvals", A)
    return eig_op(A)[0] if is_differentiated(A) else eigvals_op(A)


# -- rank ----------------------------------------------------------------------------------------------------------


@public("linalg.matrix_rank", method=False, out=True, planned=True)
def linalg_matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values are above max(atol, rtol * largest).

    >>> import flambeau as torch
    >>> torch.linalg.matrix_rank(torch.ones(3, 3))
    tensor(1)
    """
    name = "linalg.matrix_rank"
    (check_square if hermitian else check_matrix)(name, A)
    if tol is not None:
        atol, rtol = tol, 0.0
    shape = A._array.shape
    if not A._array.size:
        return ops.zeros(shape[:-2], dtype=int64, device=A.device)
    atol, rtol = tolerances(name, shape, A.dtype, atol, rtol)
    values = ops.abs(eigvalsh_op(A, "L")) if hermitian else singular_values(A)
    largest = ops.amax(values, -1, True)
    atol, rtol = (ops.unsqueeze(t, -1) if isinstance(t, Tensor) else t for t in (atol, rtol))
    limit = rtol * largest
    if isinstance(atol, Tensor):
        limit = ops.maximum(limit, atol)
    else:
        limit = ops.clamp(limit, min=atol)
    return ops.sum(ops.gt(values, limit), -1)


# -- low rank ------------------------------------------------------------------------------------------------------


def _basis(a: Tensor, q: int, steps: int) -> Tensor:
    """Orthonormal columns that nearly span the range of `a`, by power iteration from random vectors."""
    start = ops.randn(a._array.shape[-1], q, dtype=a.dtype, device=a.device)
    columns = qr_op(ops.matmul(a, start), "reduced")[0]
    turned = adjoint(a)
    for _ in range(steps):
        columns = qr_op(ops.matmul(turned, columns), "reduced")[0]
        columns = qr_op(ops.matmul(a, columns), "reduced")[0]
    return columns


@public(method=False)
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) of an approximation of A (of A - M) with rank q, by random projections.

    >>> import flambeau as torch
    >>> torch.svd_lowrank(torch.ones(4, 3), q=2)[1].shape
    torch.Size([2])
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if M is not None:
        A = A - ops.expand(M, A._array.shape)
    m, n = A._array.shape[-2:]
    wide = m < n
    if wide:
        A = adjoint(A)
    columns = _basis(A, q, niter)
    u, s, vh = svd_op(ops.matmul(adjoint(columns), A), False)
    u, v = ops.matmul(columns, u), adjoint(vh)
    return (v, s, u) if wide else (u, s, v)


@public(method=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Principal components of the rows of A: (U, S, V) of rank q, after the mean of each column is taken off.

    >>> import flambeau as torch
    >>> torch.pca_lowrank(torch.ones(4, 3), q=2)[2].shape
    torch.Size([3, 2])
    """
    m, n = A._array.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - ops.mean(A, -2, True) if center else A, q, niter)


SCHEMAS = """
linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)  # autocast=cpu:single
linalg_qr.out(Tensor A, str mode="reduced", *, Tensor(a!) Q, Tensor(b!) R) -> (Tensor(a!) Q, Tensor(b!) R)
qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)
qr.Q(Tensor self, bool some=True, *, Tensor(a!) Q, Tensor(b!) R) -> (Tensor(a!) Q, Tensor(b!) R)
geqrf(Tensor self) -> (Tensor a, Tensor tau)
geqrf.a(Tensor self, *, Tensor(a!) a, Tensor(b!) tau) -> (Tensor(a!) a, Tensor(b!) tau)
linalg_householder_product(Tensor input, Tensor tau) -> Tensor  # autocast=cpu:single
orgqr(Tensor self, Tensor input2) -> Tensor  # autocast=cpu:single
ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor  # autocast=cpu:single
linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)  # autocast=cpu:single
linalg_svd.U(Tensor A, bool full_matrices=True, *, str? driver=None, Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)
linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor  # autocast=cpu:single
svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)
svd.U(Tensor self, bool some=True, bool compute_uv=True, *, Tensor(a!) U, Tensor(b!) S, Tensor(c!) V) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) V)
linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)  # autocast=cpu:single
linalg_eigh.eigvals(Tensor self, str UPLO="L", *, Tensor(a!) eigvals, Tensor(b!) eigvecs) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)
linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor  # autocast=cpu:single
linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)  # autocast=cpu:single
linalg_eig.out(Tensor self, *, Tensor(a!) eigenvalues, Tensor(b!) eigenvectors) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)
linalg_eigvals(Tensor self) -> Tensor  # autocast=cpu:single
linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor  # autocast=cpu:single
linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor
linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor
linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor
linalg_matrix_rank.out_tol_tensor(Tensor input, Tensor tol, bool hermitian=False, *, Tensor(a!) out) -> Tensor(a!)
pca_lowrank|svd_lowrank  # composite
linalg_svd  # record=_linalg_svd
linalg_eigh  # record=_linalg_eigh
"""
