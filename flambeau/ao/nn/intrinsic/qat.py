"""Layers with relu or batch normalisation that train with the weight rounded as it will be when all of it is one layer."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn import init
from ....nn.modules import batchnorm
from ....nn.modules.activation import ReLU
from ....nn.parameter import Parameter
from ....nn.utils.fusion import fuse_conv_bn_weights
from .. import intrinsic as _fused
from .. import qat as _plain

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    "LinearBn1d", "LinearReLU", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip


class _Normed:
    """What they share: the weight is rounded as scaled by the normalisation's running statistics."""

    bn: Any
    _relu = False
    _FLOAT: ClassVar[Any]
    _WITH_RELU: ClassVar[Any]

    def _add_norm(self: Any, bn: Any, freeze: bool) -> None:
        """Gives a new layer its batch normalisation, whose factors are drawn at random."""
        fake = self._modules.pop("weight_fake_quant")
        self.freeze_bn, self.bn, self.weight_fake_quant = freeze, bn, fake
        init.uniform_(bn.weight)
        if freeze:
            self.freeze_bn_stats()

    def _apply_weight(self: Any, input: Tensor, weight: Tensor) -> Any:
        return self._conv_forward(input, weight, None)

    def forward(self: Any, input: Tensor) -> Any:
        bn = self.bn
        factor = bn.weight / ops.sqrt(bn.running_var + bn.eps)
        along = [-1, *[1] * (self.weight.dim() - 1)]
        weight = self.weight_fake_quant(self.weight * factor.reshape(along))
        made = self._apply_weight(input, weight)
        along = [1, -1, *[1] * (made.dim() - 2)]
        made = made / factor.reshape(along)
        if self.bias is not None:
            made = made + self.bias.reshape(along)
        made = bn(made)
        return ops.relu(made) if self._relu else made

    def update_bn_stats(self: Any) -> Any:
        """Lets batch normalisation follow the data."""
        self.bn.train(self.training)
        self.freeze_bn = False
        return self

    def freeze_bn_stats(self: Any) -> Any:
        """Keeps the statistics of batch normalisation as they are."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self: Any, mode: bool = True) -> Any:
        super().train(mode)  # type: ignore[misc]
        if self.freeze_bn:
            self.bn.training = False
        return self

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From the fused float layers with a qconfig; parameters and statistics are shared."""
        layer, bn = mod[0], mod[1]
        layer.qconfig = mod.qconfig
        made = super().from_float(layer)  # type: ignore[misc]
        made.bn = bn
        return made

    def to_float(self: Any) -> Any:
        """One float layer (and relu) that computes what both do in evaluation."""
        layer = super().to_float()  # type: ignore[misc]
        bn = self.bn
        weight, bias = fuse_conv_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        layer.weight, layer.bias = Parameter(weight.detach()), Parameter(bias.detach())
        return self._WITH_RELU(layer, ReLU()).train(self.training) if self._relu else layer


def _convolution(rank: int, relu: bool) -> Any:
    base: Any = getattr(_plain, f"Conv{rank}d")
    name = f"ConvBn{'ReLU' * relu}{rank}d"

    class Trained(_Normed, base):  # type: ignore[misc]
        _relu, _FLOAT, _WITH_RELU = relu, getattr(_fused, name), getattr(_fused, f"ConvReLU{rank}d")

        def __init__(
            self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
            groups: int = 1, bias: Any = None, padding_mode: str = "zeros", eps: float = 1e-05, momentum: float = 0.1,
            freeze_bn: bool = False, qconfig: Any = None,
        ):  # fmt: skip
            self.freeze_bn = False
            super().__init__(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                padding,
                dilation,
                groups,
                False,
                padding_mode,
                qconfig=qconfig,
            )
            self._add_norm(getattr(batchnorm, f"BatchNorm{rank}d")(out_channels, eps, momentum), freeze_bn)
            if bias:
                self.bias = Parameter(ops.empty(out_channels))
                bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
                init.uniform_(self.bias, -bound, bound)

    Trained.__name__ = Trained.__qualname__ = name
    Trained.__doc__ = f"A {base.__name__} and batch normalisation{' and relu' * relu}, in training."
    return Trained


ConvBn1d, ConvBn2d, ConvBn3d = [_convolution(rank, False) for rank in (1, 2, 3)]
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = [_convolution(rank, True) for rank in (1, 2, 3)]


class LinearBn1d(_Normed, _plain.Linear):
    """A linear layer and batch normalisation, in training.

    >>> import flambeau as torch
    >>> qconfig = torch.ao.quantization.get_default_qat_qconfig("qnnpack")
    >>> torch.ao.nn.intrinsic.qat.LinearBn1d(3, 4, qconfig=qconfig)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    _FLOAT = _fused.LinearBn1d

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ):  # fmt: skip
        self.freeze_bn = False
        super().__init__(in_features, out_features, bias, qconfig)
        self._add_norm(batchnorm.BatchNorm1d(out_features, eps, momentum), freeze_bn)

    def _apply_weight(self: Any, input: Tensor, weight: Tensor) -> Any:
        return ops.linear(input, weight)


class _Rectified:
    """What layers with relu share."""

    _FLOAT: ClassVar[Any]

    def forward(self: Any, input: Tensor) -> Any:
        return ops.relu(super().forward(input))  # type: ignore[misc]

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From the fused float layers with a qconfig; the parameters are shared."""
        mod[0].qconfig = mod.qconfig
        return super().from_float(mod[0])  # type: ignore[misc]

    def to_float(self: Any) -> Any:
        """The float layers."""
        return self._FLOAT(super().to_float(), ReLU()).train(self.training)  # type: ignore[misc]


def _rectified(base: Any) -> Any:
    class Trained(_Rectified, base):  # type: ignore[misc]
        pass

    kind = base.__name__
    name = f"{kind[:4]}ReLU{kind[4:]}" if kind.startswith("Conv") else f"{kind}ReLU"
    Trained._FLOAT = getattr(_fused, name)
    Trained.__name__ = Trained.__qualname__ = name
    Trained.__doc__ = f"A {kind} and relu, in training."
    return Trained


ConvReLU1d, ConvReLU2d, ConvReLU3d = [_rectified(kind) for kind in (_plain.Conv1d, _plain.Conv2d, _plain.Conv3d)]
LinearReLU = _rectified(_plain.Linear)


def update_bn_stats(mod: Any) -> None:
    """Lets batch normalisation in a fused layer follow the data; for `Module.apply`."""
    if isinstance(mod, _Normed):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """Keeps the statistics of batch normalisation in a fused layer as they are; for `Module.apply`."""
    if isinstance(mod, _Normed):
        mod.freeze_bn_stats()
