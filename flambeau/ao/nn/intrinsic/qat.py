"""Convolutions with batch normalisation that train with the weight rounded as it will be when both are one layer."""

from __future__ import annotations

from typing import Any, ClassVar

from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn.modules import batchnorm
from ....nn.modules.activation import ReLU
from ....nn.parameter import Parameter
from ....nn.utils.fusion import fuse_conv_bn_weights
from .. import qat as _plain
from . import ConvBn1d as _FloatBn1d
from . import ConvBn2d as _FloatBn2d
from . import ConvBn3d as _FloatBn3d
from . import ConvBnReLU1d as _FloatBnReLU1d
from . import ConvBnReLU2d as _FloatBnReLU2d
from . import ConvBnReLU3d as _FloatBnReLU3d
from . import ConvReLU1d as _FloatReLU1d
from . import ConvReLU2d as _FloatReLU2d
from . import ConvReLU3d as _FloatReLU3d

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip


class _Normed:
    """What they share: the weight is rounded as scaled by the normalisation's running statistics."""

    bn: Any
    _relu = False
    _FLOAT: ClassVar[Any]
    _WITH_RELU: ClassVar[Any]

    def forward(self: Any, input: Tensor) -> Any:
        bn = self.bn
        factor = bn.weight / ops.sqrt(bn.running_var + bn.eps)
        along = [-1, *[1] * (self.weight.dim() - 1)]
        weight = self.weight_fake_quant(self.weight * factor.reshape(along))
        made = self._conv_forward(input, weight, None)
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
        """One float convolution (and relu) that computes what both do in evaluation."""
        layer = super().to_float()  # type: ignore[misc]
        bn = self.bn
        weight, bias = fuse_conv_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        layer.weight, layer.bias = Parameter(weight.detach()), Parameter(bias.detach())
        return self._WITH_RELU(layer, ReLU()).train(self.training) if self._relu else layer


def _kind(base: Any, norm: Any, relu: bool, name: str, float_kind: Any, with_relu: Any) -> Any:
    class Trained(_Normed, base):  # type: ignore[misc]
        _relu, _FLOAT, _WITH_RELU = relu, float_kind, with_relu

        def __init__(
            self, *args: Any, eps: float = 1e-05, momentum: float = 0.1, freeze_bn: bool = False, **named: Any
        ):
            self.freeze_bn = False
            super().__init__(*args, **named)
            self.bn = norm(self.out_channels, eps, momentum)
            if freeze_bn:
                self.freeze_bn_stats()

    Trained.__name__ = Trained.__qualname__ = name
    Trained.__doc__ = f"A {base.__name__} and batch normalisation{' and relu' if relu else ''}, in training."
    return Trained


ConvBn1d = _kind(_plain.Conv1d, batchnorm.BatchNorm1d, False, "ConvBn1d", _FloatBn1d, _FloatReLU1d)
ConvBn2d = _kind(_plain.Conv2d, batchnorm.BatchNorm2d, False, "ConvBn2d", _FloatBn2d, _FloatReLU2d)
ConvBn3d = _kind(_plain.Conv3d, batchnorm.BatchNorm3d, False, "ConvBn3d", _FloatBn3d, _FloatReLU3d)
ConvBnReLU1d = _kind(_plain.Conv1d, batchnorm.BatchNorm1d, True, "ConvBnReLU1d", _FloatBnReLU1d, _FloatReLU1d)
ConvBnReLU2d = _kind(_plain.Conv2d, batchnorm.BatchNorm2d, True, "ConvBnReLU2d", _FloatBnReLU2d, _FloatReLU2d)
ConvBnReLU3d = _kind(_plain.Conv3d, batchnorm.BatchNorm3d, True, "ConvBnReLU3d", _FloatBnReLU3d, _FloatReLU3d)


def update_bn_stats(mod: Any) -> None:
    """Lets batch normalisation in a fused layer follow the data; for `Module.apply`."""
    if isinstance(mod, _Normed):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """Keeps the statistics of batch normalisation in a fused layer as they are; for `Module.apply`."""
    if isinstance(mod, _Normed):
        mod.freeze_bn_stats()
