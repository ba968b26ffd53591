"""Layers that follow each other and are quantized as one."""

from __future__ import annotations

from typing import Any

from ...._tensor import Tensor
from ....nn.modules.activation import ReLU
from ....nn.modules.container import Sequential

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


class _FusedModule(Sequential):
    """A sequence that is observed as a whole."""


class LinearReLU(_FusedModule):
    """A linear layer and relu."""

    def __init__(self, linear: Any, relu: ReLU) -> None:
        super().__init__(linear, relu)

    def forward(self, input: Tensor) -> Any:
        return self[1](self[0](input))


class ConvReLU1d(_FusedModule):
    """A convolution over one dimension and relu."""


class ConvReLU2d(_FusedModule):
    """A convolution over two dimensions and relu."""


class ConvReLU3d(_FusedModule):
    """A convolution over three dimensions and relu."""
