"""Making masked tensors."""

from __future__ import annotations

from ..._tensor import Tensor
from .core import MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor without history, whose elements count where the mask is True.

    >>> import flambeau as torch
    >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False]))
    MaskedTensor(
      [  1.0000,       --]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """The same, through which gradients reach `data`."""
    return MaskedTensor._from_values(data, mask)
