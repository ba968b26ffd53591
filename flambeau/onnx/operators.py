"""Sizes as tensors, for programs that were written for exporters which could not follow numbers."""

from __future__ import annotations

from .._core.dtypes import int64
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes of a tensor.

    >>> import flambeau as torch
    >>> import flambeau.onnx.operators
    >>> torch.onnx.operators.shape_as_tensor(torch.zeros(2, 3))
    tensor([2, 3])
    """
    return ops.tensor(list(x.shape), dtype=int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """A tensor in the sizes that another one holds.

    >>> import flambeau as torch
    >>> import flambeau.onnx.operators
    >>> torch.onnx.operators.reshape_from_tensor_shape(torch.zeros(6), torch.tensor([2, 3])).shape
    torch.Size([2, 3])
    """
    return ops.reshape(x, shape.tolist())
