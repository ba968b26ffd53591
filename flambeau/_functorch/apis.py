"""The mapping and differentiating functions of `torch.func`, where PyTorch keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..func.transforms import grad, grad_and_value
from .vmap import mapping, vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """`vmap` that goes over the batch in a number of pieces, one after another.

    >>> import flambeau as torch
    >>> chunk_vmap(torch.sum, chunks=3)(torch.ones(5, 2))
    tensor([2., 2., 2., 2., 2.])
    """
    return mapping(func, in_dims, out_dims, randomness, lambda size: -(-size // chunks))
