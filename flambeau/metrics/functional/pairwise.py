"""Distances and similarities of all pairs of rows of two matrices."""

from __future__ import annotations

from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = [
    "pairwise_cosine_similarity", "pairwise_euclidean_distance", "pairwise_linear_similarity",
    "pairwise_manhattan_distance", "pairwise_minkowski_distance",
]  # fmt: skip


def _inputs(x: Tensor, y: Tensor | None, zero_diagonal: bool | None) -> tuple[Tensor, Tensor, bool]:
    if x.dim() != 2:
        raise ValueError(f"Expected argument `x` to be a 2D tensor of shape `[N, d]` but got {tuple(x.shape)}")
    if y is not None and (y.dim() != 2 or y.shape[1] != x.shape[1]):
        raise ValueError(
            f"Expected argument `y` to be a 2D tensor of shape `[M, d]` where `d` should be same as the last dimension of `x`, but got {tuple(y.shape)}"
        )
    return x, (x if y is None else y), (y is None) if zero_diagonal is None else zero_diagonal


def _finished(matrix: Tensor, zero_diagonal: bool, reduction: str | None) -> Tensor:
    if zero_diagonal:
        n, m = matrix.shape
        same = ops.arange(n, device=matrix.device).unsqueeze(1) == ops.arange(m, device=matrix.device)
        matrix = ops.where(same, 0.0, matrix)
    if reduction in (None, "none"):
        return matrix
    if reduction not in ("mean", "sum"):
        raise ValueError(f"Expected reduction to be one of `['mean', 'sum', None]` but got {reduction}")
    return matrix.mean(-1) if reduction == "mean" else matrix.sum(-1)


def pairwise_cosine_similarity(
    x: Tensor, y: Tensor | None = None, reduction: str | None = None, zero_diagonal: bool | None = None
) -> Tensor:
    """Cosines of the angles between the rows of x and those of y (or of x, with zeros on the diagonal)."""
    x, y, zero = _inputs(x, y, zero_diagonal)
    x, y = x / x.norm(dim=1, keepdim=True), y / y.norm(dim=1, keepdim=True)
    return _finished(x @ y.T, zero, reduction)


def pairwise_linear_similarity(
    x: Tensor, y: Tensor | None = None, reduction: str | None = None, zero_diagonal: bool | None = None
) -> Tensor:
    """Products of the rows of x and those of y (or of x, with zeros on the diagonal)."""
    x, y, zero = _inputs(x, y, zero_diagonal)
    return _finished(x @ y.T, zero, reduction)


def pairwise_minkowski_distance(
    x: Tensor,
    y: Tensor | None = None,
    exponent: float = 2,
    reduction: str | None = None,
    zero_diagonal: bool | None = None,
) -> Tensor:
    """(sum of |difference|^exponent)^(1/exponent) of the rows of x and those of y (or of x).

    >>> import flambeau as torch
    >>> pairwise_minkowski_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if not (isinstance(exponent, (float, int)) and exponent >= 1):
        raise ValueError(f"Argument ``exponent`` must be a float or int greater than 1, but got {exponent}")
    x, y, zero = _inputs(x, y, zero_diagonal)
    return _finished(ops.cdist(x, y, p=float(exponent)), zero, reduction)


def pairwise_euclidean_distance(
    x: Tensor, y: Tensor | None = None, reduction: str | None = None, zero_diagonal: bool | None = None
) -> Tensor:
    """Distances of the rows of x and those of y (or of x)."""
    return pairwise_minkowski_distance(x, y, 2.0, reduction, zero_diagonal)


def pairwise_manhattan_distance(
    x: Tensor, y: Tensor | None = None, reduction: str | None = None, zero_diagonal: bool | None = None
) -> Tensor:
    """Sums of the absolute differences of the rows of x and those of y (or of x)."""
    return pairwise_minkowski_distance(x, y, 1.0, reduction, zero_diagonal)
