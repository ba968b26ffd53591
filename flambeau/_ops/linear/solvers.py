"""Linear systems: solutions, inverses, determinants, pseudo-inverses and least squares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend import lapack, systems
from ..._backend.copies import rows_of
from ..._core import return_types
from ..._core.dtypes import COMPLEX, from_numpy_dtype, int64
from ..._core.info import finfo
from ..._core.sizes import broadcast_shapes
from ..._tensor import Tensor
from ..basic import answer, either
from ..records.batching import is_differentiated, leading
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..registry import ops, public, relabel
from .checks import (
    check_info,
    check_matrix,
    check_same,
    check_square,
    column_major,
    converged,
    eye_like,
    in_columns,
    matched,
    svd_arrays,
    transposed,
)  # fmt: skip
from .matmul import adjoint, product


def _singular(name: str) -> str:
    return (
        name + ": The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
        "singular."
    )


# -- systems -------------------------------------------------------------------------------------------------------


def _solve_grad(gs: Any, a: Tensor, outs: Any, needs: Any) -> Any:
    right = solve_op(adjoint(a), gs[0])[0]
    return (-ops.matmul(right, adjoint(outs[0])) if needs[0] else None), right


@primitive(
    tensors=2, grad=_solve_grad, name="linalg_solve_ex",
    meta=lambda a, b: [(b.shape, from_numpy_dtype(b.dtype)), (a.shape[:-2], from_numpy_dtype(np.dtype(np.int32)))],
    batch=leading,
    planned=True,
)  # fmt: skip
@column_major(0)
def solve_op(backend: Any, a: Any, b: Any) -> Any:
    """(x with a @ x = b, place of the first zero pivot or 0) for equal batches of matrices."""
    xp = backend.xp
    try:
        found = systems.solve(a, b)
        if found is not None:
            return found
        with lapack.few_threads(a.size):
            return xp.linalg.solve(a, b), xp.zeros(a.shape[:-2], xp.int32)
    except np.linalg.LinAlgError:
        packed, pivots, info = lapack.lu_factor(xp, a)
        order = lapack.permutation(xp, pivots, a.shape[-1])
        x = lapack.solve_triangular(xp, packed, xp.take_along_axis(b, order[..., None], -2), False, True)
        return lapack.solve_triangular(xp, packed, x, True, False), info


def _inverse_grad(gs: Any, outs: Any) -> Tensor:
    turned = adjoint(outs[0])
    return -ops.matmul(turned, ops.matmul(gs[0], turned))


@primitive(
    grad=_inverse_grad, name="linalg_inv_ex",
    meta=lambda a: [(a.shape, from_numpy_dtype(a.dtype)), (a.shape[:-2], from_numpy_dtype(np.dtype(np.int32)))],
    batch=leading,
    planned=True,
)  # fmt: skip
@column_major(0)
def inverse_op(backend: Any, a: Any) -> Any:
    xp = backend.xp
    try:
        found = systems.inverse(a)
        if found is not None:
            return found
        with lapack.few_threads(a.size):
            return xp.linalg.inv(a), xp.zeros(a.shape[:-2], xp.int32)
    except np.linalg.LinAlgError:
        return solve_op.forward(backend, a, xp.broadcast_to(xp.eye(a.shape[-1], dtype=a.dtype), a.shape))


@public("linalg.inv", method=False, out="exact", planned=True)
def linalg_inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; raises `linalg.LinAlgError` for singular ones.

    >>> import flambeau as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A)
    made, info = inverse_op(A)
    check_info(info, _singular("linalg.inv"))
    return made


@public(out="exact", planned=True)
def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`, by its older name."""
    return linalg_inv(input)


@public("linalg.inv_ex", method=False, out="exact", planned=True)
def linalg_inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): like `linalg.inv`; info is not 0 for singular matrices."""
    check_square("linalg.inv_ex", A)
    made, info = inverse_op(A)
    if check_errors:
        check_info(info, _singular("linalg.inv_ex"))
    return return_types.linalg_inv_ex(made, info)


def _solve(name: str, a: Tensor, b: Tensor, left: bool, check: bool) -> tuple[Tensor, Tensor]:
    check_square(name, a)
    check_same(name, a, b)
    x, y = a._array.shape, b._array.shape
    vector = len(y) == 1 or (len(x) - 1 == len(y) and y == x[:-1])
    if vector and not left:
        raise RuntimeError(f"{name}: B may not be a vector if left=False; got A of shape {list(x)} and B of {list(y)}")
    if not len(y):
        raise RuntimeError(f"{name}: The input tensor B must have at least 1 dimension.")
    if vector:
        b = ops.unsqueeze(b, -1)
    if b._array.shape[-2 if left else -1] != x[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({x[-2]}x{x[-1]} and {b._array.shape[-2]}x{b._array.shape[-1]})"
        )
    a, b = matched(a, b)
    if left:
        made, info = solve_op(a, b)
    else:
        made, info = solve_op(transposed(a), transposed(b))
        made = transposed(made)
    if check:
        problem = ": The solver failed because the input matrix is singular (element {} of its factor U is zero)."
        check_info(info, name + problem)
    if vector:
        made = ops.squeeze(made, -1)
        if made._array.ndim > 1:
            made = in_columns(made, 0)
    return relabel(made, "LinalgSolveExBackward0"), info


@public("linalg.solve", method=False, out="exact", planned=True)
def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A @ X = B (X @ A = B if not `left`); B may be a vector for each matrix.

    >>> import flambeau as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return _solve("linalg.solve", A, B, left, True)[0]


@public("linalg.solve_ex", method=False, out="exact", planned=True)
def linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(X, info): like `linalg.solve`; info is not 0 for singular matrices."""
    return return_types.linalg_solve_ex(*_solve("torch.linalg.solve_ex", A, B, left, check_errors))


@public("linalg.tensorinv", method=False, out=True)
def linalg_tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the linear map that a tensor is, with its first `ind` dimensions as rows.

    >>> import flambeau as torch
    >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    shape = A._array.shape
    rows, columns = shape[:ind], shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(
            f"linalg.tensorinv: the first {ind} dimensions must have as many elements as the others, "
            f"got {math.prod(rows)} and {math.prod(columns)}"
        )
    made = linalg_inv(ops.reshape(A, (math.prod(rows), math.prod(columns))))
    return ops.reshape(made, (*columns, *rows))


@public("linalg.tensorsolve", method=False, out=True)
def linalg_tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first.

    >>> import flambeau as torch
    >>> torch.linalg.tensorsolve(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        dims = tuple(dims)
        A = ops.movedim(A, dims, tuple(range(A._array.ndim - len(dims), A._array.ndim)))
    shape = A._array.shape[B._array.ndim :]
    size = math.prod(shape)
    if size * B._array.size != A._array.size or size != B._array.size:
        raise RuntimeError(
            f"linalg.tensorsolve: the first {B._array.ndim} dimensions of A must have as many elements as the others, "
            f"got {math.prod(A._array.shape[: B._array.ndim])} and {size}"
        )
    return ops.reshape(linalg_solve(ops.reshape(A, (size, size)), ops.reshape(B, (size,))), shape)


# -- determinants --------------------------------------------------------------------------------------------------


def _det_grad(g: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """G with Aᴴ G = conj(det) g I; where A is singular, its cofactors."""
    n = a._array.shape[-1]
    scale = ops.unsqueeze(ops.unsqueeze(g * ops.conj(out), -1), -1) * eye_like(a, n)
    return either(ops.any(ops.eq(out, 0)), lambda: _cofactors(g, a), lambda: solve_op(adjoint(a), scale)[0])


def _cofactors(g: Tensor, a: Tensor) -> Tensor:
    """The gradient through singular values, whose products without one of them stay defined."""
    u, s, vh = ops.linalg_svd(a, False)
    n = s._array.shape[-1]
    others = ops.unsqueeze(s, -2) * (1 - eye_like(s, n)) + eye_like(s, n)
    phase = ops.conj(linalg_det(u) * linalg_det(vh))
    factor = ops.unsqueeze(phase * g, -1) * ops.prod(others, -1)
    return ops.matmul(u * ops.unsqueeze(factor, -2), vh)


@primitive(
    grad={"a": _det_grad}, name="linalg_det", backward_name="LinalgDetBackward0",
    meta=lambda a: (a.shape[:-2], from_numpy_dtype(a.dtype)),
    batch=leading,
    planned=True,
)  # fmt: skip
def det_op(backend: Any, a: Any) -> Any:
    made = systems.determinant(a)
    if made is None:
        with np.errstate(all="ignore"), lapack.few_threads(a.size):
            made = backend.xp.asarray(backend.xp.linalg.det(a))
    return rows_of(made)


@public("linalg.det", method=False, out="exact", planned=True)
def linalg_det(A: Tensor) -> Tensor:
    """The determinant of square matrices.

    >>> import flambeau as torch
    >>> torch.linalg.det(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_square("linalg.det", A)
    return det_op(A)


@public(out="exact", planned=True)
def det(input: Tensor) -> Tensor:
    """`linalg.det`, by its older name."""
    return linalg_det(input)


def _slogdet_grad(given: Any, a: Tensor, outs: Any) -> Tensor | None:
    g_sign, g_log = given
    factor = None if g_log is None else g_log
    if a.dtype.category == COMPLEX:
        if g_sign is not None:
            turn = ops.imag(ops.conj(g_sign) * outs[0])
            factor = ops.complex(ops.zeros_like(turn) if g_log is None else g_log, -turn)
        elif g_log is not None:
            factor = ops.to_dtype(g_log, a.dtype)
    if factor is None:
        return ops.zeros_like(a)
    scale = ops.unsqueeze(ops.unsqueeze(factor, -1), -1) * eye_like(a, a._array.shape[-1])
    return solve_op(adjoint(a), scale)[0]


@primitive(
    batch=leading,
    meta=lambda a: [(a.shape[:-2], dtype_of(a)), (a.shape[:-2], dtype_of(a).to_real())],
    grad=_slogdet_grad,
    name="linalg_slogdet",
    planned=True,
)
def slogdet_op(backend: Any, a: Any) -> Any:
    made = systems.sign_and_size(a)
    if made is not None:
        return tuple(rows_of(m) for m in made)
    with np.errstate(all="ignore"), lapack.few_threads(a.size):
        sign, size = backend.xp.linalg.slogdet(a)
    return rows_of(backend.xp.asarray(sign)), rows_of(backend.xp.asarray(size))


@public("linalg.slogdet", method=False, out=True, planned=True)
def linalg_slogdet(A: Tensor) -> Any:
    """(sign, logarithm of the absolute value) of the determinant.

    >>> import flambeau as torch
    >>> torch.linalg.slogdet(torch.tensor([[2.0, 0.0], [0.0, -4.0]])).sign
    tensor(-1.)
    """
    check_square("linalg.slogdet", A)
    return return_types.linalg_slogdet(*slogdet_op(A))


@public(out=True)
def slogdet(input: Tensor) -> Any:
    """(sign, logarithm of the absolute value) of the determinant: an alias of `linalg.slogdet`."""
    check_square("linalg.slogdet", input)
    return return_types.slogdet(*slogdet_op(input))


@public(planned=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where that is negative.

    >>> import flambeau as torch
    >>> torch.logdet(torch.eye(2))
    tensor(0.)
    """
    check_square("logdet", input, "input")
    sign, size = slogdet_op(input)
    if input.dtype.category == COMPLEX:
        return ops.log(sign) + size
    return ops.where(ops.eq(sign, -1), math.nan, size)


# -- pseudo-inverse ------------------------------------------------------------------------------------------------


def _pinv_grad(g: Tensor, a: Tensor, out: Tensor) -> Tensor:
    turned, gh = adjoint(out), adjoint(g)
    made = -ops.matmul(turned, ops.matmul(g, turned))
    left = ops.matmul(ops.matmul(gh, out), turned)
    right = ops.matmul(turned, ops.matmul(out, gh))
    made = made + left - ops.matmul(a, ops.matmul(out, left))
    return made + right - ops.matmul(ops.matmul(right, out), a)


@primitive(
    batch=leading,
    meta=lambda a, *rest: ((*a.shape[:-2], a.shape[-1], a.shape[-2]), dtype_of(a)),
    grad={"a": _pinv_grad},
    tensors=3,
    name="linalg_pinv",
)
def pinv_op(backend: Any, a: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    xp = backend.xp
    if not a.size:
        return xp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        values, u = converged("linalg.pinv", xp.linalg.eigh, a)
        sizes, vh = xp.abs(values), u.swapaxes(-1, -2).conj()
    else:
        u, values, vh = svd_arrays("linalg.pinv", xp, a)
        sizes = values
    cut = _cutoff(xp, sizes.max(-1), atol, rtol)[..., None]
    with np.errstate(all="ignore"):
        inverted = xp.where(sizes > cut, 1 / values, 0).astype(values.dtype)
    turned = vh.swapaxes(-1, -2).conj() * inverted[..., None, :]
    return product(backend, turned, u.swapaxes(-1, -2).conj())


def _cutoff(xp: Any, largest: Any, atol: Any, rtol: Any) -> Any:
    return xp.maximum(atol, rtol * largest).astype(largest.dtype)


def tolerances(name: str, shape: Any, d: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """PyTorch's defaults: max(m, n) times the precision, unless an absolute tolerance is given."""
    for value in (atol, rtol):
        if isinstance(value, Tensor) and value.dtype.category == COMPLEX:
            raise RuntimeError(f"{name}: tolerances must be real, got {value.dtype}")
    default = finfo(d).eps * max(shape[-2:])
    if rtol is None:
        if isinstance(atol, Tensor):
            rtol = ops.where(ops.gt(atol, 0), 0.0, default)
        else:
            rtol = 0.0 if atol is not None and atol > 0 else default
    return (0.0 if atol is None else atol), rtol


@public("linalg.pinv", method=False, out=True)
def linalg_pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse; singular values below max(atol, rtol * largest) count as zero.

    >>> import flambeau as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    name = "linalg.pinv"
    (check_square if hermitian else check_matrix)(name, A)
    if rcond is not None:
        rtol, atol = rcond, 0.0
    atol, rtol = tolerances(name, A._array.shape, A.dtype, atol, rtol)
    return pinv_op(A, atol, rtol, hermitian)


@public()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The Moore-Penrose inverse: the older form of `linalg.pinv`."""
    return linalg_pinv(input, rcond)


# -- least squares -------------------------------------------------------------------------------------------------

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _least_squares_shapes(a: Any, b: Any, rcond: float, values: bool) -> list[Any]:
    *lead, m, n = a.shape
    kept = (*lead, min(m, n)) if values else (0,)
    return [((*lead, n, b.shape[-1]), dtype_of(a)), (tuple(lead), int64), (kept, dtype_of(a).to_real())]


@primitive(batch=leading, meta=_least_squares_shapes, tensors=2, differentiable=False)
def least_squares(backend: Any, a: Any, b: Any, rcond: float, values: bool) -> Any:
    """(solution of least norm, rank, singular values if wanted) for a whole batch."""
    xp = backend.xp
    made = None if values else systems.least_squares(a, b, rcond)
    if made is not None:
        return *made, np.zeros(0, a.real.dtype)
    if not a.size:
        k = min(a.shape[-2:])
        return (
            xp.zeros((*a.shape[:-2], a.shape[-1], b.shape[-1]), a.dtype), xp.zeros(a.shape[:-2], xp.int64),
            xp.zeros((*a.shape[:-2], k) if values else 0, xp.zeros(0, a.dtype).real.dtype),
        )  # fmt: skip
    u, s, vh = svd_arrays("torch.linalg.lstsq", xp, a)
    kept = s > (rcond * s.max(-1))[..., None]
    with np.errstate(all="ignore"):
        inverted = xp.where(kept, 1 / s, 0).astype(s.dtype)
    inner = xp.matmul(u.swapaxes(-1, -2).conj(), b) * inverted[..., None]
    return xp.matmul(vh.swapaxes(-1, -2).conj(), inner), xp.asarray(kept.sum(-1)), s if values else xp.zeros(0, s.dtype)


@public("linalg.lstsq", method=False, out=True)
def linalg_lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values) of min ‖A X - B‖.

    >>> import flambeau as torch
    >>> torch.linalg.lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0], [3.0]])).solution.round(decimals=3)
    tensor([[2.]])
    """
    name = "torch.linalg.lstsq"
    check_matrix(name, A, "input")
    if B._array.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if A.dtype is not B.dtype:
        raise RuntimeError(f"{name}: Expected input and other to have the same dtype, but got {A.dtype} and {B.dtype}")
    x, y = A._array.shape, B._array.shape
    if not 0 <= len(x) - len(y) <= 1:
        raise RuntimeError(
            f"{name}: other must have as many dimensions as input or one less, got {len(y)} and {len(x)}"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    driver = driver or "gelsy"
    vector = len(x) - 1 == len(y) and x[:-1] == y
    if vector:
        B = ops.unsqueeze(B, -1)
    elif len(x) - 1 == len(y):
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-1), got {list(x)} and {list(y)}")
    y = B._array.shape
    if x[-2] != y[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2)")
    broadcast_shapes(x[:-2], y[:-2])
    a, b = matched(A, B)
    precision = finfo(A.dtype).eps
    cut = rcond if rcond is not None else precision * max(x[-2:])
    solution, rank, values = least_squares(a, b, precision if driver == "gels" else cut, driver in ("gelsd", "gelss"))
    if is_differentiated(A, B):
        solution = ops.matmul(linalg_pinv(a, cut), b)
    if x[-2] > x[-1] and (driver == "gels" or (driver != "gelsy" and answer(ops.all(ops.eq(rank, x[-1])), True, True))):
        off = ops.matmul(a, solution) - b
        residuals = ops.sum(ops.real(off * ops.conj(off)) if A.dtype.category == COMPLEX else off * off, -2)
    else:  # none, but they require grad as the solution does
        flat = ops.reshape(solution, (-1,)) if solution._array.size else ops.reshape(solution, (0,))
        residuals = ops.narrow(ops.real(flat), 0, 0, 0)
    if driver == "gels":
        rank = ops.empty(0, dtype=rank.dtype, device=A.device)
    if driver in ("gels", "gelsy"):
        values = ops.empty(0, dtype=values.dtype, device=A.device)
    solution = in_columns(solution, x[-2])
    if vector:
        solution = ops.squeeze(solution, -1)
    relabel(solution, "LinalgLstsqBackward0")
    return return_types.linalg_lstsq(solution, residuals, rank, values)


SCHEMAS = """
linalg_inv(Tensor A) -> Tensor  # autocast=cpu:single
inverse(Tensor self) -> Tensor  # autocast=cpu:single
linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)
linalg_inv_ex.inverse(Tensor A, *, bool check_errors=False, Tensor(a!) inverse, Tensor(b!) info) -> (Tensor(a!) inverse, Tensor(b!) info)
linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor  # autocast=cpu:single
linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)
linalg_solve_ex.out(Tensor A, Tensor B, *, bool left=True, bool check_errors=False, Tensor(a!) result, Tensor(b!) info) -> (Tensor(a!) result, Tensor(b!) info)
linalg_tensorinv(Tensor self, int ind=2) -> Tensor  # autocast=cpu:single
linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor  # autocast=cpu:single
linalg_det(Tensor A) -> Tensor
det|logdet(Tensor self) -> Tensor
linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)
linalg_slogdet.out(Tensor A, *, Tensor(a!) sign, Tensor(b!) logabsdet) -> (Tensor(a!) sign, Tensor(b!) logabsdet)
slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)
slogdet.out(Tensor self, *, Tensor(a!) sign, Tensor(b!) logabsdet) -> (Tensor(a!) sign, Tensor(b!) logabsdet)
linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor
linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor
linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor
linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor
linalg_pinv.out_rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False, *, Tensor(a!) out) -> Tensor(a!)
pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor  # autocast=cpu:single
linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)  # autocast=cpu:single
linalg_lstsq.out(Tensor self, Tensor b, float? rcond=None, *, str? driver=None, Tensor(a!) solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values) -> (Tensor(a!) solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values)
linalg_det  # record=_linalg_det
linalg_solve_ex  # record=_linalg_solve_ex
linalg_slogdet  # record=_linalg_slogdet
"""
