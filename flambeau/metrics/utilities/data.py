"""Reductions over the first dimension, by which the states of several processes or batches become one."""

from __future__ import annotations

from collections.abc import Sequence

from ..._ops.registry import ops
from ..._tensor import Tensor


def dim_zero_cat(x: Tensor | Sequence[Tensor]) -> Tensor:
    """Tensors one after the other; a single tensor stays as it is.

    >>> import flambeau as torch
    >>> dim_zero_cat([torch.tensor(1), torch.tensor([2, 3])])
    tensor([1, 2, 3])
    """
    if isinstance(x, Tensor):
        return x
    if not x:
        raise ValueError("No samples to concatenate")
    return ops.cat([part.unsqueeze(0) if part.dim() == 0 else part for part in x])


def dim_zero_sum(x: Tensor) -> Tensor:
    """Sum over the first dimension."""
    return ops.sum(x, 0)


def dim_zero_mean(x: Tensor) -> Tensor:
    """Mean over the first dimension."""
    return ops.mean(x, 0)


def dim_zero_max(x: Tensor) -> Tensor:
    """Largest value in the first dimension."""
    return ops.amax(x, 0)


def dim_zero_min(x: Tensor) -> Tensor:
    """Smallest value in the first dimension."""
    return ops.amin(x, 0)


def safe_divide(numerator: Tensor, denominator: Tensor, zero_division: float = 0.0) -> Tensor:
    """Quotient in floating point, with `zero_division` where the denominator is zero."""
    numerator, denominator = (x if x.is_floating_point() else x.float() for x in (numerator, denominator))
    nothing = denominator == 0
    return ops.where(nothing, zero_division, numerator / ops.where(nothing, 1.0, denominator))
