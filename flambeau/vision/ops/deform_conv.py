"""Deformable convolution: a convolution whose kernel reads between pixels, at places that a network chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import nn
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.utils import _pair

_Two = int | Sequence[int]


def _places(offset: Tensor, groups: int, kernel: tuple[int, int], geometry: tuple[Any, Any, Any]) -> Any:
    """Where each tap of each result reads: two tensors (N, groups, taps, Ho, Wo), downwards and across."""
    (stride_h, stride_w), (pad_h, pad_w), (step_h, step_w) = geometry
    n, _, height, width = offset.shape
    moved = offset.reshape(n, groups, kernel[0] * kernel[1], 2, height, width)
    like = {"dtype": offset.dtype, "device": offset.device}
    rows = ops.arange(height, **like).reshape(height, 1) * stride_h - pad_h
    columns = ops.arange(width, **like) * stride_w - pad_w
    down = (ops.arange(kernel[0], **like) * step_h).repeat_interleave(kernel[1]).reshape(-1, 1, 1)
    across = (ops.arange(kernel[1], **like) * step_w).repeat(kernel[0]).reshape(-1, 1, 1)
    return moved[:, :, :, 0] + (rows + down), moved[:, :, :, 1] + (columns + across)


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Two = (1, 1),
    padding: _Two = (0, 0),
    dilation: _Two = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose taps are moved by `offset` (N, 2 * groups * taps, Ho, Wo) and scaled by `mask`.

    >>> import flambeau as torch
    >>> x, weight = torch.arange(9.0).view(1, 1, 3, 3), torch.ones(1, 1, 1, 1)
    >>> deform_conv2d(x, torch.full((1, 2, 3, 3), 0.5), weight)[0, 0, 0]
    tensor([2.0000, 3.0000, 1.7500])
    """
    channels_out, channels_in, *kernel = weight.shape
    n, channels, height, width = input.shape
    taps = kernel[0] * kernel[1]
    groups = channels // channels_in
    offset_groups = offset.shape[1] // (2 * taps)
    if offset_groups == 0:
        raise RuntimeError(
            "the shape of the offset tensor at dimension 1 is not valid. It should be a multiple of 2 * weight.size[2] "
            f"* weight.size[3].\nGot offset.shape[1]={offset.shape[1]}, while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    if mask is not None and mask.shape[1] != offset_groups * taps:
        raise RuntimeError(f"mask.shape[1] is not valid: got {mask.shape[1]}, expected {offset_groups * taps}")
    y, x = _places(offset, offset_groups, (kernel[0], kernel[1]), (_pair(stride), _pair(padding), _pair(dilation)))
    out_h, out_w = offset.shape[2:]
    grid = ops.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    planes = input.reshape(n * offset_groups, channels // offset_groups, height, width)
    read = nn.functional.grid_sample(
        planes, grid.reshape(n * offset_groups, taps * out_h, out_w, 2), align_corners=False
    )
    read = read.reshape(n, offset_groups, channels // offset_groups, taps, out_h, out_w)
    if mask is not None:
        read = read * mask.reshape(n, offset_groups, 1, taps, out_h, out_w)
    columns = read.reshape(n, groups, channels_in * taps, out_h * out_w)
    out = weight.reshape(groups, channels_out // groups, channels_in * taps) @ columns
    out = out.reshape(n, channels_out, out_h, out_w)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


class DeformConv2d(nn.Module):
    """`deform_conv2d` with weights of its own."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Two,
        stride: _Two = 1,
        padding: _Two = 0,
        dilation: _Two = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if in_channels % groups != 0 or out_channels % groups != 0:
            raise ValueError("in_channels and out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.weight = nn.Parameter(ops.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(ops.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fresh random weights, as those of `Conv2d`."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
