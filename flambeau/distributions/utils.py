"""What distributions share: broadcasting of parameters, probabilities and log-odds, properties computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from math import isqrt
from numbers import Number
from typing import Any, Generic, TypeVar

from .._autograd.modes import enable_grad
from .._core.dtypes import get_default_dtype
from .._core.info import finfo
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060
T = TypeVar("T")
R = TypeVar("R")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype and device of the first tensor.

    >>> import flambeau as torch
    >>> torch.distributions.utils.broadcast_all(torch.zeros(2), 1)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    like = None
    numbers = False
    for value in values:
        if isinstance(value, Tensor):
            like = value if like is None else like
        elif isinstance(value, Number):
            numbers = True
        elif not hasattr(value, "__torch_function__"):
            raise ValueError(
                "broadcast_all: every value must be a Number, a torch.Tensor or an object with "
                f"__torch_function__, got {type(value).__name__}"
            )
    if numbers:
        dtype = get_default_dtype() if like is None else like.dtype
        device = None if like is None else like.device
        values = tuple(ops.tensor(v, dtype=dtype, device=device) if isinstance(v, Number) else v for v in values)
    shape = values[0].shape
    for value in values:
        if value.shape != shape:
            return tuple(ops.broadcast_tensors(*values))
    return values


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return ops.normal(ops.zeros(shape, dtype=dtype, device=device), ops.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[: value.dim() - dim] + (-1,)).sum(-1)


def _softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact also for large x."""
    return -ops.log_sigmoid(-x)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log-odds (binary), or from unnormalised log-probabilities in the last dimension."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Keeps probabilities a rounding step away from 0 and 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `logits_to_probs`, finite also for probabilities of 0 and 1."""
    inside = clamp_probs(probs)
    return ops.log(inside) - ops.log1p(-inside) if is_binary else ops.log(inside)


def formula(compute: Callable[[Any], Tensor]) -> Tensor:
    """A property that one formula gives: `mean = formula(lambda self: self.loc)`. Checkers see the tensor that instances have."""
    made: Any = property(compute)
    return made


class lazy_property(Generic[T, R]):
    """A property that is computed at its first use and then kept as an attribute."""

    def __init__(self, wrapped: Callable[[T], R]):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance: T | None, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property[Any, Any], property):
    """What the class itself shows for a lazy property, so that its documentation is found."""

    def __init__(self, wrapped: Callable[..., Any]):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices, row by row, as vectors; `diag` is the last diagonal taken.

    >>> import flambeau as torch
    >>> torch.distributions.utils.tril_matrix_to_vec(torch.tensor([[1, 0], [2, 3]]))
    tensor([1, 2, 3])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) is outside [{-n}, {n - 1}]")
    rows, columns = ops.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices whose lower triangle is given row by row: the inverse of `tril_matrix_to_vec`."""
    size = vec.shape[-1]
    # the triangle of an n x n matrix has (n^2 + (2 diag + 1) n - |diag| (diag + 1)) / 2 elements
    square = (1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1)
    n = (isqrt(max(square, 0)) - 1 - 2 * diag) // 2
    rows, columns = ops.tril_indices(n, n, diag, device=vec.device)
    if rows.shape[0] != size:
        raise ValueError(
            f"The size of last dimension is {size}, which is not the number of elements in the lower triangular "
            f"part (up to diagonal {diag}) of a square matrix"
        )
    mat = ops.zeros(vec.shape[:-1] + (n, n), dtype=vec.dtype, device=vec.device)
    mat[..., rows, columns] = vec
    return mat
