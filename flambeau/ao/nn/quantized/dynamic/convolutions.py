"""Convolutions with integer weights whose input is quantized while the model runs: floats in, floats out."""

from __future__ import annotations

from typing import Any

from ....._core.dtypes import float32, quint8
from ....._ops.registry import ops
from ....._tensor import Tensor
from .. import modules as static

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    """What makes a static layer a dynamic one."""

    def forward(self: Any, input: Tensor, reduce_range: bool = True) -> Any:
        if input.numel():
            input = ops.quantize_per_tensor_dynamic(input.detach().to(float32), quint8, reduce_range).dequantize()
        return self._convolved(input)

    def _get_name(self) -> str:
        return "DynamicQuantized" + type(self).__name__

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a qconfig."""
        return cls._from_weight(mod)


class Conv1d(_Dynamic, static.Conv1d):
    """A convolution over one dimension; `reduce_range` of a call, not of the layer, decides, as in PyTorch."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        reduce_range: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )


class Conv2d(_Dynamic, static.Conv2d):
    """A convolution over two dimensions."""


class Conv3d(_Dynamic, static.Conv3d):
    """A convolution over three dimensions."""


class ConvTranspose1d(_Dynamic, static.ConvTranspose1d):
    """A transposed convolution over one dimension."""


class ConvTranspose2d(_Dynamic, static.ConvTranspose2d):
    """A transposed convolution over two dimensions."""


class ConvTranspose3d(_Dynamic, static.ConvTranspose3d):
    """A transposed convolution over three dimensions."""
