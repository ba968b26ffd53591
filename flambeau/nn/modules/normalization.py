"""Normalization of rows, groups of channels and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from ..._core.dtypes import dtype as DType
from ..._ops.registry import ops
from ..._tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._functions import CrossMapLRN2d as _CrossMapLRN2d
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _AcrossChannels(Module):
    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_AcrossChannels):
    """Divides by a power of the mean square over neighbouring channels."""

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(_AcrossChannels):
    """Divides by a power of the mean square over neighbouring channels of images (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return _CrossMapLRN2d.apply(input, self.size, self.alpha, self.beta, self.k)


def _extents(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, Integral) else tuple(shape)  # type: ignore[arg-type]


def _parameter(wanted: bool, shape: Any, device: Any, dtype: DType | None) -> Parameter | None:
    return Parameter(ops.empty(shape, device=device, dtype=dtype)) if wanted else None


def _reset(layer: Module) -> None:
    if layer.weight is not None:
        init.ones_(layer.weight)
    if layer.bias is not None:
        init.zeros_(layer.bias)


class LayerNorm(Module):
    """Normalizes over the last dimensions, with a weight and a bias for each of their elements.

    >>> import flambeau as torch
    >>> torch.nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = self.normalized_shape = _extents(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", _parameter(elementwise_affine, shape, device, dtype))
        self.register_parameter("bias", _parameter(elementwise_affine and bias, shape, device, dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _reset(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalizes each group of channels of each sample."""

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.register_parameter("weight", _parameter(affine, num_channels, device, dtype))
        self.register_parameter("bias", _parameter(affine and bias, num_channels, device, dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _reset(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions, with a weight for each of their elements."""

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _extents(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", _parameter(elementwise_affine, self.normalized_shape, device, dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
