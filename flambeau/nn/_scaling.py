"""Products of matrices in few bits with scales beside them, and the kinds of scales that programs name."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from .._core.dtypes import bfloat16, dtype, float32
from .._ops.registry import ops
from .._tensor import Tensor


class ScalingType(enum.IntEnum):
    """How many elements share a scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """The order of scales in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _factor(scale: Any, recipe: Any, rows: int, columns: int, side: str) -> Tensor:
    """The scales of one matrix as a factor of the product: one number, or one for each row or column of the result."""
    scales, recipes = ([x] if not isinstance(x, (list, tuple)) else list(x) for x in (scale, recipe))
    if len(scales) != 1 or len(recipes) != 1 or recipes[0] not in (ScalingType.TensorWise, ScalingType.RowWise):
        raise NotImplementedError(
            f"scaled_mm: scales of blocks are not here ({side}: {recipes}); multiply the blocks by their scales and use matmul"
        )
    found = scales[0].to(float32)
    if recipes[0] == ScalingType.TensorWise:
        if found.numel() != 1:
            raise ValueError(
                f"scaled_mm: TensorWise needs one number as scale_{side}, got the sizes {tuple(found.shape)}"
            )
        return found.reshape(1, 1)
    if found.numel() != rows * columns:
        raise ValueError(
            f"scaled_mm: RowWise needs scale_{side} of the sizes {(rows, columns)}, got {tuple(found.shape)}"
        )
    return found.reshape(rows, columns)


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: Any,
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    output_dtype: dtype | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of two matrices in few bits, times their scales: one for each, or (RowWise) one for each row and column.

    It is added up in single precision, so that `use_fast_accum` changes nothing.

    >>> import flambeau as torch
    >>> F, one = torch.nn.functional, torch.tensor(0.5)
    >>> a = torch.ones(2, 2).to(torch.float8_e4m3fn)
    >>> F.scaled_mm(a, a, one, F.ScalingType.TensorWise, one, F.ScalingType.TensorWise, output_dtype=torch.float32)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    for swizzle in (swizzle_a, swizzle_b):
        if any(s for s in (swizzle if isinstance(swizzle, (list, tuple)) else [swizzle])):
            raise NotImplementedError("scaled_mm: scales lie in the order of rows; give them without a swizzle")
    if tuple(contraction_dim) not in ((), (-1, -2), (1, 0)):
        raise NotImplementedError(
            "scaled_mm: the last dimension of mat_a meets the first of mat_b; transpose them before"
        )
    if mat_a.dim() != 2 or mat_b.dim() != 2:
        raise ValueError(f"scaled_mm: expected matrices, got {mat_a.dim()} and {mat_b.dim()} dimensions")
    rows, columns = mat_a.shape[0], mat_b.shape[1]
    left = _factor(scale_a, scale_recipe_a, rows, 1, "a")
    right = _factor(scale_b, scale_recipe_b, 1, columns, "b")
    out = ops.matmul(mat_a.to(float32), mat_b.to(float32)) * (left * right)
    out = out if bias is None else out + bias.to(float32)
    return out.to(mat_a.dtype if output_dtype is None else output_dtype)


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: Any,
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: dtype | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Raises: products of groups of matrices with scales are not here."""
    raise NotImplementedError("scaled_grouped_mm: groups are not multiplied together; call scaled_mm for each of them")
