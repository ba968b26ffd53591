"""Powers and exponentials of matrices, cross products, and matrices made of powers or diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend import lapack, systems
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, from_numpy_dtype
from ..._core.sizes import broadcast_shapes, wrap_dim
from ..._core.state import GRAD, local, modes
from ..._errors.frames import warn_user
from ..._kernel.loops.lang import independent, kernel
from ..._tensor import Tensor, wrap
from ..records.batching import along, leading
from ..records.primitive import primitive
from ..records.tangents import multilinear
from ..registry import ops, public
from .checks import check_square, eye_like, nothing
from .matmul import adjoint, conjugate, product
from .solvers import linalg_inv

# -- powers --------------------------------------------------------------------------------------------------------


@public("linalg.matrix_power", "matrix_power", method="matrix_power", out="exact", planned=True)
def linalg_matrix_power(input: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices, of their inverse for negative n.

    >>> import flambeau as torch
    >>> torch.linalg.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    A = input
    shape = A._array.shape
    if len(shape) < 2 or shape[-2] != shape[-1]:
        raise RuntimeError(f"linalg.matrix_power: A must be batches of square matrices, but got shape {list(shape)}")
    if n == 0:
        eye = eye_like(A, shape[-1])
        return eye + nothing(A)
    if n == 1:
        return ops.clone(A)
    if n < 0:
        A, n = linalg_inv(A), -n
    made: Any = None
    while True:
        if n & 1:
            made = A if made is None else ops.matmul(made, A)
        n >>= 1
        if not n:
            return made
        A = ops.matmul(A, A)


# -- exponential ---------------------------------------------------------------------------------------------------

# The diagonal Padé approximant of degree 13, and the norm up to which it is exact to double precision.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152
_MOST_SQUARINGS = 1100  # larger norms overflow in any case


class _Exponential:
    """The exponential of matrices by scaling and squaring; each matrix of a batch has its own number of squarings.

    Matrices are lists: themselves, and their derivative in one direction if that is wanted.
    """

    def __init__(self, backend: Any):
        self.backend, self.xp = backend, backend.xp

    def times(self, x: list[Any], y: list[Any]) -> list[Any]:
        made = [product(self.backend, x[0], y[0])]
        return made if len(x) == 1 else [*made, product(self.backend, x[0], y[1]) + product(self.backend, x[1], y[0])]

    def sum(self, powers: list[list[Any]], factors: Any, one: float = 0.0) -> list[Any]:
        """The powers times factors, and the identity times one."""
        made = [sum(f * p[i] for f, p in zip(factors[1:], powers[1:])) + factors[0] * powers[0][i]
                for i in range(len(powers[0]))]  # fmt: skip
        if one:
            diagonal = self.xp.arange(made[0].shape[-1])
            made[0][..., diagonal, diagonal] += one
        return made

    def solve(self, a: list[Any], b: list[Any]) -> list[Any]:
        x = [self._solve(a[0], b[0])]
        return x if len(a) == 1 else [*x, self._solve(a[0], b[1] - product(self.backend, a[1], x[0]))]

    def _solve(self, a: Any, b: Any) -> Any:
        made = systems.solve(a, b)
        return self.xp.linalg.solve(a, b) if made is None else made[0]

    def __call__(self, a: list[Any]) -> list[Any]:
        xp, b = self.xp, _PADE
        norm = xp.abs(a[0]).sum(-2).max(-1)
        norm = xp.where(xp.isfinite(norm), norm, 0) / _PADE_NORM
        squarings = xp.minimum(xp.ceil(xp.log2(xp.maximum(norm, 1))).astype(xp.int64), _MOST_SQUARINGS)
        most = int(squarings.max()) if squarings.size else 0
        if most:
            factor = xp.exp2(-squarings.astype(xp.float64))[..., None, None]
            a = [x * factor for x in a]
        a2 = self.times(a, a)
        a4 = self.times(a2, a2)
        powers = [self.times(a2, a4), a4, a2]
        odd, even = self.sum(powers, b[7:2:-2], b[1]), self.sum(powers, b[6:1:-2], b[0])
        odd = [x + y for x, y in zip(odd, self.times(powers[0], self.sum(powers, b[13:8:-2])))]
        even = [x + y for x, y in zip(even, self.times(powers[0], self.sum(powers, b[12:7:-2])))]
        odd = self.times(a, odd)
        made = self.solve([x - y for x, y in zip(even, odd)], [x + y for x, y in zip(even, odd)])
        for i in range(most):
            squared = self.times(made, made)
            every = (squarings > i)[..., None, None]
            made = squared if bool(every.all()) else [xp.where(every, x, y) for x, y in zip(squared, made)]
        return made


def _exponential(backend: Any, *given: Any) -> Any:
    """exp(a), or the derivative of that in a direction if one is given."""
    xp, d = backend.xp, given[0].dtype
    if not given[0].size:
        return given[0].copy()
    wide = [x.astype(xp.complex128 if d.kind == "c" else xp.float64) for x in given]
    with np.errstate(all="ignore"), lapack.few_threads(wide[0].size):
        return _Exponential(backend)(wide)[-1].astype(d)


def _exponential_grad(g: Tensor, a: Tensor) -> Tensor:
    """The derivative at Aᴴ in the direction g: the upper right block of exp([[Aᴴ, g], [0, Aᴴ]])."""
    turned = adjoint(a)
    if not local.grad and not (g._k | turned._k | modes.on) & ~GRAD:
        return wrap(_exponential(cpu, turned._array, g._array), a.dtype)
    n = a._array.shape[-1]
    upper = ops.cat((turned, g), -1)
    lower = ops.cat((ops.zeros_like(turned), turned), -1)
    whole = matrix_exp_op(ops.cat((upper, lower), -2))
    return ops.narrow(ops.narrow(whole, -2, 0, n), -1, n, n)


@primitive(
    grad={"a": _exponential_grad}, name="linalg_matrix_exp", meta=lambda a: (a.shape, from_numpy_dtype(a.dtype)),
    batch=leading,
)  # fmt: skip
def matrix_exp_op(backend: Any, a: Any) -> Any:
    return _exponential(backend, a)


@public("linalg.matrix_exp", "matrix_exp", method="matrix_exp")
def linalg_matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices.

    >>> import flambeau as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", A, low=True)
    return matrix_exp_op(A)


# -- cross product -------------------------------------------------------------------------------------------------


def _minor(m: Any, a: Any, b: Any, j: int, k: int, i: Any) -> Any:
    """Of two rows; products are rounded as elements are."""
    x, y = a[j, i] * b[k, i], a[k, i] * b[j, i]
    return x - y if m.is_complex(x) else m.stored(x, a.type) - m.stored(y, a.type)


@kernel("(c,n),(c,n)->(c,n)")
def _cross_columns(m: Any, a: Any, b: Any, out: Any) -> None:
    """The cross products of columns of three elements."""
    for i in independent(out.n):
        out[0, i] = _minor(m, a, b, 1, 2, i)
        out[1, i] = _minor(m, a, b, 2, 0, i)
        out[2, i] = _minor(m, a, b, 0, 1, i)


@primitive(
    tensors=2, name="linalg_cross", meta=lambda x, y, dim: (x.shape, from_numpy_dtype(x.dtype)),
    grad={
        "x": lambda g, y, dim: cross_op(conjugate(y), g, dim),
        "y": lambda g, x, dim: cross_op(g, conjugate(x), dim),
    },
    batch=along,
    tangent=multilinear("x", "y"),
    planned=True,
)  # fmt: skip
def cross_op(backend: Any, x: Any, y: Any, dim: int) -> Any:
    xp = backend.xp
    if backend is cpu and x.size and x.dtype != np.bool_:
        made = empty(x.shape, x.dtype)
        call = cpu.sized(x.size, _cross_columns, (BY_NUMPY[x.dtype].code,) * 3)
        operands = [(t if t.ndim > 1 else t.reshape(3, 1)).swapaxes(dim, -2) for t in (x, y, made)]
        if x.ndim > 2:
            call(*operands)
        else:
            cpu.columns(call, operands, x.size)
        return made
    a, b = xp.moveaxis(x, dim, 0), xp.moveaxis(y, dim, 0)
    made = xp.empty(x.shape, x.dtype)
    to = xp.moveaxis(made, dim, 0)
    with np.errstate(all="ignore"):
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            to[i] = a[j] * b[k] - a[k] * b[j]
    return made


def _cross(a: Tensor, b: Tensor, dim: int) -> Tensor:
    x, y = a._array.shape, b._array.shape
    if len(x) != len(y):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    dim = wrap_dim(dim, len(x))
    if x[dim] != 3 or y[dim] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {x[dim]} and {y[dim]}")
    shape = broadcast_shapes(x, y)
    if a.dtype is not b.dtype:
        d = ops.result_type(a, b)
        a, b = (t if t.dtype is d else ops.to_dtype(t, d) for t in (a, b))
    return cross_op(*(t if t._array.shape == shape else ops.expand(t, shape) for t in (a, b)), dim)


@public("linalg.cross", method=False, out="exact", planned=True)
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of length 3.

    >>> import flambeau as torch
    >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    return _cross(input, other, dim)


@public(out="exact", planned=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along `dim`, or else along the first dimension of length 3.

    >>> import flambeau as torch
    >>> torch.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])
    """
    if dim is None:
        dim = next((i for i, n in enumerate(input._array.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
        warn_user(
            "Using torch.cross without specifying the dim arg is deprecated: give dim, or use torch.linalg.cross."
        )
    return _cross(input, other, dim)


# -- matrices made of vectors --------------------------------------------------------------------------------------


@public("linalg.vander", method=False, planned=True)
def linalg_vander(x: Tensor, N: int | None = None) -> Tensor:
    """The matrix of the powers 0 to N - 1 of each element.

    >>> import flambeau as torch
    >>> torch.linalg.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    if x.dtype.category == 0:
        raise RuntimeError("linalg.vander: support for bool is not implemented")
    count = int(N) if N is not None else x._array.shape[-1] if x._array.ndim else 1
    if count <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1. Got {count}")
    column = ops.unsqueeze(x if x._array.ndim else ops.unsqueeze(x, 0), -1)
    powers = ops.cumprod(ops.expand(column, (*column._array.shape[:-1], count - 1)), -1)
    return ops.cat((ops.ones_like(column), powers), -1)


@public("linalg.diagonal", method=False)
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonal of matrices.

    >>> import flambeau as torch
    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return ops.diagonal(A, offset, dim1, dim2)


SCHEMAS = """
linalg_matrix_power(Tensor self, int n) -> Tensor
linalg_matrix_exp(Tensor self) -> Tensor
linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor
cross(Tensor self, Tensor other, int? dim=None) -> Tensor  # autocast=cuda:widest
linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor
linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)
"""
