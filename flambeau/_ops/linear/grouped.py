"""Products of groups of rows with one matrix each, as mixtures of experts have them."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import dtype, int32
from ..._tensor import Tensor
from ..registry import ops, public


@public("nn.functional.grouped_mm", method=False)
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: dtype | None = None,
) -> Tensor:
    """Products of groups; `offs` says where each group of a 2-d operand ends.

    (rows, k) with (groups, k, n): each group of rows has its own matrix. (groups, m, k) with (k, columns): each group of
    columns. (m, k) with (k, n), k in groups: one product (m, n) for each group. Two 3-d operands are a plain batch.

    >>> import flambeau as torch
    >>> experts = torch.stack([torch.eye(2), 2 * torch.eye(2)])
    >>> torch.nn.functional.grouped_mm(torch.ones(3, 2), experts, offs=torch.tensor([1, 3], dtype=torch.int32))
    tensor([[1., 1.],
            [2., 2.],
            [2., 2.]])
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return ops.bmm(mat_a, mat_b)
    ends = offs.tolist()
    groups = list(zip([0, *ends[:-1]], ends))
    if mat_b._array.ndim == 3:
        parts = [ops.mm(mat_a[start:stop], mat_b[i]) for i, (start, stop) in enumerate(groups)]
        return _filled(parts, 0, mat_a._array.shape[0] - ends[-1])
    if mat_a._array.ndim == 3:
        parts = [ops.mm(mat_a[i], mat_b[:, start:stop]) for i, (start, stop) in enumerate(groups)]
        return _filled(parts, 1, mat_b._array.shape[1] - ends[-1])
    return ops.stack([ops.mm(mat_a[:, start:stop], mat_b[start:stop]) for start, stop in groups])


def _filled(parts: list[Tensor], dim: int, missing: int) -> Tensor:
    """The parts side by side, with zeros for what no group covers."""
    if missing:
        shape = list(parts[0]._array.shape)
        shape[dim] = missing
        parts = [*parts, ops.new_zeros(parts[0], shape)]
    return ops.cat(parts, dim)


def _check(a: Tensor, b: Tensor, offs: Any, bias: Any, out_dtype: Any) -> None:
    ranks = a._array.ndim, b._array.ndim
    if not set(ranks) <= {2, 3}:
        raise RuntimeError(f"grouped_mm: operands must have 2 or 3 dimensions, got {ranks[0]} and {ranks[1]}")
    if (ranks == (3, 3)) is not (offs is None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if a._array.shape[-1] != b._array.shape[-2]:
        raise RuntimeError(
            f"contraction dimension of mat_a and mat_b must match: {a._array.shape} and {b._array.shape}"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        return
    if offs.dtype is not int32:
        raise RuntimeError("Offsets have to be int32")
    if offs._array.ndim != 1 or not offs._array.size:
        raise RuntimeError("grouped_mm: offsets are a vector with one number for each group")
    batched = a if ranks[0] == 3 else b if ranks[1] == 3 else None
    if batched is not None and batched._array.shape[0] != offs._array.size:
        raise RuntimeError(f"grouped_mm: {offs._array.size} offsets for {batched._array.shape[0]} matrices")
    ends = offs.tolist()
    length = a._array.shape[0] if ranks[1] == 3 else b._array.shape[1] if ranks[0] == 3 else a._array.shape[1]
    if any(x > y for x, y in zip([0, *ends], ends)) or ends[-1] > length:
        raise RuntimeError(f"grouped_mm: offsets must rise and end within {length}, got {ends}")
