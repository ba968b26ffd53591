"""Layers that follow each other and are quantized as one."""

from __future__ import annotations

from typing import Any

from ...._core.submodules import submodule
from ...._tensor import Tensor
from ....nn.modules import activation, batchnorm, conv, linear
from ....nn.modules.container import Sequential

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d",
    "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]  # fmt: skip


class _FusedModule(Sequential):
    """A sequence that is observed as a whole."""

    def _hold(self, parts: tuple[Any, ...], kinds: tuple[type, ...]) -> None:
        found = [type(part) for part in parts]
        if any(not issubclass(kind, wanted) for kind, wanted in zip(found, kinds)):
            shown = "".join(f"{kind.__module__}.{kind.__qualname__}" for kind in found)
            raise AssertionError(f"Incorrect types for input modules{shown}")
        Sequential.__init__(self, *parts)


class LinearReLU(_FusedModule):
    """A linear layer and relu."""

    def __init__(self, linear: Any, relu: Any) -> None:
        self._hold((linear, relu), (_LINEAR, activation.ReLU))


class LinearBn1d(_FusedModule):
    """A linear layer and batch normalisation."""

    def __init__(self, linear: Any, bn: Any) -> None:
        self._hold((linear, bn), (_LINEAR, batchnorm.BatchNorm1d))


class LinearLeakyReLU(_FusedModule):
    """A linear layer and leaky relu."""

    def __init__(self, linear: Any, leaky_relu: Any) -> None:
        self._hold((linear, leaky_relu), (_LINEAR, activation.LeakyReLU))


class LinearTanh(_FusedModule):
    """A linear layer and the hyperbolic tangent."""

    def __init__(self, linear: Any, tanh: Any) -> None:
        self._hold((linear, tanh), (_LINEAR, activation.Tanh))


_LINEAR = linear.Linear


class _ConvReLU(_FusedModule):
    def __init__(self, conv: Any, relu: Any) -> None:
        self._hold((conv, relu), (*self._kinds, activation.ReLU))

    _kinds: tuple[type, ...]


class ConvReLU1d(_ConvReLU):
    """A convolution over one dimension and relu."""

    _kinds = (conv.Conv1d,)


class ConvReLU2d(_ConvReLU):
    """A convolution over two dimensions and relu."""

    _kinds = (conv.Conv2d,)


class ConvReLU3d(_ConvReLU):
    """A convolution over three dimensions and relu."""

    _kinds = (conv.Conv3d,)


class _ConvBn(_FusedModule):
    _kinds: tuple[type, ...]

    def __init__(self, conv: Any, bn: Any) -> None:
        self._hold((conv, bn), self._kinds)


class ConvBn1d(_ConvBn):
    """A convolution over one dimension and batch normalisation."""

    _kinds = (conv.Conv1d, batchnorm.BatchNorm1d)


class ConvBn2d(_ConvBn):
    """A convolution over two dimensions and batch normalisation."""

    _kinds = (conv.Conv2d, batchnorm.BatchNorm2d)


class ConvBn3d(_ConvBn):
    """A convolution over three dimensions and batch normalisation."""

    _kinds = (conv.Conv3d, batchnorm.BatchNorm3d)


class _ConvBnReLU(_FusedModule):
    _kinds: tuple[type, ...]

    def __init__(self, conv: Any, bn: Any, relu: Any) -> None:
        self._hold((conv, bn, relu), (*self._kinds, activation.ReLU))


class ConvBnReLU1d(_ConvBnReLU):
    """A convolution over one dimension, batch normalisation and relu."""

    _kinds = ConvBn1d._kinds


class ConvBnReLU2d(_ConvBnReLU):
    """A convolution over two dimensions, batch normalisation and relu."""

    _kinds = ConvBn2d._kinds


class ConvBnReLU3d(_ConvBnReLU):
    """A convolution over three dimensions, batch normalisation and relu."""

    _kinds = ConvBn3d._kinds


class BNReLU2d(_FusedModule):
    """Batch normalisation over two dimensions and relu."""

    def __init__(self, batch_norm: Any, relu: Any) -> None:
        self._hold((batch_norm, relu), (batchnorm.BatchNorm2d, activation.ReLU))


class BNReLU3d(_FusedModule):
    """Batch normalisation over three dimensions and relu."""

    def __init__(self, batch_norm: Any, relu: Any) -> None:
        self._hold((batch_norm, relu), (batchnorm.BatchNorm3d, activation.ReLU))


class ConvAdd2d(_FusedModule):
    """A convolution, to whose results something is added.

    >>> import flambeau as torch
    >>> fused = torch.ao.nn.intrinsic.ConvAdd2d(torch.nn.Conv2d(1, 1, 1), torch.add)
    >>> fused(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2)).shape
    torch.Size([1, 1, 2, 2])
    """

    def __init__(self, conv: Any, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Any:  # type: ignore[override]
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution, to whose results something is added, and relu."""

    def __init__(self, conv: Any, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1: Tensor, x2: Tensor) -> Any:  # type: ignore[override]
        return self.relu(self.add(self[0](x1), x2))


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)
