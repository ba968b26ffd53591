"""Factorisations of matrices by elimination: Cholesky, LU, LDL; and triangular systems, which all of them lead to."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend import lapack, systems
from ..._core import return_types
from ..._core.config import deprecated
from ..._core.dtypes import from_numpy_dtype, int32, int64
from ..._tensor import Tensor
from ..records.batching import leading
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of, factor, matrices, same
from ..registry import labelled, ops, public, relabel
from .checks import (
    check_floating,
    check_info,
    check_matrix,
    check_same,
    check_square,
    column_major,
    conjugated,
    eye_like,
    in_columns,
    matched,
    transposed,
)  # fmt: skip
from .matmul import adjoint


def on_host(backend: Any, function: Any, *arrays: Any) -> Any:
    """Runs a function of NumPy arrays for any device."""
    if backend.xp is np:
        return function(*arrays)
    made = function(*[backend.xp.asnumpy(a) for a in arrays])
    return tuple(backend.xp.asarray(m) for m in made) if isinstance(made, tuple) else backend.xp.asarray(made)


# -- triangular systems --------------------------------------------------------------------------------------------


def _triangle(t: Tensor, upper: bool, unit: bool = False) -> Tensor:
    return ops.triu(t, 1 if unit else 0) if upper else ops.tril(t, -1 if unit else 0)


def _triangular_grad(g: Any, a: Tensor, out: Tensor, upper: bool, unit: bool, needs: Any) -> Any:
    right = triangular_op(adjoint(a), g, not upper, unit)
    left = _triangle(-ops.matmul(right, adjoint(out)), upper, unit) if needs[0] else None
    return left, right


@primitive(
    tensors=2, grad=_triangular_grad, name="linalg_solve_triangular",
    meta=lambda a, b, upper, unit: (b.shape, from_numpy_dtype(b.dtype)),
    batch=leading,
    planned=True,
)  # fmt: skip
@column_major()
def triangular_op(backend: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
    return _substituted(backend, a, b, upper, unit)


def _substituted(backend: Any, a: Any, b: Any, upper: bool, unit: bool = False) -> Any:
    made = systems.triangular(a, b, upper, unit)
    return lapack.solve_triangular(backend.xp, a, b, upper, unit) if made is None else made


@public("linalg.solve_triangular", method=False, out=True, planned=True)
def linalg_solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A @ X = B (or X @ A = B), where one triangle of A is used.

    >>> import flambeau as torch
    >>> torch.linalg.solve_triangular(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    name = "linalg.solve_triangular"
    check_square(name, A)
    check_matrix(name, B, "B")
    check_same(name, A, B)
    n, at = A._array.shape[-1], -2 if left else -1
    if B._array.shape[at] != n:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({n}x{n} and {B._array.shape[-2]}x{B._array.shape[-1]})"
        )
    a, b = matched(A, B)
    if left:
        return triangular_op(a, b, upper, unitriangular)
    made = transposed(triangular_op(transposed(a), transposed(b), not upper, unitriangular))
    return relabel(in_columns(made, 0), "LinalgSolveTriangularBackward0")


@public(out=True)
@labelled("TriangularSolveBackward0")
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(X with A @ X = b or Aᵀ @ X = b, a copy of A): the older form of `linalg.solve_triangular`.

    >>> import flambeau as torch
    >>> torch.triangular_solve(torch.tensor([[2.0]]), torch.tensor([[4.0]])).solution
    tensor([[0.5000]])
    """
    deprecated("triangular_solve", "torch.linalg.solve_triangular")
    name = "triangular_solve"
    check_matrix(name, b, "b")
    check_square(name, A)
    check_same(name, b, A, "b", "A")
    if A._array.shape[-1] != b._array.shape[-2]:
        raise RuntimeError(f"{name}: A has {A._array.shape[-1]} columns, but b has {b._array.shape[-2]} rows")
    a, right = matched(A, b)
    matrix = transposed(a) if transpose else a
    x = triangular_op(matrix, right, upper != transpose, unitriangular)
    return return_types.triangular_solve(x, in_columns(a, 0))


# -- Cholesky ------------------------------------------------------------------------------------------------------


def _cholesky_grad(gs: Any, outs: Any, upper: bool) -> Tensor:
    """L⁻ᴴ Φ(Lᴴ g) L⁻¹; Φ copies the lower triangle to the upper one and takes half of it all."""
    factor, g = outs[0], gs[0]
    if upper:
        factor, g = adjoint(factor), adjoint(g)
    turned = adjoint(factor)
    inner = ops.tril(ops.matmul(turned, g))
    inner = (inner + adjoint(ops.tril(inner, -1))) * 0.5
    left = triangular_op(turned, inner, True, False)
    return adjoint(triangular_op(turned, adjoint(left), True, False))


@primitive(batch=leading, meta=factor, grad=_cholesky_grad, name="linalg_cholesky_ex", planned=True)
@column_major(0)
def cholesky_op(backend: Any, a: Any, upper: bool) -> Any:
    """(factor, order of the first leading minor that is not positive, or 0). Only one triangle is read."""
    xp = backend.xp
    lower = conjugated(a.swapaxes(-1, -2)) if upper else a
    info = backend.zeros(a.shape[:-2], np.dtype(np.int32))
    try:
        made = systems.cholesky(lower)
        if made is None:
            with lapack.few_threads(a.size):
                made = xp.linalg.cholesky(lower)
            if a.size and bool(xp.isnan(made[..., -1, -1]).any()):  # a NaN before it reaches the last element
                raise np.linalg.LinAlgError
    except np.linalg.LinAlgError:
        made, info = _cholesky_by_columns(xp, lower)
    return conjugated(made.swapaxes(-1, -2)) if upper else made, info


def _cholesky_by_columns(xp: Any, a: Any) -> tuple[Any, Any]:
    """Column after column for the whole batch, to find where it fails; the rest of such a matrix is not defined."""
    n = a.shape[-1]
    w = xp.tril(a)
    info = xp.zeros(a.shape[:-2], xp.int32)
    with np.errstate(all="ignore"):
        for j in range(n):
            row = w[..., j, :j]
            head = w[..., j, j].real - (row * row.conj()).real.sum(-1)
            bad = ~(head > 0)
            info = xp.where(bad & (info == 0), xp.int32(j + 1), info)
            root = xp.sqrt(xp.where(bad, 1, head))
            w[..., j, j] = root
            below = w[..., j + 1 :, j] - xp.matmul(w[..., j + 1 :, :j], row.conj()[..., None])[..., 0]
            w[..., j + 1 :, j] = below / root[..., None]
    return w, xp.asarray(info, xp.int32)


def _not_positive(name: str) -> str:
    return (
        f"{name}: The factorization could not be completed because the input is not positive-definite (the leading "
        "minor of order {} is not positive-definite)."
    )


def _cholesky(name: str, a: Tensor, upper: bool) -> Tensor:
    check_square(name, a)
    factor, info = cholesky_op(a, upper)
    check_info(info, _not_positive(name))
    return factor


@public("linalg.cholesky", method=False, out="exact", planned=True)
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L Lᴴ (or the upper U with A = Uᴴ U) of positive-definite matrices.

    >>> import flambeau as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return _cholesky("linalg.cholesky", A, upper)


@public(out=True)
@labelled("CholeskyBackward0")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of positive-definite matrices: the older form of `linalg.cholesky`."""
    deprecated("cholesky", "torch.linalg.cholesky")
    return _cholesky("cholesky", input, upper)


@public("linalg.cholesky_ex", method=False, out="exact", planned=True)
def linalg_cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): like `linalg.cholesky`; info is not 0 for matrices that are not positive-definite."""
    check_square("linalg.cholesky_ex", A)
    factor, info = cholesky_op(A, upper)
    if check_errors:
        check_info(info, _not_positive("linalg.cholesky_ex"))
    return return_types.linalg_cholesky_ex(factor, info)


def _with_factor(common: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """The gradient of a factor, given that of the inverse it stands for, of which both halves count."""
    return -ops.matmul(factor, common) if upper else -ops.matmul(common, factor)


def _cholesky_solve_grad(g: Tensor, factor: Tensor, out: Tensor, upper: bool, needs: Any) -> Any:
    right = cholesky_solve_op(g, factor, upper)
    if not needs[1]:
        return right, None
    common = ops.matmul(right, adjoint(out))
    return right, _with_factor(common + adjoint(common), factor, upper)


@primitive(
    tensors=2, grad=_cholesky_solve_grad, name="cholesky_solve",
    meta=lambda b, factor, upper: (b.shape, from_numpy_dtype(b.dtype)),
    batch=leading,
)  # fmt: skip
@column_major()
def cholesky_solve_op(backend: Any, b: Any, factor: Any, upper: bool) -> Any:
    turned = conjugated(factor.swapaxes(-1, -2))
    first, second = (turned, factor) if upper else (factor, turned)
    return _substituted(backend, second, _substituted(backend, first, b, False), True)


@public(out=True, planned=True)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X with A @ X = input, given the Cholesky factor of A.

    >>> import flambeau as torch
    >>> torch.cholesky_solve(torch.tensor([[8.0]]), torch.tensor([[2.0]]))
    tensor([[2.]])
    """
    B, L = input, input2
    check_matrix("cholesky_solve", B, "B")
    check_square("cholesky_solve", L, "L")
    check_same("cholesky_solve", B, L, "B", "L")
    if L._array.shape[-1] != B._array.shape[-2]:
        raise RuntimeError(
            f"cholesky_solve: Incompatible matrix sizes: L has {L._array.shape[-1]} columns, "
            f"but B has {B._array.shape[-2]} rows"
        )
    factor, right = matched(L, B)
    return cholesky_solve_op(right, factor, upper)


def _cholesky_inverse_grad(g: Tensor, factor: Tensor, out: Tensor, upper: bool) -> Tensor:
    return _with_factor(ops.matmul(ops.matmul(out, g + adjoint(g)), out), factor, upper)


@primitive(
    grad={"factor": _cholesky_inverse_grad}, name="cholesky_inverse",
    batch=leading, meta=lambda factor, upper: matrices(dtype_of(factor), factor.shape[:-2], *factor.shape[-2:]),
)  # fmt: skip
def cholesky_inverse_op(backend: Any, factor: Any, upper: bool) -> Any:
    eye = backend.xp.broadcast_to(backend.xp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return cholesky_solve_op.forward(backend, eye, factor, upper)


@public(out=True, planned=True)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, given the Cholesky factor of A.

    >>> import flambeau as torch
    >>> torch.cholesky_inverse(torch.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    check_square("cholesky_inverse", input, "A")
    return cholesky_inverse_op(input, upper)


# -- LU ------------------------------------------------------------------------------------------------------------


def _lu_grad(gs: Any, outs: Any, pivot: bool) -> Tensor:
    """P L⁻ᴴ [tril(Lᴴ gL, -1) + triu(gU Uᴴ)] U⁻ᴴ; what lies beyond the square part is taken off before."""
    g, packed, pivots = gs[0], outs[0], outs[1]
    m, n = packed._array.shape[-2:]
    k = min(m, n)
    low, high = ops.tril(ops.narrow(packed, -1, 0, k), -1), ops.narrow(packed, -2, 0, k)
    low_square, high_square = ops.narrow(low, -2, 0, k), ops.triu(ops.narrow(high, -1, 0, k))
    square = ops.narrow(ops.narrow(g, -2, 0, k), -1, 0, k)
    eye = eye_like(packed, k)
    by_low = ops.matmul(adjoint(low_square + eye), ops.tril(square, -1))
    by_high = ops.matmul(ops.triu(square), adjoint(high_square))
    if m < n:
        rest = ops.narrow(g, -1, k, n - k)
        by_low = by_low - ops.matmul(rest, adjoint(ops.narrow(high, -1, k, n - k)))
    elif m > n:
        rest = ops.narrow(g, -2, k, m - k)
        by_high = by_high - ops.matmul(adjoint(ops.narrow(low, -2, k, m - k)), rest)
    inner = ops.tril(by_low, -1) + ops.triu(by_high)
    inner = triangular_op(adjoint(low_square), inner, True, True)
    made = adjoint(triangular_op(high_square, adjoint(inner), True, False))
    if m < n:
        made = ops.cat((made, triangular_op(adjoint(low_square), rest, True, True)), -1)
    elif m > n:
        made = ops.cat((made, adjoint(triangular_op(high_square, adjoint(rest), True, False))), -2)
    return ops.matmul(_permutation_matrix(pivots, m, made.dtype), made) if pivot else made


def _lu_shapes(a: Any, pivot: bool) -> list[Any]:
    *lead, m, n = a.shape
    return [matrices(dtype_of(a), tuple(lead), m, n), ((*lead, min(m, n)), int32), (tuple(lead), int32)]


@primitive(batch=leading, meta=_lu_shapes, grad=_lu_grad, name="linalg_lu_factor_ex", planned=True)
@column_major(0)
def lu_op(backend: Any, a: Any, pivot: bool) -> Any:
    made = systems.lu(a) if pivot else None
    return lapack.lu_factor(backend.xp, a, pivot) if made is None else made


@primitive(differentiable=False, meta=lambda pivots, m: ((*pivots.shape[:-1], m), int64), batch=leading, planned=True)
def lu_order(backend: Any, pivots: Any, m: int) -> Any:
    made = systems.row_order(pivots, m)
    return lapack.permutation(backend.xp, pivots, m) if made is None else made


def _permutation_matrix(pivots: Tensor, m: int, d: Any) -> Tensor:
    order = lu_order(pivots, m)
    rows = ops.arange(m, device=pivots.device)
    return ops.to_dtype(ops.eq(ops.unsqueeze(rows, -1), ops.unsqueeze(order, -2)), d)


def _lu_problem(name: str) -> str:
    return (
        name + ": U[{0},{0}] is zero and using it on lu_solve would result in a division by zero; "
        "linalg.lu and linalg.lu_factor_ex factorise such a matrix"
    )


@public("linalg.lu_factor_ex", method=False, out=True, planned=True)
def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): like `linalg.lu_factor`; info is the place of the first zero pivot, or 0."""
    check_matrix("linalg.lu_factor_ex", A)
    packed, pivots, info = lu_op(A, pivot)
    if check_errors:
        check_info(info, _lu_problem("torch.linalg.lu_factor_ex"))
    return return_types.linalg_lu_factor_ex(packed, pivots, info)


@public("linalg.lu_factor", method=False, out=True, planned=True)
def linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(LU, pivots): L (below the diagonal) and U of A = P L U in one matrix, and the exchanges of rows that make P.

    >>> import flambeau as torch
    >>> torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]])).pivots
    tensor([2, 2], dtype=torch.int32)
    """
    check_matrix("linalg.lu_factor", A)
    packed, pivots, info = lu_op(A, pivot)
    check_info(info, _lu_problem("torch.linalg.lu_factor"))
    return return_types.linalg_lu_factor(packed, pivots)


@public("linalg.lu", method=False, out=True, planned=True)
@labelled("LinalgLuBackward0")
def linalg_lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P @ L @ U.

    >>> import flambeau as torch
    >>> torch.linalg.lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    check_matrix("linalg.lu", A)
    packed, pivots, _ = lu_op(A, pivot)
    made = _unpacked(packed, pivots, True, pivot)
    return return_types.linalg_lu(*made)


def _unpacked(packed: Tensor, pivots: Tensor, data: bool, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    m, n = packed._array.shape[-2:]
    k = min(m, n)
    empty = ops.empty(0, dtype=packed.dtype, device=packed.device)
    batch = packed._array.shape[:-2]
    order = ops.contiguous(ops.expand(_permutation_matrix(pivots, m, packed.dtype), (*batch, m, m))) if pivot else empty
    if not data:
        return order, empty, empty
    eye = eye_like(packed, m, k)
    return order, ops.tril(ops.narrow(packed, -1, 0, k), -1) + eye, ops.triu(ops.narrow(packed, -2, 0, k))


@public(method=False, out=True)
@labelled("LuUnpackBackward0")
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) of a factorisation from `linalg.lu_factor`.

    >>> import flambeau as torch
    >>> torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[2.0]]))).U
    tensor([[2.]])
    """
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise RuntimeError(
            f"torch.lu_unpack: LU_pivots must be int32, as linalg.lu_factor gives them, got {LU_pivots.dtype}"
        )
    if LU_data._array.ndim < 2:
        raise RuntimeError("torch.lu_unpack: The input tensor LU_data must have at least 2 dimensions.")
    if unpack_pivots and LU_pivots._array.shape[-1:] != (min(LU_data._array.shape[-2:]),):
        raise RuntimeError("torch.lu_unpack: LU_pivots must have min(m, n) elements for each matrix of LU_data")
    return return_types.lu_unpack(*_unpacked(LU_data, LU_pivots, unpack_data, unpack_pivots))


def _lu_solve(name: str, packed: Tensor, pivots: Tensor, b: Tensor, left: bool, turned: bool) -> Tensor:
    check_square(name, packed, "LU")
    check_matrix(name, b, "B")
    check_same(name, packed, b, "LU", "B")
    n = packed._array.shape[-1]
    if pivots.dtype is not int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    if pivots._array.shape != packed._array.shape[:-1]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix")
    if b._array.shape[-2 if left else -1] != n:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({n}x{n} and {b._array.shape[-2]}x{b._array.shape[-1]})"
        )
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return adjoint(_lu_solve(name, packed, pivots, adjoint(b), True, not turned))
    order = _permutation_matrix(pivots, n, packed.dtype)
    low, right = matched(packed, b)
    if turned:
        x = triangular_op(adjoint(low), right, False, False)
        return in_columns(ops.matmul(order, triangular_op(adjoint(low), x, True, True)), 0)
    x = triangular_op(low, ops.matmul(transposed(order), right), False, True)
    return triangular_op(low, x, True, False)


@public("linalg.lu_solve", method=False, out=True)
@labelled("LinalgLuSolveBackward0")
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A @ X = B (X @ A = B if not `left`; with Aᴴ if `adjoint`), given A's factorisation.

    >>> import flambeau as torch
    >>> torch.linalg.lu_solve(*torch.linalg.lu_factor(torch.tensor([[2.0]])), torch.tensor([[6.0]]))
    tensor([[3.]])
    """
    return _lu_solve("linalg.lu_solve", LU, pivots, B, left, adjoint)


@public(out=True)
@labelled("LinalgLuSolveBackward0")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A @ X = b, given A's factorisation: the older form of `linalg.lu_solve`."""
    deprecated("lu_solve", "torch.linalg.lu_solve")
    return _lu_solve("torch.lu_solve", LU_data, LU_pivots, b, True, False)


@public(out=True)
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots) of matrices, and where they are singular if `get_infos`; never raises for singular ones."""
    deprecated("lu", "torch.linalg.lu_factor / torch.linalg.lu_factor_ex", once=False)
    check_matrix("lu", A)
    made = linalg_lu_factor_ex(A, pivot=pivot)
    return made if get_infos else (made[0], made[1])


# -- LDL -----------------------------------------------------------------------------------------------------------


@primitive(
    batch=leading,
    meta=lambda a, hermitian: [same(a), (a.shape[:-1], int32), (a.shape[:-2], int32)],
    name="linalg_ldl_factor_ex",
)
@column_major(0)
def ldl_op(backend: Any, a: Any, hermitian: bool) -> Any:
    return on_host(backend, lambda x: lapack.ldl_factor(x, hermitian), a)


@public("linalg.ldl_factor_ex", method=False, out=True)
def linalg_ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """(LD, pivots, info): like `linalg.ldl_factor`; info is not 0 for singular matrices."""
    name = "torch.linalg.ldl_factor_ex"
    check_square(name, A)
    made = ldl_op(A, hermitian and A.dtype.category == 3)
    if check_errors:
        check_info(made[2], name + ": the diagonal block {} of D is zero")
    return return_types.linalg_ldl_factor_ex(*made)


@public("linalg.ldl_factor", method=False, out=True)
def linalg_ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """(LD, pivots) of symmetric (or Hermitian) matrices, in LAPACK's compact form.

    >>> import flambeau as torch
    >>> torch.linalg.ldl_factor(torch.tensor([[4.0, 2.0], [2.0, 2.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    name = "torch.linalg.ldl_factor"
    check_square(name, A)
    packed, pivots, info = ldl_op(A, hermitian and A.dtype.category == 3)
    check_info(info, name + ": the diagonal block {} of D is zero")
    return return_types.linalg_ldl_factor(packed, pivots)


@primitive(batch=leading, meta=lambda packed, pivots, b, hermitian: same(b), tensors=3, name="linalg_ldl_solve")
@column_major()
def ldl_solve_op(backend: Any, packed: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    return on_host(backend, lambda x, p, y: lapack.ldl_solve(x, p, y, hermitian), packed, pivots, b)


@public("linalg.ldl_solve", method=False, out=True)
def linalg_ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A @ X = B, given A's factorisation from `linalg.ldl_factor`.

    >>> import flambeau as torch
    >>> torch.linalg.ldl_solve(*torch.linalg.ldl_factor(torch.tensor([[2.0]])), torch.tensor([[6.0]]))
    tensor([[3.]])
    """
    name = "torch.linalg.ldl_solve"
    check_square(name, LD, "LD")
    if B._array.ndim < 2:
        raise RuntimeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B._array.ndim}")
    check_floating(name, B)
    check_same(name, LD, B, "LD", "B")
    if pivots._array.shape != LD._array.shape[:-1]:
        raise RuntimeError(f"{name}: pivots must have the shape LD.shape[:-1], got {list(pivots._array.shape)}")
    if pivots.dtype.category != 1:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype}")
    if B._array.shape[-2] != LD._array.shape[-1]:
        raise RuntimeError(f"{name}: LD has {LD._array.shape[-1]} rows, but B has {B._array.shape[-2]}")
    packed, right = matched(LD, B)
    places = ops.expand(pivots, packed._array.shape[:-1])
    return ldl_solve_op(packed, places, right, hermitian and LD.dtype.category == 3)


SCHEMAS = """
linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor
triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)
triangular_solve.X(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False, *, Tensor(a!) X, Tensor(b!) M) -> (Tensor(a!) solution, Tensor(b!) cloned_coefficient)
linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor  # autocast=cpu:single
cholesky|cholesky_inverse(Tensor self, bool upper=False) -> Tensor  # autocast=cpu:single
linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)  # autocast=cpu:single
linalg_cholesky_ex.L(Tensor self, *, bool upper=False, bool check_errors=False, Tensor(a!) L, Tensor(b!) info) -> (Tensor(a!) L, Tensor(b!) info)
cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor  # autocast=cpu:single
linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)
linalg_lu_factor_ex.out(Tensor A, *, bool pivot=True, bool check_errors=False, Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info) -> (Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info)
linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)
linalg_lu_factor.out(Tensor A, *, bool pivot=True, Tensor(a!) LU, Tensor(b!) pivots) -> (Tensor(a!) LU, Tensor(b!) pivots)
linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)
linalg_lu.out(Tensor A, *, bool pivot=True, Tensor(a!) P, Tensor(b!) L, Tensor(c!) U) -> (Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)
lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)
lu_unpack.out(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True, *, Tensor(a!) P, Tensor(b!) L, Tensor(c!) U) -> (Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)
linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor  # autocast=cpu:single
lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor  # autocast=cpu:single
linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)
linalg_ldl_factor_ex.out(Tensor self, *, bool hermitian=False, bool check_errors=False, Tensor(a!) LD, Tensor(b!) pivots, Tensor(c!) info) -> (Tensor(a!) LD, Tensor(b!) pivots, Tensor(c!) info)
linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)
linalg_ldl_factor.out(Tensor self, *, bool hermitian=False, Tensor(a!) LD, Tensor(b!) pivots) -> (Tensor(a!) LD, Tensor(b!) pivots)
linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor
lu  # python, composite
"""
