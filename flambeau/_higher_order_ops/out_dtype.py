"""Operations whose result has another dtype than their arguments."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor

__all__ = ["out_dtype"]


def out_dtype(op: Any, output_dtype: Any, *args: Any) -> Any:
    """An operation computed in a wider dtype, such as the product of int8 matrices in int32.

    >>> import flambeau as torch
    >>> a = torch.full((2, 2), 100, dtype=torch.int8)
    >>> out_dtype(torch.ops.aten.mm.default, torch.int32, a, a)
    tensor([[20000, 20000],
            [20000, 20000]], dtype=torch.int32)
    """
    return op(*(a.to(output_dtype) if isinstance(a, Tensor) else a for a in args))
