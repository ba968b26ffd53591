"""Norms and condition numbers of matrices, and distances between the rows of matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.copies import rows_of
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, dtype, float32, float64, from_numpy_dtype
from ..._core.sizes import wrap_dim
from ..._core.state import local, modes
from ..._kernel.math.angles import distances, from_products, square_length
from ..._tensor import Tensor, wrap
from ..folds.norms import vector_norm
from ..records.batching import leading
from ..records.primitive import primitive
from ..records.rules import not_implemented, type_name
from ..registry import labelled, ops, public, relabel
from .checks import check_floating, check_matrix, check_square, matched, transposed
from .matmul import product
from .solvers import inverse_op
from .spectra import linalg_svdvals

# -- norms ---------------------------------------------------------------------------------------------------------

_ORDERS = (1.0, -1.0, 2.0, -2.0, math.inf, -math.inf)


@public("linalg.matrix_norm", method=False, out="exact", planned=True)
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """A norm of matrices: "fro", "nuc", or the largest (smallest if negative) column sum 1, row sum inf or value 2.

    >>> import flambeau as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]]))
    tensor(5.)
    """
    name = "linalg.matrix_norm"
    ndim = A._array.ndim
    if ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if not isinstance(dim, Sequence) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, columns = wrap_dim(dim[0], ndim), wrap_dim(dim[1], ndim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    order = ord if isinstance(ord, str) else float(ord)
    if order not in ("fro", "nuc") if isinstance(order, str) else order not in _ORDERS:
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if order == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    by_values = order == "nuc" or abs(order) == 2  # type: ignore[arg-type]
    check_floating(name, A, low=not by_values)
    A = _with_dtype(name, A, dtype)
    if by_values:
        rest = [i for i in range(ndim) if i not in (rows, columns)]
        made = _of_values(ops.permute(A, (*rest, rows, columns)), order)
        if keepdim:
            for i in sorted((rows, columns)):
                made = ops.unsqueeze(made, i)
        return made
    if abs(order) == 1.0:  # type: ignore[arg-type]
        rows, columns = columns, rows
    sums = ops.sum(ops.abs(A), columns, keepdim)
    if not keepdim and columns < rows:
        rows -= 1
    return (ops.amax if order > 0 else ops.amin)(sums, rows, keepdim)  # type: ignore[operator]


def _of_values(a: Tensor, order: Any) -> Tensor:
    values = linalg_svdvals(a)
    if order == "nuc":
        return ops.sum(values, -1)
    return ops.amax(values, -1) if order > 0 else ops.amin(values, -1)


def _with_dtype(name: str, a: Tensor, d: dtype | None) -> Tensor:
    if d is None or d is a.dtype:
        return a
    other_kind = (d.category == COMPLEX) != (a.dtype.category == COMPLEX)
    if d.category < FLOATING or other_kind or d.itemsize < a.dtype.itemsize:
        raise RuntimeError(f"{name}: {type_name(a.dtype)} cannot be converted to dtype {type_name(d)}")
    return ops.to_dtype(a, d)


@public("linalg.norm", method=False, out="exact", planned=True)
def linalg_norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """A norm of vectors (one dimension) or matrices (two); without `ord`, the 2-norm of all elements.

    >>> import flambeau as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    name = "linalg.norm"
    if dim is not None:
        dim = (int(dim),) if hasattr(dim, "__index__") else tuple(dim)
        if len(dim) not in (1, 2) and (ord is not None or isinstance(ord, str)):
            raise RuntimeError(f"{name}: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    elif ord is not None and A._array.ndim not in (1, 2):
        raise RuntimeError(
            f"{name}: If dim is not specified but ord is, the input must be 1D or 2D. Got {A._array.ndim}D."
        )
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    count = len(dim) if dim is not None else A._array.ndim
    if count == 2:
        return matrix_norm(A, ord, dim if dim is not None else (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"{name}: the order {ord!r} needs matrices, got {count} dimension")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


@public(method=False, out=True)
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The 2-norm of all elements, or over one or two dimensions."""
    dim = (dim,) if hasattr(dim, "__index__") else tuple(dim)
    if len(dim) > 2:
        raise RuntimeError(f"frobenius_norm: expected at most 2 dimensions, got {len(dim)}")
    return vector_norm(input, 2, dim, keepdim)


@public(method=False, out=True)
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices."""
    return matrix_norm(input, "nuc", dim, keepdim)


@public("linalg.cond", method=False, out=True, planned=True)
def linalg_cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number ‖A‖ ‖A⁻¹‖ in a norm of matrices; infinite for singular ones.

    >>> import flambeau as torch
    >>> torch.linalg.cond(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    name = "linalg.cond"
    check_matrix(name, A)
    order = 2.0 if p is None else p if isinstance(p, str) else float(p)
    if order not in ("fro", "nuc") if isinstance(order, str) else order not in _ORDERS:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if not A._array.size:
        return ops.zeros(A._array.shape[:-2], dtype=A.dtype.to_real(), device=A.device)
    if order in (2.0, -2.0):
        values = linalg_svdvals(A)
        last = ops.select(values, -1, values._array.shape[-1] - 1)
        first = ops.select(values, -1, 0)
        return relabel(first / last if order == 2.0 else last / first, "SqueezeBackward1")
    check_square(name, A)
    inverse, info = inverse_op(A)
    made = matrix_norm(A, order) * matrix_norm(ops.masked_fill(inverse, ops.ne(info, 0)[..., None, None], 0), order)
    return relabel(ops.masked_fill(made, ops.ne(info, 0), math.inf), "NanToNumBackward0")


# -- distances -----------------------------------------------------------------------------------------------------


def _euclidean_grad(g: Tensor, x: Tensor, y: Tensor, out: Tensor, needs: Any) -> Any:
    weight = ops.masked_fill(g / out, ops.eq(out, 0), 0)

    def side(w: Tensor, own: Tensor, other: Tensor) -> Tensor:
        return own * ops.sum(w, -1, True) - ops.matmul(w, other)

    return (side(weight, x, y) if needs[0] else None, side(transposed(weight), y, x) if needs[1] else None)


@primitive(
    tensors=2, grad=_euclidean_grad, name="cdist",
    meta=lambda x, y: ((*x.shape[:-1], y.shape[-2]), from_numpy_dtype(x.dtype)),
    batch=leading,
)  # fmt: skip
def euclidean_op(backend: Any, x: Any, y: Any) -> Any:
    """Distances of all pairs of rows by one product: |x|² + |y|² - 2 x·y."""
    made, code = product(backend, x, y.swapaxes(-1, -2)), BY_NUMPY[x.dtype].code
    if not made.size:
        return made
    if backend is cpu:
        made, lengths = rows_of(made), [np.empty(a.shape[:-1], x.dtype) for a in (x, y)]
        for a, squares in zip((x, y), lengths):
            cpu.sized(a.size, square_length, (code, code))(a, squares)
        cpu.sized(made.size, from_products, (code,) * 3)(lengths[0], lengths[1][..., None, :], made)
        return made
    own, others = [backend.along.fold(a, (a.ndim - 1,), "squares", code, None) for a in (x, y)]
    return _from_products(backend, code)(made, own[..., :, None], others[..., None, :], out=made)


@functools.cache
def _from_products(backend: Any, code: str) -> Any:
    """The kernel of the same name, where every element has a thread."""

    def distance(m: Any, product: Any, own: Any, other: Any) -> Any:
        square = own + other - 2 * product
        return m.real_sqrt(m.where(square < 0, 0.0, square))

    return backend.pointwise("distances", distance, (code,) * 3, (code,), (code,) * 3)


_MODES = {
    None: 0, "use_mm_for_euclid_dist_if_necessary": 0, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2,
    0: 0, 1: 1, 2: 2,
}  # fmt: skip
_MANY = 25  # rows from which a product is faster than differences


@public(method=False, planned=True)
@labelled("CdistBackward0")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | int | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distance of every row of x1 to every row of x2.

    >>> import flambeau as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for number, t in enumerate((x1, x2), 1):
        if not t.dtype.category == FLOATING:
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{number} got: {type_name(t.dtype)}")
        if t._array.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{number} got: {t._array.ndim}D")
    if x1._array.shape[-1] != x2._array.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1._array.shape[-1]} X2: {x2._array.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.dtype not in (float32, float64):
        raise not_implemented("cdist", x1.dtype)
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected X1 and X2 to have the same dtype, but got {x1.dtype} and {x2.dtype}")
    (rows, size), others = x1._array.shape[-2:], x2._array.shape[-2]
    mode = _MODES[compute_mode]
    if size and p == 2 and (mode == 1 or (mode == 0 and max(rows, others) > _MANY)):
        return euclidean_op(*matched(x1, x2))
    if size and p == 2:
        made = _distances(x1, x2)
        if made is not None:
            return made
    return _lengths(ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3), p)


def _distances(x1: Tensor, x2: Tensor) -> Tensor | None:
    """Distances by one kernel, if no gradient is asked for; None if they are not for it."""
    k = x1._k | x2._k
    x, y = x1._array, x2._array
    if k > 1 or modes.seen() or (k and local.grad) or not x.size or not y.size or x.shape[:-2] != y.shape[:-2]:
        return None
    return _distances_op(x1, x2)


@primitive(
    tensors=2, name="distances", meta=lambda x, y: ((*x.shape[:-1], y.shape[-2]), BY_NUMPY[x.dtype]), batch=leading
)
def _distances_op(backend: Any, x: Any, y: Any) -> Any:
    out = empty((*x.shape[:-1], y.shape[-2]), x.dtype)
    backend.sized(out.size * x.shape[-1], distances, (BY_NUMPY[x.dtype].code,) * 3)(x, y, out)
    return out


def _by_largest(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Of several that are the largest each has the whole gradient, as in PyTorch's distances, but not in its norms."""
    g, out = ops.unsqueeze(g, -1), ops.unsqueeze(out, -1)
    return ops.masked_fill(ops.sign(x) * g, ops.ne(ops.abs(x), out), 0)


@primitive(name="largest", grad={"x": _by_largest}, meta=lambda x: (x.shape[:-1], BY_NUMPY[x.dtype]), batch=leading)
def _largest_op(backend: Any, x: Any) -> Any:
    return backend.xp.abs(x).max(-1)


def _lengths(differences: Tensor, p: float) -> Tensor:
    """Norms over the last dimension, 0 if that is empty; a count of differences has a gradient too, of zeros."""
    if not differences._array.shape[-1]:
        return ops.sum(differences, -1)
    if p == math.inf and differences._array.size:
        return _largest_op(differences)
    made = vector_norm(differences, p, -1)
    return made if p else made + ops.sum(ops.narrow(differences, -1, 0, 0), -1)


@functools.lru_cache(16)
def _pairs(count: int) -> tuple[Any, Any]:
    return np.triu_indices(count, 1)


@public("pdist", "nn.functional.pdist", method=False)
@labelled("PdistBackward0")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distance of every pair of rows, in the order of the upper triangle.

    >>> import flambeau as torch
    >>> torch.pdist(torch.tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    if input._array.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input._array.ndim}D")
    if input.dtype not in (float32, float64):
        raise (
            not_implemented("pdist", input.dtype)
            if input.dtype.category == FLOATING
            else RuntimeError(f"pdist only supports floating-point dtypes, got {type_name(input.dtype)}")
        )
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    rows = input._array.shape[0]
    pairs = (_pairs if rows <= 256 else _pairs.__wrapped__)(rows)
    made = _distances(input, input) if p == 2 and input._array.size else None
    if made is not None:
        return wrap(made._array[pairs], input.dtype)
    first, second = (ops.as_tensor(i, device=input.device) for i in pairs)
    apart = ops.index_select(input, 0, first) - ops.index_select(input, 0, second)
    made = _lengths(apart, p)
    if p == 0:  # counts, which would take NaN for any other number
        made = ops.masked_fill(made, ops.any(ops.isnan(ops.detach(apart)), 1), math.nan)
    return made


SCHEMAS = """
linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
frobenius_norm.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)
nuclear_norm(Tensor self, bool keepdim=False) -> Tensor
nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor
linalg_cond(Tensor self, Scalar? p=None) -> Tensor  # autocast=cpu:single
linalg_cond.p_str(Tensor self, str p) -> Tensor
cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor  # python, autocast=single
pdist(Tensor self, float p=2.) -> Tensor  # autocast=cuda:single
cdist  # record=_cdist_forward
"""
