"""The mask of a weight, as a parametrization."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...nn.modules.module import Module

__all__ = ["FakeSparsity"]


class FakeSparsity(Module):
    """A weight times its mask; the mask is not trained and not saved with the model.

    >>> import flambeau as torch
    >>> torch.ao.pruning.FakeSparsity(torch.tensor([1.0, 0.0]))(torch.tensor([3.0, 4.0]))
    tensor([3., 0.])
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Any:
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: the sparsifier keeps the masks."""
        return {}
